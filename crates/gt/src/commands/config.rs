//! `gt config show|check`

use std::path::PathBuf;

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
        let base = match (&self.file, &self.preset) {
            (Some(file), _) => std::fs::read_to_string(file).map_err(|e| anyhow!("{}: {e}", file.display()))?,
            (None, Some(name)) => preset(name)?.config().to_toml(),
            (None, None) => String::new(),
        };
        Config::from_toml_with(&base, &self.set).map_err(|e| match &self.file {
            Some(file) => anyhow!("{}: {e}", file.display()),
            None => e.into(),
        })
    }
}

/// A preset, or a sentence that lists them.
pub fn preset(name: &str) -> Result<Preset> {
    Preset::named(name).ok_or_else(|| {
        let short = ["zinc", "pattern", "cluster"].map(str::to_owned);
        let names = short.into_iter().chain(Preset::all().iter().map(Preset::name).collect::<Vec<_>>());
        let nearest = names.min_by_key(|known| strsim::damerau_levenshtein(known, name)).unwrap_or_default();
        anyhow!("there is no preset `{name}`; did you mean `{nearest}`? There are zinc, pattern and cluster, and all of (zinc|pattern|cluster)-(sparse|full)-(none|lappe|wl)-(bn|ln) and (zinc|pattern|cluster)-(gcn|gat|gatedgcn|gatedgcn-lappe) that were published")
    })
}
