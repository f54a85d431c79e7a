//! A table in memory, from CSV or Parquet, column by column.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;

use super::quotes::Quotes;
use crate::error::{DataError, Result};
use crate::format::extension;
use crate::parquet::{self, Leaf, Numbers};

/// What the cells of a column look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Real,
    List,
    Text,
}

/// A named column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    cells: Cells,
}

#[derive(Debug)]
enum Cells {
    /// CSV: the text of all cells, and where each ends.
    Raw {
        text: String,
        ends: Vec<usize>,
    },
    Integer(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
    List {
        ends: Vec<usize>,
        indices: Vec<i64>,
    },
}

impl Column {
    fn raw(&self, row: usize) -> Option<&str> {
        match &self.cells {
            Cells::Raw { text, ends } => {
                let start = if row == 0 { 0 } else { ends[row - 1] };
                Some(text[start..ends[row]].trim()).filter(|cell| !cell.is_empty())
            }
            _ => None,
        }
    }

    /// The narrowest kind that fits all cells.
    pub(super) fn kind(&self) -> Kind {
        match &self.cells {
            Cells::Integer(_) => Kind::Integer,
            Cells::Real(_) => Kind::Real,
            Cells::Text(_) => Kind::Text,
            Cells::List { .. } => Kind::List,
            Cells::Raw { ends, .. } => {
                let all = |fits: fn(&str) -> bool| (0..ends.len()).filter_map(|row| self.raw(row)).all(fits);
                if all(|cell| cell.parse::<i64>().is_ok()) {
                    Kind::Integer
                } else if all(|cell| cell.parse::<f64>().is_ok()) {
                    Kind::Real
                } else if all(|cell| cell.split(' ').all(|part| part.parse::<i64>().is_ok())) {
                    Kind::List
                } else {
                    Kind::Text
                }
            }
        }
    }

    /// Whether every cell is written as a number is: without leading zeros or a plus, which a code may have.
    pub(super) fn is_plain(&self) -> bool {
        let plain = |cell: &str| {
            let digits = cell.strip_prefix('-').unwrap_or(cell).as_bytes();
            !cell.starts_with('+') && !matches!(digits, [b'0', b'0'..=b'9', ..])
        };
        match &self.cells {
            Cells::Raw { ends, .. } => (0..ends.len()).filter_map(|row| self.raw(row)).all(plain),
            _ => true,
        }
    }

    /// The integer of a row; `None` if the cell is empty.
    pub(super) fn integer(&self, row: usize) -> Result<Option<i64>, String> {
        match &self.cells {
            Cells::Raw { .. } => match self.raw(row) {
                None => Ok(None),
                Some(cell) => cell.parse().map(Some).map_err(|_| format!("`{cell}` is not an integer")),
            },
            Cells::Integer(values) => Ok(values[row]),
            Cells::Real(values) => {
                let integer = |value| whole(value).ok_or_else(|| format!("`{value}` is not an integer"));
                values[row].map(integer).transpose()
            }
            Cells::Text(values) => match &values[row] {
                Some(text) => Err(format!("`{text}` is text, not an integer")),
                None => Ok(None),
            },
            Cells::List { .. } => Err("it should hold integers".into()),
        }
    }

    /// The category or class of a row: an integer, with a decimal point too, as some programs write columns with gaps.
    pub(super) fn category(&self, row: usize) -> Result<Option<i64>, String> {
        let number = || self.raw(row).and_then(|cell| cell.parse().ok()).and_then(whole).map(Some);
        self.integer(row).or_else(|complaint| number().ok_or(complaint))
    }

    /// The number of a row; `None` if the cell is empty or NaN.
    pub(super) fn real(&self, row: usize) -> Result<Option<f64>, String> {
        let value = match &self.cells {
            Cells::Raw { .. } => match self.raw(row) {
                None => None,
                Some(cell) => Some(cell.parse::<f64>().map_err(|_| format!("`{cell}` is not a number"))?),
            },
            Cells::Integer(values) => values[row].map(|v| v as f64),
            Cells::Real(values) => values[row],
            Cells::Text(_) | Cells::List { .. } => return Err("it should hold numbers".into()),
        };
        Ok(value.filter(|v| !v.is_nan()))
    }

    /// Appends the indices of a row.
    pub(super) fn list(&self, row: usize, out: &mut Vec<i64>) -> Result<(), String> {
        match &self.cells {
            Cells::Raw { .. } => {
                for part in self.raw(row).unwrap_or_default().split_ascii_whitespace() {
                    out.push(part.parse().map_err(|_| format!("`{part}` is not an index"))?);
                }
            }
            Cells::List { ends, indices } => {
                let start = if row == 0 { 0 } else { ends[row - 1] };
                out.extend_from_slice(&indices[start..ends[row]]);
            }
            Cells::Integer(values) => out.extend(values[row]),
            Cells::Real(_) | Cells::Text(_) => return Err("it should hold lists of indices".into()),
        }
        Ok(())
    }

    /// The text of a row; `None` if the cell is empty.
    pub(super) fn text(&self, row: usize) -> Option<String> {
        match &self.cells {
            Cells::Raw { .. } => self.raw(row).map(Into::into),
            Cells::Integer(values) => values[row].map(|v| v.to_string()),
            Cells::Real(values) => values[row].map(|v| format!("{v:?}")),
            Cells::Text(values) => values[row].clone(),
            Cells::List { .. } => None,
        }
    }
}

/// The integer that a number is.
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
}

/// A file of rows.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) path: PathBuf,
    pub(super) rows: usize,
    pub(super) columns: Vec<Column>,
    /// The schema text in a Parquet file's metadata.
    pub(super) schema: Option<String>,
}

