//! What can go wrong between a data file and a trained model.

use std::path::{Path, PathBuf};

use gt_data::DataError;
use gt_models::ConfigError;
use gt_nn::cuda::CudaError;

/// Why a run could not start, go on, or be used.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A data file, or what was asked of it.
    #[error(transparent)]
    File(#[from] DataError),
    /// The configuration is wrong, or does not fit the data.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data cannot be used for this.
    #[error("the data cannot be used: {0}")]
    Data(String),
    /// The machine is too small.
    #[error("{0}")]
    Memory(String),
    /// A card cannot do it, or failed.
    #[error(transparent)]
    Device(#[from] CudaError),
    /// A card stopped in the middle of a run.
    #[error(
        "{cause} in epoch {epoch}; {}",
        checkpoint.as_ref().map_or("there is no checkpoint yet, so the run has to begin again".to_owned(), |at| format!(
            "the last checkpoint, {}, is kept, and --resume goes on from there, on this card, another one or the processor",
            at.display()
        ))
    )]
    Lost {
        /// What the driver says.
        cause: CudaError,
        /// Epoch, from 1.
        epoch: usize,
        /// The newest checkpoint.
        checkpoint: Option<PathBuf>,
    },
    /// A run directory cannot be used.
    #[error("{}: {message}", path.display())]
    Run {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// A run directory belongs to another process just now.
    #[error("{}: another process is training in it", .0.display())]
    Busy(PathBuf),
    /// The loss, or a gradient, is infinite or NaN.
    #[error(
        "epoch {epoch}, batch {batch}: the {what} is not finite (graphs {graphs}); {}. optimizer.clip or train.skip_bad_steps, \
         set in the run's config.toml, may get it past this when it is resumed; a smaller optimizer.lr needs a new run",
        checkpoint.as_ref().map_or("there is no checkpoint yet".to_owned(), |at| format!("the last good checkpoint is {}", at.display()))
    )]
    NotFinite {
        /// Epoch, from 1.
        epoch: usize,
        /// Batch, from 1.
        batch: usize,
        /// `loss`, `gradient`, `loss or gradient` or `variance of a normalisation`.
        what: &'static str,
        /// Numbers of the batch's graphs in the data.
        graphs: String,
        /// The newest checkpoint.
        checkpoint: Option<PathBuf>,
    },
}

/// The result of everything here.
pub type Result<T, E = TrainError> = std::result::Result<T, E>;

impl TrainError {
    /// About a run directory, or a file in it.
    pub(crate) fn run(path: &Path, message: impl Into<String>) -> Self {
        Self::Run { path: path.into(), message: message.into() }
    }

    /// Only the processor knows links so far.
    pub fn links_on_card() -> Self {
        CudaError::Unsupported("link prediction".into()).into()
    }

    /// The operating system refused.
    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Self {
        Self::run(path, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_stops_leaves_a_sentence_on_how_to_go_on() {
        let lost = |checkpoint| {
            let cause = CudaError::Lost("CUDA_ERROR_ECC_UNCORRECTABLE".into());
            TrainError::Lost { cause, epoch: 7, checkpoint }.to_string()
        };
        assert_eq!(
            lost(Some("run/checkpoint/6".into())),
            "the card stopped working (CUDA_ERROR_ECC_UNCORRECTABLE) in epoch 7; the last checkpoint, run/checkpoint/6, is kept, and --resume goes on from there, \
             on this card, another one or the processor"
        );
        assert!(lost(None).ends_with("there is no checkpoint yet, so the run has to begin again"));
    }
}
