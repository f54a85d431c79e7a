//! The engine on CPUs.

mod activations;
mod adam;
mod attention;
mod batch_norm;
mod buffer;
mod columns;
pub(crate) mod dropout;
mod engine;
mod gradient;
mod head;
mod inference;
mod input;
mod inspect;
mod layer_norm;
mod memory;
mod message;
pub(crate) mod norm;
mod peak;
mod plan;
mod product;
pub(crate) mod simd;
mod stage;
mod symmetric;
#[cfg(test)]
mod testing;
mod tile;
mod workspace;

pub use adam::Adam;
pub use engine::Engine;
pub(crate) use head::source_width;
pub use inspect::Attention;
pub use memory::{BatchSize, GraphSize, PassMemory, parameter_bytes};
pub use peak::peak_gflops;
pub use simd::{Isa, IsaError};
