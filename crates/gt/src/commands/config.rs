//! `gt config show|check`

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use gt_models::{Config, Preset};

use crate::console;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print a complete configuration: of a file, a preset, or the defaults
    Show(Arguments),
    /// Check a configuration; every problem is told at once
    Check(Arguments),
}

#[derive(Args)]
pub struct Arguments {
    /// Configuration, TOML
    file: Option<PathBuf>,
    /// A published configuration, such as zinc or cluster-full-lappe-ln
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    preset: Option<String>,
    /// Set a key, such as `optimizer.lr=1e-3`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigCommand {
    pub fn run(self) -> Result<()> {
        match self {
            ConfigCommand::Show(arguments) => console::print(&arguments.config()?.to_toml()),
            ConfigCommand::Check(arguments) => {
                arguments.config()?;
                console::print("the configuration is fine\n")
            }
        }
    }
}

impl Arguments {
    fn config(&self) -> Result<Config> {
        load(self.file.as_deref(), self.preset.as_deref(), "", &self.set)
    }
}

/// The configuration of a file, of a preset, or else of the text `otherwise`, with some keys set.
pub fn load(file: Option<&Path>, preset: Option<&str>, otherwise: &str, set: &[String]) -> Result<Config> {
    if let Some(file) = file {
        let named = |e: &dyn std::fmt::Display| anyhow!("{}: {e}", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| named(&e))?;
        return Config::from_toml_with(&text, set).map_err(|e| named(&e));
    }
    let text = match preset {
        Some(name) => published(name)?.config().to_toml(),
        None => otherwise.to_owned(),
    };
    Ok(Config::from_toml_with(&text, set)?)
}

/// A preset, or a sentence that lists them.
pub fn published(name: &str) -> Result<Preset> {
    Preset::named(name).ok_or_else(|| {
        let short = ["zinc", "pattern", "cluster"].map(str::to_owned);
        let names = short.into_iter().chain(Preset::all().iter().map(Preset::name).collect::<Vec<_>>());
        let hint = console::nearest(name, names);
        anyhow!("there is no preset `{name}`{hint} There are zinc, pattern and cluster, and all of (zinc|pattern|cluster)-(sparse|full)-(none|lappe|wl)-(bn|ln) and (zinc|pattern|cluster)-(gcn|gat|gatedgcn|gatedgcn-lappe) that were published")
    })
}
