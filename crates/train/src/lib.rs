//! From a data set to a trained model: the loop, schedules, metrics, checkpoints, evaluation.

mod batches;
mod checkpoint;
mod encodings;
mod error;
mod evaluate;
mod links;
pub mod metrics;
mod run;
mod schedule;
mod task;
mod training;

pub use encodings::ensure_encodings;
pub use error::{Result, TrainError};
pub use evaluate::{Scores, evaluate};
pub use links::{Links, score_pairs};
pub use run::RunDirectory;
pub use schedule::ScheduleState;
pub use task::{Part, Task, shape_of, unscale};
pub use training::{Best, EpochRecord, Observer, Outcome, Stop, Training};
