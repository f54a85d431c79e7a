//! CSV tables of nodes, edges and graphs, and their schema file.

use std::fs::remove_file;
use std::path::Path;

use super::expected::read_both_ways;

/// Separates the files of an input: a form feed.
pub const SEPARATOR: u8 = 0x0c;

/// The files of a data set, in the order of an input. The last two are optional.
pub const FILES: [&str; 4] = ["x_nodes.csv", "x_edges.csv", "x_graphs.csv", "x_schema.csv.json"];

/// Reads up to four files.
pub fn run(bytes: &[u8], folder: &Path) -> bool {
    let mut parts = bytes.split(|&byte| byte == SEPARATOR);
    for (at, name) in FILES.iter().enumerate() {
        let path = folder.join(name);
        match parts.next() {
            Some(part) => super::write(&path, part),
            None if at < 2 => super::write(&path, b""),
            None => drop(remove_file(&path)),
        }
    }
    read_both_ways(&folder.join(FILES[0]))
}
