//! The configuration of a run in one structure: read from and written as TOML, and checked as a
//! whole before anything is built.

mod branches;
mod build;
mod keys;
mod links;
mod model;
mod problem;
mod reference;
mod training;

pub use build::OutputKind;
pub use keys::{SetKeys, nearest};
pub use links::LinksConfig;
pub use model::{EdgeHead, Encoding, Kind, MetricForm, ModelConfig, Variant};
pub(crate) use problem::Problems;
pub use problem::{ConfigError, ConfigProblem, ProblemKind};
pub use reference::{KeyReference, SectionReference, reference};
pub use training::{
    DataConfig, InitLayers, LossName, Optimizer, OptimizerConfig, Schedule, ScheduleConfig, Select, SignFlip, TaskName,
    TrainConfig,
};

use serde::{Deserialize, Serialize};

/// The configuration of a run. Every key has a default; a config file lists only the keys you
/// change:
///
/// ```
/// use graph_transformer_models::Config;
///
/// let text = "[model]\nlayers = 4\nwidth = 80\n\n[optimizer]\nlr = 5e-4";
/// let config = Config::from_toml(text).unwrap();
/// assert_eq!((config.model.layers, config.model.heads), (4, 8));
/// assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
///
/// let error = Config::from_toml("[model]\nlayer = 4\nheads = 7").unwrap_err().to_string();
/// assert!(error.contains("`model.layer`: no such key; did you mean `model.layers`?"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The data set: its file, what is predicted, and the split.
    pub data: DataConfig,
    /// The network. The keys `head`, `gate`, `clamp`, `input_bias` and `symmetric_edges` follow
    /// `variant` unless they are set.
    pub model: ModelConfig,
    /// The optimizer, and its learning rate at the start.
    pub optimizer: OptimizerConfig,
    /// How the learning rate changes over the epochs.
    pub schedule: ScheduleConfig,
    /// Batches, the loss, when training stops, and when it is saved.
    pub train: TrainConfig,
    /// Link prediction; used only if `data.task` is `links`.
    pub links: LinksConfig,
}

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// If the text is no TOML, has unknown keys (the error names the nearest known key), or has
    /// values that do not fit together.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::from_toml_with(text, &[])
    }

    /// Reads a configuration, then sets keys such as `optimizer.lr=1e-3`, and checks the result. A
    /// value that is no TOML is taken as text.
    ///
    /// # Errors
    /// As for [`Config::from_toml`]; also if a setting has no `=`.
    pub fn from_toml_with(text: &str, settings: &[String]) -> Result<Self, ConfigError> {
        let mut table: toml::Table = toml::from_str(text).map_err(ConfigProblem::of_reader)?;
        let mut problems: Vec<ConfigProblem> =
            settings.iter().filter_map(|setting| keys::set(&mut table, setting).err()).collect();
        problems.extend(keys::take_unknown(&mut table));
        problems.extend(keys::take_unreadable(&mut table));
        // Keys that are missing because of a problem have their defaults, which other keys need not
        // fit.
        let in_doubt = |problem: &ConfigProblem| problem.key_in_doubt().filter(|path| !keys::contains(&table, path));
        let doubtful: Vec<String> = problems.iter().filter_map(in_doubt).collect();
        let heads_are_set = keys::contains(&table, "model.heads");
        match table.try_into::<Self>() {
            Err(error) => problems.push(ConfigProblem::of_reader(error)),
            Ok(mut config) => {
                if !heads_are_set && config.model.has_heads() {
                    config.model.heads = ModelConfig::usual_heads(config.model.width);
                }
                problems.extend(config.problems().into_iter().filter(|problem| !problem.depends_on(&doubtful)));
                if problems.is_empty() {
                    return Ok(config);
                }
            }
        }
        Err(problems.into())
    }

    /// The configuration as TOML text. Keys that follow the variant or the data are left out unless
    /// they are set.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration is plain data")
    }

    /// Checks all values, alone and together.
    ///
    /// # Errors
    /// All problems at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        let problems = self.problems();
        if problems.is_empty() { Ok(()) } else { Err(problems.into()) }
    }

    fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Problems::default();
        self.data.check(&mut problems);
        self.model.check(&mut problems);
        self.optimizer.check(&mut problems);
        self.schedule.check(self.optimizer.lr, &mut problems);
        self.train.check(&mut problems);
        self.links.check(&mut problems);
        let directed = self.data.task == TaskName::Links && self.links.directed == Some(true);
        let fine = !directed || self.model.pairs != EdgeHead::Product;
        problems.unless(fine, "model.pairs", ProblemKind::DirectedProduct);
        problems.0
    }
}
