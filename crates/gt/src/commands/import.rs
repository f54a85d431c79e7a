//! `gt import`: weights of the published PyTorch code.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use gt_graph::{Level, TargetKind};
use gt_models::{Model, schema_of_checkpoint, torch};

use super::config_args::ConfigSource;
use super::output::OutputCheck;
use crate::console;

/// Nothing in the checkpoint is executed: a restricted reader accepts tensors and rejects
/// everything else.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
gt config show --preset zinc > zinc.toml\n  \
gt import CHECKPOINT.pkl zinc.safetensors --config zinc.toml")]
pub struct Arguments {
    /// The checkpoint, as `torch.save(model.state_dict(), …)` writes it
    checkpoint: PathBuf,
    /// The model file to write, safetensors
    out: PathBuf,
    /// Configuration of the model, TOML; only its section `model` is used
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Set a key of the configuration, such as `model.encoding=laplacian`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Level of the targets, which a checkpoint does not store
    #[arg(long, value_enum, default_value_t = LevelName::Graph)]
    level: LevelName,
    /// Kind of the targets, which a checkpoint does not store
    /// [default: float for one output, class for several]
    #[arg(long, value_enum)]
    target: Option<TargetName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LevelName {
    Graph,
    Node,
}

#[derive(Clone, Copy, ValueEnum)]
enum TargetName {
    Float,
    Class,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let check = OutputCheck::of_file(&self.out).reads("the checkpoint", &self.checkpoint);
        check.reads("--config", &self.config).check()?;
        let config = ConfigSource::File(self.config.clone()).load(&self.set)?;
        let in_checkpoint = |e: String| anyhow::anyhow!("{}: {e}", self.checkpoint.display());
        let bytes = std::fs::read(&self.checkpoint).map_err(|e| in_checkpoint(e.to_string()))?;
        let state = torch::read_state_dict(&bytes).map_err(|e| in_checkpoint(e.to_string()))?;
        let level = match self.level {
            LevelName::Graph => Level::Graph,
            LevelName::Node => Level::Node,
        };
        let schema_for = |kind| schema_of_checkpoint(&state, level, kind).map_err(|e| in_checkpoint(e.to_string()));
        let schema = match self.target {
            Some(TargetName::Float) => schema_for(TargetKind::Float)?,
            Some(TargetName::Class) => schema_for(TargetKind::Class)?,
            None => match schema_for(TargetKind::Float)? {
                numbers if numbers.target.as_ref().is_some_and(|target| target.columns.len() == 1) => numbers,
                _ => schema_for(TargetKind::Class)?,
            },
        };
        let model = Model::import(config, schema, &state).map_err(|e| in_checkpoint(e.to_string()))?;
        model.save(&self.out)?;
        console::say!("wrote {}: {} parameters", self.out.display(), model.weights.parameters().count());
        Ok(())
    }
}
