//! Passes on a GPU. The data set lies there, and the CPU sees the results.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use gt_graph::{MISSING_CLASS, Split, TargetRows};

use super::pass::{BadStep, NotFinite, PassEvent, PassOutcome, PassOutputs, PassPlan};
use super::source::{DataSource, Labels};
use super::{Backend, BackendError};
use crate::cuda::{CpuOnly, CudaDevice, CudaEngine, CudaError, CudaLabels, CudaTask, Pass, Precision, ResidentData};
use crate::loss::Loss;
use crate::network::Network;
use crate::weights::{OptimizerState, Weights};

/// Steps that are launched before the CPU checks whether to continue.
const STEPS_AT_ONCE: usize = 64;

/// A data set on a GPU. Runs that differ in their seeds share it.
#[derive(Debug)]
pub struct CudaDataset {
    device: CudaDevice,
    graphs: Arc<ResidentData>,
    /// Where the targets' rows of each graph begin.
    row_offsets: Vec<usize>,
    labels: Vec<SplitLabels>,
}

/// The labels of a split, on the GPU and as the CPU has them.
#[derive(Debug)]
struct SplitLabels {
    split: Split,
    resident: CudaLabels,
    host: Labels,
}

impl CudaDataset {
    /// Puts graphs, and the labels of some splits, on a GPU.
    ///
    /// # Errors
    /// If the GPU cannot do it, or the data does not fit.
    pub fn new(
        device: &CudaDevice,
        source: &dyn DataSource,
        network: &Network,
        loss: Loss,
        splits: &[Split],
    ) -> Result<Arc<Self>, BackendError> {
        let store = source.graphs();
        let level = network.reads.level();
        let graphs = ResidentData::new(device, store, network, source.scope())?;
        let rows = store.rows(level);
        let mut labels = Vec::with_capacity(splits.len());
        for &split in splits {
            let host = source.labels(split)?;
            let missing = missing_labels(loss, network, rows);
            let values = host.rows().or(missing.rows()).expect("missing labels are labels");
            labels.push(SplitLabels { split, resident: CudaLabels::new(device, rows, values)?, host });
        }
        let mut row_offsets: Vec<usize> = (0..store.len()).map(|graph| store.row_range(level, graph).start).collect();
        row_offsets.push(rows);
        Ok(Arc::new(Self { device: device.clone(), graphs, row_offsets, labels }))
    }

    /// The GPU's name.
    fn device_name(&self) -> &str {
        self.device.name()
    }

    fn labels(&self, split: Split) -> &SplitLabels {
        self.labels.iter().find(|labels| labels.split == split).expect("a split that was put on the GPU")
    }

    /// Bytes on the GPU.
    pub fn bytes(&self) -> usize {
        self.graphs.bytes() + self.labels.iter().map(|labels| labels.resident.bytes()).sum::<usize>()
    }
}

/// Labels for rows of which none is known: a pass takes labels in any case.
fn missing_labels(loss: Loss, network: &Network, rows: usize) -> Labels {
    match loss {
        Loss::L1 | Loss::Mse => Labels::Float(vec![f32::NAN; rows * network.outputs()]),
        Loss::CrossEntropy { .. } => Labels::Class(vec![MISSING_CLASS; rows]),
        Loss::Bce => Labels::Class(vec![MISSING_CLASS; rows * network.outputs()]),
    }
}

/// How a network runs on a GPU.
#[derive(Clone, Debug)]
pub struct CudaSettings<'a> {
    /// What is minimised.
    pub loss: Loss,
    /// Graphs per batch.
    pub batch: usize,
    /// Whether every graph has signs of its own, not every batch.
    pub signs_per_graph: bool,
    /// Precision of products.
    pub precision: Precision,
    /// Folder for compiled kernels.
    pub cache: Option<&'a Path>,
}

/// A network on a GPU, with a data set.
pub struct Cuda {
    name: String,
    engine: CudaEngine,
    data: Arc<CudaDataset>,
    outputs: usize,
    plan: Option<PassPlan>,
}

impl Cuda {
    /// Prepares a GPU for a network and passes over these lists of graphs.
    ///
    /// # Errors
    /// If the network has something that only the CPU does, or the GPU fails.
    pub fn new(
        data: &Arc<CudaDataset>,
        weights: &Weights,
        settings: &CudaSettings<'_>,
        passes: &[Vec<usize>],
    ) -> Result<Self, BackendError> {
        let network = weights.network();
        let rows_of = |graphs: &Vec<usize>| graphs.iter().map(|&graph| data.rows(graph).len()).sum();
        let task = CudaTask {
            network: network.clone(),
            loss: settings.loss,
            batch: settings.batch,
            rows: passes.iter().map(rows_of).max().unwrap_or(0),
            listed: passes.iter().map(Vec::len).max().unwrap_or(0),
            signs_per_graph: settings.signs_per_graph,
            precision: settings.precision,
        };
        let mut engine = CudaEngine::new(&data.device, &data.graphs, task, settings.cache)?;
        engine.prepare()?;
        engine.load(weights, None)?;
        let off = if data.graphs.is_on_gpu() { "" } else { ", the data in the computer's memory" };
        let name = format!("{}, {}{off}", data.device_name(), settings.precision.name());
        Ok(Self { name, engine, data: Arc::clone(data), outputs: network.outputs(), plan: None })
    }

