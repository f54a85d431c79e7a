//! Errors between a data file and a trained model.

use std::path::{Path, PathBuf};

use gt_data::{DataError, are_folds};
use gt_graph::{GraphError, Level, Split};
use gt_models::config::MetricForm;
use gt_models::{ConfigError, EncodingError, ModelError, ModelFileError};
use gt_nn::backend::{BackendError, GraphTooLarge, NotFinite};
use gt_nn::cuda::CudaError;

use crate::init::InitProblem;
use crate::memory::TooLarge;
use crate::metrics::shown_name;
use crate::query::NoResult;

/// Why a run could not start, continue, or be used.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A data file cannot be read, or a result cannot be written.
    #[error(transparent)]
    File(#[from] DataError),
    /// The configuration is wrong, or does not fit the data.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data cannot be used for this configuration.
    #[error("the data cannot be used: {0}")]
    Data(#[from] DataProblem),
    /// A model cannot be used on some graphs.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The data of a file has a problem.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<Self>,
    },
    /// A model file cannot be used.
    #[error("{}: {source}", path.display())]
    ModelFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ModelFileError,
    },
    /// Training cannot start from a model.
    #[error("{}: {problem}", path.display())]
    Init {
        /// The model's file.
        path: PathBuf,
        /// Why.
        problem: InitProblem,
    },
    /// Parameters cannot be frozen.
    #[error(transparent)]
    Frozen(InitProblem),
    /// The machine is too small.
    #[error(transparent)]
    Memory(#[from] TooLarge),
    /// A graph that is scored or predicted for does not fit into memory.
    #[error(transparent)]
    GraphMemory(#[from] GraphTooLarge),
    /// A GPU does not support the task, or failed.
    #[error(transparent)]
    Device(CudaError),
    /// A GPU stopped in the middle of a run.
    #[error(
        "{cause} in epoch {epoch}; {}",
        checkpoint.as_ref().map_or("there is no checkpoint yet, so the run has to start again".to_owned(), |at| format!(
            "the last checkpoint, {}, is kept, and --resume continues from it, on this GPU, another one or the CPU",
            at.display()
        ))
    )]
    Lost {
        /// What the driver reports.
        cause: CudaError,
        /// Epoch, from 1.
        epoch: usize,
        /// The newest checkpoint.
        checkpoint: Option<PathBuf>,
    },
    /// A run directory cannot be used.
    #[error("{}: {problem}", path.display())]
    Run {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Why.
        problem: RunProblem,
    },
    /// A file of a checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointProblem),
    /// A run directory belongs to another process just now.
    #[error("{}: another process is training in it", .0.display())]
    Busy(PathBuf),
    /// No graph of a file can be used.
    #[error("{}: none of its {graphs} graphs can be used; graph {first}: {reason}", path.display())]
    NothingUsable {
        /// The file.
        path: PathBuf,
        /// How many graphs it has.
        graphs: usize,
        /// Number of the first graph.
        first: usize,
        /// Why the first one cannot be used.
        reason: Box<NoResult>,
    },
    /// A table of pairs does not say which graph its nodes belong to.
    #[error("{}: there is no column \"graph\", and the data has {graphs} graphs", path.display())]
    PairsWithoutGraphs {
        /// The table.
        path: PathBuf,
        /// How many graphs the data has.
        graphs: usize,
    },
    /// A row cannot be predicted, and the caller requested all rows.
    #[error("{}: {what} {number}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// `graph`, or `row` of a table of pairs.
        what: &'static str,
        /// Its number.
        number: usize,
        /// Why.
        reason: Box<NoResult>,
    },
    /// The loss, or a gradient, is infinite or NaN.
    #[error(
        "epoch {epoch}, batch {batch}: the {what} is not finite (graphs {graphs}); {remedy}{}",
        remedy.of_the_run(checkpoint.as_deref())
    )]
    NotFinite {
        /// Epoch, from 1.
        epoch: usize,
        /// Batch, from 1.
        batch: usize,
        /// What is not finite.
        what: NotFinite,
        /// Numbers of the batch's graphs in the data.
        graphs: String,
        /// What to change.
        remedy: Remedy,
        /// The newest checkpoint.
        checkpoint: Option<PathBuf>,
    },
    /// Training skips steps that are not finite, and an epoch has no other steps.
    #[error("epoch {epoch}: no step of {steps} is finite, so train.skip_bad_steps skipped all of them; {remedy}")]
    AllSkipped {
        /// Epoch, from 1.
        epoch: usize,
        /// Steps of the epoch.
        steps: usize,
        /// What to change.
        remedy: Remedy,
    },
}

