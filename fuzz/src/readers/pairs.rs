//! Tables of node pairs.

use std::path::Path;

use gt_data::PairTable;

use super::accepted;

/// Reads a table of node pairs and all of its rows.
pub fn run(bytes: &[u8], folder: &Path) -> bool {
    let path = folder.join("pairs.csv");
    super::write(&path, bytes);
    let table = PairTable::read(&path);
    if let Ok(table) = &table {
        for row in 0..table.rows() {
            table.row(row).into_iter().for_each(|cell| _ = accepted(cell));
        }
    }
    accepted(table)
}
