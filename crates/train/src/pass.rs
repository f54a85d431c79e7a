//! Batches, prepared on a thread of their own while the engine works on the one before.
//!
//! Which graphs, in which order and with which signs depends on the seed, the epoch and the batch's number alone, so that a run can go on from anywhere.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use gt_data::RandomStream;
use gt_graph::{GraphBatch, MISSING_CLASS, TargetRows};
use gt_models::config::SignFlip;
use gt_nn::cpu::Engine;

use crate::error::{Result, TrainError};
use crate::links::Asked;
use crate::task::{Part, Task};

const DOMAIN_ORDER: u8 = 32;
const DOMAIN_SIGNS: u8 = 33;
const DOMAIN_PAIRS: u8 = 34;

/// Labels of a batch: of its part only, on the training scale.
#[derive(Clone, Debug)]
pub(crate) enum Labels {
    Float(Vec<f32>),
    Class(Vec<u32>),
}

impl Labels {
    pub(crate) fn rows(&self) -> TargetRows<'_> {
        match self {
            Labels::Float(values) => TargetRows::Float(values),
            Labels::Class(values) => TargetRows::Class(values),
        }
    }
}

/// A batch that is ready.
pub(crate) struct Ready {
    pub(crate) batch: GraphBatch,
    pub(crate) labels: Labels,
    /// What is asked about where links are predicted.
    pub(crate) pairs: Option<Asked>,
}

impl Ready {
    /// A training pass: loss and all gradients.
    pub(crate) fn train(&self, engine: &mut Engine<f32>, task: &Task) -> f64 {
        let Some(pairs) = &self.pairs else {
            return engine.train(&self.batch, task.edges, task.loss, self.labels.rows());
        };
        let labels = pairs.labels(self.labels.rows());
        pairs.ask(engine, |engine| engine.train(&self.batch, task.edges, task.loss, TargetRows::Class(&labels)))
    }

    /// Outputs in inference, for the rows of the labels.
    pub(crate) fn predict(&self, engine: &mut Engine<f32>, task: &Task) -> Vec<f32> {
        match &self.pairs {
            Some(pairs) => pairs.merge(pairs.ask(engine, |engine| engine.predict(&self.batch, task.edges))),
            None => engine.predict(&self.batch, task.edges),
        }
    }

    /// Outputs of the pass before, for the rows of the labels.
    pub(crate) fn outputs(&self, engine: &Engine<f32>) -> Vec<f32> {
        let outputs = engine.outputs();
        match &self.pairs {
            Some(pairs) => pairs.merge(outputs),
            None => outputs,
        }
    }
}

/// Which graphs make up each batch of an epoch.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    graphs: Vec<usize>,
    size: usize,
    /// Seed and epoch of a training epoch.
    drawn: Option<(u64, usize)>,
}

impl Order {
    /// In the order of the data.
    pub(crate) fn plain(graphs: Vec<usize>, size: usize) -> Self {
        Self { graphs, size: size.max(1), drawn: None }
    }

    /// In the order of an epoch.
    pub(crate) fn shuffled(mut graphs: Vec<usize>, size: usize, seed: u64, epoch: usize) -> Self {
        RandomStream::new(seed, DOMAIN_ORDER, epoch as u64).shuffle(&mut graphs);
        Self { drawn: Some((seed, epoch)), ..Self::plain(graphs, size) }
    }

    /// What a batch draws from; nothing in the order of the data.
    fn random(&self, domain: u8, batch: usize) -> Option<RandomStream> {
        self.drawn.map(|(seed, epoch)| RandomStream::new(seed, domain, (epoch as u64) << 28 | batch as u64))
    }

    pub(crate) fn len(&self) -> usize {
        self.graphs.len().div_ceil(self.size)
    }

    /// All graphs, as a device takes them.
    pub(crate) fn listed(&self) -> Vec<u32> {
        self.graphs.iter().map(|&graph| graph as u32).collect()
    }

    pub(crate) fn graphs(&self, batch: usize) -> &[usize] {
        &self.graphs[batch * self.size..((batch + 1) * self.size).min(self.graphs.len())]
    }
}

/// How signs of Laplacian coordinates are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    pub(crate) flip: SignFlip,
    pub(crate) seed: u64,
    pub(crate) epoch: usize,
}

impl Signs {
    /// As the data has them.
    pub(crate) const KEPT: Signs = Signs { flip: SignFlip::Off, seed: 0, epoch: 0 };

    /// Signs of a batch: one row for all its graphs, or one each.
    fn draw(&self, number: usize, graphs: usize, width: usize) -> Vec<f32> {
        let rows = if self.flip == SignFlip::Graph { graphs } else { 1 };
        let mut random = RandomStream::new(self.seed, DOMAIN_SIGNS, (self.epoch as u64) << 28 | number as u64);
        (0..rows * width).map(|_| if random.below(2) == 0 { 1.0 } else { -1.0 }).collect()
    }

    /// Signs of all batches, one after the other; none where they are kept.
    pub(crate) fn all(&self, order: &Order, width: usize) -> Vec<f32> {
        match self.flip {
            SignFlip::Off => Vec::new(),
            _ => (0..order.len()).flat_map(|batch| self.draw(batch, order.graphs(batch).len(), width)).collect(),
        }
    }

