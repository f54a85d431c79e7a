//! Arrow columns seen as lists of numbers or text, whatever integer or float type a writer chose.

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ListArray, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

/// Numbers of a column, with their nulls.
pub(crate) struct Leaf<'a> {
    pub(crate) values: Numbers<'a>,
    nulls: Option<&'a NullBuffer>,
}

/// Integers are categories or classes, reals are continuous.
pub(crate) enum Numbers<'a> {
    Integer(Cow<'a, [i64]>),
    Real(Cow<'a, [f32]>),
}

impl<'a> Leaf<'a> {
    /// `None` if the column does not hold numbers.
    pub(crate) fn new(array: &'a ArrayRef) -> Option<Self> {
        macro_rules! integers {
            ($kind:ty) => {
                Cow::Owned(array.as_primitive::<$kind>().values().iter().map(|&v| v as i64).collect())
            };
        }
        let values = match array.data_type() {
            DataType::Int64 => Numbers::Integer(Cow::Borrowed(array.as_primitive::<Int64Type>().values())),
            DataType::Int32 => Numbers::Integer(integers!(Int32Type)),
            DataType::Int16 => Numbers::Integer(integers!(Int16Type)),
            DataType::Int8 => Numbers::Integer(integers!(Int8Type)),
            DataType::UInt8 => Numbers::Integer(integers!(UInt8Type)),
            DataType::UInt16 => Numbers::Integer(integers!(UInt16Type)),
            DataType::UInt32 => Numbers::Integer(integers!(UInt32Type)),
            // Beyond i64 it is beyond every vocabulary as well; it must only not wrap into one.
            DataType::UInt64 => {
                let values = array.as_primitive::<UInt64Type>().values();
                Numbers::Integer(values.iter().map(|&v| i64::try_from(v).unwrap_or(i64::MAX)).collect())
            }
            DataType::Boolean => Numbers::Integer(array.as_boolean().values().iter().map(i64::from).collect()),
            DataType::Float32 => Numbers::Real(Cow::Borrowed(array.as_primitive::<Float32Type>().values())),
            DataType::Float64 => {
                Numbers::Real(array.as_primitive::<Float64Type>().values().iter().map(|&v| v as f32).collect())
            }
            _ => return None,
        };
        Some(Self { values, nulls: array.nulls().filter(|n| n.null_count() > 0) })
    }

    /// Whether the value at a position is missing.
    pub(crate) fn is_null(&self, at: usize) -> bool {
        self.nulls.is_some_and(|n| n.is_null(at))
    }

    /// First missing value in a range.
    pub(crate) fn first_null(&self, range: Range<usize>) -> Option<usize> {
        self.nulls.and_then(|n| range.into_iter().find(|&at| n.is_null(at)))
    }

    /// The value as a number; NaN where it is missing.
    pub(crate) fn number(&self, at: usize) -> f64 {
        match &self.values {
            _ if self.is_null(at) => f64::NAN,
            Numbers::Integer(values) => values[at] as f64,
            Numbers::Real(values) => f64::from(values[at]),
        }
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self.values, Numbers::Real(_))
    }
}

/// Appends integers as categories.
///
/// # Errors
/// The first value that is none.
pub(crate) fn append_categories(values: &[i64], out: &mut Vec<u32>) -> Result<(), i64> {
    let limit = i64::from(u32::MAX - 1);
    // A branch-free scan first: values are almost never wrong, and the copy then vectorises.
    if values.iter().fold(false, |bad, &v| bad | (v < 0) | (v > limit)) {
        return Err(*values.iter().find(|v| !(0..=limit).contains(*v)).expect("one is out of range"));
    }
    out.extend(values.iter().map(|&v| v as u32));
    Ok(())
}

/// Positions of a list's elements.
pub(crate) fn range(list: &ListArray, row: usize) -> Range<usize> {
    let offsets = list.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

/// The column as text.
pub(crate) fn text(array: &ArrayRef) -> Option<&StringArray> {
    array.as_string_opt::<i32>()
}
