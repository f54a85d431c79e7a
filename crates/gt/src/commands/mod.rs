//! The subcommands: each parses its arguments, checks them, and calls the layers below.

mod asking;
mod attention;
mod bench;
mod check;
mod config;
mod convert;
mod embed;
mod encode;
mod eval;
mod fetch;
mod import;
mod info;
mod predict;
mod reproduce;
mod sbm;
mod split;
mod train;

pub use check::CheckFailed;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Subcommand;
use clap::builder::TypedValueParser;
use gt_data::Dataset;

use crate::console;

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
    /// Show or check a configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
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
            Command::Import(arguments) => arguments.run(),
            Command::Reproduce(arguments) => arguments.run(),
            Command::Bench(arguments) => arguments.run(),
            Command::Check(arguments) => arguments.run(),
        }
    }
}

/// Writes a data set and says so.
fn write(dataset: &Dataset, path: &Path) -> Result<()> {
    for lost in gt_data::write(dataset, path)? {
        console::warn(&lost);
    }
    let graphs = dataset.graphs();
    let counts = format!("{} graphs, {} nodes, {} edges", graphs.len(), graphs.num_nodes(), graphs.num_edges());
    console::say!("wrote {}: {counts}", path.display());
    Ok(())
}

/// Fails before any work is done if a result could not be written in the end.
fn check_output(path: &Path) -> Result<()> {
    gt_data::Format::of(path)?;
    check_folder(path)
}

/// Fails if a file could not be written because its folder is not there.
fn check_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "{}: the folder {} does not exist", path.display(), folder.display());
    Ok(())
}

/// Fails if a result would replace a file that is read.
fn keep(out: &Path, name: &str, file: &Path) -> Result<()> {
    ensure!(!overlap(&[out.to_owned()], &gt_data::files_of(file)), "{}: --out would replace {name}", out.display());
    Ok(())
}

/// Whether a file that is there is in both lists.
fn overlap(some: &[PathBuf], others: &[PathBuf]) -> bool {
    let places = |files: &[PathBuf]| files.iter().filter_map(|file| file.canonicalize().ok()).collect::<Vec<_>>();
    let others = places(others);
    places(some).iter().any(|place| others.contains(place))
}

/// Seeds that a configuration file can hold.
fn seeds() -> impl TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(..=i64::MAX as u64)
}
