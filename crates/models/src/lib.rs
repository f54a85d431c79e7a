//! Models without a device: configurations, initial weights, model files, predictions, published
//! parameter names.
//!
//! ```
//! use graph_transformer_models::{Config, Model, PublishedSet};
//!
//! let config = Config::from_toml("[model]\nlayers = 2\nwidth = 16\nheads = 4").unwrap();
//! let model = Model::new(config, PublishedSet::Zinc.schema())?;
//! assert_eq!(Model::from_bytes(&model.to_bytes())?, model);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checksums;
pub mod config;
pub mod defaults;
mod encodings;
mod import;
mod initial_weights;
mod model;
mod names;
mod one_line;
mod presets;
mod published;
pub mod torch;
mod transfer;
mod weights;

pub use checksums::{Damage, weights_sha256};
pub use config::{Config, ConfigError, ConfigProblem};
pub use encodings::{EncodingError, add_encodings, compute_encodings, has_encoding};
pub use import::{NotATransformer, schema_of_checkpoint};
pub use initial_weights::initial_weights;
pub use model::{
    Ensemble, EnsembleError, GraphAttention, Model, ModelError, ModelFileError, OutputMean, PairGroup, Predictions,
    Scaling, ScalingProblem, Softmax, is_directed, largest, mean_and_spread, scores_both_orders, sigmoid,
};
pub use names::{norm_name, parameter_name};
pub use presets::Preset;
pub use published::{PublishedEncoding, PublishedSet};
pub use transfer::{InputMismatch, Renumbering, Transfer, adopt_inputs, frozen_parts, transfer_weights};
pub use weights::{Misfit, WeightsError, load_optimizer, save_optimizer};
