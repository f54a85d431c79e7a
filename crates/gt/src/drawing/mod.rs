//! Graphs as pictures.

mod layout;
mod png;
mod svg;

pub use png::to_png;
pub use svg::{MOST_NODES, Picture};
