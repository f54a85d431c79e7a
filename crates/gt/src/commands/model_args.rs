//! The trained model that a command uses.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use gt_models::config::MetricForm;
use gt_models::{Ensemble, Model};
use gt_train::RunDirectory;

use crate::console;

#[derive(Args)]
pub struct ModelArgs {
    /// Directory of a run, or a model file. Of a run, the best model on the validation split is
    /// used; of a run with a published preset, the last model. For gt predict and gt eval also a
    /// folder of finished runs. Their result is the mean of numbers or of probabilities
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
    /// Opens the model of a run, or a model file.
    ///
    /// # Errors
    /// There is none, its file cannot be used, or the folder holds several runs.
    pub fn open(&self) -> Result<Model> {
        let path = &self.model;
        if path.is_dir() {
            if let [first, ..] = &self.find_runs()[..] {
                bail!(
                    "{}: it holds several runs, and this command takes one model; pass one of them, such as {}",
                    path.display(),
                    first.display()
                );
            }
            return self.open_run(path);
        }
        let option = if self.best { "--best" } else { "--last" };
        let chosen = self.best || self.last;
        ensure!(!chosen, "{option} is about the models of a run; {} is one model", path.display());
        open(path)
    }

    /// Opens the model, or the models of all runs in a folder, which predict together.
    ///
    /// # Errors
    /// There is none, a file cannot be used, a run is not finished, or the models do not fit
    /// together.
    pub fn open_ensemble(&self) -> Result<Ensemble> {
        let runs = self.find_runs();
        if runs.is_empty() {
            return Ok(self.open()?.into());
        }
        let mut members = Vec::new();
        for run in runs {
            let finished = run.join(LAST).is_file() && RunDirectory::is_finished(&run)?;
            ensure!(
                finished,
                "{}: the run is not finished, so the runs of {} do not predict together yet; resume it with \
                 `{}`, or pass one run",
                run.display(),
                self.model.display(),
                console::command(["train".as_ref(), "--resume".as_ref(), "--out".as_ref(), self.model.as_os_str()])
            );
            members.push((run.display().to_string(), self.open_run(&run)?));
        }
        Ok(Ensemble::new(members)?)
    }

    /// The runs in the subfolders of a folder that is no run itself, in the order of their names
    /// and numbers.
    fn find_runs(&self) -> Vec<PathBuf> {
        let path = &self.model;
        if [BEST, LAST].iter().any(|name| path.join(name).exists()) {
            return Vec::new();
        }
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let is_run = |run: &PathBuf| ["config.toml", LAST].iter().any(|name| run.join(name).is_file());
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_run).collect();
        // fold-2 before fold-10.
        runs.sort_by_key(|run| (run.as_os_str().len(), run.clone()));
        runs
    }

    /// Opens the model of a run that is its result, or that the options name.
    fn open_run(&self, path: &Path) -> Result<Model> {
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
        open(&path.join(LAST))
    }
}

fn open(file: &Path) -> Result<Model> {
    let bytes = std::fs::read(file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
    Model::from_bytes(&bytes).map_err(|e| anyhow!("{}: {e}", file.display()))
}
