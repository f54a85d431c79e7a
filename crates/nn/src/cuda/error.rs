//! Errors of the CUDA backend.

use std::fmt;

use cudarc::driver::DriverError;
use cudarc::driver::sys::{CUresult, is_culib_present};
use gt_graph::GraphError;

/// Why a device cannot be used, or a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// No driver library.
    #[error("there is no CUDA driver on this machine (libcuda could not be loaded)")]
    NoDriver,
    /// No compiler library.
    #[error(
        "the CUDA run-time compiler (libnvrtc) could not be loaded and no kernels for this model and GPU are cached; it comes with the CUDA toolkit, the driver's compatibility packages and PyTorch"
    )]
    NoCompiler,
    /// There is no GPU with this number.
    #[error("there is no CUDA device {asked}; this machine has {found}")]
    NoDevice {
        /// Number of the requested GPU.
        asked: usize,
        /// Number of GPUs of this machine.
        found: usize,
    },
    /// The GPU is too old.
    #[error("{name} has compute capability {major}.{minor}; 8.0 or newer is needed")]
    TooOld {
        /// Name of the GPU.
        name: String,
        /// First number.
        major: i32,
        /// Second number.
        minor: i32,
    },
    /// The kernels do not compile.
    #[error("the kernels do not compile: {0}")]
    Compile(String),
    /// The work needs something that only the CPU supports so far.
    #[error("{0} is not available on CUDA devices; use --device cpu")]
    Unsupported(#[from] CpuOnly),
    /// The driver is too old.
    #[error("the CUDA driver is of version {found}; {} or newer is needed", version(OLDEST_DRIVER))]
    OldDriver {
        /// Version of the driver.
        found: String,
    },
    /// The driver rejects the kernels.
    #[error(
        "the CUDA driver rejects the kernels ({0}): it is older than the libnvrtc that compiled them; install a newer driver or the libnvrtc of the driver's CUDA version, or use --device cpu"
    )]
    Rejected(String),
    /// Not enough memory.
    #[error(
        "the GPU has not enough memory for {part}: {} were requested after {} were allocated, {} are free; {} helps",
        size(*wanted),
        size(*held),
        size(*free),
        part.remedy()
    )]
    Memory {
        /// What did not fit.
        part: OnGpu,
        /// Bytes of the part that were allocated before.
        held: usize,
        /// Bytes requested.
        wanted: usize,
        /// Bytes free.
        free: usize,
    },
    /// Not enough memory for something that the driver needs.
    #[error("the GPU's memory is used up ({0}); a smaller train.batch helps, or --device cpu")]
    Full(String),
    /// The GPU stopped working.
    #[error("the GPU stopped working ({0})")]
    Lost(String),
    /// Anything else.
    #[error("the CUDA driver reports: {0}")]
    Driver(String),
}

/// What only the CPU supports so far.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CpuOnly {
    /// Links instead of targets.
    #[error("link prediction")]
    Links,
    /// Steps over several batches.
    #[error("train.accumulate")]
    Accumulate,
    /// Training that skips steps which are not finite.
    #[error("train.skip_bad_steps")]
    SkipBadSteps,
    /// Parameters that training leaves as they are.
    #[error("train.freeze")]
    Freeze,
    /// Categories that training hides in some rows.
    #[error("data.other in columns without a rare category")]
    HiddenValues,
    /// A head that reads products of nodes.
    #[error("a model that reads products of nodes (model.pairs)")]
    Products,
    /// Edge features that are the same in both directions.
    #[error("a model with symmetric edges")]
    SymmetricEdges,
    /// Predictions for edges by a model that attends to full graphs.
    #[error("a model that predicts edges and attends to full graphs")]
    EdgesOfFullGraphs,
    /// A branch.
    #[error("a model with the branch {0} (model.branches)")]
    Branch(&'static str),
    /// Layers that sum up several branches.
    #[error("a model with several branches (model.branches)")]
    SeveralBranches,
    /// A branch other than attention, with a feed-forward half.
    #[error("a model with a feed-forward half behind another branch than attention (model.feed_forward)")]
    FeedForward,
    /// Attention without a feed-forward half.
    #[error("a model with attention and no feed-forward half (model.feed_forward)")]
    NoFeedForward,
    /// Layers that are too wide.
    #[error("a model of more than 512 channels")]
    Channels,
    /// Layers that need more shared memory than an SM has.
    #[error("a model this wide ({0} bytes of shared memory)")]
    SharedMemory(usize),
    /// No layer between input and head.
    #[error("a model without layers")]
    NoLayers,
    /// A head that is too deep.
    #[error("a head of more than 8 layers")]
    HeadLayers,
    /// Too many categorical columns of nodes or edges.
    #[error("a model of more than 8 categorical columns")]
    CategoricalColumns,
    /// Batches whose nodes or edges 32-bit integers cannot count.
    #[error("batches of more than 2,147,483,647 nodes or edges")]
    BatchSize,
    /// A data set whose nodes, edges or words 32-bit integers cannot count.
    #[error("a data set of more than 2,147,483,647 nodes, edges or words")]
    DataSize,
    /// A data set that cannot be read in batches.
    #[error("a data set of such graphs ({0})")]
    Graphs(GraphError),
}

/// What is stored in GPU memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnGpu {
    /// Graphs, features and encodings.
    Data,
    /// Labels of all parts.
    Labels,
    /// Parameters, and what is computed from a batch.
    Network,
}

