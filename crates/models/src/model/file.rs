//! A model in one file: weights, and in the header everything that is needed to use them.

use std::path::{Path, PathBuf};

use gt_graph::{Schema, SchemaProblem};
use serde::{Deserialize, Serialize};

use super::{Model, Scaling, ScalingProblem};
use crate::checksums::{Damage, UNSET, seal, verify};
use crate::one_line::one_line;
use crate::weights::{load_weights, read_header, save_weights};
use crate::{Config, ConfigError, WeightsError};

/// Version of the header that this program writes, and the newest it reads.
const FORMAT_VERSION: u32 = 1;

/// What a model file holds in addition to its tensors. The digests come first, where
/// [`crate::checksums`] expects them.
#[derive(Serialize, Deserialize)]
struct Header {
    header_sha256: String,
    weights_sha256: String,
    format_version: u32,
    config: Config,
    schema: Schema,
    #[serde(default, skip_serializing_if = "Scaling::is_empty")]
    scaling: Scaling,
}

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is damaged, or its tensors do not fit its configuration.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A safetensors file of another program.
    #[error("it holds tensors, but no `{key}` entry in its header; `gt import` or `gt train` write such files", key = crate::weights::HEADER_KEY)]
    NoHeader,
    /// Bytes of the file are not those that were written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The header is damaged.
    #[error("its header is damaged: {}", one_line(.0))]
    Header(#[from] serde_json::Error),
    /// The header is newer than this program.
    #[error("it was written in format {0}, this program reads up to {FORMAT_VERSION}; use a newer one")]
    Version(u32),
    /// The configuration in it is wrong.
    #[error("the configuration in it is wrong: {}", one_line(&.0.to_string().replace('\n', "; ")))]
    Config(#[from] ConfigError),
    /// The schema in it contradicts itself.
    #[error("the schema in it is wrong: {}", one_line(.0))]
    Schema(#[from] SchemaProblem),
    /// The scales in it do not fit its columns.
    #[error("the scaling in it is wrong: {0}")]
    Scaling(#[from] ScalingProblem),
}

impl Model {
    /// Opens a model file.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, from elsewhere or too new, or does not fit together.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ModelFileError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| ModelFileError::Io { path: path.into(), source })?;
        Self::from_bytes(&bytes)
    }

    /// Writes a model file. The file is complete or not there.
    ///
    /// # Errors
    /// If the file cannot be written; whatever stood there before is then untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ModelFileError> {
        let path = path.as_ref();
        gt_graph::write_atomic(path, &self.to_bytes())
            .map_err(|source| ModelFileError::Io { path: path.into(), source })
    }

    /// The bytes of a model file. The same model gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { config, schema, scaling, weights } = self;
        let header = Header {
            header_sha256: UNSET.into(),
            weights_sha256: UNSET.into(),
            format_version: FORMAT_VERSION,
            config: config.clone(),
            schema: schema.clone(),
            scaling: scaling.clone(),
        };
        let text = serde_json::to_string(&header).expect("a header is plain data");
        let mut bytes = save_weights(weights, &text);
        seal(&mut bytes);
        bytes
    }

    /// A model from the bytes of its file.
    ///
    /// # Errors
    /// If the file is damaged, from elsewhere or too new, or does not fit together.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelFileError> {
        let verified = verify(bytes);
        if verified.is_err_and(|damage| damage == Damage::NoDigest) {
            // A file of another program has no header of this one.
            read_header(bytes)?.ok_or(ModelFileError::NoHeader)?;
        }
        verified?;
        let text = read_header(bytes)?.ok_or(ModelFileError::NoHeader)?;
        let version: Versioned = serde_json::from_str(&text)?;
        if version.format_version > FORMAT_VERSION {
            return Err(ModelFileError::Version(version.format_version));
        }
        let Header { config, schema, scaling, .. } = serde_json::from_str(&text)?;
        schema.check()?;
        let network = config.network(&schema)?;
        scaling.check(&schema, &*config.target(&schema)?)?;
        let weights = load_weights(&network, bytes)?;
        Ok(Self { config, schema, scaling, weights })
    }
}

