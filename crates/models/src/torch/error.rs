//! Why a checkpoint cannot be read.

use super::pickle::MAX_INSTRUCTIONS;
use super::view::MAX_DIMENSIONS;

/// Why a checkpoint cannot be read. Offsets count from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file is something else.
    #[error("not a PyTorch checkpoint: {0}")]
    Format(&'static str),
    /// The pickle names a function or class that is not part of weights.
    #[error("the checkpoint calls `{0}`, which no weights file needs; it was not run")]
    Global(String),
    /// The pickle has an instruction that weights do not need.
    #[error("the pickle's instruction {name} at byte {offset} does not belong in a weights file; it was not run")]
    Instruction {
        /// Name of the instruction in Python's `pickletools`, or its number.
        name: String,
        /// Where it is.
        offset: usize,
    },
    /// The pickle is longer than that of any weights.
    #[error("the pickle has more than {MAX_INSTRUCTIONS} instructions, which no weights file needs")]
    TooLong,
    /// The pickle is damaged, or not as PyTorch writes it.
    #[error("damaged pickle at byte {offset}: {problem}")]
    Pickle {
        /// Where it was noticed.
        offset: usize,
        /// What was found.
        problem: String,
    },
    /// The archive is damaged, or not as PyTorch writes it.
    #[error("damaged zip archive: {0}")]
    Archive(String),
    /// The values of a storage are missing or do not have the length that the pickle claims.
    #[error("storage `{key}`: {problem}")]
    Storage {
        /// Its key in the checkpoint.
        key: String,
        /// What was found.
        problem: String,
    },
    /// The checkpoint holds no state dictionary.
    #[error("the checkpoint holds {0}, expected a dictionary of tensors")]
    NoDictionary(&'static str),
    /// An entry of the state dictionary has no name.
    #[error("entry {index} of the state dictionary has {found} for a name, expected a text")]
    Unnamed {
        /// Position in the dictionary.
        index: usize,
        /// The value found instead of a name.
        found: &'static str,
    },
    /// An entry of the state dictionary is not a tensor.
    #[error("entry `{name}` holds {found}, expected a tensor")]
    NotATensor {
        /// Name of the entry.
        name: String,
        /// What it holds.
        found: &'static str,
    },
    /// A name stands for two tensors.
    #[error("tensor `{0}` is in the checkpoint twice")]
    Duplicate(String),
    /// A tensor has more dimensions than any weight.
    #[error("tensor `{name}` has {found} dimensions, expected at most {MAX_DIMENSIONS}")]
    Dimensions {
        /// Name of the tensor.
        name: String,
        /// Number of dimensions in the file.
        found: usize,
    },
    /// A tensor's shape, strides and offset do not fit its storage.
    #[error("tensor `{name}`: {problem}")]
    Tensor {
        /// Name of the tensor.
        name: String,
        /// What was found.
        problem: String,
    },
    /// The tensors repeat the same few values so often that the file cannot justify the memory.
    #[error(
        "with tensor `{name}` the checkpoint claims {claimed} values, more than the {bytes} bytes of the file can justify"
    )]
    TooManyValues {
        /// Name of the tensor that passed the limit.
        name: String,
        /// Values up to and with this tensor.
        claimed: usize,
        /// Length of the file.
        bytes: usize,
    },
}

/// A text of the file as it may stand in a message: no control characters, not too long.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
