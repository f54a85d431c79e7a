//! From a data set to a trained model: the loop, schedules, metrics, checkpoints, evaluation.

mod attention;
mod batches;
mod card;
mod checkpoint;
mod embed;
mod encodings;
mod error;
mod evaluate;
mod inputs;
mod links;
mod memory;
pub mod metrics;
mod predict;
mod report;
mod resume;
mod run;
mod schedule;
mod task;
mod tensorboard;
mod training;

pub use attention::{GraphAttention, attention};
pub use card::{Card, CardData};
pub use embed::embed;
pub use encodings::ensure_encodings;
pub use error::{Result, TrainError};
pub use evaluate::{Scores, evaluate};
pub use inputs::{Inputs, schema_of};
pub use links::{Links, PairInputs, predict_pairs, score_pairs};
pub use memory::ensure_memory;
pub use predict::{predict, predict_on};
pub use report::{Machine, Report, document, escape};
pub use run::RunDirectory;
pub use schedule::ScheduleState;
pub use task::{Part, Task, check_fit, shape_of, unscale};
pub use training::{Best, EpochRecord, Observer, Outcome, Stop, Training};
