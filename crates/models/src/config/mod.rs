//! The configuration of a run in one structure: read from and written as TOML, and checked as a
//! whole before anything is built.

mod build;
mod keys;
mod links;
mod model;
mod training;

pub use keys::nearest;
pub use links::LinksConfig;
pub use model::{EdgeHead, Encoding, Kind, ModelConfig, Variant};
pub use training::{
    DataConfig, LossName, Optimizer, OptimizerConfig, Schedule, ScheduleConfig, SignFlip, TaskName, TrainConfig,
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
    /// Which graphs.
    pub data: DataConfig,
    /// The network.
    pub model: ModelConfig,
    /// How parameters move.
    pub optimizer: OptimizerConfig,
    /// How the learning rate moves.
    pub schedule: ScheduleConfig,
    /// Batches, loss, and when to stop.
    pub train: TrainConfig,
    /// Link prediction.
    pub links: LinksConfig,
}

/// All problems of a configuration, one line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.join("\n"))]
pub struct ConfigError {
    problems: Vec<String>,
}

impl ConfigError {
    pub(crate) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    /// One message per problem.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// Collects the problems of a configuration.
#[derive(Default)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    /// Adds a message about a key unless a condition holds.
    pub(crate) fn unless(&mut self, fine: bool, key: &str, problem: impl FnOnce() -> String) {
        if !fine {
            self.0.push(format!("`{key}`: {}", problem()));
        }
    }

    pub(crate) fn finish(self) -> Result<(), ConfigError> {
        if self.0.is_empty() { Ok(()) } else { Err(ConfigError::new(self.0)) }
    }
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
        let one = |problem: String| ConfigError::new(vec![problem]);
        let mut table: toml::Table = toml::from_str(text).map_err(|e| one(e.to_string().trim_end().to_owned()))?;
        for setting in settings {
            keys::set(&mut table, setting).map_err(one)?;
        }
        let mut problems = keys::take_unknown(&mut table);
        match table.try_into::<Self>() {
            Err(error) => problems.push(value_problem(&error.to_string())),
            Ok(config) => match config.check() {
                Ok(()) if problems.is_empty() => return Ok(config),
                Ok(()) => {}
                Err(error) => problems.extend(error.problems),
            },
        }
        Err(ConfigError::new(problems))
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
        let mut problems = Problems::default();
        self.data.check(&mut problems);
        self.model.check(&mut problems);
        self.optimizer.check(&mut problems);
        self.schedule.check(self.optimizer.lr, &mut problems);
        self.train.check(&mut problems);
        self.links.check(&mut problems);
        let directed = self.data.task == TaskName::Links && self.links.directed == Some(true);
        problems.unless(!directed || self.model.pairs != EdgeHead::Product, "model.pairs", || {
            "a product does not distinguish directions, but links are directed; use `ends`".into()
        });
        problems.finish()
    }
}

/// The message for a value of the wrong kind, in words of users. The parser's text has two lines,
/// of which the second names the key.
fn value_problem(text: &str) -> String {
    let (message, key) = match text.trim_end().rsplit_once("\nin ") {
        Some((message, key)) => (message, format!("{key}: ")),
        None => (text.trim_end(), String::new()),
    };
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, expected)) = wrong.and_then(|m| m.split_once(", expected ")) {
        let expected = match expected {
            "usize" | "u64" | "u32" if found.contains('-') => "a whole number that is not negative",
            "usize" | "u64" | "u32" => "a whole number",
            "f64" => "a number",
            "a boolean" => "true or false",
            other => other,
        };
        return format!("{key}{expected} is expected, not the {found}");
    }
    match message.strip_prefix("unknown variant ").and_then(|m| m.split_once(", expected ")) {
        Some((found, known)) => {
            format!("{key}there is no {found}; there are {}", known.trim_start_matches("one of ").replace(" or ", ", "))
        }
        None => format!("{key}{message}"),
    }
}
