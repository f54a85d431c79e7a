//! Numbers of a JSON value, nested up to two lists deep, appended to reusable buffers.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};

/// Rows of numbers as they stand in one record.
#[derive(Debug, Default)]
pub(super) struct JsonRows {
    /// All numbers; NaN for null.
    pub(super) values: Vec<f64>,
    /// Numbers in each row.
    pub(super) lengths: Vec<usize>,
    /// Columns in which some number was written as a real one.
    pub(super) real: Vec<bool>,
    /// Position of the first null.
    pub(super) first_null: Option<usize>,
    /// How many lists are around a number: 0, 1 or 2.
    pub(super) depth: u8,
    /// Whether the record has this key at all.
    pub(super) present: bool,
}

impl JsonRows {
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.lengths.clear();
        self.real.clear();
        self.first_null = None;
        self.depth = 0;
        self.present = false;
    }

    /// The common number of values per row.
    ///
    /// # Errors
    /// The first row that has another one.
    pub(super) fn width(&self) -> Result<usize, String> {
        let width = self.first_width();
        match self.lengths.iter().position(|&l| l != width) {
            Some(row) => Err(format!("row {row} has {} values, row 0 has {width}", self.lengths[row])),
            None => Ok(width),
        }
    }

    /// The number of values of the first row, if there is one.
    pub(super) fn first_width(&self) -> usize {
        self.lengths.first().copied().unwrap_or(0)
    }

    fn push(&mut self, value: f64, column: usize, real: bool) {
        if real {
            if self.real.len() <= column {
                self.real.resize(column + 1, false);
            }
            self.real[column] = true;
        }
        if value.is_nan() {
            self.first_null.get_or_insert(self.values.len());
        }
        self.values.push(value);
    }
}

/// Reads a number, a list of numbers (each a row), or a list of rows.
impl<'de> DeserializeSeed<'de> for &mut JsonRows {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        self.present = true;
        source.deserialize_any(Level { rows: self, depth: 0, column: 0 })
    }
}

/// What may stand inside `depth` lists.
struct Level<'a> {
    rows: &'a mut JsonRows,
    depth: u8,
    column: usize,
}

impl Level<'_> {
    fn number<E: de::Error>(self, value: f64, real: bool) -> Result<(), E> {
        // Inside one list each number is a row of its own; inside two, `column` counts.
        if self.depth <= 1 {
            self.rows.lengths.push(1);
        }
        self.rows.depth = self.rows.depth.max(self.depth);
        self.rows.push(value, self.column, real);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.depth < 2 { "a number, null, or a list of them" } else { "a number or null" })
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.number(value as f64, false)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.number(value as f64, false)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.number(f64::from(u8::from(value)), false)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.number(value, true)
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.number(f64::NAN, false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.depth == 2 {
            return Err(de::Error::custom("lists are nested too deeply"));
        }
        let (depth, before, rows_before) = (self.depth + 1, self.rows.values.len(), self.rows.lengths.len());
        self.rows.depth = self.rows.depth.max(depth);
        let mut column = 0;
        while list.next_element_seed(Element { rows: &mut *self.rows, depth, column })?.is_some() {
            column += usize::from(depth == 2);
        }
        if depth == 2 {
            debug_assert_eq!(rows_before, self.rows.lengths.len());
            self.rows.lengths.push(self.rows.values.len() - before);
        }
        Ok(())
    }
}

struct Element<'a> {
    rows: &'a mut JsonRows,
    depth: u8,
    column: usize,
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(Level { rows: self.rows, depth: self.depth, column: self.column })
    }
}

/// An index, if the number is one.
pub(super) fn category(value: f64) -> Option<u32> {
    (value >= 0.0 && value < f64::from(u32::MAX) && value.fract() == 0.0).then_some(value as u32)
}
