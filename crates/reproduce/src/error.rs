//! Errors of planning, training and recording the paper's cells.

use std::io;
use std::path::PathBuf;

use gt_data::DataError;
use gt_models::ConfigError;
use gt_train::TrainError;

/// Why cells could not be planned, trained or recorded.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// No cell has this name, and no name of a cell begins with it.
    #[error("there is no cell `{name}` here{}", nearest.as_ref().map_or(".".to_owned(), |near| format!("; did you mean `{near}`?")))]
    UnknownCell {
        /// The unknown name.
        name: String,
        /// The most similar name, if one is close.
        nearest: Option<String>,
    },
    /// A record was made with other settings than those requested now.
    #[error("{}: this record was made with {} set, now it is {}; choose another --results", path.display(), list_settings(recorded), list_settings(requested))]
    OtherSettings {
        /// The record.
        path: PathBuf,
        /// Settings of the record, `key=value`.
        recorded: Vec<String>,
        /// Settings of this call.
        requested: Vec<String>,
    },
    /// A record was made with another number of graphs than would be drawn now.
    #[error("{}: this record was made with {recorded} graphs, now {requested} would be drawn; choose another --results", path.display())]
    OtherGraphCount {
        /// The record.
        path: PathBuf,
        /// Graphs of the record.
        recorded: usize,
        /// Graphs of this call.
        requested: usize,
    },
    /// A record cannot be used.
    #[error("{}: {problem}", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        problem: RecordProblem,
    },
    /// A run needs ZINC, and no file was found.
    #[error("ZINC is needed: `gt data fetch zinc` gets it, or --zinc FILE says where it is")]
    NoZinc,
    /// A file that should be ZINC-12k has other graphs.
    #[error("{file}: it is not ZINC-12k; records of other data need a folder of their own, named by --results")]
    NotZinc {
        /// The file.
        file: String,
    },
    /// A data set cannot be used for a configuration.
    #[error("{data}: {cause}")]
    Task {
        /// The file, or the name of the drawn set.
        data: String,
        /// Why.
        cause: Box<TrainError>,
    },
    /// The data of a run lacks a split, so its record would be incomplete.
    #[error("its data has no split `{0}`")]
    MissingSplit(&'static str),
    /// A score of a finished run is infinite or NaN.
    #[error("the scores of its last model are not finite")]
    NotFinite,
    /// A training panicked.
    #[error("the training broke off")]
    Panicked,
    /// A file or folder cannot be read, written or moved.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system reports.
        cause: io::Error,
    },
    /// A training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A data file cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A record cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The result of fallible functions of this crate.
pub type Result<T, E = ReproduceError> = std::result::Result<T, E>;

impl ReproduceError {
    /// An error of the operating system about `path`.
    pub(crate) fn io(path: impl Into<PathBuf>, cause: io::Error) -> Self {
        Self::Io { path: path.into(), cause }
    }
}

/// What is wrong with the file of a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordProblem {
    /// The file cannot be read.
    #[error("it cannot be read ({0}); delete it, and the run is made again")]
    Unreadable(io::Error),
    /// The file is no JSON.
    #[error("it is damaged ({0}); delete it, and the run is made again, or restore it from a copy")]
    Damaged(serde_json::Error),
    /// The file is JSON without a format number.
    #[error("it is no record of `gt reproduce`; move it elsewhere")]
    NoRecord,
    /// The record is in a format that this version does not read.
    #[error("it is a record in format {found}, this program knows format {known}")]
    OtherFormat {
        /// The format of the file.
        found: u64,
        /// The format that is read.
        known: u32,
    },
    /// Keys of the record are missing or wrong.
    #[error("it is no whole record ({0}); delete it, and the run is made again")]
    Incomplete(serde_json::Error),
    /// The file is named after another run.
    #[error("it is the record of {run}; name it {run}.json")]
    Misnamed {
        /// The run of the record.
        run: String,
    },
    /// A score of the record is infinite or NaN.
    #[error("its scores are not numbers; delete it, and the run is made again")]
    NotFinite,
}

/// Settings separated by commas, or `nothing`.
fn list_settings(settings: &[String]) -> String {
    if settings.is_empty() { "nothing".to_owned() } else { settings.join(", ") }
}
