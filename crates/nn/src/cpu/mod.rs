//! The engine on CPUs.

pub(crate) mod activation;
pub(crate) mod activations;
mod adam;
mod batch_norm;
pub(crate) mod buffer;
mod columns;
pub(crate) mod dropout;
pub(crate) mod edges;
pub(crate) mod engine;
pub(crate) mod gradient;
mod head;
mod inference;
mod input;
mod inspect;
mod layer_norm;
mod memory;
pub(crate) mod norm;
mod peak;
pub(crate) mod plan;
pub(crate) mod product;
pub(crate) mod simd;
pub(crate) mod stage;
pub(crate) mod symmetric;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tile;
pub(crate) mod workspace;

pub use adam::Adam;
pub use engine::Engine;
pub(crate) use head::source_width;
pub use inspect::Attention;
pub use memory::{BatchSize, GraphSize, PassMemory, parameter_bytes};
pub use peak::peak_gflops;
pub use simd::{Isa, IsaError};
