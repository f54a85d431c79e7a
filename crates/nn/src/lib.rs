//! The engine: tile kernels with explicit backward, written once for two precisions and three
//! instruction sets.

pub mod backend;
mod channels;
mod check;
pub mod cpu;
pub mod cuda;
mod layers;
mod loss;
mod memory;
mod network;
mod parameters;
mod real;
mod stream;
mod weights;

pub use channels::Channels;
pub use check::{CheckLine, check, tolerance};
pub use cpu::activation::Activation;
pub use layers::{Branch, BranchFacts, Combine, EdgeUse};
pub use loss::{Loss, loss_of};
pub use memory::{FreeMemory, LimitedBy, gigabytes};
pub use network::{AttentionScope, Clamp, Gate, HeadInput, Input, Jump, Network, Norm, Readout};
pub use parameters::{Init, Parameter, Parameters, Role, WeightOrBias};
pub use real::Real;
pub use stream::Stream;
pub use weights::{Frozen, NormSite, OptimizerState, Weights};