    /// Bytes on the GPU, without the data set.
    pub fn bytes(&self) -> usize {
        self.engine.bytes()
    }
}

impl CudaDataset {
    fn rows(&self, graph: usize) -> std::ops::Range<usize> {
        self.row_offsets[graph]..self.row_offsets[graph + 1]
    }
}

impl Backend for Cuda {
    fn name(&self) -> &str {
        &self.name
    }

    fn load(&mut self, weights: &Weights, optimizer: Option<&OptimizerState>) -> Result<(), BackendError> {
        Ok(self.engine.load(weights, optimizer)?)
    }

    fn weights(&self) -> Result<Weights, BackendError> {
        Ok(self.engine.weights()?)
    }

    fn optimizer(&self) -> Result<OptimizerState, BackendError> {
        Ok(self.engine.optimizer()?)
    }

    fn gradients(&self) -> Result<Vec<Vec<f32>>, BackendError> {
        Ok(self.engine.gradients()?)
    }

    fn begin(&mut self, plan: PassPlan) -> Result<(), BackendError> {
        let lacking = |what| Err(CudaError::Unsupported(what).into());
        if plan.training.is_some_and(|steps| steps.accumulate > 1) {
            return lacking(CpuOnly::Accumulate);
        }
        if plan.training.is_some_and(|steps| steps.skip_bad_steps) {
            return lacking(CpuOnly::SkipBadSteps);
        }
        let listed: Vec<u32> = plan.order.graphs().iter().map(|&graph| graph as u32).collect();
        let labels = self.data.labels(plan.split);
        self.engine.begin(Pass {
            order: &listed,
            from: plan.from,
            signs: plan.signs.as_ref().map_or(&[], |signs| &signs.values),
            labels: &labels.resident,
            train: plan.training.map(|steps| (steps.adam, steps.dropout_key)),
        })?;
        if plan.training.is_none() {
            self.engine.launch(plan.order.batches())?;
        }
        self.plan = Some(plan);
        Ok(())
    }

    fn finish(&mut self, report: &mut dyn FnMut(PassEvent) -> ControlFlow<()>) -> Result<PassOutcome, BackendError> {
        let plan = self.plan.take().expect("a pass was started");
        let (from, batches) = (plan.from, plan.order.batches());
        let mut done = from;
        if plan.training.is_some() {
            let mut wish = ControlFlow::Continue(());
            while done < batches && wish.is_continue() {
                let steps = STEPS_AT_ONCE.min(batches - done);
                self.engine.launch(steps)?;
                self.engine.wait()?;
                for (number, loss) in (done..).zip(self.engine.losses(done..done + steps)?) {
                    wish = report(PassEvent::Batch { number, loss });
                }
                done += steps;
            }
        } else {
            done = batches;
        }
        let result = self.engine.finish()?;
        let done = result.bad.unwrap_or(done);
        let mut outputs = PassOutputs::default();
        let mut at = 0;
        let mut labels = Labels::Absent;
        let host = &self.data.labels(plan.split).host;
        let columns =
            host.rows().map_or(0, |all| all.len() / self.data.row_offsets.last().copied().unwrap_or(0).max(1));
        for (number, &loss) in (from..done).zip(&result.losses) {
            labels.clear();
            let mut rows = 0;
            for range in plan.order.batch(number).iter().map(|&graph| self.data.rows(graph)) {
                rows += range.len();
                let range = range.start * columns..range.end * columns;
                match host.rows() {
                    Some(TargetRows::Float(all)) => labels.extend_rows(TargetRows::Float(&all[range])),
                    Some(TargetRows::Class(all)) => labels.extend_rows(TargetRows::Class(&all[range])),
                    None => {}
                }
            }
            outputs.push(&result.outputs[at * self.outputs..(at + rows) * self.outputs], &labels, rows, loss);
            at += rows;
        }
        let bad = result.bad.map(|batch| BadStep { batch, what: NotFinite::LossOrGradient });
        Ok(PassOutcome { outputs, done, steps: (done - from) as u64, bad })
    }
}
