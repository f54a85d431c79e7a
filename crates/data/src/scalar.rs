//! Single values of a carried column, for text formats.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use crate::formats::parquet;
use crate::raw::Values;

/// A value that is not null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Text(&'a str),
    Integer(i64),
    Unsigned(u64),
    Single(f32),
    Double(f64),
    Boolean(bool),
}

impl<'a> Scalar<'a> {
    /// The value of a row; `None` if the value is null, or its type has no text form (lists, times,
    /// …).
    pub(crate) fn at(values: &'a ArrayRef, row: usize) -> Option<Self> {
        if values.is_null(row) {
            return None;
        }
        Some(match values.data_type() {
            DataType::Utf8 => Scalar::Text(values.as_string::<i32>().value(row)),
            DataType::Boolean => Scalar::Boolean(values.as_boolean().value(row)),
            DataType::Float32 => Scalar::Single(values.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 => Scalar::Double(values.as_primitive::<Float64Type>().value(row)),
            DataType::UInt64 => Scalar::Unsigned(values.as_primitive::<UInt64Type>().value(row)),
            _ => match parquet::numbers(&values.slice(row, 1))? {
                Values::Integers(value) => Scalar::Integer(value[0]),
                _ => return None,
            },
        })
    }

    /// Whether values of this type can be written as text.
    pub(crate) fn has_text(kind: &DataType) -> bool {
        kind.is_integer() || matches!(kind, DataType::Utf8 | DataType::Boolean | DataType::Float32 | DataType::Float64)
    }

    pub(crate) fn to_json(&self) -> String {
        match self {
            Scalar::Text(text) => serde_json::Value::from(*text).to_string(),
            // JSON has no infinities. Numbers that are not finite become null.
            Scalar::Single(value) if !value.is_finite() => "null".into(),
            Scalar::Double(value) if !value.is_finite() => "null".into(),
            other => other.to_text(),
        }
    }

    pub(crate) fn to_text(&self) -> String {
        match self {
            Scalar::Text(text) => (*text).into(),
            Scalar::Integer(value) => value.to_string(),
            Scalar::Unsigned(value) => value.to_string(),
            Scalar::Single(value) => format!("{value:?}"),
            Scalar::Double(value) => format!("{value:?}"),
            Scalar::Boolean(value) => value.to_string(),
        }
    }
}
