//! A table in memory, from CSV or Parquet, column by column.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_buffer::{NullBuffer, NullBufferBuilder};

use super::cell_reader::CellReader;
use crate::budget::Budget;
use crate::error::{DataError, FileProblem, Result};
use crate::formats::{extension, parquet};
use crate::raw::{Bounds, CellKind, Depth, Extent, FIRST_INEXACT, RawColumn, Values};
use crate::reason::Problem;

/// A named column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    cells: Cells,
    kind: CellKind,
    /// Whether some cell is neither a number nor a list of numbers.
    text: bool,
}

/// Words for a missing value in a column of numbers. They are an error there, since an empty cell
/// is a missing value.
const MISSING_WORDS: [&str; 9] = ["na", "n/a", "nan", "null", "none", "missing", "?", "-", "#n/a"];

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

    fn new(name: String, cells: Cells) -> Self {
        let mut column = Self { name, cells, kind: CellKind::Text, text: false };
        (column.kind, column.text) = column.find_kind();
        column
    }

    /// Appends the cells of further rows of a Parquet file.
    fn append(&mut self, more: Cells) {
        match (&mut self.cells, more) {
            (Cells::Integer(own), Cells::Integer(more)) => own.extend(more),
            (Cells::Real(own), Cells::Real(more)) => own.extend(more),
            (Cells::Text(own), Cells::Text(more)) => own.extend(more),
            (Cells::List { ends, indices }, Cells::List { ends: more, indices: values }) => {
                let before = indices.len();
                ends.extend(more.into_iter().map(|end| before + end));
                indices.extend(values);
            }
            // Only some rows of the column have numbers that `i64` does not hold.
            (own, more) => {
                let digits = |cells: Cells| match cells {
                    Cells::Integer(values) => values.into_iter().map(|value| Some(value?.to_string())).collect(),
                    Cells::Text(texts) => texts,
                    Cells::Raw { .. } | Cells::Real(_) | Cells::List { .. } => Vec::new(),
                };
                let mut texts = digits(std::mem::replace(own, Cells::Text(Vec::new())));
                texts.extend(digits(more));
                *self = Self::new(std::mem::take(&mut self.name), Cells::Text(texts));
            }
        }
    }

    /// Whether some cell is neither a number nor a list of numbers.
    pub(super) fn has_text(&self) -> bool {
        self.text
    }

    /// The narrowest kind that holds all cells. One real number makes a column real, even if other
    /// cells are texts: they are errors then.
    pub(super) fn kind(&self) -> CellKind {
        self.kind
    }

    /// The kind, and whether some cell is a text.
    fn find_kind(&self) -> (CellKind, bool) {
        let Cells::Raw { ends, .. } = &self.cells else {
            return match &self.cells {
                Cells::Integer(_) => (CellKind::Integer, false),
                Cells::Real(_) => (CellKind::Real, false),
                Cells::List { .. } => (CellKind::List, false),
                Cells::Text(_) | Cells::Raw { .. } => (CellKind::Text, true),
            };
        };
        let cells = || (0..ends.len()).filter_map(|row| self.raw(row));
        let is_integer = |cell: &str| cell.parse::<i64>().is_ok();
        let is_number = |cell: &str| cell.parse::<f64>().is_ok();
        // Whole numbers that no column of integers holds are names, such as hashes.
        let is_wide = |cell: &str| !is_integer(cell) && is_digits(cell);
        let is_fraction =
            |cell: &str| !is_integer(cell) && !is_wide(cell) && cell.parse::<f64>().is_ok_and(f64::is_finite);
        let is_missing = |cell: &str| MISSING_WORDS.iter().any(|word| cell.eq_ignore_ascii_case(word));
        if cells().all(is_integer) {
            (CellKind::Integer, false)
        } else if cells().all(is_number) && (cells().any(is_fraction) || !cells().any(is_wide)) {
            (CellKind::Real, false)
        } else if cells().all(|cell| cell.split(' ').all(is_integer)) {
            (CellKind::List, false)
        } else if cells().any(is_fraction) {
            (CellKind::Real, true)
        } else if cells().any(is_integer) && cells().all(|cell| is_integer(cell) || is_missing(cell)) {
            (CellKind::Integer, true)
        } else {
            (CellKind::Text, true)
        }
    }

    /// Whether every cell is a plainly written number, without leading zeros or a plus sign, and
    /// without more digits than a real number holds among real numbers. Codes may have those.
    pub(super) fn is_plain(&self) -> bool {
        let plain = |cell: &str| {
            let digits = cell.strip_prefix('-').unwrap_or(cell).as_bytes();
            let exact = self.kind == CellKind::Integer
                || !is_digits(cell)
                || cell.parse::<i64>().is_ok_and(|value| value.unsigned_abs() < FIRST_INEXACT);
            exact && !cell.starts_with('+') && !matches!(digits, [b'0', b'0'..=b'9', ..])
        };
        match &self.cells {
            Cells::Raw { ends, .. } => (0..ends.len()).filter_map(|row| self.raw(row)).all(plain),
            _ => true,
        }
    }

    /// The integer of a row; `None` if the cell is empty.
    pub(super) fn integer(&self, row: usize) -> Result<Option<i64>, Problem> {
        let wrong = |text: &str| Problem::NotANumber(text.into());
        match &self.cells {
            Cells::Raw { .. } => self.raw(row).map(|cell| cell.parse().map_err(|_| wrong(cell))).transpose(),
            Cells::Integer(values) => Ok(values[row]),
            Cells::Real(values) => {
                let integer = |value| whole(value).ok_or_else(|| wrong(&format!("{value:?}")));
                values[row].map(integer).transpose()
            }
            Cells::Text(_) | Cells::List { .. } => self.text(row).map(|text| Err(wrong(&text))).transpose(),
        }
    }

    /// The number of a row; `None` if the cell is empty or NaN.
    pub(super) fn real(&self, row: usize) -> Result<Option<f64>, Problem> {
        let value = match &self.cells {
            Cells::Raw { .. } => {
                let parse = |cell: &str| cell.parse::<f64>().map_err(|_| Problem::NotANumber(cell.into()));
                self.raw(row).map(parse).transpose()?
            }
            Cells::Integer(values) => values[row].map(|v| v as f64),
            Cells::Real(values) => values[row],
            Cells::Text(_) | Cells::List { .. } => {
                return self.text(row).map(|text| Err(Problem::NotANumber(text))).transpose();
            }
        };
        Ok(value.filter(|v| !v.is_nan()))
    }

    /// Gathers rows as they are written, or as texts if `role` is text. `graphs` bounds the rows of
    /// each graph.
    pub(super) fn gather(&self, rows: &[usize], graphs: Bounds, role: CellKind) -> RawColumn {
        let kind = if self.text || role == CellKind::Text { CellKind::Text } else { self.kind() };
        let mut ends = vec![0];
        let mut nulls = NullBufferBuilder::new(rows.len());
        let values = match kind {
            CellKind::Integer => {
                let cells = rows.iter().map(|&row| self.integer(row).ok().flatten());
                let values = cells.map(|value| {
                    nulls.append(value.is_some());
                    value.unwrap_or(0)
                });
                Values::Integers(values.collect())
            }
            CellKind::Real => {
                let values = rows.iter().map(|&row| {
                    let value = self.written(row);
                    nulls.append(value.is_some());
                    value.unwrap_or(0.0)
                });
                Values::Doubles(values.collect())
            }
            CellKind::List => {
                let mut indices: Vec<i64> = Vec::new();
                for &row in rows {
                    match &self.cells {
                        Cells::List { ends, indices: all } => {
                            let start = if row == 0 { 0 } else { ends[row - 1] };
                            indices.extend_from_slice(&all[start..ends[row]]);
                        }
                        _ => {
                            let parts = self.raw(row).unwrap_or_default().split_ascii_whitespace();
                            indices.extend(parts.filter_map(|part| part.parse::<i64>().ok()));
                        }
                    }
                    ends.push(indices.len());
                }
                Values::Integers(indices.into())
            }
            CellKind::Text => {
                let texts: Vec<Option<String>> = rows.iter().map(|&row| self.text(row)).collect();
                texts.iter().for_each(|text| nulls.append(text.is_some()));
                Values::Texts(texts.into_iter().collect())
            }
        };
        let list = kind == CellKind::List;
        RawColumn {
            name: self.name.clone(),
            extent: Extent::WholeFile,
            depth: Depth::Same(u8::from(!matches!(graphs, Bounds::Single)) + u8::from(list)),
            graphs,
            rows: if list { Bounds::Owned(ends) } else { Bounds::Single },
            values,
            nulls: nulls.finish().filter(|nulls| nulls.null_count() > 0),
            present: None,
        }
    }

    /// The number in a row as it is written, including NaN.
    fn written(&self, row: usize) -> Option<f64> {
        match &self.cells {
            Cells::Real(values) => values[row],
            Cells::Raw { .. } => self.raw(row).and_then(|cell| cell.parse().ok()),
            _ => self.real(row).ok().flatten(),
        }
    }

    /// Whether the number of a row may stand for several whole numbers.
    pub(super) fn is_inexact(&self, row: usize) -> bool {
        matches!(&self.cells, Cells::Real(values) if values[row].is_some_and(|value| value.abs() >= FIRST_INEXACT as f64))
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

/// Values of several columns, row by row: numbers, or text if a cell is not a number.
pub(super) fn interleave(columns: &[&Column], rows: &[usize]) -> (Values, Option<NullBuffer>) {
    let cells = || rows.iter().flat_map(|&row| columns.iter().map(move |column| (column, row)));
    let numeric = |column: &&Column| !column.has_text() && column.kind() != CellKind::List;
    if columns.iter().all(numeric) {
        let numbers: Vec<Option<f64>> = cells().map(|(column, row)| column.written(row)).collect();
        let nulls: NullBuffer = numbers.iter().map(Option::is_some).collect();
        let values = numbers.into_iter().map(|number| number.unwrap_or(0.0)).collect();
        return (Values::Doubles(values), Some(nulls).filter(|nulls| nulls.null_count() > 0));
    }
    let texts: StringArray = cells().map(|(column, row)| column.text(row)).collect();
    let nulls = texts.nulls().cloned();
    (Values::Texts(texts), nulls)
}

/// Whether a cell is a whole number, of any size.
fn is_digits(cell: &str) -> bool {
    let digits = cell.strip_prefix(['-', '+']).unwrap_or(cell);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Converts a number to an integer if it is one.
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < FIRST_INEXACT as f64).then_some(value as i64)
}

