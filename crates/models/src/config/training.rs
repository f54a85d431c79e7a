//! `[data]`, `[optimizer]`, `[schedule]` and `[train]`.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::{ProblemKind, Problems};

/// What is predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskName {
    /// The targets of the data; the file decides whether they are numbers or classes.
    #[default]
    #[serde(alias = "targets")]
    Auto,
    /// The targets of the data, as real numbers.
    Regression,
    /// The targets of the data, as classes.
    Classification,
    /// Which nodes are joined; targets are ignored.
    Links,
}

/// Which graphs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// The data set, a file. Empty: a small CLUSTER set that is generated.
    pub file: String,
    /// What is predicted: the targets as numbers (`regression`) or classes (`classification`), or
    /// `links` between nodes. `auto`: the targets; the file decides whether they are classes.
    pub task: TaskName,
    /// Columns to predict. Empty: `y`, in tables also `label`.
    #[serde(with = "names")]
    pub target: Vec<String>,
    /// The only feature columns to read. Empty: all.
    #[serde(with = "names")]
    pub features: Vec<String>,
    /// Columns to leave out.
    #[serde(with = "names")]
    pub ignore: Vec<String>,
    /// Columns of categories, whatever their values look like; targets among them are classes.
    #[serde(with = "names")]
    pub categorical: Vec<String>,
    /// Columns of real numbers, even if all values are whole; so are targets among them.
    #[serde(with = "names")]
    pub continuous: Vec<String>,
    /// Categories that fewer than so many rows of the training split have share one `other` entry,
    /// which also stands for unknown categories of new graphs; 0: no category does.
    pub rare: usize,
    /// Whether every categorical column has an `other` entry for unknown categories of new graphs,
    /// even if no category is rare. Training then hides 2 % of the column's values behind `other`
    /// in each epoch, so that the entry is trained (CPU only).
    pub other: bool,
    /// Shares of training, validation and test where the file has no split: above 0, and together
    /// 1.
    pub split: [f64; 3],
    /// Seed of the split that is drawn where the file has none.
    pub split_seed: u64,
    /// Number of folds of a cross-validation, at least 2. Left out: one split. `gt train` trains a
    /// run for every fold; the folds are those of the file (`gt data split --folds`), or are drawn
    /// from `split_seed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folds: Option<usize>,
    /// The fold, from 1 to `folds`, that is the test part of this run. The validation part is cut
    /// from the other folds, in the proportion of the first two numbers of `split`. Left out: all
    /// folds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<usize>,
    /// Whether training scales real-valued targets to mean 0 and deviation 1; outputs are scaled
    /// back.
    pub standardize: bool,
    /// Whether continuous features are scaled to mean 0 and deviation 1 over the training split.
    /// The model file holds both numbers, so predictions need no preparation.
    pub standardize_inputs: bool,
    /// Sizes of vocabularies, and numbers of classes, that are larger than the file needs: a table
    /// `{column = size}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vocabulary: BTreeMap<String, usize>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            file: String::new(),
            task: TaskName::Auto,
            target: Vec::new(),
            features: Vec::new(),
            ignore: Vec::new(),
            categorical: Vec::new(),
            continuous: Vec::new(),
            rare: 0,
            other: false,
            split: [0.8, 0.1, 0.1],
            split_seed: 41,
            folds: None,
            fold: None,
            standardize: false,
            standardize_inputs: false,
            vocabulary: BTreeMap::new(),
        }
    }
}

impl DataConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        let predicts_links = self.task == TaskName::Links;
        problems.unless(!predicts_links || self.target.is_empty(), "data.target", ProblemKind::TargetOfLinks);
        for (key, names, other, others) in [
            ("data.target", &self.target, "data.ignore", &self.ignore),
            ("data.target", &self.target, "data.features", &self.features),
            ("data.features", &self.features, "data.ignore", &self.ignore),
            ("data.categorical", &self.categorical, "data.continuous", &self.continuous),
            ("data.categorical", &self.categorical, "data.ignore", &self.ignore),
            ("data.continuous", &self.continuous, "data.ignore", &self.ignore),
        ] {
            let twice = names.iter().find(|name| others.contains(name));
            let column = twice.cloned().unwrap_or_default();
            problems.unless(twice.is_none(), key, ProblemKind::TwoRoles { column, other });
        }
        let sum: f64 = self.split.iter().sum();
        let fine = self.split.iter().all(|&share| share > 0.0) && (sum - 1.0).abs() < 1e-6;
        problems.unless(fine, "data.split", ProblemKind::Shares(self.split));
        if let Some(folds) = self.folds {
            problems.unless_within(2.0..=65_535.0, "data.folds", folds as f64);
        }
        if let Some(fold) = self.fold {
            problems.unless_within(1.0..=self.folds.unwrap_or(65_535) as f64, "data.fold", fold as f64);
            problems.unless(self.folds.is_some(), "data.fold", ProblemKind::FoldWithoutFolds);
        }
    }

    pub(super) fn complete(self) -> Self {
        let vocabulary = BTreeMap::from([("column".into(), 1)]);
        Self { folds: Some(self.folds.unwrap_or(5)), fold: Some(self.fold.unwrap_or(1)), vocabulary, ..self }
    }
}

