//! JSON lines.

use std::path::Path;

use super::expected::read_both_ways;

/// Reads a file of JSON lines.
pub fn run(bytes: &[u8], folder: &Path) -> bool {
    let path = folder.join("graphs.jsonl");
    super::write(&path, bytes);
    read_both_ways(&path)
}
