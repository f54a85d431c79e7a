//! Configurations in TOML.

use std::path::Path;
use std::sync::OnceLock;

use gt_graph::Schema;
use gt_models::{Config, PublishedSet};

use super::accepted;

/// Reads a configuration, writes and reads it again, and derives a network for molecules.
pub fn run(bytes: &[u8], _: &Path) -> bool {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let config = Config::from_toml(text);
    if let Ok(config) = &config {
        let again = Config::from_toml(&config.to_toml());
        assert_eq!(again.as_ref().ok(), Some(config), "a written configuration reads as another one");
        accepted(config.network(SCHEMA.get_or_init(|| PublishedSet::Zinc.schema())));
    }
    accepted(config)
}
