//! Tables of nodes, edges and (optionally) graphs, as CSV or Parquet.
//!
//! One row per node and per edge. With several graphs each table has a `graph` column; a third table then holds what belongs
//! to a graph as a whole. Tables of this project name their columns in a schema (Parquet metadata, or `NAME_schema.json` beside
//! `NAME_nodes.csv`); for others, [`TableMapping`] says what a column is, and defaults cover the usual names:
//!
//! | role | default names |
//! |---|---|
//! | graph of a row | `graph` |
//! | node's id | `node`, `id` |
//! | ends of an edge | `src`, `source`, `from` and `dst`, `destination`, `to`, `target` |
//! | target | `y`, `label` |
//! | split | `split` |
//! | features | all others: integers categorical, reals continuous, lists of indices multi-hot |
//!
//! In CSV an empty cell is a missing value, and a list is written with blanks: `3 17 52`.

mod ids;
mod mapping;
mod pairs;
mod quotes;
mod read;
mod table;
mod write;

use std::path::{Path, PathBuf};

pub use mapping::TableMapping;
pub use pairs::PairTable;
pub use read::read_tables;
pub(crate) use read::read_with;
pub(crate) use write::write;

use crate::error::{DataError, Result};

/// The files of one data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePaths {
    /// Rows are nodes.
    pub nodes: PathBuf,
    /// Rows are edges.
    pub edges: PathBuf,
    /// Rows are graphs.
    pub graphs: Option<PathBuf>,
}

impl TablePaths {
    /// Whether a path names the first of a set of tables: `NAME_nodes.csv`, `nodes.parquet`, …
    pub fn is_nodes_table(path: &Path) -> bool {
        path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("nodes"))
    }

    /// The tables beside `NAME_nodes.csv` (or `.parquet`): `NAME_edges.csv`, and `NAME_graphs.csv` whether it exists or not.
    ///
    /// # Errors
    /// If the path is not that of a table of nodes.
    pub fn beside(nodes: &Path) -> Result<Self> {
        if !Self::is_nodes_table(nodes) {
            let message =
                "a table of nodes should be named NAME_nodes.csv or NAME_nodes.parquet, with NAME_edges beside it";
            return Err(DataError::file(nodes, message));
        }
        Ok(Self {
            edges: sibling(nodes, "edges", None),
            graphs: Some(sibling(nodes, "graphs", None)),
            nodes: nodes.into(),
        })
    }

    /// The same without a table of graphs that does not exist.
    #[must_use]
    pub fn that_exist(self) -> Self {
        Self { graphs: self.graphs.filter(|file| file.exists()), ..self }
    }
}

/// `NAME_word.EXTENSION` for `NAME_nodes.…`.
fn sibling(nodes: &Path, word: &str, extension: Option<&str>) -> PathBuf {
    let stem = nodes.file_stem().unwrap_or_default().to_string_lossy();
    let stem = format!("{}{word}", stem.strip_suffix("nodes").unwrap_or(&stem));
    let extension = extension.map(Into::into).or_else(|| nodes.extension().map(|e| e.to_string_lossy().into_owned()));
    nodes.with_file_name(match extension {
        Some(extension) => format!("{stem}.{extension}"),
        None => stem,
    })
}

/// Where the schema of CSV tables lies.
pub(crate) fn schema_path(nodes: &Path) -> PathBuf {
    sibling(nodes, "schema", Some("json"))
}
