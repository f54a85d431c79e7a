//! A model in one file: weights, and in the header everything that is needed to use them.

use gt_nn::Parameters;
use gt_nn::cpu::{Engine, Isa};
use serde::{Deserialize, Serialize};

use crate::config::DataShape;
use crate::torch::{StateDict, Values};
use crate::weights::{NamedTensor, load_tensors, read_header};
use crate::{Config, ConfigError, WeightsError, load_weights, save_weights};

/// Version of the header that this program writes, and the newest it reads.
const FORMAT_VERSION: u32 = 1;

/// What a model file holds beside its tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelHeader {
    format_version: u32,
    /// The configuration it was made with.
    pub config: Config,
    /// The shape of the data it is for.
    pub data: DataShape,
    /// Names and vocabularies of that data, as its own layer writes them.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub schema: serde_json::Value,
    /// Mean and deviation that outputs are scaled back with, one pair per output; empty where targets were not standardised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<(f64, f64)>,
}

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// The file is damaged, or its tensors do not fit its configuration.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A safetensors file of somebody else.
    #[error("it holds tensors, but no `{key}` entry in its header; `gt import` or `gt train` write such files", key = crate::HEADER_KEY)]
    NoHeader,
    /// The header is damaged.
    #[error("its header is damaged: {0}")]
    Header(#[from] serde_json::Error),
    /// The configuration claims a model that the file cannot hold; checked before it claims memory.
    #[error("its configuration has {expected} parameters, but a file of this size holds at most {found}")]
    Smaller {
        /// Parameters by the configuration.
        expected: usize,
        /// Numbers that fit into the file.
        found: usize,
    },
    /// The header is newer than this program.
    #[error("it was written in format {0}, this program reads up to {FORMAT_VERSION}; use a newer one")]
    Version(u32),
    /// The configuration in it is wrong.
    #[error("the configuration in it is wrong: {0}")]
    Config(#[from] ConfigError),
}

impl ModelHeader {
    /// A header for a model that is neither named nor scaled.
    pub fn new(config: Config, data: DataShape) -> Self {
        Self { format_version: FORMAT_VERSION, config, data, schema: serde_json::Value::Null, scaling: Vec::new() }
    }

    /// An engine of this model, all parameters zero.
    ///
    /// # Errors
    /// If the configuration is wrong or does not fit the data.
    pub fn engine(&self, isa: Isa) -> Result<Engine<f32>, ConfigError> {
        Ok(Engine::new(self.config.network(&self.data)?, isa))
    }

    /// The bytes of a model file. The same model gives the same bytes.
    pub fn save(&self, engine: &Engine<f32>) -> Vec<u8> {
        save_weights(engine, &serde_json::to_string(self).expect("a header is plain data"))
    }

    /// The header alone.
    ///
    /// # Errors
    /// If the file is damaged, from elsewhere, or too new.
    pub fn read(bytes: &[u8]) -> Result<Self, ModelFileError> {
        let text = read_header(bytes)?.ok_or(ModelFileError::NoHeader)?;
        let version: Versioned = serde_json::from_str(&text)?;
        if version.format_version > FORMAT_VERSION {
            return Err(ModelFileError::Version(version.format_version));
        }
        Ok(serde_json::from_str(&text)?)
    }

    /// A model from the bytes of its file.
    ///
    /// # Errors
    /// If the file is damaged, from elsewhere, too new, or does not fit together.
    pub fn open(bytes: &[u8], isa: Isa) -> Result<(Self, Engine<f32>), ModelFileError> {
        let header = Self::read(bytes)?;
        let network = header.config.network(&header.data)?;
        let expected = Parameters::new(&network).count();
        let found = bytes.len() / size_of::<f32>();
        if expected > found {
            return Err(ModelFileError::Smaller { expected, found });
        }
        let mut engine = Engine::new(network, isa);
        load_weights(&mut engine, bytes)?;
        Ok((header, engine))
    }

    /// A model from a PyTorch state dictionary of the published code.
    ///
    /// # Errors
    /// If the configuration is wrong, or tensors are missing, unknown or mis-shaped.
    pub fn import(&self, state: &StateDict, isa: Isa) -> Result<Engine<f32>, ModelFileError> {
        let mut engine = self.engine(isa)?;
        let tensors = state.tensors().iter().map(|tensor| {
            let values = match tensor.values() {
                Values::I64(_) => Err("integers".to_owned()),
                floats => Ok(floats.to_f64()),
            };
            (tensor.name().to_owned(), NamedTensor { shape: tensor.shape().to_vec(), values })
        });
        load_tensors(&mut engine, tensors.collect())?;
        Ok(engine)
    }
}

/// What is read of a header before its version is known.
#[derive(Deserialize)]
struct Versioned {
    format_version: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PublishedEncoding, PublishedSet, initialise};

    fn header() -> ModelHeader {
        let mut config = PublishedSet::Zinc.config(PublishedEncoding::Laplacian);
        config.model.layers = 1;
        ModelHeader::new(config, PublishedSet::Zinc.shape())
    }

    #[test]
    fn a_model_file_opens_to_the_same_model() {
        let header = ModelHeader { scaling: vec![(0.5, 2.0)], ..header() };
        let mut engine = header.engine(Isa::detect()).unwrap();
        initialise(&mut engine, 3);
        let bytes = header.save(&engine);
        let (opened, weights) = ModelHeader::open(&bytes, Isa::detect()).unwrap();
        assert_eq!(opened, header);
        assert_eq!(opened.save(&weights), bytes);
    }

    #[test]
    fn a_header_cannot_claim_more_memory_than_its_file_has_weights_for() {
        let mut header = header();
        let engine = header.engine(Isa::detect()).unwrap();
        header.config.model.layers = 1_000;
        header.config.model.width = 65_536;
        let error = ModelHeader::open(&header.save(&engine), Isa::detect()).unwrap_err();
        assert!(matches!(error, ModelFileError::Smaller { .. }), "{error}");
    }

    #[test]
    fn files_of_others_and_of_the_future_are_named() {
        let mut newer = header();
        let engine = newer.engine(Isa::detect()).unwrap();
        newer.format_version = 7;
        let complaint = |bytes: &[u8]| ModelHeader::open(bytes, Isa::detect()).unwrap_err().to_string();
        assert!(complaint(&newer.save(&engine)).contains("format 7"));
        assert!(complaint(&save_weights(&engine, "{\"some\": 1}")).starts_with("its header is damaged: missing field"));
        let views: [(&str, safetensors::tensor::TensorView<'_>); 0] = [];
        assert!(complaint(&safetensors::serialize(views, None).unwrap()).starts_with("it holds tensors, but no"));
        let mut wrong = header();
        wrong.config.model.heads = 7;
        assert!(complaint(&wrong.save(&engine)).contains("`model.heads`: 7 heads do not divide the width 64"));
    }
}
