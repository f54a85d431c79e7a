//! The engine on NVIDIA GPUs: networks, parameters and files are those of the CPU engine.
//!
//! Libraries are loaded when a device is opened, so the program also runs on machines without them.
//! Kernels (`kernels/`) are compiled for the network at hand by the driver's run-time compiler, and
//! kept on disk. The data set is stored in GPU memory. A step, from assembling a batch to the
//! optimiser, is one captured graph of launches. Its kernels read the batch's true sizes from
//! device memory, so the CPU only starts the next step. Sums run in fixed order: the same run gives
//! the same bytes on the same GPU.

mod abi;
mod buffers;
mod device;
mod engine;
mod error;
mod kind;
mod labels;
mod launches;
mod memory;
mod packing;
mod program;
mod resident;

pub use device::{CudaDevice, Precision};
pub use engine::{CudaEngine, CudaTask, Pass, PassResult};
pub use error::{CpuOnly, CudaError, OnGpu};
pub use labels::CudaLabels;
pub use program::KERNEL_EXTENSION;
pub use resident::ResidentData;
pub(crate) use resident::Size;
