//! The subcommands: each parses its arguments, checks them, and calls the layers below.

mod attention;
mod bench;
mod cache;
mod check;
mod config;
mod config_args;
mod config_keys;
mod configured_data;
mod convert;
mod data_args;
mod data_notes;
mod embed;
mod encode;
mod eval;
mod fetch;
mod import;
mod info;
mod model_args;
mod output;
mod predict;
mod query_args;
mod reproduce;
mod sbm;
mod seeds;
mod split;
mod train;

use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// Make, fetch, convert, split and describe data sets
    #[command(subcommand)]
    Data(DataCommand),
    /// Compute positional encodings; without FILE, of a small CLUSTER set made on the spot
    Encode(encode::Arguments),
    /// Train a model; without any file, a small one on a small CLUSTER set
    Train(Box<train::Arguments>),
    /// Score a trained model on a part of a data set
    Eval(eval::Arguments),
    Predict(predict::Arguments),
    Embed(embed::Arguments),
    Attention(attention::Arguments),
    /// Show or check a configuration, or list all keys
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Show or clear the cache of encodings, kernels and fetched data
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Read weights of the published PyTorch code into a model file
    Import(import::Arguments),
    Reproduce(Box<reproduce::Arguments>),
    /// Time a training and an inference step of the published configurations
    Bench(bench::Arguments),
    /// Is this device computing right?
    Check(check::Arguments),
}

#[derive(Subcommand)]
pub enum DataCommand {
    /// Draw PATTERN or CLUSTER, the paper's synthetic sets
    Sbm(sbm::Arguments),
    /// Download a published data set
    Fetch(fetch::Arguments),
    /// Convert between Parquet, JSON lines and tables of nodes and edges
    Convert(Box<convert::Arguments>),
    /// Add a split into training, validation and test, or into folds
    Split(split::Arguments),
    /// Describe a data set
    Info(info::Arguments),
}

impl Command {
    pub fn run(self) -> Result<()> {
        match self {
            Command::Data(DataCommand::Sbm(arguments)) => arguments.run(),
            Command::Data(DataCommand::Fetch(arguments)) => arguments.run(),
            Command::Data(DataCommand::Convert(arguments)) => arguments.run(),
            Command::Data(DataCommand::Split(arguments)) => arguments.run(),
            Command::Data(DataCommand::Info(arguments)) => arguments.run(),
            Command::Encode(arguments) => arguments.run(),
            Command::Train(arguments) => arguments.run(),
            Command::Eval(arguments) => arguments.run(),
            Command::Predict(arguments) => arguments.run(),
            Command::Embed(arguments) => arguments.run(),
            Command::Attention(arguments) => arguments.run(),
            Command::Config(command) => command.run(),
            Command::Cache(command) => command.run(),
            Command::Import(arguments) => arguments.run(),
            Command::Reproduce(arguments) => arguments.run(),
            Command::Bench(arguments) => arguments.run(),
            Command::Check(arguments) => arguments.run(),
        }
    }
}

/// Ends the program with exit code 1: the command ran, but something it checked is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CheckFailed(pub String);
