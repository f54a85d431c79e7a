//! `gt config show|check|keys`

use anyhow::Result;
use clap::{Args, Subcommand};
use gt_models::Config;

use super::config_args::{ConfigArgs, ConfigSource};
use super::config_keys;
use crate::console;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print a complete configuration: of a file, a preset, or the defaults
    #[command(after_help = "Examples:\n  gt config show\n  gt config show --preset zinc-gcn --set train.batch=64")]
    Show(Arguments),
    /// Check a configuration; all problems are reported at once
    #[command(after_help = "Examples:\n  gt config check mine.toml\n  gt config check --set model.heads=4")]
    Check(Arguments),
    /// List every key with its default, its possible values and its meaning
    #[command(after_help = "Examples:\n  gt config keys")]
    Keys(config_keys::Arguments),
}

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigArgs,
}

impl ConfigCommand {
    pub fn run(self) -> Result<()> {
        match self {
            ConfigCommand::Show(arguments) => console::print_exactly(&arguments.load()?.to_toml()),
            ConfigCommand::Check(arguments) => {
                arguments.load()?;
                console::print("the configuration is fine\n")
            }
            ConfigCommand::Keys(arguments) => arguments.run(),
        }
    }
}

impl Arguments {
    /// The named configuration, or the defaults.
    fn load(&self) -> Result<Config> {
        self.config.source()?.unwrap_or(ConfigSource::Text("")).load(self.config.settings())
    }
}
