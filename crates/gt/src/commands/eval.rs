//! `gt eval`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use gt_data::Splits;
use gt_graph::Split;
use gt_models::Config;
use gt_models::config::{MetricForm, TaskName};
use gt_train::metrics::shown_name;
use gt_train::{DataProblem, Prepared, Purpose, Scores, TrainError, evaluate, evaluate_ensemble};
use serde::Serialize;

use super::configured_data::{ConfiguredData, set_data_file};
use super::data_notes::print_replaced_encodings;
use super::model_args::ModelArgs;
use crate::cache::encoding_cache;
use crate::console;
use crate::device::DeviceArgs;

/// Score a trained model on a split of a data set, or on all rows.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  gt eval runs/mine\n  gt eval runs/mine --split val --json\n  gt eval runs/mine --data other.jsonl --split all"
)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArgs,
    /// Data set; if it has no split, one is drawn as in training [default: the one of the run]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Which split; `all` scores every row of the file that has a label
    #[arg(long, value_enum, default_value_t = SplitName::Test)]
    split: SplitName,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SplitName {
    Train,
    Val,
    Test,
    All,
}

impl SplitName {
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            one => one.split().name(),
        }
    }

    /// The split that is scored. All rows make up a test split.
    fn split(self) -> Split {
        match self {
            Self::Train => Split::Train,
            Self::Val => Split::Val,
            Self::Test | Self::All => Split::Test,
        }
    }
}

/// Numbers that are not finite become null.
#[derive(Serialize)]
struct Line<'a> {
    split: &'static str,
    metric: &'static str,
    paper: f64,
    exact: f64,
    loss: f64,
    /// The number of scored graphs, nodes, edges or links, under that name.
    #[serde(flatten)]
    rows: BTreeMap<String, usize>,
    /// Rows of the split that have no label.
    unlabelled: usize,
    /// The class whose probability `roc_auc` and `average_precision` of two classes rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    positive_class: Option<String>,
    #[serde(flatten)]
    others: &'a BTreeMap<String, f64>,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let models = self.model.open_ensemble()?;
        let mut model = models.first().clone();
        let trained = Path::new(&model.config.data.file).canonicalize().ok();
        let other = self.data.as_ref().filter(|data| data.canonicalize().ok() != trained);
        if models.single().is_none() && model.config.data.folds.is_some() {
            // Each fold is the training data of all other members.
            ensure!(
                other.is_some(),
                "{folder}: every row of {} was training data of some of these models; the scores on unseen rows \
                 are in {folder}/out_of_fold.csv and at the end of `gt train --resume --out {folder}`; \
                 --data names other data",
                model.config.data.file,
                folder = self.model.model.display(),
            );
            (model.config.data.folds, model.config.data.fold) = (None, None);
        }
        let mut config: Config = model.config.clone();
        if let Some(file) = &self.data {
            set_data_file(&mut config, file)?;
        }
        let elsewhere = self.data.is_none() && !config.data.file.is_empty() && !Path::new(&config.data.file).exists();
        ensure!(
            !elsewhere,
            "{}: there is no such file here; the model was trained on it, --data FILE names another",
            config.data.file
        );
        let ConfiguredData { mut dataset, file } = ConfiguredData::load_for(&config, &model)?;
        if self.split == SplitName::All {
            ensure!(
                config.data.task != TaskName::Links,
                "links are scored on held-out edges, which --split all does not have; choose train, val or test"
            );
            if other.is_none() {
                console::warn("all rows are scored, and the model was trained on most of them");
            }
            dataset.set_split(Splits::whole(dataset.graphs().len(), Split::Test.name()))?;
        }
        let drawn = dataset.split().is_none();
        let named = |e: TrainError| e.in_file(file.as_deref());
        let together = models.single().is_none().then(|| dataset.clone());
        let prepared = Prepared::for_model(dataset, &model, encoding_cache().as_ref()).map_err(named)?;
        let split = self.split.split();
        prepared.ensure_labels(split).map_err(|error| match error {
            TrainError::Data(DataProblem::NoLabels(_)) if self.split == SplitName::All => {
                named(DataProblem::NoLabelsAtAll.into())
            }
            error => named(error),
        })?;
        print_replaced_encodings(&prepared);
        if let Some(file) = self.data.as_ref().filter(|_| drawn && prepared.links.is_none()) {
            let (name, split) = (file.display(), split.name());
            console::warn(&format!(
                "{name} has no split, so one is drawn as in training, and only its split `{split}` is scored; --split all scores all rows"
            ));
        }
        let scores: Scores = self.device.compute(|device| {
            if let Some(dataset) = &together {
                return evaluate_ensemble(dataset, &models, &model.config, device, split, encoding_cache().as_ref());
            }
            let mut backend = prepared.place(device)?.backend(&prepared, &config, Purpose::Evaluation)?;
            backend.load(&model.weights, None)?;
            evaluate(&prepared, backend.as_mut(), split, config.train.batch)
        })?;
        let (count, unlabelled) = prepared.labelled_rows_in(split);
        let positive_class = prepared.positive_class().filter(|_| scores.others.contains_key("roc_auc"));
        let noun = if prepared.links.is_some() { "links".to_owned() } else { format!("{}s", prepared.level()) };
        if self.json {
            return console::print_json(&Line {
                split: self.split.name(),
                metric: prepared.metric.name(),
                paper: scores.metric.paper,
                exact: scores.metric.exact,
                loss: scores.loss.exact,
                rows: [(noun, count)].into(),
                unlabelled,
                positive_class,
                others: &scores.others,
            });
        }
        let more = if unlabelled > 0 { format!(", {unlabelled} more have no label") } else { String::new() };
        let mut text = format!("{} of {count} {noun}{more}\n", self.split.name());
        for (name, forms) in [(prepared.metric.name(), scores.metric), ("loss", scores.loss)] {
            text += &match prepared.form {
                MetricForm::Exact => format!("{name:18} {:.6}\n", forms.exact),
                MetricForm::Paper => format!("{name:18} {:.6} (paper form {:.6})\n", forms.exact, forms.paper),
            };
        }
        for (name, value) in &scores.others {
            let ranked = ["roc_auc", "average_precision"].contains(&name.as_str());
            let class = positive_class.as_ref().filter(|_| ranked);
            let class = class.map(|class| format!(" (of the class {class})")).unwrap_or_default();
            text += &format!("{:18} {value:.6}{class}\n", shown_name(name));
        }
        console::print(&text)
    }
}
