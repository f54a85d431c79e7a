//! Passes on the CPU: batches are put together on a thread of their own while the engine works on
//! the one before. Inference divides batches that do not fit into memory.

use std::ops::ControlFlow;
use std::sync::mpsc::{channel, sync_channel};

use gt_graph::GraphError;

use super::pass::{BadStep, NotFinite, PassEvent, PassOutcome, PassOutputs, PassPlan, SignFlips, TrainingPlan};
use super::pieces::divide_batches;
use super::source::{DataSource, Labels, PreparedBatch};
use super::{Backend, BackendError};
use crate::cpu::{Engine, Isa, PassMemory};
use crate::loss::{Loss, loss_of};
use crate::memory::FreeMemory;
use crate::weights::{Frozen, OptimizerState, Weights};

/// A network on the CPU, with a data set.
pub struct Cpu<'a> {
    source: &'a dyn DataSource,
    engine: Engine<f32>,
    loss: Loss,
    plan: Option<PassPlan>,
    name: String,
    /// Bytes that the largest batch so far has taken, and that later passes use again.
    held: f64,
    /// What is free, in place of what the system reports.
    free: Option<FreeMemory>,
}

impl<'a> Cpu<'a> {
    /// A network of these weights, with an optimizer that has not stepped yet.
    ///
    /// # Panics
    /// If the CPU lacks the instructions.
    pub fn new(source: &'a dyn DataSource, weights: &Weights, loss: Loss, isa: Isa) -> Self {
        let mut engine = Engine::new(weights.network().clone(), isa);
        engine.load(weights);
        Self { source, engine, loss, plan: None, name: isa.name().to_owned(), held: 0.0, free: None }
    }

    /// Takes this for the free memory, whatever the system reports.
    #[must_use]
    pub fn with_free_memory(mut self, free: FreeMemory) -> Self {
        self.free = Some(free);
        self
    }

    /// Freezes parameters and running statistics: no later training pass changes them.
    #[must_use]
    pub fn with_frozen(mut self, frozen: &Frozen) -> Self {
        self.engine.freeze(frozen);
        self
    }

    fn train(
        &mut self,
        plan: &PassPlan,
        steps: &TrainingPlan,
        report: &mut dyn FnMut(PassEvent) -> ControlFlow<()>,
    ) -> Result<PassOutcome, GraphError> {
        let memory = PassMemory::new(self.engine.network(), true);
        let largest = (plan.from..plan.order.batches()).map(|number| {
            let sizes = plan.order.batch(number).iter().map(|&graph| self.source.size(plan, graph));
            memory.bytes(&sizes.collect())
        });
        self.held = largest.fold(self.held, f64::max);
        let Self { source, engine, loss, .. } = self;
        let (loss, scope, batches) = (*loss, source.scope(), plan.order.batches());
        let mut outcome = PassOutcome { outputs: PassOutputs::default(), done: plan.from, steps: 0, bad: None };
        let mut skipping = false;
        for_each_batch(*source, plan, |number, ready| {
            engine.set_dropout_key(steps.dropout_key.wrapping_add(outcome.steps));
            let statistics = steps.skip_bad_steps.then(|| engine.running_pairs());
            let kept = engine.frozen_running();
            let value = ready.train(engine, scope, loss);
            kept.iter().for_each(|before| engine.restore_frozen_running(before));
            if steps.accumulate > 1 {
                engine.accumulate(number % steps.accumulate == 0);
            }
            let stepping = (number + 1) % steps.accumulate == 0 || number + 1 == batches;
            let finite = !stepping || engine.gather_gradients(number % steps.accumulate + 1).is_finite();
            let wrong = if !value.is_finite() {
                Some(NotFinite::Loss)
            } else if !engine.has_finite_statistics() {
                Some(NotFinite::Variance)
            } else {
                (!finite && !skipping).then_some(NotFinite::Gradient)
            };
            if let Some(what) = wrong {
                let bad = BadStep { batch: number, what };
                if !steps.skip_bad_steps {
                    outcome.bad = Some(bad);
                    return ControlFlow::Break(());
                }
                let _ = report(PassEvent::Skipped(bad));
                skipping = true;
            }
            if skipping {
                // The step leaves no trace in running statistics and scores either.
                statistics.iter().for_each(|pairs| engine.load_running(pairs));
            } else {
                if stepping {
                    engine.step(&steps.adam);
                }
                outcome.outputs.push_batch(ready, &ready.outputs(engine), engine.network().outputs(), value);
            }
            if stepping {
                outcome.steps += 1;
                skipping = false;
            }
            outcome.done = number + 1;
            let wish = report(PassEvent::Batch { number, loss: value });
            // Half a step cannot be kept, so the pass continues to the step's end.
            if stepping { wish } else { ControlFlow::Continue(()) }
        })?;
        Ok(outcome)
    }

    fn evaluate(
        &mut self,
        plan: &PassPlan,
        report: &mut dyn FnMut(PassEvent) -> ControlFlow<()>,
    ) -> Result<PassOutcome, BackendError> {
        let pieces = self.divide(plan)?;
        let Self { source, engine, loss, .. } = self;
        let (scope, width) = (source.scope(), engine.network().outputs());
        let mut outcome = PassOutcome { outputs: PassOutputs::default(), done: plan.from, steps: 0, bad: None };
        // Outputs and labels of the batch under way.
        let (mut outputs, mut labels) = (Vec::new(), Labels::Absent);
        for_each_batch(*source, &pieces, |piece, ready| {
            outputs.extend(ready.predict(engine, scope));
            labels.extend(&ready.labels);
            if !plan.order.ends_with(&pieces.order, piece) {
                return ControlFlow::Continue(());
            }
            let number = outcome.done;
            let value = labels.rows().map_or(f64::NAN, |labels| loss_of(*loss, &outputs, width, labels));
            outcome.outputs.push(&outputs, &labels, outputs.len() / width.max(1), value);
            outputs.clear();
            labels.clear();
            outcome.done = number + 1;
            report(PassEvent::Batch { number, loss: value })
        })?;
        Ok(outcome)
    }

