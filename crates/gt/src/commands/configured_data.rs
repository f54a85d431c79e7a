//! The data set that a configuration names.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use gt_data::{Dataset, Labels, SbmSet, SbmSizes};
use gt_models::{Config, Model};

use super::data_args::roles_of;

/// Sizes of the CLUSTER set for configurations that name no file.
const EMBEDDED_SIZES: SbmSizes = SbmSizes { train: 1_000, val: 100, test: 100 };

/// A data set, and the file that it was read from.
pub struct ConfiguredData {
    pub dataset: Dataset,
    /// `None` for the embedded CLUSTER set.
    pub file: Option<PathBuf>,
}

impl ConfiguredData {
    /// Reads `data.file`, or draws a small CLUSTER set if the configuration names no file.
    pub fn load(config: &Config) -> Result<Self> {
        let roles = roles_of(config)?;
        Self::read(config, |file| gt_data::read_with(file, &roles))
    }

    /// Reads `data.file` as the data of a trained model.
    pub fn load_for(config: &Config, model: &Model) -> Result<Self> {
        Self::read(config, |file| gt_data::read_expecting(file, &gt_train::expected(model, Labels::Read)))
    }

    fn read(config: &Config, read: impl FnOnce(&Path) -> gt_data::Result<Dataset>) -> Result<Self> {
        if config.data.file.is_empty() {
            return Ok(Self { dataset: SbmSet::Cluster.generate(41, EMBEDDED_SIZES)?, file: None });
        }
        let file = PathBuf::from(&config.data.file);
        Ok(Self { dataset: read(&file)?, file: Some(file) })
    }
}

/// Sets `data.file` of a configuration.
///
/// # Errors
/// The name is no Unicode text, so a TOML file cannot hold it.
pub fn set_data_file(config: &mut Config, file: &Path) -> Result<()> {
    let name = file.to_str().ok_or_else(|| anyhow!("{}: the name is no Unicode text", file.display()))?;
    name.clone_into(&mut config.data.file);
    Ok(())
}