/// The part of a header that is read before its version is known.
#[derive(Deserialize)]
struct Versioned {
    format_version: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PublishedEncoding, PublishedSet};

    fn model() -> Model {
        let mut config = PublishedSet::Zinc.config(PublishedEncoding::Laplacian);
        config.model.layers = 1;
        Model::new(config, PublishedSet::Zinc.schema()).unwrap()
    }

    /// The bytes of a model file with another header.
    fn forged(model: &Model, change: impl FnOnce(&mut Header)) -> Vec<u8> {
        let text = read_header(&model.to_bytes()).unwrap().unwrap();
        let mut header: Header = serde_json::from_str(&text).unwrap();
        (header.header_sha256, header.weights_sha256) = (UNSET.into(), UNSET.into());
        change(&mut header);
        let mut bytes = save_weights(&model.weights, &serde_json::to_string(&header).unwrap());
        seal(&mut bytes);
        bytes
    }

    #[test]
    fn a_model_file_opens_to_the_same_model() {
        let scaling = Scaling { node: vec![(3.0, 0.5)], edge: Vec::new(), target: vec![(0.5, 2.0)] };
        let mut schema = PublishedSet::Zinc.schema();
        schema.node.continuous = vec!["mass".into()];
        let model = Model { scaling, ..Model::new(model().config, schema).unwrap() };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.safetensors");
        model.save(&file).unwrap();
        assert_eq!(Model::open(&file).unwrap(), model);
        assert_eq!(std::fs::read(&file).unwrap(), model.to_bytes());
        assert!(matches!(Model::open(folder.path().join("none")), Err(ModelFileError::Io { .. })));
    }

    #[test]
    fn no_byte_of_a_model_file_changes_unnoticed() {
        let model = Model::new(
            Config::from_toml("[model]\nlayers = 1\nwidth = 4\nheads = 2").unwrap(),
            PublishedSet::Cluster.schema(),
        );
        let whole = model.unwrap().to_bytes();
        for at in 0..whole.len() {
            for flip in [0x01, 0x20, 0x80] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                assert!(Model::from_bytes(&damaged).is_err(), "byte {at} ^ {flip:#x}");
            }
            assert!(Model::from_bytes(&whole[..at]).is_err(), "the first {at} bytes");
        }
        assert!(Model::from_bytes(&[&whole[..], b"\0"].concat()).is_err());
        assert!(Model::from_bytes(&whole).is_ok());
    }

    #[test]
    fn a_header_cannot_claim_more_memory_than_its_file_has_weights_for() {
        let bytes = forged(&model(), |header| {
            header.config.model.layers = 1_000;
            header.config.model.width = 65_536;
        });
        let error = Model::from_bytes(&bytes).unwrap_err();
        assert!(matches!(error, ModelFileError::Weights(WeightsError::Misfits(_))), "{error}");
    }

    #[test]
    fn files_of_others_and_of_the_future_are_named() {
        let model = model();
        let error = |bytes: &[u8]| Model::from_bytes(bytes).unwrap_err();
        assert!(matches!(error(&forged(&model, |header| header.format_version = 7)), ModelFileError::Version(7)));
        let unsigned = error(&save_weights(&model.weights, "{\"some\": 1}"));
        assert!(matches!(unsigned, ModelFileError::Damaged(Damage::NoDigest)), "{unsigned}");
        let views: [(&str, safetensors::tensor::TensorView<'_>); 0] = [];
        assert!(matches!(error(&safetensors::serialize(views, None).unwrap()), ModelFileError::NoHeader));
        let wrong = error(&forged(&model, |header| header.config.model.heads = 7));
        assert!(matches!(wrong, ModelFileError::Config(_)), "{wrong}");
    }
}
