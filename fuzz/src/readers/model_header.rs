//! Headers of model files.
//!
//! Most random changes of a file disagree with its lengths. Here an input is the header alone; the
//! length before it and the tensors behind it are those of a valid file.

use std::path::Path;
use std::sync::OnceLock;

use gt_models::{Config, Model, PublishedSet};

/// Opens a model file with the given header.
pub fn run(bytes: &[u8], folder: &Path) -> bool {
    static TENSORS: OnceLock<Vec<u8>> = OnceLock::new();
    let tensors = TENSORS.get_or_init(|| {
        let file = valid();
        file[8 + header(&file).len()..].to_vec()
    });
    let length = (bytes.len() as u64).to_le_bytes();
    super::model::run(&[&length, bytes, tensors].concat(), folder)
}

/// A small model file.
pub fn valid() -> Vec<u8> {
    let text = "[model]\nlayers = 1\nwidth = 4\nheads = 2\nencoding = \"laplacian\"\nencoding_size = 2";
    let config = Config::from_toml(text).expect("the configuration is valid");
    Model::new(config, PublishedSet::Zinc.schema()).expect("the model is valid").to_bytes()
}

/// The header of a model file.
pub fn header(file: &[u8]) -> &[u8] {
    let (length, rest) = file.split_first_chunk().expect("a file begins with a length");
    &rest[..u64::from_le_bytes(*length) as usize]
}
