//! What a run tells: of every epoch while it goes on, and of itself when it has ended.

use serde::{Deserialize, Serialize};

use crate::evaluate::{Collected, Scores};
use crate::task::Part;

/// One epoch, as `metrics.jsonl` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// From 1.
    pub epoch: usize,
    /// Learning rate.
    pub lr: f64,
    /// Training part, as the steps saw it.
    pub train: Scores,
    /// Validation part.
    pub val: Scores,
    /// Test part, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Scores>,
    /// Seconds of the steps.
    pub train_seconds: f64,
    /// Seconds of everything.
    pub seconds: f64,
    /// When it ended, in seconds since 1970.
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
    /// No better validation loss for too long.
    EarlyStop,
    /// It was told to; it can be resumed.
    Interrupted,
}

impl Stop {
    /// For people.
    pub fn sentence(self) -> &'static str {
        match self {
            Stop::MinLr => "Finished: the learning rate fell below its limit.",
            Stop::Epochs => "Finished: all epochs are done.",
            Stop::Hours => "Finished: the time is up.",
            Stop::EarlyStop => "Finished: the validation loss did not improve for too long.",
            Stop::Interrupted => "Interrupted; the run can be resumed.",
        }
    }
}

/// The epoch with the best validation loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// From 1.
    pub epoch: usize,
    /// Training part, evaluated after training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<Scores>,
    /// Validation part.
    pub val: Scores,
    /// Test part.
    pub test: Option<Scores>,
}

/// What a run ended with.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why it ended.
    pub stop: Stop,
    /// Epochs in all.
    pub epochs: usize,
    /// Seconds in all sittings.
    pub seconds: f64,
    /// The last model on all parts, evaluated after training.
    pub last: Vec<(Part, Scores)>,
    /// The model with the best validation loss.
    pub best: Option<Best>,
    /// SHA-256 of the last weights.
    pub weights: String,
    /// The card that computed, if one did.
    pub card: Option<String>,
    /// What the last model, or that of the last whole epoch of an interrupted sitting, predicts for the part that is reported.
    pub(crate) predictions: Option<(Part, Collected)>,
}

/// Told what happens.
pub trait Observer {
    /// An epoch begins, or goes on.
    fn begin(&mut self, _epoch: usize, _lr: f64) {}
    /// A batch is done.
    fn batch(&mut self, _epoch: usize, _done: usize, _all: usize, _loss: f64) {}
    /// An epoch is done.
    fn epoch(&mut self, _record: &EpochRecord) {}
    /// Something that a person should know.
    fn note(&mut self, _text: &str) {}
}

/// Nobody.
impl Observer for () {}
