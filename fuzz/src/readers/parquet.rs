//! Native Parquet.

use std::path::Path;

use super::expected::read_both_ways;

/// Reads a Parquet file of graphs.
pub fn run(bytes: &[u8], folder: &Path) -> bool {
    let path = folder.join("graphs.parquet");
    super::write(&path, bytes);
    read_both_ways(&path)
}
