//! Training that starts from the weights of a model, and parameters that it leaves as they are.

use std::path::{Path, PathBuf};

use gt_graph::Schema;
use gt_models::config::{InitLayers, MetricForm};
use gt_models::{
    Config, InputMismatch, Model, Renumbering, adopt_inputs, frozen_parts, parameter_name, transfer_weights,
};
use gt_nn::{Frozen, Network, Parameters, Weights};

use crate::error::{Result, TrainError};

/// The model of `train.init`.
#[derive(Clone, Debug)]
pub(crate) struct Init {
    path: PathBuf,
    model: Model,
    layers: InitLayers,
}

/// Why training cannot start from a model, or freeze parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InitProblem {
    /// The data has other columns than the model.
    #[error("the data does not fit this model (train.init): {0}; use data with the columns of the model")]
    Input(#[from] InputMismatch),
    /// A folder that holds several runs.
    #[error("it is a folder of several runs; name the folder of one run in it")]
    SeveralRuns,
    /// No tensor has the name and shape of a parameter.
    #[error(
        "nothing of it fits this training (train.init): it has {} layers of width {}, not {} of width {}",
        found.0, found.1, expected.0, expected.1
    )]
    NothingFits {
        /// Layers and width of the model.
        found: (usize, usize),
        /// Layers and width of the network to train.
        expected: (usize, usize),
    },
    /// No parameter has such a name.
    #[error("`train.freeze`: no parameter begins with \"{unknown}\"; there are {}", known.join(", "))]
    Freeze {
        /// The text.
        unknown: String,
        /// Beginnings that there are.
        known: Vec<String>,
    },
    /// All parameters are frozen.
    #[error("`train.freeze` freezes all parameters, so there is nothing to train")]
    AllFrozen,
}

impl Init {
    /// Opens the model that a configuration names.
    pub(crate) fn open(config: &Config) -> Result<Option<Self>> {
        if config.train.init.is_empty() {
            return Ok(None);
        }
        let (path, model) = open_result(Path::new(&config.train.init))?;
        Ok(Some(Self { path, model, layers: config.train.init_layers }))
    }

    /// The schema of the data, with the vocabularies of the model, and the columns of the data
    /// whose categories get other numbers.
    pub(crate) fn adopt(&self, data: &Schema) -> Result<(Schema, Vec<Renumbering>)> {
        adopt_inputs(data, &self.model.schema).map_err(|problem| self.problem(problem.into()))
    }

    /// Weights with those of the model where these fit, and a note about what was taken.
    pub(crate) fn apply(&self, mut weights: Weights) -> Result<(Weights, String)> {
        let transfer = transfer_weights(&self.model.weights, &mut weights, self.layers);
        // A tensor of the head alone fits by chance.
        if !transfer.loaded.iter().any(|name| !name.starts_with("MLP_layer")) {
            let size = |network: &Network| (network.layers, network.channels.width());
            let (found, expected) = (size(self.model.network()), size(weights.network()));
            return Err(self.problem(InitProblem::NothingFits { found, expected }));
        }
        let all = transfer.loaded.len() + transfer.kept.len();
        let mut note = format!("starts with {} of {all} tensors from {}", transfer.loaded.len(), self.path.display());
        if !transfer.kept.is_empty() {
            const SHOWN: usize = 6;
            let more = transfer.kept.len().saturating_sub(SHOWN);
            let shown = transfer.kept.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            note += &format!("; new: {shown}{rest}");
        }
        Ok((weights, note))
    }

    /// The bytes of the model's file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.model.to_bytes()
    }

    fn problem(&self, problem: InitProblem) -> TrainError {
        TrainError::Init { path: self.path.clone(), problem }
    }
}

/// Opens a model file, or the model that is the result of a run: the best one, or the last one of a
/// run with the paper's metrics. Also returns the path of the file.
///
/// # Errors
/// If there is no model, or its file cannot be used.
pub fn open_result(path: &Path) -> Result<(PathBuf, Model)> {
    let open = |path: PathBuf| match Model::open(&path) {
        Ok(model) => Ok((path, model)),
        Err(gt_models::ModelFileError::Io { path, source }) => Err(TrainError::io(&path, source)),
        Err(source) => Err(TrainError::ModelFile { path, source }),
    };
    let (best, last) = (path.join("best.safetensors"), path.join("model.safetensors"));
    if !path.is_dir() {
        return open(path.into());
    }
    if best.is_file() {
        let (path, model) = open(best)?;
        if model.config.model.metrics == MetricForm::Exact {
            return Ok((path, model));
        }
    }
    let holds_runs = || {
        let mut entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.any(|entry| entry.path().join("model.safetensors").is_file())
    };
    if !last.is_file() && holds_runs() {
        return Err(TrainError::Init { path: path.to_owned(), problem: InitProblem::SeveralRuns });
    }
    open(last)
}

/// What the configuration freezes of a network.
pub(crate) fn frozen(network: &Network, config: &Config) -> Result<Frozen> {
    let parameters = Parameters::new(network);
    let frozen = frozen_parts(network, &config.train.freeze).map_err(|unknown| {
        let names = parameters.list().iter().map(|parameter| parameter_name(network, parameter.role()));
        let beginning = |name: String| {
            let parts: Vec<&str> = name.split('.').collect();
            parts[..if parts[0] == "layers" { 2 } else { 1 }].join(".")
        };
        let mut known: Vec<String> = names.map(beginning).collect();
        known.dedup();
        known.sort();
        known.dedup();
        InitProblem::Freeze { unknown: unknown.into(), known }
    });
    let frozen = frozen.map_err(TrainError::Frozen)?;
    if frozen.parameters.len() == parameters.list().len() {
        return Err(TrainError::Frozen(InitProblem::AllFrozen));
    }
    Ok(frozen)
}
