//! The trained model that a command uses.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use gt_models::Model;

#[derive(Args)]
pub struct ModelArgs {
    /// Directory of a run, or a model file
    pub model: PathBuf,
    /// The model with the best validation loss instead of the last one
    #[arg(long)]
    best: bool,
}

impl ModelArgs {
    /// Opens the model.
    ///
    /// # Errors
    /// There is none, or its file cannot be used.
    pub fn open(&self) -> Result<Model> {
        let (path, best) = (&self.model, self.best);
        ensure!(!best || path.is_dir(), "--best is about the models of a run; {} is one model", path.display());
        let file = match path.is_dir() {
            true => path.join(if best { "best.safetensors" } else { "model.safetensors" }),
            false => path.clone(),
        };
        if !file.is_file()
            && let Some(seed) = find_seed(path)
        {
            bail!("{}: there is no model in it, but runs of several seeds, such as {}", path.display(), seed.display());
        }
        let bytes = std::fs::read(&file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
        Model::from_bytes(&bytes).map_err(|e| anyhow!("{}: {e}", file.display()))
    }
}

/// The first of the runs that `gt train --seeds` leaves in a directory.
fn find_seed(path: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|run| run.join("model.safetensors").is_file()).min()
}
