//! Data that passes go over.

use gt_graph::{GraphBatch, GraphError, GraphStore, Split, TargetRows};

use super::pairs::PairQueries;
use super::pass::PassPlan;
use crate::AttentionScope;
use crate::cpu::{Engine, GraphSize};
use crate::loss::Loss;

/// Labels of some rows, on the scale of training. NaN and [`gt_graph::MISSING_CLASS`] are missing
/// labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Labels {
    /// No labels.
    #[default]
    Absent,
    /// Real numbers.
    Float(Vec<f32>),
    /// Classes.
    Class(Vec<u32>),
}

impl Labels {
    /// The labels as rows of targets.
    pub fn rows(&self) -> Option<TargetRows<'_>> {
        match self {
            Labels::Absent => None,
            Labels::Float(values) => Some(TargetRows::Float(values)),
            Labels::Class(values) => Some(TargetRows::Class(values)),
        }
    }

    /// Appends labels of the same kind.
    ///
    /// # Panics
    /// If they are of another kind.
    pub fn extend(&mut self, more: &Labels) {
        match more.rows() {
            None => {}
            Some(rows) => self.extend_rows(rows),
        }
    }

    /// Appends rows of targets of the same kind.
    ///
    /// # Panics
    /// If they are of another kind.
    pub(super) fn extend_rows(&mut self, rows: TargetRows<'_>) {
        match (&mut *self, rows) {
            (Labels::Float(own), TargetRows::Float(more)) => own.extend_from_slice(more),
            (Labels::Class(own), TargetRows::Class(more)) => own.extend_from_slice(more),
            (Labels::Absent, more) => *self = Labels::from(more),
            _ => unreachable!("the labels of a data set have one kind"),
        }
    }

    /// Removes all labels, and keeps their memory.
    pub fn clear(&mut self) {
        match self {
            Labels::Absent => {}
            Labels::Float(values) => values.clear(),
            Labels::Class(values) => values.clear(),
        }
    }
}

impl From<TargetRows<'_>> for Labels {
    fn from(rows: TargetRows<'_>) -> Self {
        match rows {
            TargetRows::Float(values) => Labels::Float(values.to_vec()),
            TargetRows::Class(values) => Labels::Class(values.to_vec()),
        }
    }
}

/// A batch that is ready for a pass.
#[derive(Debug, Default)]
pub struct PreparedBatch {
    /// The graphs.
    pub graphs: GraphBatch,
    /// Labels of the rows that the network predicts.
    pub labels: Labels,
    /// The pairs of nodes that the network scores, where it predicts links.
    pub pairs: Option<PairQueries>,
}

impl PreparedBatch {
    /// Forward and backward pass in training mode; returns the loss.
    pub(super) fn train(&self, engine: &mut Engine<f32>, scope: AttentionScope, loss: Loss) -> f64 {
        let labels = self.labels.rows().expect("batches of a training pass have labels");
        let Some(pairs) = &self.pairs else { return engine.train(&self.graphs, scope, loss, labels) };
        let labels = pairs.labels(labels);
        pairs.during(engine, |engine| engine.train(&self.graphs, scope, loss, TargetRows::Class(&labels)))
    }

    /// Outputs in inference.
    pub(super) fn predict(&self, engine: &mut Engine<f32>, scope: AttentionScope) -> Vec<f32> {
        match &self.pairs {
            Some(pairs) => pairs.merge(pairs.during(engine, |engine| engine.predict(&self.graphs, scope))),
            None => engine.predict(&self.graphs, scope),
        }
    }

    /// Outputs of the engine's last pass, which was over this batch.
    pub(super) fn outputs(&self, engine: &Engine<f32>) -> Vec<f32> {
        match &self.pairs {
            Some(pairs) => pairs.merge(engine.outputs()),
            None => engine.outputs(),
        }
    }
}

/// Graphs with labels, from which backends take batches.
pub trait DataSource: Sync {
    /// All graphs, with the encodings that the network reads.
    fn graphs(&self) -> &GraphStore;

    /// Which edges attention follows.
    fn scope(&self) -> AttentionScope;

    /// Labels of a split for all rows of the data set, edges of each graph sorted by target; those
    /// of other splits are missing. [`Labels::Absent`] where nothing is known of any row.
    ///
    /// # Errors
    /// If some graphs are too large for a batch.
    fn labels(&self, split: Split) -> Result<Labels, GraphError>;

    /// Size of a graph of a pass, as far as memory depends on it.
    fn size(&self, plan: &PassPlan, graph: usize) -> GraphSize {
        let _ = plan;
        GraphSize::new(&self.graphs().graph(graph), self.scope())
    }

    /// Fills a batch of a pass. Signs of coordinates are the backend's business.
    ///
    /// # Errors
    /// If the graphs are too large for a batch.
    fn fill(&self, plan: &PassPlan, number: usize, batch: &mut PreparedBatch) -> Result<(), GraphError>;
}

/// Graphs as they are, with their own targets as labels of every split.
#[derive(Clone, Copy, Debug)]
pub struct GraphSource<'a> {
    graphs: &'a GraphStore,
    scope: AttentionScope,
}

impl<'a> GraphSource<'a> {
    /// A source of these graphs.
    pub fn new(graphs: &'a GraphStore, scope: AttentionScope) -> Self {
        Self { graphs, scope }
    }
}

impl DataSource for GraphSource<'_> {
    fn graphs(&self) -> &GraphStore {
        self.graphs
    }

    fn scope(&self) -> AttentionScope {
        self.scope
    }

    fn labels(&self, _: Split) -> Result<Labels, GraphError> {
        labels_by_batches(self.graphs, |_, batch| batch.target().map_or(Labels::Absent, Labels::from))
    }

    fn fill(&self, plan: &PassPlan, number: usize, batch: &mut PreparedBatch) -> Result<(), GraphError> {
        batch.graphs.assemble(self.graphs, plan.order.batch(number))?;
        batch.labels.clear();
        if let Some(rows) = batch.graphs.target() {
            batch.labels.extend_rows(rows);
        }
        Ok(())
    }
}

/// Labels of all rows of a data set, made of those of consecutive batches; `labels_of` takes the
/// graphs' numbers and their batch.
///
/// # Errors
/// If some graphs are too large for a batch.
pub fn labels_by_batches(
    graphs: &GraphStore,
    labels_of: impl Fn(&[usize], &GraphBatch) -> Labels,
) -> Result<Labels, GraphError> {
    /// Graphs whose labels are put in order at a time.
    const GRAPHS_AT_ONCE: usize = 1024;
    let mut all = Labels::Absent;
    let mut batch = GraphBatch::new();
    let numbers: Vec<usize> = (0..graphs.len()).collect();
    for numbers in numbers.chunks(GRAPHS_AT_ONCE) {
        batch.assemble(graphs, numbers)?;
        all.extend(&labels_of(numbers, &batch));
    }
    Ok(all)
}
