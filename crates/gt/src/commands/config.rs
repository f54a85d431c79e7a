//! `gt config show|check`

use anyhow::Result;
use clap::{Args, Subcommand};
use gt_models::Config;

use super::config_args::{ConfigArgs, ConfigSource};
use crate::console;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print a complete configuration: of a file, a preset, or the defaults
    Show(Arguments),
    /// Check a configuration; all problems are reported at once
    Check(Arguments),
}

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigArgs,
}

impl ConfigCommand {
    pub fn run(self) -> Result<()> {
        match self {
            ConfigCommand::Show(arguments) => console::print(&arguments.load()?.to_toml()),
            ConfigCommand::Check(arguments) => {
                arguments.load()?;
                console::print("the configuration is fine\n")
            }
        }
    }
}

impl Arguments {
    /// The named configuration, or the defaults.
    fn load(&self) -> Result<Config> {
        self.config.source()?.unwrap_or(ConfigSource::Text("")).load(self.config.settings())
    }
}