impl OnGpu {
    /// The setting that reduces the memory needed.
    fn remedy(self) -> &'static str {
        match self {
            Self::Data | Self::Labels => "--device cpu",
            Self::Network => "a smaller train.batch, or --device cpu,",
        }
    }
}

impl fmt::Display for OnGpu {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Data => "the data set",
            Self::Labels => "the labels",
            Self::Network => "the network and its largest batch",
        })
    }
}

/// The first driver that can run captured graphs as they are used here, as drivers count: 11.7.
pub(crate) const OLDEST_DRIVER: i32 = 11_070;

/// A driver's version as people write it.
pub(crate) fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// Bytes as people read them.
fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes"),
        mega if mega < 10_000 => format!("{mega} MB"),
        mega => format!("{} GB", mega >> 10),
    }
}

impl CudaError {
    /// The error for a result of the driver; `text` is the driver's description of the result.
    fn of(result: CUresult, text: &str) -> Self {
        use CUresult as R;
        let told = if text.is_empty() { format!("{result:?}") } else { format!("{result:?}: {text}") };
        match result {
            R::CUDA_ERROR_OUT_OF_MEMORY => Self::Full(told),
            R::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | R::CUDA_ERROR_NO_BINARY_FOR_GPU
            | R::CUDA_ERROR_INVALID_IMAGE
            | R::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER => Self::Rejected(told),
            R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | R::CUDA_ERROR_INVALID_PC
            | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_ASSERT
            | R::CUDA_ERROR_LAUNCH_FAILED
            | R::CUDA_ERROR_LAUNCH_TIMEOUT
            | R::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | R::CUDA_ERROR_CONTAINED
            | R::CUDA_ERROR_ECC_UNCORRECTABLE
            | R::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | R::CUDA_ERROR_DEVICE_UNAVAILABLE
            | R::CUDA_ERROR_SYSTEM_NOT_READY
            | R::CUDA_ERROR_MPS_CLIENT_TERMINATED
            | R::CUDA_ERROR_NO_DEVICE
            | R::CUDA_ERROR_INVALID_DEVICE
            | R::CUDA_ERROR_DEINITIALIZED
            | R::CUDA_ERROR_UNKNOWN => Self::Lost(told),
            _ => Self::Driver(told),
        }
    }
}

impl From<DriverError> for CudaError {
    fn from(error: DriverError) -> Self {
        // SAFETY: only tries to load the library.
        let text = unsafe { is_culib_present() }
            .then(|| error.error_string().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default());
        Self::of(error.0, &text.unwrap_or_default())
    }
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, CudaError>;

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(result: CUresult) -> String {
        CudaError::from(DriverError(result)).to_string()
    }

    #[test]
    fn gpus_that_stop_are_distinguished_from_drivers_that_complain() {
        use CUresult as R;
        for lost in [
            R::CUDA_ERROR_ILLEGAL_ADDRESS,
            R::CUDA_ERROR_LAUNCH_FAILED,
            R::CUDA_ERROR_ECC_UNCORRECTABLE,
            R::CUDA_ERROR_NO_DEVICE,
            R::CUDA_ERROR_DEVICE_UNAVAILABLE,
            R::CUDA_ERROR_UNKNOWN,
        ] {
            let text = sentence(lost);
            assert!(text.starts_with(&format!("the GPU stopped working ({lost:?}")), "{text}");
        }
        let text = sentence(R::CUDA_ERROR_INVALID_VALUE);
        assert!(text.starts_with("the CUDA driver reports: CUDA_ERROR_INVALID_VALUE"), "{text}");
    }

    #[test]
    fn kernels_that_an_old_driver_rejects_are_reported_with_a_remedy() {
        use CUresult as R;
        for refused in
            [R::CUDA_ERROR_UNSUPPORTED_PTX_VERSION, R::CUDA_ERROR_NO_BINARY_FOR_GPU, R::CUDA_ERROR_INVALID_IMAGE]
        {
            let text = sentence(refused);
            assert!(text.contains(&format!("rejects the kernels ({refused:?}")), "{text}");
            assert!(text.contains("install a newer driver"), "{text}");
        }
        let text = CudaError::OldDriver { found: version(11_020) }.to_string();
        assert_eq!(text, "the CUDA driver is of version 11.2; 11.7 or newer is needed");
    }

    #[test]
    fn too_little_memory_is_reported_with_sizes_and_a_remedy() {
        let error = |part| CudaError::Memory { part, held: 3 << 20, wanted: 20 << 30, free: 900 << 20 }.to_string();
        assert_eq!(
            error(OnGpu::Network),
            "the GPU has not enough memory for the network and its largest batch: 20 GB were requested after 3 MB were allocated, 900 MB are free; \
             a smaller train.batch, or --device cpu, helps"
        );
        assert!(error(OnGpu::Data).contains("for the data set: "));
        assert!(error(OnGpu::Labels).ends_with("900 MB are free; --device cpu helps"));
        assert!(sentence(CUresult::CUDA_ERROR_OUT_OF_MEMORY).contains("a smaller train.batch helps, or --device cpu"));
        assert_eq!([size(0), size(5), size(1 << 20), size(9999 << 20)], ["0 bytes", "5 bytes", "1 MB", "9999 MB"]);
    }
}
