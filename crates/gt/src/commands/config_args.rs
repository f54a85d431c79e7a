//! Arguments that name a configuration, and where it is read from.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use gt_models::config::SetKeys;
use gt_models::{Config, Preset};

use crate::console;

/// A configuration and its changed keys, as several commands take them.
#[derive(Args)]
pub struct ConfigArgs {
    /// Configuration, TOML; `gt config show` prints a complete one
    config: Option<PathBuf>,
    /// A published configuration: zinc, pattern, cluster (the paper's best rows), or such as
    /// zinc-full-none-ln
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    preset: Option<String>,
    /// Set a key, such as `optimizer.lr=1e-3`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArgs {
    /// The file or preset that is named; `None` without either.
    ///
    /// # Errors
    /// There is no such preset.
    pub fn source(&self) -> Result<Option<ConfigSource>> {
        if let Some(file) = &self.config {
            return Ok(Some(ConfigSource::File(file.clone())));
        }
        Ok(self.preset.as_deref().map(find_preset).transpose()?.map(ConfigSource::Preset))
    }

    /// Keys that are set, `key=value`.
    pub fn settings(&self) -> &[String] {
        &self.set
    }
}

/// Where a configuration is read from.
pub enum ConfigSource {
    /// A TOML file.
    File(PathBuf),
    /// A published configuration.
    Preset(Preset),
    /// Embedded TOML.
    Text(&'static str),
    /// Nothing but settings.
    Settings,
}

impl ConfigSource {
    /// The keys that the user sets, so that rules for the data choose the others. `None` for
    /// presets and embedded configurations: they are complete.
    pub fn set_keys(&self, settings: &[String]) -> Option<SetKeys> {
        match self {
            Self::File(file) => Some(SetKeys::new(&std::fs::read_to_string(file).ok()?, settings)),
            Self::Settings => Some(SetKeys::new("", settings)),
            Self::Preset(_) | Self::Text(_) => None,
        }
    }

    /// The complete configuration, with some keys set (`key=value`).
    ///
    /// # Errors
    /// The file cannot be read, or a key or value is wrong.
    pub fn load(&self, settings: &[String]) -> Result<Config> {
        match self {
            Self::File(file) => {
                let in_file = |e: &dyn std::fmt::Display| anyhow!("{}: {e}", file.display());
                let text = std::fs::read_to_string(file).map_err(|e| in_file(&e))?;
                Config::from_toml_with(&text, settings).map_err(|e| in_file(&e))
            }
            Self::Preset(preset) => Ok(Config::from_toml_with(&preset.config().to_toml(), settings)?),
            Self::Text(text) => Ok(Config::from_toml_with(text, settings)?),
            Self::Settings => Ok(Config::from_toml_with("", settings)?),
        }
    }
}

/// The preset of a name, or an error with the nearest name and all patterns.
fn find_preset(name: &str) -> Result<Preset> {
    Preset::named(name).ok_or_else(|| {
        let short = ["zinc", "pattern", "cluster"].map(str::to_owned);
        let names = short.into_iter().chain(Preset::all().iter().map(Preset::name).collect::<Vec<_>>());
        let hint = console::nearest(name, names);
        anyhow!(
            "there is no preset `{name}`{hint} There are zinc, pattern and cluster, and all of \
             (zinc|pattern|cluster)-(sparse|full)-(none|lappe|wl)-(bn|ln) and \
             (zinc|pattern|cluster)-(gcn|gat|gatedgcn|gatedgcn-lappe) that were published"
        )
    })
}
