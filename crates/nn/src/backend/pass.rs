//! The plan of a pass over graphs, and the results of the pass.

use std::fmt;

use gt_graph::{MISSING_CLASS, Split, TargetRows};

use super::source::Labels;
use crate::cpu::Adam;

/// Which graphs make up each batch of a pass.
#[derive(Clone, Debug)]
pub struct PassOrder {
    graphs: Vec<usize>,
    /// Where each batch begins among the graphs. `[batches + 1]`
    starts: Vec<usize>,
}

impl PassOrder {
    /// An order of graphs, in batches of `batch` graphs.
    pub fn new(graphs: Vec<usize>, batch: usize) -> Self {
        let starts = (0..graphs.len()).step_by(batch.max(1)).chain([graphs.len()]).collect();
        Self { graphs, starts }
    }

    /// Number of batches.
    pub fn batches(&self) -> usize {
        self.starts.len() - 1
    }

    /// The graphs of a batch.
    pub fn batch(&self, number: usize) -> &[usize] {
        &self.graphs[self.starts[number]..self.starts[number + 1]]
    }

    /// Number of graphs in the batches before one.
    pub(super) fn graphs_before(&self, number: usize) -> usize {
        self.starts[number]
    }

    /// The same graphs in the same order, with more batches: one also begins at each of these
    /// places among the graphs.
    pub(super) fn divided(&self, places: impl IntoIterator<Item = usize>) -> Self {
        let mut starts = self.starts.clone();
        starts.extend(places);
        starts.sort_unstable();
        starts.dedup();
        Self { graphs: self.graphs.clone(), starts }
    }

    /// The batch that begins at a place among the graphs.
    pub(super) fn first_batch(&self, place: usize) -> usize {
        self.starts.partition_point(|&start| start < place)
    }

    /// Whether a batch of this order ends where this batch of another order ends.
    pub(super) fn ends_with(&self, other: &Self, batch: usize) -> bool {
        self.starts.binary_search(&other.starts[batch + 1]).is_ok()
    }

    /// All graphs.
    pub fn graphs(&self) -> &[usize] {
        &self.graphs
    }
}

/// Signs that the Laplacian coordinates of a pass are multiplied with.
#[derive(Clone, Debug)]
pub struct SignFlips {
    /// One row of signs per batch, or per graph, in the order of the pass: `[rows, coordinates]`.
    pub values: Vec<f32>,
    /// Whether every graph has a row of its own.
    pub per_graph: bool,
}

/// How a training pass steps.
#[derive(Clone, Copy, Debug)]
pub struct TrainingPlan {
    /// The optimizer.
    pub adam: Adam,
    /// The dropout key of the first step; every step adds 1.
    pub dropout_key: u64,
    /// Batches whose gradients make up a step.
    pub accumulate: usize,
    /// Whether a step that is not finite is left out. Otherwise the pass ends there.
    pub skip_bad_steps: bool,
    /// What random draws of batches derive from: the seed and the epoch.
    pub draws: (u64, usize),
}

/// A pass over graphs.
#[derive(Clone, Debug)]
pub struct PassPlan {
    /// The split whose labels count.
    pub split: Split,
    /// The graphs, in batches.
    pub order: PassOrder,
    /// Batches that were done before.
    pub from: usize,
    /// Signs of the Laplacian coordinates; without them the coordinates stay as they are.
    pub signs: Option<SignFlips>,
    /// How to step; `None` evaluates.
    pub training: Option<TrainingPlan>,
}

impl PassPlan {
    /// A pass in inference over graphs in the given order.
    pub fn evaluation(split: Split, graphs: Vec<usize>, batch: usize) -> Self {
        Self { split, order: PassOrder::new(graphs, batch), from: 0, signs: None, training: None }
    }
}

/// The quantity that turned out to be infinite or NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFinite {
    /// The loss.
    Loss,
    /// The gradient.
    Gradient,
    /// The loss or the gradient; a GPU does not say which.
    LossOrGradient,
    /// A running variance. A normalisation can turn what has overflowed into a finite loss.
    Variance,
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loss => "loss",
            Self::Gradient => "gradient",
            Self::LossOrGradient => "loss or gradient",
            Self::Variance => "variance of a normalisation",
        })
    }
}

/// A batch whose step cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadStep {
    /// Number of the batch in the pass.
    pub batch: usize,
    /// What is not finite.
    pub what: NotFinite,
}

/// News of a pass.
#[derive(Clone, Copy, Debug)]
pub enum PassEvent {
    /// A batch is done.
    Batch {
        /// Number of the batch.
        number: usize,
        /// Loss of the batch; NaN where there are no labels.
        loss: f64,
    },
    /// The step that a batch belongs to is left out.
    Skipped(BadStep),
}

/// Outputs and labels of consecutive batches.
///
/// ```
/// use graph_transformer_nn::backend::{Labels, PassOrder, PassOutputs};
///
/// let order = PassOrder::new(vec![4, 0, 2], 2);
/// assert_eq!((order.batches(), order.batch(1)), (2, &[2][..]));
///
/// // A batch of two graphs, then one without a label.
/// let mut outputs = PassOutputs::default();
/// outputs.push(&[0.5, 1.0], &Labels::Float(vec![1.0, f32::NAN]), 2, 0.5);
/// let mut last = PassOutputs::default();
/// last.push(&[2.0], &Labels::Float(vec![f32::NAN]), 1, f64::NAN);
/// outputs.append(last);
/// assert_eq!((outputs.values.len(), outputs.labelled()), (3, vec![true, false]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct PassOutputs {
    /// Outputs, `[rows, outputs]`.
    pub values: Vec<f32>,
    /// Labels of the same rows.
    pub labels: Labels,
    /// Rows of each batch.
    pub rows: Vec<usize>,
    /// Loss of each batch.
    pub losses: Vec<f64>,
}

impl PassOutputs {
    /// Appends a batch of `rows` rows.
    pub fn push(&mut self, values: &[f32], labels: &Labels, rows: usize, loss: f64) {
        self.values.extend_from_slice(values);
        self.labels.extend(labels);
        self.rows.push(rows);
        self.losses.push(loss);
    }

    /// Appends later batches of the same pass.
    pub fn append(&mut self, later: Self) {
        self.values.extend(later.values);
        self.labels.extend(&later.labels);
        self.rows.extend(later.rows);
        self.losses.extend(later.losses);
    }

    /// Whether each batch has a label.
    pub fn labelled(&self) -> Vec<bool> {
        let present: Vec<bool> = match self.labels.rows() {
            Some(TargetRows::Float(values)) => values.iter().map(|value| !value.is_nan()).collect(),
            Some(TargetRows::Class(values)) => values.iter().map(|&value| value != MISSING_CLASS).collect(),
            None => Vec::new(),
        };
        let columns = present.len() / self.rows.iter().sum::<usize>().max(1);
        let mut rest = &present[..];
        let next = |rows: &usize| {
            let (own, others) = rest.split_at(rows * columns);
            rest = others;
            own.contains(&true)
        };
        self.rows.iter().map(next).collect()
    }
}

/// The results of a pass.
#[derive(Clone, Debug)]
pub struct PassOutcome {
    /// Outputs and labels of the batches that were done in this pass and not left out.
    pub outputs: PassOutputs,
    /// Batches done, counted from the beginning of the order.
    pub done: usize,
    /// Steps taken or left out.
    pub steps: u64,
    /// The batch that ended the pass, if one was not finite. No parameter was changed from there
    /// on.
    pub bad: Option<BadStep>,
}