    fn apply(&self, number: usize, batch: &mut GraphBatch) {
        if self.flip == SignFlip::Off {
            return;
        }
        let offsets = batch.node_offsets().to_vec();
        let Some(coordinates) = &mut batch.encodings_mut().laplacian else { return };
        let width = coordinates.width;
        let signs = self.draw(number, offsets.len() - 1, width);
        for (graph, nodes) in offsets.windows(2).enumerate() {
            let first = if self.flip == SignFlip::Graph { graph * width } else { 0 };
            for row in coordinates.values[nodes[0] * width..nodes[1] * width].chunks_exact_mut(width) {
                row.iter_mut().zip(&signs[first..first + width]).for_each(|(value, sign)| *value *= sign);
            }
        }
    }
}

/// Calls with every batch from number `from` on, in order; ends early where the call returns an error or false.
pub(crate) fn for_each(
    task: &Task,
    part: Part,
    order: &Order,
    signs: Signs,
    from: usize,
    mut call: impl FnMut(usize, &Ready) -> Result<bool>,
) -> Result<()> {
    /// Batches that wait; one is being computed on, one is ready, one is being filled.
    const AHEAD: usize = 1;
    std::thread::scope(|scope| {
        let (send, ready): (SyncSender<Result<Ready>>, Receiver<_>) = sync_channel(AHEAD);
        let (give_back, spent): (Sender<Ready>, Receiver<Ready>) = channel();
        scope.spawn(move || {
            for number in from..order.len() {
                let fresh = || Ready { batch: GraphBatch::new(), labels: Labels::Float(Vec::new()), pairs: None };
                let mut next = spent.try_recv().unwrap_or_else(|_| fresh());
                let filled = fill(task, part, order, signs, number, &mut next).map(|()| next);
                // Nobody waits any more where the loop has ended early.
                if send.send(filled).is_err() {
                    break;
                }
            }
        });
        for (number, filled) in (from..).zip(&ready) {
            let filled = filled?;
            let go_on = call(number, &filled)?;
            let _ = give_back.send(filled);
            if !go_on {
                break;
            }
        }
        // The other thread may be waiting to hand over a batch.
        drop(ready);
        Ok(())
    })
}

fn fill(task: &Task, part: Part, order: &Order, signs: Signs, number: usize, ready: &mut Ready) -> Result<()> {
    let graphs = order.graphs(number);
    if let Some(links) = &task.links {
        links.fill(&task.graphs, part, graphs, order.random(DOMAIN_PAIRS, number), ready)?;
        signs.apply(number, &mut ready.batch);
        return Ok(());
    }
    let Ready { batch, labels, .. } = ready;
    batch.assemble(&task.graphs, graphs).map_err(|e| TrainError::Data(e.to_string()))?;
    signs.apply(number, batch);
    *labels = labels_of(task, part, graphs, batch)?;
    Ok(())
}

/// Labels of a part in a batch of the given graphs; those of other parts are missing.
pub(crate) fn labels_of(task: &Task, part: Part, graphs: &[usize], batch: &GraphBatch) -> Result<Labels> {
    let level = task.shape.target.level;
    let columns = task.shape.target.columns.len();
    let target = batch.target().ok_or_else(|| TrainError::Data("it has no targets".into()))?;
    // Row numbers over all graphs, in the batch's order; only needed where rows are split.
    let own = |at: usize, rows: &[usize]| rows.is_empty() || task.belongs(part, rows[at / columns]);
    let rows = if task.splits_rows() { rows_of(task, graphs, batch) } else { Vec::new() };
    debug_assert!(rows.is_empty() || rows.len() * columns == target.len(), "{level}");
    Ok(match target {
        TargetRows::Float(values) => {
            let scaled = values.iter().enumerate().map(|(at, &value)| match task.scaling.get(at % columns) {
                _ if !own(at, &rows) => f32::NAN,
                Some((mean, deviation)) => ((f64::from(value) - mean) / deviation) as f32,
                None => value,
            });
            Labels::Float(scaled.collect())
        }
        TargetRows::Class(values) => {
            let kept = values.iter().enumerate().map(|(at, &value)| if own(at, &rows) { value } else { MISSING_CLASS });
            Labels::Class(kept.collect())
        }
    })
}

/// For each row of a batch's targets its number over all graphs.
fn rows_of(task: &Task, graphs: &[usize], batch: &GraphBatch) -> Vec<usize> {
    let level = task.shape.target.level;
    if level != gt_graph::Level::Edge {
        return graphs.iter().flat_map(|&graph| task.graphs.row_range(level, graph)).collect();
    }
    // Edges of a batch lie in in-order.
    (0..batch.num_graphs())
        .flat_map(|position| {
            let first = task.graphs.edge_range(graphs[position]).start;
            let edges = batch.edges_of(position);
            let start = edges.start;
            edges.map(move |edge| first + batch.in_to_list()[edge] as usize - start)
        })
        .collect()
}
