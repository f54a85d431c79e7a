//! The few names that a pickle of weights may call, and what each call amounts to.

use super::error::{CheckpointError, shown};
use super::pickle::{Heap, Value, place};
use super::storage::Dtype;

/// A class or function of Python that this reader stands in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`.
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`.
    RebuildParameter,
    /// `torch.Size`.
    Size,
    /// `torch.FloatStorage` and its like.
    Storage(Dtype),
}

impl Global {
    /// The stand-in for a global; all others are refused by name.
    pub(super) fn find(module: &str, name: &str) -> Result<Self, CheckpointError> {
        match (module, name) {
            ("collections", "OrderedDict") => Some(Self::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2") => Some(Self::RebuildTensor),
            ("torch._utils", "_rebuild_parameter") => Some(Self::RebuildParameter),
            ("torch", "Size") => Some(Self::Size),
            ("torch", name) => Dtype::of_storage(name).map(Self::Storage),
            _ => None,
        }
        .ok_or_else(|| CheckpointError::Global(format!("{}.{}", shown(module), shown(name))))
    }
}

/// A storage as the pickle describes it; its values lie elsewhere in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct StorageRef<'a> {
    pub(super) key: &'a str,
    pub(super) dtype: Dtype,
    /// Elements of the storage under `key`.
    pub(super) total: usize,
    /// First element of the part that is meant; only the legacy format has parts.
    pub(super) start: usize,
    /// Elements of that part.
    pub(super) length: usize,
}

/// A tensor as the pickle describes it, not yet checked against its storage.
#[derive(Debug, Clone, Copy)]
pub(super) struct TensorRef<'a> {
    pub(super) storage: StorageRef<'a>,
    pub(super) offset: usize,
    /// The tuple of sizes.
    pub(super) shape: usize,
    /// The tuple of strides.
    pub(super) strides: usize,
}

impl<'a> Heap<'a> {
    /// `function(*arguments)`, where `arguments` is a tuple.
    pub(super) fn call(&mut self, function: Global, arguments: usize) -> Result<Value<'a>, String> {
        match (function, &self.tuples[arguments][..]) {
            (Global::OrderedDict, []) => Ok(Value::Dict(place(&mut self.dicts, Vec::new()))),
            (Global::Size, &[size @ Value::Tuple(_)]) => Ok(size),
            // The other arguments: whether the parameter is trained, and its hooks.
            (Global::RebuildParameter, &[data @ Value::Tensor(_), _, _]) => Ok(data),
            (Global::RebuildTensor, &[storage, offset, shape, strides, _, _]) => {
                self.tensor([storage, offset, shape, strides])
            }
            (Global::RebuildTensor, &[storage, offset, shape, strides, _, _, metadata]) => {
                // Metadata may require that all values are negated or conjugated.
                match metadata {
                    Value::None => {}
                    Value::Dict(dict) if self.dicts[dict].is_empty() => {}
                    other => return Err(format!("a tensor with metadata ({})", other.kind())),
                }
                self.tensor([storage, offset, shape, strides])
            }
            (function, arguments) => {
                let kinds: Vec<_> = arguments.iter().take(8).map(|v| v.kind()).collect();
                Err(format!("{function:?} is called with ({}), not as PyTorch does", kinds.join(", ")))
            }
        }
    }

    fn tensor(&mut self, parts: [Value<'a>; 4]) -> Result<Value<'a>, String> {
        let [Value::Storage(storage), Value::Int(offset), Value::Tuple(shape), Value::Tuple(strides)] = parts else {
            return Err(format!("a tensor made from ({})", parts.map(Value::kind).join(", ")));
        };
        let offset = usize::try_from(offset).map_err(|_| format!("a tensor at offset {offset}"))?;
        let tensor = TensorRef { storage: self.storages[storage], offset, shape, strides };
        Ok(Value::Tensor(place(&mut self.tensors, tensor)))
    }

    /// The storage that a persistent identifier names:
    /// `('storage', type, key, location, elements)`. In the legacy format `None` or
    /// `(key of the part, first element, elements)` follows.
    pub(super) fn persistent(&mut self, id: Value<'a>) -> Result<Value<'a>, String> {
        let Value::Tuple(id) = id else {
            return Err(format!("a persistent identifier that is {}", id.kind()));
        };
        let (parts, part) = match &self.tuples[id][..] {
            [parts @ .., part] if parts.len() == 5 => (parts, *part),
            parts => (parts, Value::None),
        };
        let &[Value::Text("storage"), Value::Global(Global::Storage(dtype)), Value::Text(key), _, Value::Int(total)] =
            parts
        else {
            return Err("a persistent identifier that is not of a storage".to_owned());
        };
        let count =
            |n: i64| usize::try_from(n).map_err(|_| format!("storage `{}` has a length or start of {n}", shown(key)));
        let total = count(total)?;
        let (start, length) = match part {
            Value::None => (0, total),
            Value::Tuple(part) => match self.tuples[part][..] {
                [_, Value::Int(start), Value::Int(length)] => (count(start)?, count(length)?),
                _ => return Err(format!("storage `{}` has a part that is not described as PyTorch does", shown(key))),
            },
            other => return Err(format!("storage `{}` has {} for a part", shown(key), other.kind())),
        };
        if start.checked_add(length).is_none_or(|end| end > total) {
            return Err(format!("storage `{}` has {total} values, no part {start} + {length}", shown(key)));
        }
        Ok(Value::Storage(place(&mut self.storages, StorageRef { key, dtype, total, start, length })))
    }
}
