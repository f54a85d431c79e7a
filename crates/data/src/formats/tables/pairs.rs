//! Tables of node pairs, for a model that predicts links.

use std::path::Path;

use super::table::{Column, Table};
use crate::error::{DataError, FileProblem, Result};
use crate::reason::Problem;

/// Node pairs, one per row, in the columns `graph` (optional), `source` and `target`. Numbers count
/// from 0. Other columns are ignored.
#[derive(Debug)]
pub struct PairTable {
    table: Table,
    /// Positions of [`PairTable::COLUMNS`] in the table.
    places: [Option<usize>; 3],
}

impl PairTable {
    /// Names of the columns.
    pub const COLUMNS: [&str; 3] = ["graph", "source", "target"];

    /// Reads a table (`.csv`, `.tsv`, `.parquet`). Cells are checked when they are read.
    ///
    /// # Errors
    /// If the file cannot be read, has no rows, or lacks `source` or `target`.
    pub fn read(path: &Path) -> Result<Self> {
        let table = Table::read(path)?;
        if table.columns.is_empty() {
            return Err(DataError::file(path, FileProblem::NoColumns));
        }
        let places = Self::COLUMNS.map(|name| table.position(name));
        if let Some(missing) = (1..3).find(|&at| places[at].is_none()) {
            let (column, found) = (Self::COLUMNS[missing].into(), table.names().map(str::to_owned).collect());
            return Err(DataError::file(path, FileProblem::MissingColumn { column, found, hint: "" }));
        }
        if table.rows == 0 {
            return Err(DataError::file(path, FileProblem::NoRows));
        }
        Ok(Self { table, places })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.table.path
    }

    /// Number of pairs.
    pub fn rows(&self) -> usize {
        self.table.rows
    }

    /// Whether there is a column `graph`.
    pub fn names_graphs(&self) -> bool {
        self.places[0].is_some()
    }

    /// Graph, source and target of a row, all from 0. A cell that is not a whole number from 0
    /// yields its problem. Without a column `graph`, the graph is 0.
    pub fn row(&self, row: usize) -> [Result<usize, Problem>; 3] {
        [0, 1, 2].map(|at| self.cell(row, at))
    }

    /// The number in one cell of a row; `at` is a position in [`PairTable::COLUMNS`].
    pub fn cell(&self, row: usize, at: usize) -> Result<usize, Problem> {
        self.places[at].map_or(Ok(0), |place| number(&self.table.columns[place], row))
    }
}

fn number(column: &Column, row: usize) -> Result<usize, Problem> {
    let text = column.text(row).ok_or(Problem::Null)?;
    let value = column.integer(row).ok().flatten().and_then(|value| usize::try_from(value).ok());
    value.ok_or(Problem::NotCounted(text))
}