    /// The plan of a pass in inference, in pieces that fit into memory.
    fn divide(&mut self, plan: &PassPlan) -> Result<PassPlan, BackendError> {
        let mut pieces = plan.clone();
        // Signs belong to whole batches.
        if plan.signs.is_none() {
            let free = self.free.or_else(FreeMemory::now);
            let memory = PassMemory::new(self.engine.network(), false);
            let (order, most) = divide_batches(self.source, plan, &memory, self.held, free)?;
            self.held = self.held.max(most);
            pieces.from = order.first_batch(plan.order.graphs_before(plan.from));
            pieces.order = order;
        }
        Ok(pieces)
    }
}

impl Backend for Cpu<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn load(&mut self, weights: &Weights, optimizer: Option<&OptimizerState>) -> Result<(), BackendError> {
        self.engine.load(weights);
        match optimizer {
            Some(state) => self.engine.load_optimizer(state),
            None => self.engine.load_optimizer(&OptimizerState::new(weights.network())),
        }
        Ok(())
    }

    fn weights(&self) -> Result<Weights, BackendError> {
        Ok(self.engine.weights())
    }

    fn optimizer(&self) -> Result<OptimizerState, BackendError> {
        Ok(self.engine.optimizer())
    }

    fn gradients(&self) -> Result<Vec<Vec<f32>>, BackendError> {
        Ok((0..self.engine.parameters().list().len()).map(|index| self.engine.gradient(index)).collect())
    }

    fn begin(&mut self, plan: PassPlan) -> Result<(), BackendError> {
        self.plan = Some(plan);
        Ok(())
    }

    fn finish(&mut self, report: &mut dyn FnMut(PassEvent) -> ControlFlow<()>) -> Result<PassOutcome, BackendError> {
        let plan = self.plan.take().expect("a pass was started");
        Ok(match plan.training {
            Some(steps) => self.train(&plan, &steps, report)?,
            None => self.evaluate(&plan, report)?,
        })
    }
}

impl PassOutputs {
    fn push_batch(&mut self, ready: &PreparedBatch, outputs: &[f32], width: usize, loss: f64) {
        self.push(outputs, &ready.labels, outputs.len() / width.max(1), loss);
    }
}

/// Calls `each` with every batch of a pass, in order, until it breaks.
fn for_each_batch(
    source: &dyn DataSource,
    plan: &PassPlan,
    mut call: impl FnMut(usize, &PreparedBatch) -> ControlFlow<()>,
) -> Result<(), GraphError> {
    /// Batches that wait between the two threads: the engine works on one, one is ready, and one is
    /// being filled.
    const AHEAD: usize = 1;
    let fill = |number: usize, mut batch: PreparedBatch| -> Result<PreparedBatch, GraphError> {
        source.fill(plan, number, &mut batch)?;
        flip_signs(plan, number, &mut batch);
        Ok(batch)
    };
    std::thread::scope(|scope| {
        let (send, ready) = sync_channel::<Result<PreparedBatch, GraphError>>(AHEAD);
        let (give_back, spent) = channel::<PreparedBatch>();
        let fill_all = move || {
            for number in plan.from..plan.order.batches() {
                // Where the loop has ended early, no batch is wanted any more.
                if send.send(fill(number, spent.try_recv().unwrap_or_default())).is_err() {
                    break;
                }
            }
        };
        if std::thread::Builder::new().spawn_scoped(scope, fill_all).is_err() {
            // The system starts no more threads.
            let mut batch = PreparedBatch::default();
            for number in plan.from..plan.order.batches() {
                batch = fill(number, batch)?;
                if call(number, &batch).is_break() {
                    break;
                }
            }
            return Ok(());
        }
        for (number, filled) in (plan.from..).zip(&ready) {
            let filled = filled?;
            let wish = call(number, &filled);
            let _ = give_back.send(filled);
            if wish.is_break() {
                break;
            }
        }
        // The other thread may be waiting to hand over a batch.
        drop(ready);
        Ok(())
    })
}

/// Multiplies the Laplacian coordinates of a batch with its signs.
fn flip_signs(plan: &PassPlan, number: usize, batch: &mut PreparedBatch) {
    let Some(SignFlips { values, per_graph }) = &plan.signs else { return };
    let offsets = batch.graphs.node_offsets().to_vec();
    let Some(coordinates) = &mut batch.graphs.encodings_mut().laplacian else { return };
    let width = coordinates.width;
    // Rows of earlier batches.
    let before = if *per_graph { plan.order.graphs_before(number) } else { number };
    for (graph, nodes) in offsets.windows(2).enumerate() {
        let row = before + if *per_graph { graph } else { 0 };
        let signs = &values[row * width..(row + 1) * width];
        for row in coordinates.values[nodes[0] * width..nodes[1] * width].chunks_exact_mut(width) {
            row.iter_mut().zip(signs).for_each(|(value, sign)| *value *= sign);
        }
    }
}
