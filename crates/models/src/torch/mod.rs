//! Weights from PyTorch checkpoints, `torch.save(model.state_dict(), file)`, with nothing executed.
//!
//! A checkpoint is a pickle, a small program whose instructions may call any function of Python.
//! This reader knows only the few calls that build weights: tensors over storages in ordered
//! dictionaries. It rejects the first other instruction or global. Both containers are read: the
//! zip archive of PyTorch 1.6 and later, and the earlier stream of pickles.
//!
//! Input is never trusted. All lengths are checked before use, and names and storages stay slices
//! of the file. Allocated memory has two bounds:
//!
//! * A pickle has at most [`MAX_INSTRUCTIONS`] instructions of a few dozen bytes each.
//! * All tensors together have no more values than the file has bytes, so at most 8 bytes per byte.
//!   Tensors may share a storage within this bound.
//!
//! ```no_run
//! let state = graph_transformer_models::torch::read_state_dict(&std::fs::read("epoch_500.pkl")?)?;
//! let weight = state.get("embedding_h.weight").expect("every published model has one");
//! assert_eq!(weight.values().len(), weight.shape().iter().product::<usize>());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod contents;
mod crc32;
mod error;
mod globals;
mod legacy;
mod opcode;
mod pickle;
mod state_dict;
mod storage;
mod view;
mod zip;

pub use error::CheckpointError;
pub use pickle::MAX_INSTRUCTIONS;
pub use state_dict::{StateDict, Tensor, Values};
pub use storage::Dtype;

/// Reads the state dictionary from the bytes of a checkpoint of either format.
///
/// The dictionary may be the whole checkpoint, or an entry `state_dict`, `model_state_dict` or
/// `model` among other plain entries. Tensors are in the file's order and contiguous, whatever
/// strides they were saved with.
///
/// # Errors
/// The first damaged value, the first entry that is no weight, or the first call of Python beyond
/// tensors.
pub fn read_state_dict(bytes: &[u8]) -> Result<StateDict, CheckpointError> {
    if bytes.starts_with(zip::LOCAL_HEADER) {
        archive::read(bytes)
    } else if bytes.first() == Some(&opcode::PROTO) {
        legacy::read(bytes)
    } else {
        Err(CheckpointError::Format("it starts neither like a zip archive nor like a pickle"))
    }
}
