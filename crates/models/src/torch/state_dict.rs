//! The tensors of a checkpoint, by name and in order.

use std::collections::HashMap;

use super::error::{CheckpointError, shown};
use super::storage::Dtype;

/// The values of a tensor, none of them rounded.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Floats of up to 32 bits.
    F32(Vec<f32>),
    /// Floats of 64 bits.
    F64(Vec<f64>),
    /// Integers and truth values.
    I64(Vec<i64>),
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values as floats; exact, except for integers beyond 2^53.
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.iter().map(|&v| v.into()).collect(),
            Self::F64(values) => values.clone(),
            Self::I64(values) => values.iter().map(|&v| v as f64).collect(),
        }
    }
}

/// One tensor of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) values: Values,
}

impl Tensor {
    /// The name of the tensor in the state dictionary.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the tensor's elements in the file.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The shape of the tensor; empty for a single number.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The values of the tensor in row-major order, as many as its shape demands. They may be
    /// infinite or NaN.
    pub fn values(&self) -> &Values {
        &self.values
    }
}

/// The tensors of a checkpoint in the file's order.
#[derive(Debug, Clone, Default)]
pub struct StateDict {
    tensors: Vec<Tensor>,
    positions: HashMap<String, usize>,
}

impl StateDict {
    /// Adds a tensor whose name is new.
    pub(super) fn push(&mut self, tensor: Tensor) -> Result<(), CheckpointError> {
        if self.positions.insert(tensor.name.clone(), self.tensors.len()).is_some() {
            return Err(CheckpointError::Duplicate(shown(&tensor.name)));
        }
        self.tensors.push(tensor);
        Ok(())
    }

    /// The tensors with one replaced by others of ones, for tests of other networks.
    #[cfg(test)]
    pub(crate) fn replace(&self, name: &str, others: &[(&str, &[usize])]) -> Self {
        let mut state = Self::default();
        for tensor in self.tensors.iter().filter(|tensor| tensor.name != name) {
            state.push(tensor.clone()).unwrap();
        }
        for (name, shape) in others {
            let values = Values::F32(vec![1.0; shape.iter().product()]);
            let (name, shape) = ((*name).to_owned(), shape.to_vec());
            state.push(Tensor { name, dtype: Dtype::F32, shape, values }).unwrap();
        }
        state
    }

    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.positions.get(name).map(|&position| &self.tensors[position])
    }

    /// All tensors.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
}
