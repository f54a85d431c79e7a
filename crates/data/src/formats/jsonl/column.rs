//! Numbers of one key of many records, nested up to two lists deep.

use std::fmt;

use arrow_buffer::NullBuffer;
use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};

use crate::raw::{Bounds, Depth, Extent, FIRST_INEXACT, RawColumn, Values, WideIntegers, Words};

/// The values of one key in consecutive records.
#[derive(Debug)]
pub(super) struct JsonColumn {
    /// Start of each record among the rows.
    records: Vec<usize>,
    /// Start of each row among the numbers.
    rows: Vec<usize>,
    /// All numbers; null and texts are NaN.
    numbers: Vec<f64>,
    words: Words,
    wide: WideIntegers,
    /// Positions in a row at which at least one number was written as a real number.
    real: Vec<bool>,
    /// Number of nested lists around the numbers of each record.
    depths: Vec<u8>,
    present: Vec<bool>,
    /// The key in the current record: whether it occurs, its number of nested lists, and whether
    /// its value is null.
    seen: bool,
    depth: u8,
    null: bool,
}

impl Default for JsonColumn {
    fn default() -> Self {
        Self {
            records: vec![0],
            rows: vec![0],
            numbers: Vec::new(),
            words: Words::default(),
            wide: WideIntegers::default(),
            real: Vec::new(),
            depths: Vec::new(),
            present: Vec::new(),
            seen: false,
            depth: 0,
            null: false,
        }
    }
}

impl JsonColumn {
    /// Whether the key occurs in the current record.
    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// Whether any record has the key.
    pub(super) fn any_present(&self) -> bool {
        self.present.contains(&true)
    }

    /// Ends a record. A key whose value is null counts as missing. `keep` is false for a broken
    /// record.
    pub(super) fn end_record(&mut self, keep: bool) {
        let present = self.seen && !self.null && keep;
        if !present {
            self.rows.truncate(self.records[self.records.len() - 1] + 1);
            self.numbers.truncate(self.rows[self.rows.len() - 1]);
            self.words.truncate(self.numbers.len());
            self.wide.truncate(self.numbers.len());
        }
        self.records.push(self.rows.len() - 1);
        self.depths.push(self.depth);
        self.present.push(present);
        (self.seen, self.depth, self.null) = (false, 0, false);
    }

    /// Appends the records of the next piece of the file.
    pub(super) fn append(&mut self, other: Self) {
        let (rows, numbers) = (self.rows.len() - 1, self.numbers.len());
        self.records.extend(other.records[1..].iter().map(|end| end + rows));
        self.rows.extend(other.rows[1..].iter().map(|end| end + numbers));
        self.numbers.extend(other.numbers);
        self.words.append(numbers, other.words);
        self.wide.append(numbers, other.wide);
        self.real.resize(self.real.len().max(other.real.len()), false);
        self.real.iter_mut().zip(other.real).for_each(|(own, real)| *own |= real);
        self.depths.extend(other.depths);
        self.present.extend(other.present);
    }

    pub(super) fn into_raw(self, name: &str) -> RawColumn {
        RawColumn {
            name: name.into(),
            extent: Extent::PerGraph,
            graphs: Bounds::Owned(self.records),
            rows: Bounds::Owned(self.rows),
            values: Values::Written { numbers: self.numbers, real: self.real, words: self.words, wide: self.wide },
            nulls: None,
            present: Some(NullBuffer::from(self.present)),
            depth: Depth::PerGraph(self.depths),
        }
    }

    fn push(&mut self, number: f64, position: usize, real: bool) {
        if real {
            if self.real.len() <= position {
                self.real.resize(position + 1, false);
            }
            self.real[position] = true;
        }
        self.numbers.push(number);
    }
}

/// Reads a number or a text, a list of them (each is a row), or a list of rows.
impl<'de> DeserializeSeed<'de> for &mut JsonColumn {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        self.seen = true;
        source.deserialize_any(Nested { column: self, depth: 0, position: 0 })
    }
}

/// A value inside `depth` lists, at a position in the innermost list.
struct Nested<'a> {
    column: &'a mut JsonColumn,
    depth: u8,
    position: usize,
}

impl Nested<'_> {
    fn number<E: de::Error>(self, number: f64, real: bool) -> Result<(), E> {
        let Self { column, depth, position } = self;
        column.depth = column.depth.max(depth);
        // In a single list each number is a row. In a list of lists, positions in the rows count.
        column.push(number, if depth == 2 { position } else { 0 }, real);
        if depth < 2 {
            column.rows.push(column.numbers.len());
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Nested<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.depth < 2 {
            "a number, a text, null, or a list of them"
        } else {
            "a number, a text or null"
        })
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        if value >= FIRST_INEXACT {
            self.column.wide.push(self.column.numbers.len(), value.into());
        }
        self.number(value as f64, false)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        if value.unsigned_abs() >= FIRST_INEXACT {
            self.column.wide.push(self.column.numbers.len(), value.into());
        }
        self.number(value as f64, false)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.number(f64::from(u8::from(value)), false)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.number(value, true)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        let position = if self.depth == 2 { self.position } else { 0 };
        self.column.words.push(self.column.numbers.len(), position, value);
        self.number(f64::NAN, false)
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.column.null |= self.depth == 0;
        self.number(f64::NAN, false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.depth == 2 {
            return Err(de::Error::custom("lists are nested too deeply"));
        }
        let (column, depth) = (self.column, self.depth + 1);
        column.depth = column.depth.max(depth);
        let mut position = 0;
        while list.next_element_seed(Element(Nested { column: &mut *column, depth, position }))?.is_some() {
            position += 1;
        }
        if depth == 2 {
            column.rows.push(column.numbers.len());
        }
        Ok(())
    }
}

/// An element of a list.
struct Element<'a>(Nested<'a>);

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self.0)
    }
}
