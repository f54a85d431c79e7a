//! JSON lines to raw graphs. The lines of a chunk are parsed in parallel.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gt_graph::Schema;
use rayon::prelude::*;
use serde_json::Value;

use super::records::{Keys, Records};
use crate::budget::{Budget, LONGEST_LINE, MOST_COLUMNS};
use crate::carried::{Carried, Cells};
use crate::columns as c;
use crate::error::{DataError, FileProblem, Result};
use crate::formats::ChunkLimits;
use crate::raw::{Bounds, RawGraphs};
use crate::reason::{Problem, Reason};
use crate::resolve::Wanted;
use crate::stored_schema::StoredSchema;

/// Number of lines that one thread parses in sequence.
const PIECE: usize = 128;
/// Approximate minimum of bytes that a node or an edge takes in the text.
const LEAST_BYTES: usize = 16;
/// Bytes of a carried value, also of a missing one.
const VALUE: u64 = size_of::<Value>() as u64;

/// Reads JSON lines.
pub(crate) struct Decoder {
    path: PathBuf,
    lines: BufReader<File>,
    budget: Arc<Budget>,
    limits: ChunkLimits,
    keys: Keys,
    /// Number of the last line read, from 1.
    line: usize,
    /// Records read so far.
    records: usize,
    /// Whether at least one record could be read.
    readable: bool,
    schema: Option<Schema>,
    /// Names of the carried keys, and whether a record has the key.
    carried: Vec<(String, bool)>,
    /// Positions of the carried keys.
    carried_at: HashMap<String, usize>,
    text: Vec<u8>,
}

impl Decoder {
    pub(crate) fn open(path: &Path, wanted: Wanted, limits: ChunkLimits) -> Result<Self> {
        let file = File::open(path).map_err(|e| DataError::io(path, e))?;
        Ok(Self {
            path: path.into(),
            budget: Budget::of(&file).map_err(|e| DataError::io(path, e))?,
            lines: BufReader::with_capacity(1 << 18, file),
            limits,
            carried: wanted.keep.columns.names().iter().map(|name| (name.clone(), false)).collect(),
            carried_at: wanted.keep.columns.names().iter().cloned().zip(0..).collect(),
            keys: Keys(wanted),
            line: 0,
            records: 0,
            readable: false,
            schema: None,
            text: Vec::new(),
        })
    }

    /// The schema in the first record.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    /// The budget of the file.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    /// Returns the next graphs.
    pub(crate) fn next(&mut self) -> Result<Option<RawGraphs>> {
        let lines = self.read_lines()?;
        let (text, keys) = (&self.text, &self.keys);
        let parse = |lines: &[(usize, Range<usize>)]| {
            let mut records = Records::new(keys.clone());
            lines.iter().for_each(|(line, range)| records.push(*line, &text[range.clone()]));
            records
        };
        let pieces: Vec<Records> = lines.par_chunks(PIECE).map(parse).collect();
        let Some(mut records) = pieces.into_iter().reduce(Records::append) else {
            return self.check_carried().map(|()| None);
        };
        self.take_schemas(&mut records)?;
        let carried = self.take_carried(&mut records)?;
        self.records += records.len();
        let stated = self.schema.as_ref().and_then(|schema| schema.target.as_ref());
        Ok(Some(RawGraphs { carried, ..records.into_raw(stated) }))
    }

    /// Reads the text of a chunk and returns its lines with their numbers.
    fn read_lines(&mut self) -> Result<Vec<(usize, Range<usize>)>> {
        self.text.clear();
        let mut lines = Vec::new();
        let enough = self.limits.content.saturating_mul(LEAST_BYTES);
        while lines.len() < self.limits.graphs && (lines.is_empty() || self.text.len() < enough) {
            let mut start = self.text.len();
            let mut line = self.lines.by_ref().take(LONGEST_LINE);
            let read = line.read_until(b'\n', &mut self.text).map_err(|e| DataError::io(&self.path, e))? as u64;
            if read == 0 {
                break;
            }
            self.line += 1;
            if read == LONGEST_LINE && self.text.last() != Some(&b'\n') {
                return Err(DataError::file(&self.path, FileProblem::LongLine { line: self.line }));
            }
            self.budget.charge_text(read).map_err(|problem| DataError::file(&self.path, problem))?;
            // Some editors write a byte order mark at the beginning of a file.
            if self.line == 1 && self.text.starts_with(b"\xef\xbb\xbf") {
                start = 3;
            }
            let length = self.text[start..].trim_ascii_end().len();
            if length > 0 {
                lines.push((self.line, start..start + length));
            }
        }
        Ok(lines)
    }

    /// Takes the values of the carried keys. Records without a key have null.
    fn take_carried(&mut self, records: &mut Records) -> Result<Vec<Carried>> {
        let problem = |problem| DataError::file(&self.path, problem);
        let values = std::mem::take(&mut records.carried);
        for (name, ..) in &values {
            let at = *self.carried_at.entry(name.clone()).or_insert_with(|| {
                self.carried.push((name.clone(), false));
                self.carried.len() - 1
            });
            self.carried[at].1 = true;
        }
        if self.carried.len() > MOST_COLUMNS {
            return Err(problem(FileProblem::TooManyColumns));
        }
        // A key of a single record becomes a value for every record.
        let count = records.len();
        self.budget.charge(VALUE * (count * self.carried.len()) as u64).map_err(problem)?;
        let mut columns: Vec<Vec<Value>> = self.carried.iter().map(|_| vec![Value::Null; count]).collect();
        for (name, record, value) in values {
            // If a key occurs twice in a record, the last value counts.
            columns[self.carried_at[&name]][record] = value;
        }
        let names = self.carried.iter().map(|(name, _)| name);
        Ok(names.zip(columns).map(|(name, values)| Carried::new(name, Cells::Json(values), Bounds::Single)).collect())
    }

    /// Checks at the end of the file that every key to carry occurs.
    fn check_carried(&self) -> Result<()> {
        let missing = self.carried.iter().find(|(_, seen)| !seen && self.records > 0);
        missing.map_or(Ok(()), |(name, _)| Err(DataError::file(&self.path, FileProblem::MissingKey(name.clone()))))
    }

    /// Takes the schema of the first record. Later records may repeat this schema.
    fn take_schemas(&mut self, records: &mut Records) -> Result<()> {
        let first = records.first_readable().filter(|_| !self.readable);
        self.readable |= first.is_some();
        for (record, stored) in std::mem::take(&mut records.schemas) {
            let schema = StoredSchema::parse(&stored.to_string(), &self.path)?.schema;
            if Some(record) == first {
                self.schema = Some(schema);
            } else if self.schema.as_ref() != Some(&schema) {
                let reason = Reason::column(c::SCHEMA, Problem::OtherSchema);
                return Err(DataError::graph(&self.path, self.records + record, reason));
            }
        }
        Ok(())
    }
}
