//! Stand-in for the CUDA driver and its run-time compiler: tests host code without a GPU.
//!
//! The driver answers as an H200 would, keeps device memory in the computer's memory, and records
//! calls as text. Kernels compute nothing: memory keeps what copies and memsets put there.
//!
//! A recorded pointer is the number of its allocation and an offset, so the text of a program is
//! the same on every machine. Lines that begin with `misuse` record a copy outside its allocation,
//! or an argument that points at freed memory.
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use graph_transformer_cuda_recorder::Recorder;
//!
//! let recorder = Recorder::start();
//! // From here on the process loads the stand-ins as `libcuda.so` and `libnvrtc.so`.
//! assert_eq!(recorder.take().as_str(), "");
//! assert_eq!(recorder.held(), "");
//! # }
//! ```
#![cfg(target_os = "linux")]

mod child;
mod golden;
mod library;
mod recorder;
mod recording;

pub use child::ChildMachine;
pub use golden::compare;
pub use recorder::{Failure, Recorder};
pub use recording::Recording;