/// What to change before a new run, after a step that was not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Remedy {
    /// The gradient of the initial weights is not finite, and the network normalises over batches.
    ///
    /// If all rows of a batch are alike, their variance is 0. Each batch normalisation then
    /// multiplies gradients by up to 1/√ε = 316, and each layer has two.
    #[error(
        "batch normalisation amplifies gradients if nodes hardly differ; start a new run with {}model.norm=layer",
        if *encoding { "model.encoding=laplacian or model.encoding=random-walk, which distinguish nodes, or " } else { "" }
    )]
    AlikeRows {
        /// Whether an encoding can distinguish the nodes.
        encoding: bool,
    },
    /// The step is not finite with the initial weights either.
    #[error("features or targets of these graphs are too large; rescale them, or remove the graphs")]
    LargeValues,
    /// The same step is finite with the initial weights.
    #[error("earlier steps made the weights too large; start a new run with a smaller optimizer.lr")]
    SmallerRate,
}

impl Remedy {
    /// What the user can do with the run as it is.
    fn of_the_run(self, checkpoint: Option<&Path>) -> String {
        match (self, checkpoint) {
            (Self::LargeValues, Some(at)) => format!(
                "; or set train.skip_bad_steps=true (CPU only) in config.toml and pass --resume, which continues from {}",
                at.display()
            ),
            (Self::LargeValues, None) => "; or set train.skip_bad_steps=true (CPU only)".to_owned(),
            (_, Some(at)) => format!("; the last good checkpoint is {}", at.display()),
            (_, None) => String::new(),
        }
    }
}

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunProblem {
    /// A file has the name of the directory.
    #[error("it is a file, not the directory of a run")]
    NotADirectory,
    /// A file has a name that a new run would write.
    #[error("it holds {0}, which the run would replace; choose another --out, or move {0} away")]
    Occupied(String),
    /// No run has begun in the directory.
    #[error("no run has begun there; start one without --resume")]
    NotBegun,
    /// Keys of the configuration have changed that one run cannot change.
    #[error("{}; undo the change, or start a new run with another --out", join(.0))]
    ChangedKeys(Vec<ChangedKey>),
    /// The data file, named here, has changed since the run began.
    #[error(
        "the data it began with was another: graphs, features, targets, split or encodings in `{0}` have changed; \
         restore them, or start a new run with another --out"
    )]
    OtherData(String),
    /// There is a model, but no checkpoint.
    #[error("the checkpoints of the model next to it are gone; start a new run with another --out")]
    NoCheckpoint,
    /// There are checkpoints, and each has a problem.
    #[error("no checkpoint is whole ({}); restore one from a copy, or start a new run with another --out", join(.0))]
    NoWholeCheckpoint(Vec<CheckpointProblem>),
    /// The weights to be saved are infinite or NaN.
    #[error(
        "after {epochs} epochs and {batches} batches the parameters or running statistics are not finite, so they are not saved; \
         start a new run with a smaller optimizer.lr"
    )]
    NotFinite {
        /// Complete epochs.
        epochs: usize,
        /// Batches done of the next epoch.
        batches: usize,
    },
}

/// A key of the configuration with its values before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {}, but was {}", .now.as_deref().unwrap_or("not set"), .before.as_deref().unwrap_or("not set"))]
pub struct ChangedKey {
    /// The key, such as `optimizer.lr`.
    pub key: String,
    /// Value in the run so far, as JSON; none if the key was not set.
    pub before: Option<String>,
    /// Value in the configuration now, as JSON; none if the key is not set.
    pub now: Option<String>,
}

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointProblem {
    /// The process ended while it wrote the checkpoint.
    #[error("{}: it was never completed", .0.display())]
    NeverCompleted(PathBuf),
    /// The manifest of the checkpoint does not list a file.
    #[error("{} is missing", .0.display())]
    Missing(PathBuf),
    /// The bytes of a file are not those that were written.
    #[error("{} is damaged", .0.display())]
    Damaged(PathBuf),
    /// A file cannot be read, or decoded.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl CheckpointProblem {
    pub(crate) fn unreadable(path: &Path, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unreadable { path: path.into(), source: source.into() }
    }
}

/// Messages on one line.
fn join(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The task that has a metric, if the data has another one.
fn other_task(name: &str, main: &str) -> &'static str {
    let of_numbers = ["mae", "rmse", "r2", "spearman"].contains(&name);
    match (of_numbers, main == "mae") {
        (true, false) => "; to predict numbers, set data.task = \"regression\" (--task regression)",
        (false, true) => "; to predict classes, set data.task = \"classification\" (--task classification)",
        _ => "",
    }
}

