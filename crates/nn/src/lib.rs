//! The engine: tile kernels with explicit backward, written once for two precisions and three
//! instruction sets.

pub mod backend;
mod channels;
mod check;
pub mod cpu;
pub mod cuda;
mod loss;
mod memory;
mod network;
mod parameters;
mod real;
mod weights;

pub use channels::Channels;
pub use check::{CheckLine, check, tolerance};
pub use loss::{Loss, loss_of};
pub use memory::{FreeMemory, LimitedBy, gigabytes};
pub use network::{AttentionScope, Clamp, Gate, HeadInput, Input, Jump, LayerKind, Network, Norm, Readout};
pub use parameters::{Parameter, Parameters, Role, Stream, Term, WeightOrBias};
pub use real::Real;
pub use weights::{Frozen, NormSite, OptimizerState, Weights};
