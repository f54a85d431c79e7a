//! Graphs as pictures.

mod layout;
mod svg;

pub use svg::{MOST_NODES, Picture};