/// A table with named columns.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) path: PathBuf,
    pub(super) rows: usize,
    pub(super) columns: Vec<Column>,
    /// The budget of the file.
    pub(super) budget: Arc<Budget>,
    positions: HashMap<String, usize>,
}

/// Price of a number in a Parquet table, in bytes of the budget.
const CELL: u64 = 16;

impl Table {
    pub(super) fn read(path: &Path) -> Result<Self> {
        match &*extension(path) {
            "csv" => Self::read_csv(path, b','),
            "tsv" => Self::read_csv(path, b'\t'),
            "parquet" => Self::read_parquet(path),
            _ => Err(DataError::file(path, FileProblem::NotATable)),
        }
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|c| c.name.as_str())
    }

    fn read_csv(path: &Path, delimiter: u8) -> Result<Self> {
        let damaged = |e: csv::Error| match e.into_kind() {
            csv::ErrorKind::Io(e) => DataError::io(path, e),
            csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
                let line = pos.map_or(0, |p| p.line());
                DataError::file(path, FileProblem::CellCount { line, found: len, expected: expected_len })
            }
            csv::ErrorKind::Utf8 { pos, .. } => {
                DataError::file(path, FileProblem::NotUtf8(pos.map_or(0, |p| p.line())))
            }
            other => DataError::file(path, FileProblem::Csv(format!("{other:?}"))),
        };
        let file = File::open(path).map_err(|e| DataError::io(path, e))?;
        let budget = Budget::of(&file).map_err(|e| DataError::io(path, e))?;
        let cells = CellReader::new(file, delimiter, Arc::clone(&budget));
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(cells);
        let header = reader.headers().cloned();
        if let Some(problem) = reader.get_mut().take_problem() {
            return Err(DataError::file(path, problem));
        }
        let header = header.map_err(damaged)?;
        let mut columns: Vec<(String, String, Vec<usize>)> = header
            .iter()
            .map(|name| (name.trim().trim_start_matches('\u{feff}').to_owned(), String::new(), Vec::new()))
            .collect();
        let mut record = csv::StringRecord::new();
        let mut rows = 0;
        loop {
            let read = reader.read_record(&mut record);
            if let Some(problem) = reader.get_mut().take_problem() {
                return Err(DataError::file(path, problem));
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
        let columns = columns.into_iter().map(|(name, text, ends)| Column::new(name, Cells::Raw { text, ends }));
        Self::checked(path, rows, columns.collect(), budget)
    }

    fn read_parquet(path: &Path) -> Result<Self> {
        let opened = parquet::open(path)?;
        opened.charge(path, CELL, |_| true)?;
        let mut columns: Vec<Column> = Vec::new();
        let mut rows = 0;
        for batch in opened.batches(path, 1 << 16, |_| true)? {
            let batch = batch?;
            for (at, (field, array)) in batch.schema().fields().iter().zip(batch.columns()).enumerate() {
                let cells = cells(array).ok_or_else(|| {
                    let (column, found) = (field.name().clone(), array.data_type().to_string());
                    let expected = "numbers, text or lists of indices";
                    DataError::file(path, FileProblem::ColumnType { column, expected, found })
                })?;
                match columns.get_mut(at) {
                    Some(column) => column.append(cells),
                    None => columns.push(Column::new(field.name().clone(), cells)),
                }
            }
            rows += batch.num_rows();
        }
        if columns.is_empty() {
            columns = opened.names().into_iter().map(|name| Column::new(name, Cells::Integer(Vec::new()))).collect();
        }
        Self::checked(path, rows, columns, opened.budget())
    }

    fn checked(path: &Path, rows: usize, columns: Vec<Column>, budget: Arc<Budget>) -> Result<Self> {
        let mut positions = HashMap::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            if positions.insert(column.name.clone(), at).is_some() {
                return Err(DataError::file(path, FileProblem::SameName(column.name.clone())));
            }
        }
        Ok(Self { path: path.into(), rows, columns, budget, positions })
    }
}

