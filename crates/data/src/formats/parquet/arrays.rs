//! Arrow columns as raw columns, for all integer and float types.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::raw::{Bounds, Depth, Extent, RawColumn, RawTexts, Values};

/// The numbers of an array; `None` if the array holds other values. Numbers that `i64` does not hold
/// are texts, and so are all other numbers of the array. Arrays of the right width are not copied.
pub(crate) fn numbers(array: &ArrayRef) -> Option<Values> {
    macro_rules! integers {
        ($kind:ty) => {
            array.as_primitive::<$kind>().values().iter().map(|&v| v as i64).collect()
        };
    }
    Some(match array.data_type() {
        DataType::Int64 => Values::Integers(array.as_primitive::<Int64Type>().values().clone()),
        DataType::Int32 => Values::Integers(integers!(Int32Type)),
        DataType::Int16 => Values::Integers(integers!(Int16Type)),
        DataType::Int8 => Values::Integers(integers!(Int8Type)),
        DataType::UInt8 => Values::Integers(integers!(UInt8Type)),
        DataType::UInt16 => Values::Integers(integers!(UInt16Type)),
        DataType::UInt32 => Values::Integers(integers!(UInt32Type)),
        // Values beyond i64 are usually hashes. They are kept as their digits.
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>();
            let narrow: Result<ScalarBuffer<i64>, _> = values.values().iter().map(|&v| i64::try_from(v)).collect();
            match narrow {
                Ok(narrow) => Values::Integers(narrow),
                Err(_) => Values::Texts(values.iter().map(|value| value.map(|v| v.to_string())).collect()),
            }
        }
        DataType::Boolean => Values::Integers(array.as_boolean().values().iter().map(i64::from).collect()),
        DataType::Float32 => Values::Reals(array.as_primitive::<Float32Type>().values().clone()),
        DataType::Float64 => Values::Doubles(array.as_primitive::<Float64Type>().values().clone()),
        _ => return None,
    })
}

/// Numbers or texts, lists of them, or lists of lists, per row; `None` if the column holds other
/// values.
pub(super) fn column(name: &str, array: &ArrayRef) -> Option<RawColumn> {
    let present = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let (mut leaf, mut depth) = (array, 0);
    let mut bounds = [Bounds::Single, Bounds::Single];
    while let Some(list) = leaf.as_list_opt::<i32>() {
        *bounds.get_mut(depth)? = Bounds::Arrow(list.offsets().clone());
        leaf = list.values();
        depth += 1;
    }
    let [graphs, rows] = bounds;
    // Some writers store a column without any value as type Null.
    let values = if leaf.data_type() == &DataType::Null {
        Values::Integers(ScalarBuffer::from(vec![0; leaf.len()]))
    } else if let Some(texts) = leaf.as_string_opt::<i32>() {
        Values::Texts(texts.clone())
    } else {
        numbers(leaf)?
    };
    Some(RawColumn {
        name: name.into(),
        extent: Extent::WholeFile,
        graphs,
        rows,
        values,
        nulls: leaf.logical_nulls().filter(|nulls| nulls.null_count() > 0),
        present,
        depth: Depth::Same(depth as u8),
    })
}

/// Text, or lists of text, per row; `None` if the column holds other values.
pub(super) fn texts(name: &'static str, array: &ArrayRef) -> Option<RawTexts> {
    if array.data_type() == &DataType::Null {
        return Some(RawTexts::missing(name));
    }
    let (graphs, words) = match array.as_list_opt::<i32>() {
        Some(list) => (Bounds::Arrow(list.offsets().clone()), list.values()),
        None => (Bounds::Single, array),
    };
    let present = array.logical_nulls().unwrap_or_else(|| NullBuffer::new_valid(array.len()));
    let present = Some(present).filter(|present| present.null_count() < present.len());
    Some(RawTexts { name, graphs, values: words.as_string_opt::<i32>()?.clone(), present })
}
