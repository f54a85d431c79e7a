//! The models: configurations, first values, and the names that their parameters bear in published weight files.

mod initialise;
mod names;
mod published;
pub mod torch;
mod weights;

pub use initialise::initialise;
pub use names::parameter_name;
pub use published::{PublishedEncoding, PublishedSet};
pub use weights::{HEADER_KEY, WeightsError, load_weights, save_weights};