/// A list of names, with its own words for a value of another type.
mod names {
    use serde::de::{Deserializer, SeqAccess, Visitor};
    use serde::{Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(names: &[String], to: S) -> Result<S::Ok, S::Error> {
        names.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        from.deserialize_seq(Names)
    }

    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of names")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
            let mut names = Vec::new();
            while let Some(name) = list.next_element()? {
                names.push(name);
            }
            Ok(names)
        }
    }
}

/// The optimizer's algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// Adam; weight decay is part of the gradient.
    #[default]
    Adam,
    /// AdamW; weight decay acts on the parameters.
    Adamw,
}

/// The optimizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerConfig {
    /// The algorithm: `adam`, whose weight decay is part of the gradient, or `adamw`, whose weight
    /// decay acts on the parameters.
    pub name: Optimizer,
    /// Learning rate at the start.
    pub lr: f64,
    /// β₁ of Adam: decay of the mean of the gradients.
    pub beta1: f64,
    /// β₂ of Adam: decay of the mean of the squared gradients.
    pub beta2: f64,
    /// ε of Adam, added to the root of the mean of the squared gradients.
    pub epsilon: f64,
    /// Weight decay; 0 for none.
    pub weight_decay: f64,
    /// Largest norm of the gradient; 0 for no limit.
    pub clip: f64,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        let name = Optimizer::Adam;
        Self { name, lr: 7e-4, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, clip: 0.0 }
    }
}

impl OptimizerConfig {
    /// The optimizer at a learning rate.
    pub fn adam(&self, lr: f64) -> gt_nn::cpu::Adam {
        gt_nn::cpu::Adam {
            lr,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
            decoupled: self.name == Optimizer::Adamw,
            clip: self.clip,
        }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        for (key, value) in [("optimizer.lr", self.lr), ("optimizer.epsilon", self.epsilon)] {
            problems.unless_within((Bound::Excluded(0.0), Bound::Excluded(f64::INFINITY)), key, value);
        }
        for (key, value) in [("optimizer.beta1", self.beta1), ("optimizer.beta2", self.beta2)] {
            problems.unless_within(0.0..1.0, key, value);
        }
        for (key, value) in [("optimizer.weight_decay", self.weight_decay), ("optimizer.clip", self.clip)] {
            problems.unless_within(0.0..f64::INFINITY, key, value);
        }
    }
}

/// The schedule's rule for the learning rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// The rate falls by `factor` after `patience` epochs without a better value of `train.select`.
    /// Training ends below `min_lr`.
    #[default]
    Plateau,
    /// The rate falls to `min_lr` along half a cosine over all epochs.
    Cosine,
    /// The rate is constant.
    Constant,
}

/// The schedule of the learning rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleConfig {
    /// The rule for the rate: `plateau` lowers it by `factor` when training stops improving.
    /// `cosine` lowers it along half a cosine over all epochs. `constant` keeps it.
    pub name: Schedule,
    /// Plateau: the factor that lowers the rate.
    pub factor: f64,
    /// Plateau: epochs without improvement before the rate falls.
    pub patience: usize,
    /// Plateau: training ends below this rate. Cosine: the last rate. At least 0, and below
    /// `optimizer.lr`.
    pub min_lr: f64,
    /// Epochs at the start over which the rate rises from 0; 0 for none.
    pub warmup: usize,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self { name: Schedule::Plateau, factor: 0.5, patience: 15, min_lr: 1e-6, warmup: 0 }
    }
}

impl ScheduleConfig {
    pub(super) fn check(&self, lr: f64, problems: &mut Problems) {
        let Self { factor, min_lr, .. } = *self;
        problems.unless_within((Bound::Excluded(0.0), Bound::Excluded(1.0)), "schedule.factor", factor);
        let fine = min_lr >= 0.0 && (min_lr < lr || lr.is_nan());
        problems.unless(fine, "schedule.min_lr", ProblemKind::MinRate { min_lr, lr });
    }
}

/// What is minimised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossName {
    /// By the targets: L1 for real numbers; cross-entropy for one class, weighted for classes of
    /// nodes or edges; BCE for several yes/no labels.
    #[default]
    Auto,
    /// Mean absolute error.
    L1,
    /// Mean squared error.
    Mse,
    /// Cross-entropy.
    CrossEntropy,
    /// Cross-entropy with classes weighted by rarity in the batch, as published for PATTERN and
    /// CLUSTER.
    WeightedCrossEntropy,
    /// Binary cross-entropy of several yes/no labels.
    Bce,
}

