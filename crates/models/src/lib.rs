//! The models: configurations, first values, and the names that their parameters bear in published weight files.

pub mod config;
mod import;
mod initialise;
mod model_file;
mod names;
mod presets;
mod published;
pub mod torch;
mod weights;

pub use config::{Config, ConfigError};
pub use import::{NotATransformer, shape_of_checkpoint};
pub use initialise::initialise;
pub use model_file::{ModelFileError, ModelHeader};
pub use names::{norm_name, parameter_name};
pub use presets::Preset;
pub use published::{PublishedEncoding, PublishedSet};
pub use weights::{
    HEADER_KEY, Misfit, RunningStatistics, WeightsError, has_finite_statistics, is_finite, load_moments, load_weights,
    running_statistics, save_moments, save_weights, set_running_statistics,
};
