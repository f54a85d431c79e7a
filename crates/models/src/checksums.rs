//! SHA-256 digests that cover every byte of a model file.
//!
//! The header of a model file begins with two digests, at offsets that never change:
//!
//! | key | covers |
//! |---|---|
//! | `header_sha256` | all bytes before the tensors; the 64 digits of this key count as `0` |
//! | `weights_sha256` | the bytes of the tensors |
//!
//! So no byte can change unnoticed: neither in a tensor, nor in its name, nor in the configuration.

use std::ops::Range;

use gt_nn::Weights;
use sha2::{Digest, Sha256};

use crate::weights::save_weights;

/// Bytes of a safetensors file that hold the length of its header.
const LENGTH: usize = size_of::<u64>();

/// The bytes of a header in front of its own digest.
const START: &[u8] = br#"{"__metadata__":{"graph_transformer":"{\"header_sha256\":\""#;

/// The bytes between the two digests.
const MIDDLE: &[u8] = br#"\",\"weights_sha256\":\""#;

/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;

/// The digits of `header_sha256`.
const OF_HEADER: Range<usize> = LENGTH + START.len()..LENGTH + START.len() + DIGITS;

/// The digits of `weights_sha256`.
const OF_WEIGHTS: Range<usize> = OF_HEADER.end + MIDDLE.len()..OF_HEADER.end + MIDDLE.len() + DIGITS;

/// The digits of a digest that has not been computed yet.
pub(crate) const UNSET: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Why the bytes of a model file are not those that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The header does not begin with the digests.
    #[error("its header does not begin with the SHA-256 that `gt` writes; {REMEDY}")]
    NoDigest,
    /// A byte before the tensors has changed.
    #[error("it is damaged: the SHA-256 of its header is another one; {REMEDY}")]
    Header,
    /// A byte of a tensor has changed.
    #[error("it is damaged: the SHA-256 of its tensors is another one; {REMEDY}")]
    Weights,
}

const REMEDY: &str = "copy the file anew, or write it again with `gt train --resume` or `gt import`";

/// SHA-256 of weights, in hexadecimal: of the bytes that their tensors have in a model file.
///
/// ```
/// use graph_transformer_models::{Config, Model, PublishedSet, weights_sha256};
///
/// let config = |text: &str| Config::from_toml(&format!("[model]\nlayers = 1\n{text}")).unwrap();
/// let model = |text: &str| Model::new(config(text), PublishedSet::Zinc.schema()).unwrap();
/// let (first, other) = (model("[data]\nfile = \"a\""), model("[data]\nfile = \"b\""));
/// assert_ne!(first.to_bytes(), other.to_bytes());
/// assert_eq!(weights_sha256(&first.weights), weights_sha256(&other.weights));
/// assert_ne!(weights_sha256(&first.weights), weights_sha256(&model("[train]\nseed = 7").weights));
/// ```
pub fn weights_sha256(weights: &Weights) -> String {
    let file = save_weights(weights, "");
    to_hex(&file[tensors_start(&file).expect("a file that was just written is whole")..])
}

/// Fills in both digests of a file whose header text begins with [`UNSET`] ones.
pub(crate) fn seal(file: &mut [u8]) {
    let start = tensors_start(file).expect("a file that was just written is whole");
    assert!(has_digests(&file[..start]), "the header begins with its digests");
    let (header, tensors) = file.split_at_mut(start);
    header[OF_WEIGHTS].copy_from_slice(to_hex(tensors).as_bytes());
    let digest = to_hex(header);
    header[OF_HEADER].copy_from_slice(digest.as_bytes());
}

/// Checks both digests of a file.
pub(crate) fn verify(file: &[u8]) -> Result<(), Damage> {
    let start = tensors_start(file).filter(|&start| has_digests(&file[..start])).ok_or(Damage::NoDigest)?;
    let (header, tensors) = file.split_at(start);
    let digest = Sha256::new()
        .chain_update(&header[..OF_HEADER.start])
        .chain_update(UNSET)
        .chain_update(&header[OF_HEADER.end..])
        .finalize();
    if hex(&digest).as_bytes() != &header[OF_HEADER] {
        return Err(Damage::Header);
    }
    if to_hex(tensors).as_bytes() != &header[OF_WEIGHTS] {
        return Err(Damage::Weights);
    }
    Ok(())
}

/// The offset of the first tensor, if the file has a whole header.
fn tensors_start(file: &[u8]) -> Option<usize> {
    let (length, rest) = file.split_first_chunk::<LENGTH>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    (length <= rest.len()).then_some(LENGTH + length)
}

/// Whether a header has room for both digests, and the keys in front of them.
fn has_digests(header: &[u8]) -> bool {
    header.len() >= OF_WEIGHTS.end && header[LENGTH..].starts_with(START) && header[OF_HEADER.end..].starts_with(MIDDLE)
}

fn to_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
