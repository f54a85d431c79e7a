//! `gt eval`

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use gt_models::{Config, ModelHeader};
use gt_nn::cpu::{Engine, Isa};
use gt_train::{Card, CardData, Part, Scores, Task, TrainError, evaluate};
use serde::Serialize;

use super::configured_data::{ConfiguredData, set_data_file};
use crate::console;
use crate::device::Using;

/// Score a trained model on a part of a data set, in both metric forms.
#[derive(Args)]
pub struct Arguments {
    /// Directory of a run, or a model file
    model: PathBuf,
    /// Data set; if it has no split, one is drawn as in training [default: the one of the run]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Which part
    #[arg(long, value_enum, default_value_t = PartName::Test)]
    split: PartName,
    /// The model with the best validation loss instead of the last one
    #[arg(long)]
    best: bool,
    #[command(flatten)]
    using: Using,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PartName {
    Train,
    Val,
    Test,
}

/// Numbers that are not finite become null.
#[derive(Serialize)]
struct Line<'a> {
    split: &'static str,
    metric: &'static str,
    paper: f64,
    exact: f64,
    loss: f64,
    graphs: usize,
    #[serde(flatten)]
    others: &'a std::collections::BTreeMap<String, f64>,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let device = self.using.open()?;
        let (header, mut engine) = open(&self.model, self.best)?;
        let mut config: Config = header.config.clone();
        if let Some(file) = &self.data {
            set_data_file(&mut config, file)?;
        }
        let elsewhere = self.data.is_none() && !config.data.file.is_empty() && !Path::new(&config.data.file).exists();
        ensure!(
            !elsewhere,
            "{}: there is no such file here; the model was trained on it, --data FILE names another",
            config.data.file
        );
        let data = ConfiguredData::load(&config)?;
        let named = |e: TrainError| data.name_error(e);
        let task = Task::for_model(&data.dataset, &header, data.file.as_deref()).map_err(named)?;
        let part = match self.split {
            PartName::Train => Part::Train,
            PartName::Val => Part::Val,
            PartName::Test => Part::Test,
        };
        task.ensure_labels(part).map_err(named)?;
        if let Some(file) = self.data.as_ref().filter(|_| data.dataset.split().is_none() && task.links.is_none()) {
            let (name, part) = (file.display(), part.name());
            console::warn(&format!(
                "{name} has no split, so one is drawn as in training, and only its part `{part}` is scored"
            ));
        }
        let on_card = self.using.compute(device.as_ref(), |device, precision, cache| {
            let data = CardData::new(device, &task)?;
            let mut card = Card::to_evaluate(&data, precision, &task, &config, cache)?;
            card.evaluate(&engine, &task, part, config.train.batch)
        })?;
        let scores: Scores = match on_card {
            Some(scores) => scores,
            None => evaluate(&mut engine, &task, part, config.train.batch)?,
        };
        let graphs = task.graphs_of(part).len();
        if self.json {
            return console::print_json(&Line {
                split: part.name(),
                metric: task.metric.name(),
                paper: scores.metric.paper,
                exact: scores.metric.exact,
                loss: scores.loss.exact,
                graphs,
                others: &scores.others,
            });
        }
        let mut text = format!("{} of {graphs} graphs\n", part.name());
        text +=
            &format!("{:18} {:.6} (paper form {:.6})\n", task.metric.name(), scores.metric.exact, scores.metric.paper);
        text += &format!("{:18} {:.6} (paper form {:.6})\n", "loss", scores.loss.exact, scores.loss.paper);
        scores.others.iter().for_each(|(name, value)| text += &format!("{name:18} {value:.6}\n"));
        console::print(&text)
    }
}

/// The first of the runs that `gt train --seeds` leaves in a directory.
fn seed_in(path: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|run| run.join("model.safetensors").is_file()).min()
}

/// The model of a run directory or file.
pub fn open(path: &Path, best: bool) -> Result<(ModelHeader, Engine<f32>)> {
    ensure!(!best || path.is_dir(), "--best is about the models of a run; {} is one model", path.display());
    let file = match path.is_dir() {
        true => path.join(if best { "best.safetensors" } else { "model.safetensors" }),
        false => path.to_owned(),
    };
    if !file.is_file()
        && let Some(seed) = seed_in(path)
    {
        bail!("{}: there is no model in it, but runs of several seeds, such as {}", path.display(), seed.display());
    }
    let bytes = std::fs::read(&file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
    ModelHeader::open(&bytes, Isa::detect()).map_err(|e| anyhow!("{}: {e}", file.display()))
}
