//! Every reader of files from outside, as a function of bytes.
//!
//! A reader returns whether it accepted the input. It may return any error, whose message is
//! formatted as well. A panic, an endless loop or memory beyond [`MEMORY_LIMIT`] is a fault.

pub mod config;
mod expected;
pub mod json_lines;
pub mod manifest;
pub mod model;
pub mod model_header;
pub mod pairs;
pub mod parquet;
pub mod pickle;
pub mod tables;
pub mod torch;

use std::path::Path;

/// Reads bytes as a file, or as files in a folder. Returns whether the reader accepted them.
pub type Run = fn(&[u8], &Path) -> bool;

/// Most bytes that a reader may have in use at once for an input of the corpora: 64 MiB.
pub const MEMORY_LIMIT: usize = 64 << 20;

/// All readers by the names of their targets.
#[allow(dead_code, reason = "a fuzz target runs one reader")]
pub const READERS: [(&str, Run); 10] = [
    ("config", config::run),
    ("json_lines", json_lines::run),
    ("manifest", manifest::run),
    ("model", model::run),
    ("model_header", model_header::run),
    ("pairs", pairs::run),
    ("parquet", parquet::run),
    ("pickle", pickle::run),
    ("tables", tables::run),
    ("torch", torch::run),
];

/// Whether a result is a success. Formats the error, as a program does.
fn accepted<T, E: std::fmt::Display>(result: Result<T, E>) -> bool {
    result.map_err(|error| std::hint::black_box(error.to_string())).is_ok()
}

/// Writes a file of an input.
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
