//! Writes rows piece by piece as Parquet, CSV, TSV or JSON lines, by the name of the file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{Field, Schema as ArrowSchema};
use gt_graph::{CompleteFile, PartialFile};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::atomic::commit;
use crate::carried::Cells;
use crate::error::{DataError, FileProblem, Result};
use crate::formats::extension;
use crate::formats::parquet::checksums::{FileWriter, GroupEncoder, OpenGroup, open};
use crate::records::Records;

/// Rows of a Parquet row group. A group is kept in memory until it is complete.
const GROUP_ROWS: usize = 1 << 16;

/// Writes rows piece by piece into a file that appears when it is complete. A writer that is
/// dropped early leaves no file.
///
/// ```
/// use graph_transformer_data::{RecordWriter, Records};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("scores.jsonl");
/// let mut writer = RecordWriter::create(&path)?;
/// for graph in 0..2 {
///     let mut records = Records::default();
///     records.integers("graph", [Some(graph)]);
///     writer.write(&records)?;
/// }
/// assert!(!path.exists());
/// assert_eq!(writer.commit()?, 2);
/// assert_eq!(std::fs::read_to_string(&path)?, "{\"graph\":0}\n{\"graph\":1}\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordWriter {
    path: PathBuf,
    format: RowFormat,
    partial: PartialFile,
    /// `None` until the first rows, which name the columns.
    sink: Option<Sink>,
    columns: Vec<String>,
    rows: u64,
}

/// A way to store rows in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFormat {
    Parquet,
    Csv { delimiter: u8 },
    JsonLines,
}

impl RowFormat {
    /// The format of a path, by its extension. A device or pipe whose name says nothing takes CSV.
    ///
    /// # Errors
    /// If the name has no known format.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        match &*extension(path) {
            "parquet" => Ok(Self::Parquet),
            "csv" => Ok(Self::Csv { delimiter: b',' }),
            "tsv" => Ok(Self::Csv { delimiter: b'\t' }),
            "jsonl" | "ndjson" => Ok(Self::JsonLines),
            _ if gt_graph::is_stream(path) => Ok(Self::Csv { delimiter: b',' }),
            // Standard output as a file has no extension either, but another problem.
            _ => match gt_graph::final_path(path) {
                Err(error) => Err(DataError::io(path, error)),
                Ok(_) => Err(DataError::file(path, FileProblem::UnknownRowFormat)),
            },
        }
    }
}

/// A file under construction.
enum Sink {
    Parquet(Box<ParquetSink>),
    Csv(Box<csv::Writer<BufWriter<File>>>),
    JsonLines(BufWriter<File>),
}

impl RecordWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// If the file name has no known format, or no file can be created in its folder.
    pub fn create(path: &Path) -> Result<Self> {
        let format = RowFormat::of(path)?;
        let partial = PartialFile::create(path).map_err(|e| DataError::io(path, e))?;
        Ok(Self { path: path.into(), format, partial, sink: None, columns: Vec::new(), rows: 0 })
    }

    /// Appends rows. Every call must have the same columns.
    ///
    /// # Errors
    /// If the columns differ from those of the first call, or the disk is full.
    pub fn write(&mut self, records: &Records) -> Result<()> {
        let path = self.path.as_path();
        let names: Vec<String> = records.columns().iter().map(|(name, _)| name.clone()).collect();
        let sink = match &mut self.sink {
            Some(_) if self.columns != names => return Err(DataError::file(path, FileProblem::OtherRecords(names))),
            Some(sink) => sink,
            None => {
                self.columns = names;
                let file = self.partial.handle().map_err(|e| DataError::io(path, e))?;
                self.sink.insert(Sink::open(path, self.format, file, records)?)
            }
        };
        sink.write(path, records)?;
        self.rows += records.rows() as u64;
        Ok(())
    }

    /// Gives the file its final name and returns the number of rows.
    ///
    /// # Errors
    /// If the disk is full or the operating system refuses.
    pub fn commit(self) -> Result<u64> {
        let rows = self.rows;
        commit(self.prepare()?)?;
        Ok(rows)
    }

    /// Completes the file, which does not have its final name yet.
    pub(crate) fn prepare(mut self) -> Result<CompleteFile> {
        if self.sink.is_none() {
            self.write(&Records::default())?;
        }
        if let Some(sink) = self.sink {
            sink.close(&self.path)?;
        }
        self.partial.complete().map_err(|e| DataError::io(&self.path, e))
    }
}

