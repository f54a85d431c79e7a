//! The engine on NVIDIA cards: the same networks, parameters and files.
//!
//! Libraries are loaded when a device is opened, so the same program runs where there are none. Kernels (`kernels/`) are compiled for the network at hand by the
//! driver's run-time compiler and kept on disk. The data set lies on the card; a step, from putting a batch together to the optimiser, is one captured graph of
//! launches whose kernels read the batch's true sizes from device memory, so the processor only says "next". Sums run in fixed order: the same run gives
//! the same bytes on the same card.

mod abi;
mod buffers;
mod device;
mod engine;
mod error;
mod labels;
mod launches;
mod memory;
mod packing;
mod program;
mod resident;

pub use device::{CudaDevice, Precision};
pub use engine::{CudaEngine, CudaTask, Pass, PassResult};
pub use error::{CudaError, OnCard};
pub use labels::CudaLabels;
pub use resident::ResidentData;
pub(crate) use resident::Size;
