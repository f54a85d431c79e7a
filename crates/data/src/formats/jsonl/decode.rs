//! JSON lines to raw graphs. The lines of a chunk are parsed in parallel.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use gt_graph::Schema;
use rayon::prelude::*;
use serde_json::Value;

use super::records::{Keys, Records};
use crate::columns as c;
use crate::error::{DataError, Result};
use crate::extra::Extra;
use crate::formats::ChunkLimits;
use crate::raw::RawGraphs;
use crate::reason::{Problem, Reason};
use crate::resolve::Wanted;
use crate::stored_schema::StoredSchema;

/// Number of lines that one thread parses in sequence.
const PIECE: usize = 128;
/// Approximate minimum of bytes that a node or an edge takes in the text.
const LEAST_BYTES: usize = 16;

/// Reads JSON lines.
pub(crate) struct Decoder {
    path: PathBuf,
    lines: BufReader<File>,
    limits: ChunkLimits,
    keys: Keys,
    /// Number of the last line read, from 1.
    line: usize,
    /// Records read so far.
    records: usize,
    /// Whether at least one record could be read.
    readable: bool,
    schema: Option<Schema>,
    extras: Vec<(String, Vec<Value>)>,
    text: Vec<u8>,
}

impl Decoder {
    pub(crate) fn open(path: &Path, wanted: Wanted, limits: ChunkLimits) -> Result<Self> {
        let file = File::open(path).map_err(|e| DataError::io(path, e))?;
        Ok(Self {
            path: path.into(),
            lines: BufReader::with_capacity(1 << 18, file),
            limits,
            keys: Keys(wanted),
            line: 0,
            records: 0,
            readable: false,
            schema: None,
            extras: Vec::new(),
            text: Vec::new(),
        })
    }

    /// The schema in the first record.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
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
        let Some(mut records) = pieces.into_iter().reduce(Records::append) else { return Ok(None) };
        self.take_schemas(&mut records)?;
        for (name, record, value) in std::mem::take(&mut records.extras) {
            let known = self.extras.iter().position(|(known, _)| *known == name);
            let at = known.unwrap_or_else(|| {
                self.extras.push((name, Vec::new()));
                self.extras.len() - 1
            });
            let values = &mut self.extras[at].1;
            // If a key occurs twice in a record, the last value counts.
            values.resize(self.records + record, Value::Null);
            values.push(value);
        }
        self.records += records.len();
        let stated = self.schema.as_ref().and_then(|schema| schema.target.as_ref());
        Ok(Some(records.into_raw(stated)))
    }

    /// Reads the text of a chunk and returns its lines with their numbers.
    fn read_lines(&mut self) -> Result<Vec<(usize, Range<usize>)>> {
        self.text.clear();
        let mut lines = Vec::new();
        let enough = self.limits.content.saturating_mul(LEAST_BYTES);
        while lines.len() < self.limits.graphs && (lines.is_empty() || self.text.len() < enough) {
            let mut start = self.text.len();
            let read = self.lines.read_until(b'\n', &mut self.text).map_err(|e| DataError::io(&self.path, e))?;
            if read == 0 {
                break;
            }
            self.line += 1;
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

    /// Carried columns, which no model reads.
    pub(crate) fn extras(self) -> Vec<Extra> {
        let rows = self.records;
        let extra = |(name, mut values): (String, Vec<Value>)| {
            values.resize(rows, Value::Null);
            Extra::new(name, narrowest(values))
        };
        self.extras.into_iter().map(extra).collect()
    }
}

/// Returns the narrowest column type that holds all values. Values that fit no type are kept as
/// JSON text.
fn narrowest(values: Vec<Value>) -> ArrayRef {
    let all = |fits: fn(&Value) -> bool| values.iter().all(|v| v.is_null() || fits(v));
    if all(Value::is_string) {
        Arc::new(values.iter().map(Value::as_str).collect::<StringArray>())
    } else if all(Value::is_boolean) {
        Arc::new(values.iter().map(Value::as_bool).collect::<BooleanArray>())
    } else if all(Value::is_i64) {
        Arc::new(values.iter().map(Value::as_i64).collect::<Int64Array>())
    } else if all(Value::is_number) {
        Arc::new(values.iter().map(Value::as_f64).collect::<Float64Array>())
    } else {
        let text = |v: &Value| match v {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        Arc::new(values.iter().map(text).collect::<StringArray>())
    }
}
