//! Results of a run: the record of every epoch, and the outcome.

use gt_graph::Split;
use gt_nn::backend::PassOutputs;
use serde::{Deserialize, Serialize};

use crate::evaluate::Scores;

/// The record of an epoch: a line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// From 1.
    pub epoch: usize,
    /// Learning rate.
    pub lr: f64,
    /// Scores of the training split, from the outputs of the training steps.
    pub train: Scores,
    /// Validation split.
    pub val: Scores,
    /// Test split, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Scores>,
    /// Seconds of the training steps.
    pub train_seconds: f64,
    /// Seconds of the whole epoch, with validation and test.
    pub seconds: f64,
    /// End of the epoch, in seconds since 1970.
    #[serde(default)]
    pub time: f64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The learning rate fell below its limit.
    MinLr,
    /// All epochs are done.
    Epochs,
    /// The time is up.
    Hours,
    /// No better model for too long.
    EarlyStop,
    /// The user interrupted the run, which can be resumed.
    Interrupted,
}

impl Stop {
    /// The reason as a phrase for the user.
    pub fn sentence(self) -> &'static str {
        match self {
            Stop::MinLr => "Finished: the learning rate fell below its limit.",
            Stop::Epochs => "Finished: all epochs are done.",
            Stop::Hours => "Finished: the time is up.",
            Stop::EarlyStop => "Finished: the best model is too many epochs old.",
            Stop::Interrupted => "Interrupted; the run can be resumed.",
        }
    }
}

/// The epoch with the best value of `train.select` on the validation split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// From 1.
    pub epoch: usize,
    /// Training split, evaluated after training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<Scores>,
    /// Validation split.
    pub val: Scores,
    /// Test split.
    pub test: Option<Scores>,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The value that decided which model is the best: `loss`, or the name of a metric.
    pub select: &'static str,
    /// Why the run ended.
    pub stop: Stop,
    /// Epochs in all.
    pub epochs: usize,
    /// Seconds in all sittings.
    pub seconds: f64,
    /// The last model on all splits, evaluated after training.
    pub last: Vec<(Split, Scores)>,
    /// The best model on the validation split.
    pub best: Option<Best>,
    /// SHA-256 of the last weights, as [`gt_models::weights_sha256`] computes it.
    pub weights_sha256: String,
    /// The GPU that computed, or the CPU's instruction set.
    pub device: String,
    /// Predictions for the reported split, by the last model, or by that of the last whole epoch of
    /// an interrupted sitting.
    pub(crate) predictions: Option<(Split, PassOutputs)>,
}

impl Outcome {
    /// Scores of the last model on a split.
    pub fn last_scores(&self, split: Split) -> Option<&Scores> {
        self.last.iter().find(|(of, _)| *of == split).map(|(_, scores)| scores)
    }

    /// Scores of the best model on a split.
    pub fn best_scores(&self, split: Split) -> Option<&Scores> {
        let best = self.best.as_ref()?;
        match split {
            Split::Train => best.train.as_ref(),
            Split::Val => Some(&best.val),
            Split::Test => best.test.as_ref(),
        }
    }
}

/// Receives the events of a training.
pub trait Observer {
    /// An epoch begins, or resumes.
    fn begin(&mut self, _epoch: usize, _lr: f64) {}
    /// A batch is done.
    fn batch(&mut self, _epoch: usize, _done: usize, _all: usize, _loss: f64) {}
    /// An epoch is done.
    fn epoch(&mut self, _record: &EpochRecord) {}
    /// A note for the user.
    fn note(&mut self, _text: &str) {}
}

/// Ignores all events.
impl Observer for () {}
