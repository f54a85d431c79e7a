//! What can go wrong on a card.

use cudarc::driver::DriverError;

/// Why a device cannot be used, or a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// No driver library.
    #[error("there is no CUDA driver on this machine (libcuda could not be loaded)")]
    NoDriver,
    /// No compiler library.
    #[error(
        "the CUDA run-time compiler (libnvrtc) could not be loaded and no kernels for this model and card are cached; it comes with the CUDA toolkit, the driver's compatibility packages and PyTorch"
    )]
    NoCompiler,
    /// No such card.
    #[error("there is no CUDA device {asked}; this machine has {found}")]
    NoDevice {
        /// Number asked for.
        asked: usize,
        /// How many there are.
        found: usize,
    },
    /// The card is too old.
    #[error("{name} has compute capability {major}.{minor}; 8.0 or newer is needed")]
    TooOld {
        /// The card.
        name: String,
        /// First number.
        major: i32,
        /// Second number.
        minor: i32,
    },
    /// The kernels do not compile.
    #[error("the kernels do not compile: {0}")]
    Compile(String),
    /// The model has something that only the processor does so far.
    #[error("{0} is not available on CUDA devices; use --device cpu")]
    Unsupported(String),
    /// Not enough memory.
    #[error(
        "the device has not enough memory: {wanted_mb} MB were asked for, {free_mb} MB are free; a smaller train.batch needs less"
    )]
    Memory {
        /// Asked for.
        wanted_mb: usize,
        /// There.
        free_mb: usize,
    },
    /// Anything else.
    #[error("the CUDA driver reports: {0}")]
    Driver(String),
}

impl From<DriverError> for CudaError {
    fn from(error: DriverError) -> Self {
        let name = error.error_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let text = error.error_string().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        Self::Driver(format!("{name}: {text}"))
    }
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, CudaError>;