/// What decides which epoch of a run has the best model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// The main metric of the task: `mae`, `accuracy` or `roc_auc`.
    #[default]
    Auto,
    /// The loss.
    Loss,
    /// Mean absolute error.
    Mae,
    /// √ of the mean squared error.
    Rmse,
    /// Explained share of the variance.
    R2,
    /// Rank correlation.
    Spearman,
    /// Share of rows whose class is right.
    Accuracy,
    /// Mean recall of the classes.
    MacroRecall,
    /// Mean F1 of the classes.
    #[serde(rename = "macro_f1", alias = "f1")]
    MacroF1,
    /// Mean of −log p of the right class.
    LogLoss,
    /// Area under the ROC curve.
    RocAuc,
    /// Average precision.
    AveragePrecision,
}

impl Select {
    /// The name of the metric, if one is chosen.
    pub fn metric(self) -> Option<&'static str> {
        match self {
            Select::Auto | Select::Loss => None,
            Select::Mae => Some("mae"),
            Select::Rmse => Some("rmse"),
            Select::R2 => Some("r2"),
            Select::Spearman => Some("spearman"),
            Select::Accuracy => Some("accuracy"),
            Select::MacroRecall => Some("macro_recall"),
            Select::MacroF1 => Some("f1"),
            Select::LogLoss => Some("log_loss"),
            Select::RocAuc => Some("roc_auc"),
            Select::AveragePrecision => Some("average_precision"),
        }
    }
}

/// How signs of Laplacian eigenvectors are flipped in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignFlip {
    /// One sign per column for all graphs of a batch, as published.
    #[default]
    Batch,
    /// One sign per column and graph.
    Graph,
    /// Not at all.
    Off,
}

/// Which weights of `train.init` a training starts with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitLayers {
    /// All that fit.
    #[default]
    All,
    /// All that fit but the head.
    Encoder,
}

impl InitLayers {
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// Batches, loss, and when to stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Seed of the initial weights, the order of graphs, the signs of eigenvectors, and dropout.
    pub seed: u64,
    /// A model file, or the directory of a run, whose weights training starts with; empty: the
    /// weights are drawn from the seed. Every tensor whose name and shape fit is taken.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub init: String,
    /// Which weights of `init` are taken: `all` that fit, or those of the `encoder`: all but the
    /// head.
    #[serde(skip_serializing_if = "InitLayers::is_all")]
    pub init_layers: InitLayers,
    /// Beginnings of names of parameters that training does not change, such as `"embedding"`,
    /// `"layers.0"`, `"layers"` or `"MLP_layer"`. The running statistics of their batch
    /// normalisations stay, too.
    #[serde(with = "names", skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// Graphs per batch.
    pub batch: usize,
    /// Value on the validation split that decides which epoch has the best model. A plateau and
    /// early stopping follow the same value. `auto` is the main metric of the task.
    pub select: Select,
    /// Batches whose gradients are averaged into one step.
    pub accumulate: usize,
    /// The loss. `auto` follows the targets: `l1` for real numbers, `bce` for several yes/no labels
    /// and for links. `auto` is `cross-entropy` for one class of graphs, and
    /// `weighted-cross-entropy` for one class of nodes or edges. Weights of classes are their
    /// rarity in the batch.
    pub loss: LossName,
    /// How training flips signs of Laplacian eigenvectors: one sign per column for a `batch`, as
    /// published, or for each `graph`, or `off`.
    pub sign_flip: SignFlip,
    /// Largest number of epochs.
    pub epochs: usize,
    /// Longest time of training in hours; 0 for no limit.
    pub hours: f64,
    /// Whether a step with an infinite or NaN loss or gradient is skipped instead of ending the
    /// run.
    pub skip_bad_steps: bool,
    /// Training ends after so many epochs without a better value of `train.select`; 0 for never.
    pub early_stop: usize,
    /// Most seconds of work that are lost if the program is killed. Checkpoints are written between
    /// epochs, so a longer epoch may cost more; 0 for a checkpoint after every epoch.
    pub checkpoint_seconds: f64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 41,
            init: String::new(),
            init_layers: InitLayers::All,
            freeze: Vec::new(),
            batch: 128,
            select: Select::Auto,
            accumulate: 1,
            loss: LossName::Auto,
            sign_flip: SignFlip::Batch,
            epochs: 1_000,
            hours: 24.0,
            skip_bad_steps: false,
            early_stop: 0,
            checkpoint_seconds: 10.0,
        }
    }
}

impl TrainConfig {
    pub(super) fn complete(self) -> Self {
        // Any values but those that are left out.
        Self { init: "?".into(), init_layers: InitLayers::Encoder, freeze: vec!["?".into()], ..self }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        for (key, value) in
            [("train.batch", self.batch), ("train.accumulate", self.accumulate), ("train.epochs", self.epochs)]
        {
            problems.unless_within(1.0.., key, value as f64);
        }
        for (key, value) in [("train.hours", self.hours), ("train.checkpoint_seconds", self.checkpoint_seconds)] {
            problems.unless_within(0.0..f64::INFINITY, key, value);
        }
    }
}