/// Why data cannot be used for a configuration.
#[derive(Debug, thiserror::Error)]
pub enum DataProblem {
    /// The required split is missing, probably because it has another name (`valid`, `dev`).
    #[error(
        "it has no split `{split}`; its splits are `{}`{}",
        known.join("`, `"),
        if are_folds(known) { format!("; `gt train --folds {}` trains on each fold", known.len()) } else { String::new() },
        split = split.name()
    )]
    NoSplit {
        /// The split that is needed.
        split: Split,
        /// Splits that are there.
        known: Vec<String>,
    },
    /// A split has nothing to learn from or to be scored by.
    #[error("its split `{}` has no labels", .0.name())]
    NoLabels(Split),
    /// No row has a label.
    #[error("it has no labels")]
    NoLabelsAtAll,
    /// A split has no links.
    #[error("its split `{}` has no edges between different nodes", .0.name())]
    NoLinks(Split),
    /// The split and the targets are on different levels.
    #[error(
        "its split divides {divided}s, its targets belong to {targets}s; `gt data split --level` makes another one"
    )]
    SplitLevel {
        /// What is split.
        divided: Level,
        /// What the targets belong to.
        targets: Level,
    },
    /// `train.select` is a metric of another task.
    #[error(
        "`train.select` is {}, which its task does not have{}; choose auto, loss, {}{}",
        shown_name(name),
        if *form == MetricForm::Paper { " with model.metrics = \"paper\"" } else { "" },
        [&[*main], &known[..]].concat().into_iter().map(shown_name).collect::<Vec<_>>().join(", "),
        other_task(name, main)
    )]
    Select {
        /// The metric.
        name: &'static str,
        /// The main metric of the task.
        main: &'static str,
        /// Further metrics of the task.
        known: Vec<&'static str>,
        /// The form of the metrics. The paper's form has fewer.
        form: MetricForm,
    },
    /// No split can be drawn.
    #[error("{0}; data.split sets the shares, and a split in the data overrides them")]
    CannotSplit(DataError),
    /// No split for a fold can be made.
    #[error("{0}")]
    CannotFold(DataError),
    /// The configuration has a number of folds, but names none of them.
    #[error("data.folds is set, and data.fold does not say which fold is the test part")]
    NoFold,
    /// Links have no folds.
    #[error("links (data.task = \"links\") are not divided into folds; leave out --folds and data.folds")]
    FoldsOfLinks,
    /// One link lies in two splits.
    #[error("graph {graph}: the edges between nodes {a} and {b} lie in two splits, `{first}` and `{second}`")]
    DividedLink {
        /// The graph.
        graph: usize,
        /// One node.
        a: u32,
        /// The other node.
        b: u32,
        /// One split.
        first: String,
        /// The other split.
        second: String,
    },
    /// There is no pair of nodes without an edge.
    #[error(
        "all nodes of the graphs with links in {} are joined, so there is no pair without an edge to compare links with",
        .0.name()
    )]
    AllJoined(Split),
    /// The encoding cannot be computed or read.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// A batch of graphs cannot be put together.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// The result of everything here.
pub type Result<T, E = TrainError> = std::result::Result<T, E>;

impl From<BackendError> for TrainError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Cuda(error) => Self::Device(error),
            BackendError::Graph(error) => Self::Data(error.into()),
            BackendError::Memory(error) => Self::GraphMemory(error),
        }
    }
}

impl From<GraphError> for TrainError {
    fn from(error: GraphError) -> Self {
        Self::Data(error.into())
    }
}

impl From<EncodingError> for TrainError {
    fn from(error: EncodingError) -> Self {
        Self::Data(error.into())
    }
}

impl TrainError {
    /// An error about a run directory, or a file in it.
    pub(crate) fn run(path: &Path, problem: RunProblem) -> Self {
        Self::Run { path: path.into(), problem }
    }

    /// The operating system refused.
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::File(DataError::Io { path: path.into(), source })
    }

    /// Adds the file of the data to the error, if there is a file and the error concerns data.
    #[must_use]
    pub fn in_file(self, path: Option<&Path>) -> Self {
        match (path, &self) {
            (Some(path), Self::Config(_) | Self::Data(_) | Self::Model(_) | Self::GraphMemory(_))
                if self.device().is_none() =>
            {
                Self::InFile { path: path.into(), source: Box::new(self) }
            }
            _ => self,
        }
    }

    /// The GPU error, at any depth: another device may succeed.
    pub fn device(&self) -> Option<&CudaError> {
        match self {
            Self::Device(error) | Self::Model(ModelError::Backend(BackendError::Cuda(error))) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_stops_leaves_a_message_that_says_how_to_continue() {
        let lost = |checkpoint| {
            let cause = CudaError::Lost("CUDA_ERROR_ECC_UNCORRECTABLE".into());
            TrainError::Lost { cause, epoch: 7, checkpoint }.to_string()
        };
        let text = lost(Some("run/checkpoint/6".into()));
        assert!(text.contains("in epoch 7; the last checkpoint, run/checkpoint/6, is kept, and --resume"), "{text}");
        assert!(lost(None).ends_with("there is no checkpoint yet, so the run has to start again"));
    }
}
