//! Named columns of equal length as a file: Parquet, CSV, TSV or JSON lines, by its name.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema as ArrowSchema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::atomic::Prepared;
use crate::columns as c;
use crate::error::{DataError, Result};
use crate::format::extension;
use crate::scalar::Scalar;

/// Columns to be written.
#[derive(Clone, Debug, Default)]
pub struct Records(Vec<(String, ArrayRef)>);

impl Records {
    /// Adds a column of integers.
    pub fn integers(&mut self, name: &str, values: impl IntoIterator<Item = Option<usize>>) {
        self.push(name, Arc::new(values.into_iter().map(|value| value.map(|v| v as i64)).collect::<Int64Array>()));
    }

    /// Adds a column of numbers; those that are not finite become null.
    pub fn reals(&mut self, name: &str, values: impl IntoIterator<Item = f32>) {
        let finite = |value: f32| value.is_finite().then_some(value);
        self.push(name, Arc::new(values.into_iter().map(finite).collect::<Float32Array>()));
    }

    /// Adds a column of text.
    pub fn texts<'a>(&mut self, name: &str, values: impl IntoIterator<Item = Option<&'a str>>) {
        self.push(name, Arc::new(values.into_iter().collect::<StringArray>()));
    }

    pub(crate) fn push(&mut self, name: &str, values: ArrayRef) {
        self.0.push((name.into(), values));
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.first().map_or(0, |(_, array)| array.len())
    }

    /// Whether a file of this name can be written.
    ///
    /// # Errors
    /// If the name says no format that is known.
    pub fn check(path: &Path) -> Result<()> {
        match &*extension(path) {
            "parquet" | "csv" | "tsv" | "jsonl" | "ndjson" => Ok(()),
            _ => Err(DataError::file(path, "unknown format: expected .parquet, .csv, .tsv or .jsonl")),
        }
    }

    /// Writes the columns. The file is complete or not there.
    ///
    /// # Errors
    /// If the name says no format that is known, or the file cannot be written.
    pub fn write(self, path: &Path) -> Result<()> {
        Self::check(path)?;
        self.prepare(path, None)?.commit()
    }

    /// Writes the columns into a file that does not bear its name yet, with a schema in the metadata where the format has any.
    pub(crate) fn prepare(self, path: &Path, schema: Option<&str>) -> Result<Prepared> {
        match &*extension(path) {
            "parquet" => self.write_parquet(path, schema),
            "jsonl" | "ndjson" => self.write_json(path),
            "tsv" => self.write_csv(path, b'\t'),
            _ => self.write_csv(path, b','),
        }
    }

    fn write_parquet(self, path: &Path, schema: Option<&str>) -> Result<Prepared> {
        let fields: Vec<Field> =
            self.0.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
        let metadata = schema.map(|text| vec![KeyValue::new(c::SCHEMA_KEY.into(), text.to_owned())]);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("level 1 exists")))
            .set_key_value_metadata(metadata)
            .build();
        Prepared::write(path, |out| {
            let failed = |e: parquet::errors::ParquetError| DataError::file(path, e.to_string());
            let arrow = Arc::new(ArrowSchema::new(fields));
            let arrays = self.0.into_iter().map(|(_, array)| array).collect();
            let batch =
                RecordBatch::try_new(arrow.clone(), arrays).map_err(|e| DataError::file(path, e.to_string()))?;
            let mut writer = ArrowWriter::try_new(out, arrow, Some(properties)).map_err(failed)?;
            writer.write(&batch).map_err(failed)?;
            writer.close().map(|_| ()).map_err(failed)
        })
    }

    fn write_csv(self, path: &Path, delimiter: u8) -> Result<Prepared> {
        Prepared::write(path, |out| {
            let failed = |e: csv::Error| DataError::file(path, e.to_string());
            let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(out);
            writer.write_record(self.0.iter().map(|(name, _)| name)).map_err(failed)?;
            for row in 0..self.rows() {
                for (_, array) in &self.0 {
                    writer.write_field(cell_text(array, row)).map_err(failed)?;
                }
                writer.write_record(None::<&[u8]>).map_err(failed)?;
            }
            writer.flush().map_err(|e| DataError::io(path, e))
        })
    }

    fn write_json(self, path: &Path) -> Result<Prepared> {
        let keys: Vec<String> =
            self.0.iter().map(|(name, _)| serde_json::Value::from(name.as_str()).to_string()).collect();
        Prepared::write(path, |out| {
            let mut line = String::new();
            for row in 0..self.rows() {
                line.clear();
                for ((_, array), key) in self.0.iter().zip(&keys) {
                    line.push(if line.is_empty() { '{' } else { ',' });
                    line.push_str(key);
                    line.push(':');
                    line.push_str(&Scalar::at(array, row).map_or("null".into(), |value| value.to_json()));
                }
                line.push_str("}\n");
                out.write_all(line.as_bytes()).map_err(|e| DataError::io(path, e))?;
            }
            Ok(())
        })
    }
}

fn cell_text(array: &ArrayRef, row: usize) -> String {
    if let Some(list) = array.as_list_opt::<i32>() {
        let values = list.value(row);
        let words: Vec<String> =
            (0..values.len()).filter_map(|at| Scalar::at(&values, at)).map(|v| v.to_text()).collect();
        return words.join(" ");
    }
    Scalar::at(array, row).map(|value| value.to_text()).unwrap_or_default()
}
