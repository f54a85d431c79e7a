//! The trained model that a command uses.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use gt_models::Model;
use gt_models::config::MetricForm;

#[derive(Args)]
pub struct ModelArgs {
    /// Directory of a run, or a model file. Of a run, the best model on the validation split is
    /// used; of a run with a published preset, the last model
    pub model: PathBuf,
    /// The best model of a run
    #[arg(long, conflicts_with = "last")]
    best: bool,
    /// The last model of a run
    #[arg(long)]
    last: bool,
}

/// The models of a run's directory.
const BEST: &str = "best.safetensors";
const LAST: &str = "model.safetensors";

impl ModelArgs {
    /// Opens the model.
    ///
    /// # Errors
    /// There is none, or its file cannot be used.
    pub fn open(&self) -> Result<Model> {
        let path = &self.model;
        if !path.is_dir() {
            let option = if self.best { "--best" } else { "--last" };
            let chosen = self.best || self.last;
            ensure!(!chosen, "{option} is about the models of a run; {} is one model", path.display());
            return open(path);
        }
        if self.best {
            return open(&path.join(BEST));
        }
        if !self.last && path.join(BEST).is_file() {
            let best = open(&path.join(BEST))?;
            // The paper reports the last model.
            if best.config.model.metrics == MetricForm::Exact {
                return Ok(best);
            }
        }
        if !path.join(LAST).is_file()
            && let Some(seed) = find_seed(path)
        {
            bail!("{}: there is no model in it, but runs of several seeds, such as {}", path.display(), seed.display());
        }
        open(&path.join(LAST))
    }
}

fn open(file: &Path) -> Result<Model> {
    let bytes = std::fs::read(file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
    Model::from_bytes(&bytes).map_err(|e| anyhow!("{}: {e}", file.display()))
}

/// The first of the runs that `gt train --seeds` leaves in a directory.
fn find_seed(path: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|run| run.join(LAST).is_file()).min()
}
