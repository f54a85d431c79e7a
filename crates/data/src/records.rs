//! Named columns of equal length as a file: Parquet, CSV, TSV or JSON lines, by the file name.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, StringArray};
use gt_graph::CompleteFile;

use crate::atomic::commit;
use crate::carried::{Carried, Cells};
use crate::error::Result;
use crate::record_writer::{RecordWriter, RowFormat};

/// Named columns to write.
#[derive(Clone, Debug, Default)]
pub struct Records(Vec<(String, Cells)>);

impl Records {
    /// Adds a column of integers.
    pub fn integers(&mut self, name: &str, values: impl IntoIterator<Item = Option<usize>>) {
        self.push(name, Arc::new(values.into_iter().map(|value| value.map(|v| v as i64)).collect::<Int64Array>()));
    }

    /// Adds a column of numbers. Numbers that are not finite become null.
    pub fn reals(&mut self, name: &str, values: impl IntoIterator<Item = f32>) {
        let finite = |value: f32| value.is_finite().then_some(value);
        self.push(name, Arc::new(values.into_iter().map(finite).collect::<Float32Array>()));
    }

    /// Adds a column of text.
    pub fn texts<'a>(&mut self, name: &str, values: impl IntoIterator<Item = Option<&'a str>>) {
        self.push(name, Arc::new(values.into_iter().collect::<StringArray>()));
    }

    /// Adds the values that rows have in a carried column. A row is the number of its graph in the
    /// chunk and, for nodes and edges, its number within the graph.
    pub fn kept(&mut self, name: &str, column: &Carried, rows: &[(usize, Option<usize>)]) {
        self.0.push((name.into(), column.gather(rows)));
    }

    pub(crate) fn push(&mut self, name: &str, values: ArrayRef) {
        self.0.push((name.into(), Cells::Typed(values)));
    }

    /// Adds the columns of other records, which have as many rows.
    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.first().map_or(0, |(_, cells)| cells.len())
    }

    /// Whether a file of this name can be written.
    ///
    /// # Errors
    /// If the file name has no known format.
    pub fn check(path: &Path) -> Result<()> {
        RowFormat::of(path).map(drop)
    }

    /// Writes the columns. An incomplete file never appears under the path.
    ///
    /// # Errors
    /// If the file name has no known format, or the file cannot be written.
    ///
    /// ```
    /// use graph_transformer_data::Records;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("scores.csv");
    /// let mut records = Records::default();
    /// records.integers("graph", [Some(0), Some(1)]);
    /// records.reals("y", [0.5, f32::NAN]);
    /// records.texts("reason", [None, Some("no node")]);
    /// records.write(&path)?;
    /// assert_eq!(std::fs::read_to_string(&path)?, "graph,y,reason\n0,0.5,\n1,,no node\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(self, path: &Path) -> Result<()> {
        commit(self.prepare(path)?)
    }

    /// Writes the columns into a file that does not have its final name yet.
    pub(crate) fn prepare(self, path: &Path) -> Result<CompleteFile> {
        let mut writer = RecordWriter::create(path)?;
        writer.write(&self)?;
        writer.prepare()
    }

    /// Columns with their names.
    pub(crate) fn columns(&self) -> &[(String, Cells)] {
        &self.0
    }
}
