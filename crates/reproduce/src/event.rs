//! Events that a caller receives while runs are trained.

use gt_train::EpochRecord;

use crate::error::ReproduceError;
use crate::record::Record;
use crate::score::Score;

/// A step in the life of a run.
///
/// Runs are trained in parallel, so their events arrive interleaved and from several threads.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// The first epoch of this sitting begins.
    Started {
        /// The run's name.
        run: &'a str,
        /// Graphs of its data set.
        graphs: usize,
        /// Parameters of its network.
        parameters: usize,
        /// The most epochs that it can have.
        epochs: usize,
        /// The GPU's name, or `CPU`.
        device: &'a str,
    },
    /// An epoch has ended. At most one epoch per run is reported every 15 seconds.
    Epoch {
        /// The run's name.
        run: &'a str,
        /// The name of the metric.
        metric: &'static str,
        /// Losses and scores.
        record: &'a EpochRecord,
    },
    /// The training has a message, such as where it resumes.
    Note {
        /// The run's name.
        run: &'a str,
        /// The message.
        text: &'a str,
    },
    /// The run is finished, and its record is written.
    Finished {
        /// The record.
        record: &'a Record,
        /// The paper's test score of the same cell.
        paper: Option<Score>,
        /// How far all runs of the plan are.
        progress: RunsProgress,
    },
    /// The run could not be finished.
    Failed {
        /// The run's name.
        run: &'a str,
        /// Why.
        error: &'a ReproduceError,
    },
}

/// How far the runs of a plan are.
#[derive(Clone, Copy, Debug)]
pub struct RunsProgress {
    /// Runs that have finished in this call.
    pub finished: usize,
    /// Runs of the plan.
    pub planned: usize,
    /// Estimated seconds until the last run ends.
    pub seconds_left: f64,
}