impl Table {
    pub(super) fn read(path: &Path) -> Result<Self> {
        match &*extension(path) {
            "csv" => Self::read_csv(path, b','),
            "tsv" => Self::read_csv(path, b'\t'),
            "parquet" => Self::read_parquet(path),
            _ => Err(DataError::file(path, "a table should be a .csv, .tsv or .parquet file")),
        }
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|c| c.name.as_str())
    }

    fn read_csv(path: &Path, delimiter: u8) -> Result<Self> {
        let damaged = |e: csv::Error| match e.into_kind() {
            csv::ErrorKind::Io(e) => DataError::io(path, e),
            csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
                let line = pos.map_or(0, |p| p.line());
                DataError::file(path, format!("line {line} has {len} cells, the header has {expected_len}"))
            }
            csv::ErrorKind::Utf8 { pos, .. } => {
                DataError::file(path, format!("line {} is not UTF-8 text", pos.map_or(0, |p| p.line())))
            }
            other => DataError::file(path, format!("{other:?}")),
        };
        let file = File::open(path).map_err(|e| DataError::io(path, e))?;
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(Quotes::new(file, delimiter));
        let header = reader.headers().map_err(damaged)?;
        let mut columns: Vec<(String, String, Vec<usize>)> = header
            .iter()
            .map(|name| (name.trim().trim_start_matches('\u{feff}').to_owned(), String::new(), Vec::new()))
            .collect();
        let mut record = csv::StringRecord::new();
        let mut rows = 0;
        loop {
            let read = reader.read_record(&mut record);
            // Everything after it would be one cell.
            if let Some(line) = reader.get_ref().unclosed() {
                return Err(DataError::file(
                    path,
                    format!("line {line}: a cell begins with a quote that is never closed"),
                ));
            }
            if !read.map_err(damaged)? {
                break;
            }
            for ((_, text, ends), cell) in columns.iter_mut().zip(record.iter()) {
                text.push_str(cell);
                ends.push(text.len());
            }
            rows += 1;
        }
        let columns = columns.into_iter().map(|(name, text, ends)| Column { name, cells: Cells::Raw { text, ends } });
        Self::checked(path, rows, columns.collect(), None)
    }

    fn read_parquet(path: &Path) -> Result<Self> {
        let opened = parquet::open(path)?;
        let mut columns: Vec<Column> = Vec::new();
        let mut rows = 0;
        for batch in opened.batches(path, None, 1 << 16)? {
            let batch = batch?;
            for (at, (field, array)) in batch.schema().fields().iter().zip(batch.columns()).enumerate() {
                let cells = cells(array).ok_or_else(|| {
                    DataError::file(
                        path,
                        format!("column `{}` has type {}, which no table role takes", field.name(), array.data_type()),
                    )
                })?;
                match columns.get_mut(at) {
                    Some(column) => append(&mut column.cells, cells),
                    None => columns.push(Column { name: field.name().clone(), cells }),
                }
            }
            rows += batch.num_rows();
        }
        if columns.is_empty() {
            columns =
                opened.names().into_iter().map(|name| Column { name, cells: Cells::Integer(Vec::new()) }).collect();
        }
        Self::checked(path, rows, columns, opened.key(crate::columns::SCHEMA_KEY).map(Into::into))
    }

    fn checked(path: &Path, rows: usize, columns: Vec<Column>, schema: Option<String>) -> Result<Self> {
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|c| c.name == column.name) {
                return Err(DataError::file(path, format!("two columns are named `{}`", column.name)));
            }
        }
        Ok(Self { path: path.into(), rows, columns, schema })
    }
}

/// Cells of an Arrow column.
fn cells(array: &arrow_array::ArrayRef) -> Option<Cells> {
    if let Some(words) = parquet::text(array) {
        return Some(Cells::Text(words.iter().map(|word| word.map(Into::into)).collect()));
    }
    if let Some(list) = array.as_list_opt::<i32>() {
        let leaf = Leaf::new(list.values())?;
        let Numbers::Integer(values) = &leaf.values else { return None };
        let mut indices = Vec::new();
        let mut ends = Vec::with_capacity(list.len());
        for bounds in list.value_offsets().windows(2) {
            indices.extend_from_slice(&values[bounds[0] as usize..bounds[1] as usize]);
            ends.push(indices.len());
        }
        return Some(Cells::List { ends, indices });
    }
    // Not through `Leaf`, which rounds to the precision of features.
    if let Some(doubles) = array.as_primitive_opt::<Float64Type>() {
        return Some(Cells::Real(doubles.iter().map(|v| v.filter(|v| !v.is_nan())).collect()));
    }
    let leaf = Leaf::new(array)?;
    let rows = 0..array.len();
    Some(match &leaf.values {
        Numbers::Integer(values) => Cells::Integer(rows.map(|row| (!leaf.is_null(row)).then(|| values[row])).collect()),
        Numbers::Real(_) => Cells::Real(rows.map(|row| Some(leaf.number(row)).filter(|v| !v.is_nan())).collect()),
    })
}

/// Appends cells of the same column.
fn append(own: &mut Cells, more: Cells) {
    match (own, more) {
        (Cells::Integer(own), Cells::Integer(more)) => own.extend(more),
        (Cells::Real(own), Cells::Real(more)) => own.extend(more),
        (Cells::Text(own), Cells::Text(more)) => own.extend(more),
        (Cells::List { ends, indices }, Cells::List { ends: more, indices: values }) => {
            let before = indices.len();
            ends.extend(more.into_iter().map(|end| before + end));
            indices.extend(values);
        }
        _ => unreachable!("all batches of a file have one schema"),
    }
}