/// Converts an Arrow column to cells.
fn cells(array: &ArrayRef) -> Option<Cells> {
    if let Some(words) = array.as_string_opt::<i32>() {
        return Some(Cells::Text(words.iter().map(|word| word.map(Into::into)).collect()));
    }
    if let Some(list) = array.as_list_opt::<i32>() {
        let Values::Integers(values) = parquet::numbers(list.values())? else { return None };
        let mut indices = Vec::new();
        let mut ends = Vec::with_capacity(list.len());
        for bounds in list.value_offsets().windows(2) {
            indices.extend_from_slice(&values[bounds[0] as usize..bounds[1] as usize]);
            ends.push(indices.len());
        }
        return Some(Cells::List { ends, indices });
    }
    let rows = 0..array.len();
    Some(match parquet::numbers(array)? {
        Values::Integers(values) => Cells::Integer(rows.map(|row| array.is_valid(row).then(|| values[row])).collect()),
        Values::Reals(values) => {
            Cells::Real(rows.map(|row| array.is_valid(row).then(|| f64::from(values[row]))).collect())
        }
        Values::Doubles(values) => Cells::Real(rows.map(|row| array.is_valid(row).then(|| values[row])).collect()),
        Values::Texts(texts) => Cells::Text(texts.iter().map(|text| text.map(Into::into)).collect()),
        Values::Written { .. } => return None,
    })
}
