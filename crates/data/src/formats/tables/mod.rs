//! Tables of nodes, edges and (optionally) graphs, as CSV or Parquet.
//!
//! Tables have one row per node and one row per edge. With several graphs each table has a `graph`
//! column, and a third table holds the values of whole graphs. Tables that this project writes name
//! their columns in a schema (`NAME_schema.csv.json` next to `NAME_nodes.csv`). For tables of other
//! programs, [`FileRoles`] states the roles of the columns. Default names are:
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
//! In CSV, an empty cell is a missing value, and blanks separate the items of a list: `3 17 52`.

mod cell_reader;
mod decode;
mod file_roles;
mod ids;
mod pairs;
mod roles;
mod table;
mod write;

use std::path::{Path, PathBuf};

use gt_graph::Level;

pub(crate) use decode::Decoder;
pub use file_roles::FileRoles;
pub use pairs::PairTable;
pub(crate) use write::write;

use self::table::Table;
use crate::error::{DataError, FileProblem, Result};

/// The files of one data set in tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePaths {
    /// Table with one row per node.
    pub nodes: PathBuf,
    /// Table with one row per edge.
    pub edges: PathBuf,
    /// Table with one row per graph.
    pub graphs: Option<PathBuf>,
}

impl TablePaths {
    /// Whether a path is the table of nodes in a set of tables, such as `NAME_nodes.csv` or
    /// `nodes.parquet`.
    pub fn is_nodes_table(path: &Path) -> bool {
        path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("nodes"))
    }

    /// The tables next to `NAME_nodes.csv` (or `.parquet`): `NAME_edges.csv`, and `NAME_graphs.csv`
    /// whether it exists or not.
    ///
    /// # Errors
    /// If the path is not that of a table of nodes.
    pub fn beside(nodes: &Path) -> Result<Self> {
        if !Self::is_nodes_table(nodes) {
            return Err(DataError::file(nodes, FileProblem::NotANodesTable));
        }
        Ok(Self { edges: sibling(nodes, "edges"), graphs: Some(sibling(nodes, "graphs")), nodes: nodes.into() })
    }

    /// Returns the paths without a table of graphs that does not exist.
    #[must_use]
    pub fn that_exist(self) -> Self {
        Self { graphs: self.graphs.filter(|file| file.exists()), ..self }
    }
}

/// Tables of one data set in memory.
struct Tables {
    nodes: Table,
    edges: Table,
    graphs: Option<Table>,
}

impl Tables {
    /// The table of a level.
    fn of(&self, level: Level) -> Option<&Table> {
        match level {
            Level::Graph => self.graphs.as_ref(),
            Level::Node => Some(&self.nodes),
            Level::Edge => Some(&self.edges),
        }
    }

    /// The tables whose columns can be carried to rows of a level: the table of the level, then the
    /// table of graphs.
    fn carrying(&self, level: Level) -> impl Iterator<Item = (Level, &Table)> {
        let graphs = Some(Level::Graph).filter(|graphs| *graphs != level);
        let levels = std::iter::once(level).chain(graphs);
        levels.filter_map(|level| self.of(level).map(|table| (level, table)))
    }

    /// All tables with their levels; the table of graphs is optional.
    fn leveled(&self) -> impl Iterator<Item = (Level, &Table)> {
        let levels = [Level::Graph, Level::Node, Level::Edge].into_iter();
        levels.filter_map(|level| self.of(level).map(|table| (level, table)))
    }
}

/// `NAME_word.EXTENSION` for a table of nodes named `NAME_nodes.…` or `NAME.…`.
fn sibling(nodes: &Path, word: &str) -> PathBuf {
    let stem = nodes.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.strip_suffix("nodes").map_or_else(|| format!("{stem}_{word}"), |start| format!("{start}{word}"));
    nodes.with_file_name(match nodes.extension() {
        Some(extension) => format!("{stem}.{}", extension.to_string_lossy()),
        None => stem,
    })
}

/// Path of the schema file next to a table of nodes: `NAME_schema.csv.json` for `NAME_nodes.csv`,
/// so that tables of one name in two formats have two schemas.
pub(crate) fn schema_path(nodes: &Path) -> PathBuf {
    let mut path = sibling(nodes, "schema").into_os_string();
    path.push(".json");
    path.into()
}
