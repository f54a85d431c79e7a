//! The native format: Parquet with one row per graph.

mod arrays;
mod contained;
mod guard;
mod read;
mod thrift;
mod write;

pub(crate) use arrays::{Leaf, Numbers, text};
pub use contained::panic_is_contained;
pub(crate) use read::{open, read};
pub(crate) use write::write;