impl Sink {
    fn open(path: &Path, format: RowFormat, file: File, records: &Records) -> Result<Self> {
        let out = BufWriter::with_capacity(1 << 18, file);
        let unwritable = records.columns().iter().find_map(|(name, cells)| Some((name, cells.type_without_text()?)));
        if let Some((column, kind)) = unwritable.filter(|_| format != RowFormat::Parquet) {
            return Err(DataError::file(path, FileProblem::NoTextForm { column: column.clone(), kind }));
        }
        match format {
            RowFormat::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("level 1 exists")))
                    .build();
                let sink = ParquetSink::open(out, arrow_schema(records), properties);
                Ok(Sink::Parquet(Box::new(sink.map_err(|e| parquet_error(path, e))?)))
            }
            RowFormat::JsonLines => Ok(Sink::JsonLines(out)),
            RowFormat::Csv { delimiter } => {
                let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(out);
                let names = records.columns().iter().map(|(name, _)| name);
                writer.write_record(names).map_err(|e| csv_error(path, e))?;
                Ok(Sink::Csv(Box::new(writer)))
            }
        }
    }

    fn write(&mut self, path: &Path, records: &Records) -> Result<()> {
        match self {
            Sink::Parquet(sink) => sink.write(records).map_err(|e| parquet_error(path, e)),
            Sink::Csv(writer) => {
                for row in 0..records.rows() {
                    for (_, cells) in records.columns() {
                        writer.write_field(cells.text(row)).map_err(|e| csv_error(path, e))?;
                    }
                    writer.write_record(None::<&[u8]>).map_err(|e| csv_error(path, e))?;
                }
                Ok(())
            }
            Sink::JsonLines(out) => write_json(out, records).map_err(|e| DataError::io(path, e)),
        }
    }

    fn close(self, path: &Path) -> Result<()> {
        match self {
            Sink::Parquet(sink) => {
                let mut out = sink.close().map_err(|e| parquet_error(path, e))?;
                out.flush().map_err(|e| DataError::io(path, e))
            }
            Sink::Csv(mut writer) => writer.flush().map_err(|e| DataError::io(path, e)),
            Sink::JsonLines(mut out) => out.flush().map_err(|e| DataError::io(path, e)),
        }
    }
}

/// A Parquet file under construction, with the row group that is not complete yet.
struct ParquetSink {
    file: FileWriter<BufWriter<File>>,
    encoder: GroupEncoder,
    schema: Arc<ArrowSchema>,
    group: Option<OpenGroup>,
    /// Complete row groups.
    groups: usize,
}

impl ParquetSink {
    fn open(
        out: BufWriter<File>,
        schema: Arc<ArrowSchema>,
        properties: WriterProperties,
    ) -> Result<Self, ParquetError> {
        let (file, encoder) = open(out, schema.clone(), properties)?;
        Ok(Self { file, encoder, schema, group: None, groups: 0 })
    }

    fn write(&mut self, records: &Records) -> Result<(), ParquetError> {
        let columns: Vec<ArrayRef> = records.columns().iter().map(|(_, cells)| cells.to_array()).collect();
        let same = |(field, array): (&Arc<Field>, &ArrayRef)| field.data_type() == array.data_type();
        if !self.schema.fields().iter().zip(&columns).all(same) {
            return Err(ParquetError::General("a column changes its type".into()));
        }
        let (rows, mut from) = (records.rows(), 0);
        while from < rows {
            let mut group = match self.group.take() {
                Some(group) => group,
                None => self.encoder.begin(self.groups)?,
            };
            let count = (GROUP_ROWS - group.rows()).min(rows - from);
            let arrays: Vec<ArrayRef> = columns.iter().map(|array| array.slice(from, count)).collect();
            group.write(self.schema.fields().iter().map(|field| field.as_ref()).zip(&arrays))?;
            from += count;
            let complete = group.rows() == GROUP_ROWS;
            self.group = Some(group);
            if complete {
                self.end_group()?;
            }
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        let Some(group) = self.group.take() else { return Ok(()) };
        self.groups += 1;
        self.file.append(self.encoder.finish(group)?)
    }

    fn close(mut self) -> Result<BufWriter<File>, ParquetError> {
        self.end_group()?;
        self.file.close()
    }
}

fn arrow_schema(records: &Records) -> Arc<ArrowSchema> {
    let field = |(name, cells): &(String, Cells)| Field::new(name, cells.data_type(), true);
    Arc::new(ArrowSchema::new(records.columns().iter().map(field).collect::<Vec<_>>()))
}

fn parquet_error(path: &Path, error: ParquetError) -> DataError {
    DataError::file(path, FileProblem::Encoder(error.to_string()))
}

fn csv_error(path: &Path, error: csv::Error) -> DataError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => DataError::io(path, error),
        other => DataError::file(path, FileProblem::Csv(format!("{other:?}"))),
    }
}

fn write_json(out: &mut impl Write, records: &Records) -> std::io::Result<()> {
    let keys = records.columns().iter().map(|(name, _)| serde_json::Value::from(name.as_str()).to_string());
    let keys: Vec<String> = keys.collect();
    let mut line = String::new();
    for row in 0..records.rows() {
        line.clear();
        for ((_, cells), key) in records.columns().iter().zip(&keys) {
            line.push(if line.is_empty() { '{' } else { ',' });
            line.push_str(key);
            line.push(':');
            line.push_str(&cells.json(row));
        }
        line.push_str("}\n");
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}
