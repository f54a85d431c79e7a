//! From an unpickled checkpoint to its state dictionary.

use super::error::{CheckpointError, shown};
use super::globals::{StorageRef, TensorRef};
use super::pickle::{Heap, Pickle, Value};
use super::state_dict::{StateDict, Tensor};
use super::storage::{self, ByteOrder};
use super::view::{MAX_DIMENSIONS, View};

/// Where training programs put the state dictionary when they save more than that.
const NESTED: [&str; 3] = ["state_dict", "model_state_dict", "model"];

/// Reads every tensor of the state dictionary.
///
/// `fetch` returns the bytes of a whole storage, with exactly the claimed number of elements;
/// `file` is the length of the checkpoint.
pub(super) fn state_dict<'a>(
    pickle: &Pickle<'a>,
    order: ByteOrder,
    file: usize,
    mut fetch: impl FnMut(&StorageRef<'a>) -> Result<&'a [u8], CheckpointError>,
) -> Result<StateDict, CheckpointError> {
    let heap = &pickle.heap;
    let mut state = StateDict::default();
    let mut claimed = 0usize;
    for (index, &(name, value)) in entries(heap, pickle.root)?.iter().enumerate() {
        let Value::Text(name) = name else {
            return Err(CheckpointError::Unnamed { index, found: name.kind() });
        };
        let Value::Tensor(tensor) = value else {
            return Err(CheckpointError::NotATensor { name: shown(name), found: value.kind() });
        };
        let tensor = &heap.tensors[tensor];
        let (shape, view) = view(heap, tensor, name)?;
        claimed = claimed.saturating_add(view.len());
        if claimed > file {
            return Err(CheckpointError::TooManyValues { name: shown(name), claimed, bytes: file });
        }
        let dtype = tensor.storage.dtype;
        let bytes = &fetch(&tensor.storage)?[tensor.storage.start * dtype.size()..];
        state.push(Tensor {
            name: name.to_owned(),
            dtype,
            shape,
            values: storage::values(bytes, dtype, order, &view),
        })?;
    }
    Ok(state)
}

/// The entries of the state dictionary: those of the checkpoint, or those of a dictionary in it.
fn entries<'h, 'a>(heap: &'h Heap<'a>, root: Value<'a>) -> Result<&'h [(Value<'a>, Value<'a>)], CheckpointError> {
    let Value::Dict(root) = root else {
        return Err(CheckpointError::NoDictionary(root.kind()));
    };
    let outer = &heap.dicts[root];
    if outer.iter().all(|(_, value)| matches!(value, Value::Tensor(_))) {
        return Ok(outer);
    }
    let inner = NESTED.iter().find_map(|&wanted| {
        outer.iter().find_map(|entry| match *entry {
            (Value::Text(name), Value::Dict(dict)) if name == wanted => Some(&heap.dicts[dict]),
            _ => None,
        })
    });
    Ok(inner.unwrap_or(outer))
}

/// A tensor's shape, and where its values lie in (its part of) the storage.
fn view(heap: &Heap, tensor: &TensorRef, name: &str) -> Result<(Vec<usize>, View), CheckpointError> {
    let wrong = |problem: String| CheckpointError::Tensor { name: shown(name), problem };
    let (shape, strides) = (&heap.tuples[tensor.shape], &heap.tuples[tensor.strides]);
    let found = shape.len().max(strides.len());
    if found > MAX_DIMENSIONS {
        return Err(CheckpointError::Dimensions { name: shown(name), found });
    }
    let integers = |what: &str, values: &[Value]| -> Result<Vec<usize>, CheckpointError> {
        let integer = |value: &Value| match *value {
            Value::Int(n) => usize::try_from(n).map_err(|_| wrong(format!("{n} in its {what}"))),
            other => Err(wrong(format!("{} in its {what}", other.kind()))),
        };
        values.iter().map(integer).collect()
    };
    let (shape, strides) = (integers("shape", shape)?, integers("strides", strides)?);
    let view = View::new(tensor.offset, &shape, &strides, tensor.storage.length).map_err(wrong)?;
    Ok((shape, view))
}
