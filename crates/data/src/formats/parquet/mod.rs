//! The native format: Parquet with one row per graph.

mod arrays;
pub(crate) mod checksums;
mod claims;
mod contained;
mod decode;
mod guard;
mod thrift;
mod write;

pub(crate) use arrays::numbers;
pub use contained::panic_is_contained;
pub(crate) use decode::{Decoder, open, widen};
pub(crate) use write::write;
