//! A trained model, on no device: what it computes, which data it is for, and its weights.

mod attention;
mod embed;
mod error;
mod file;
mod links;
mod predict;

use gt_nn::AttentionScope;
use std::borrow::Cow;

use gt_graph::{GraphStore, Level, Schema, TargetSchema};
use gt_nn::{Loss, Network, Weights};

pub use attention::GraphAttention;
pub use error::ModelError;
pub use file::ModelFileError;
pub use links::{PairGroup, is_directed, scores_both_orders};
pub use predict::{Predictions, largest, sigmoid, unscale};

use crate::torch::{StateDict, Values};
use crate::weights::{NamedTensor, weights_from};
use crate::{Config, ConfigError, initial_weights};

/// A model: configuration, the columns of its data, the scale of its targets, and weights.
///
/// ```no_run
/// # fn example(graphs: gt_graph::GraphStore) -> Result<(), Box<dyn std::error::Error>> {
/// use graph_transformer_models::Model;
///
/// let model = Model::open("runs/mine/model.safetensors")?;
/// let predictions = model.predict(&graphs)?;
/// println!("{:?}", predictions.row(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The configuration that the model was made with.
    pub config: Config,
    /// The columns of the data that the model reads.
    pub schema: Schema,
    /// Mean and deviation that outputs are scaled back with, a pair per output; empty where targets were not standardised.
    pub scaling: Vec<(f64, f64)>,
    /// Parameters and running statistics.
    pub weights: Weights,
}

impl Model {
    /// A model with the initial weights of the configuration's seed.
    ///
    /// ```
    /// use graph_transformer_models::{Model, PublishedEncoding, PublishedSet};
    ///
    /// let config = PublishedSet::Zinc.config(PublishedEncoding::Laplacian);
    /// let model = Model::new(config, PublishedSet::Zinc.schema())?;
    /// assert_eq!(model.weights.parameters().count(), 588_929);
    /// # Ok::<(), graph_transformer_models::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// If the configuration is wrong, or does not fit the columns.
    pub fn new(config: Config, schema: Schema) -> Result<Self, ConfigError> {
        let weights = initial_weights(&config.network(&schema)?, config.train.seed);
        Ok(Self { config, schema, scaling: Vec::new(), weights })
    }

    /// A model with the weights of a PyTorch state dictionary of the published code.
    ///
    /// # Errors
    /// If the configuration is wrong, or tensors are missing, unknown or mis-shaped.
    pub fn import(config: Config, schema: Schema, state: &StateDict) -> Result<Self, ModelFileError> {
        let network = config.network(&schema)?;
        let tensors = state.tensors().iter().map(|tensor| {
            let values = match tensor.values() {
                Values::I64(_) => Err("integers".to_owned()),
                floats => Ok(floats.to_f64()),
            };
            (tensor.name().to_owned(), NamedTensor { shape: tensor.shape().to_vec(), values })
        });
        let weights = weights_from(&network, tensors.collect())?;
        Ok(Self { config, schema, scaling: Vec::new(), weights })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        self.weights.network()
    }

    /// What the model predicts.
    ///
    /// # Errors
    /// If the configuration does not fit the columns.
    pub fn target(&self) -> Result<Cow<'_, TargetSchema>, ConfigError> {
        self.config.target(&self.schema)
    }

    /// What its training minimised.
    ///
    /// # Errors
    /// If the configuration does not fit the columns.
    pub fn loss(&self) -> Result<Loss, ConfigError> {
        self.config.loss(&self.schema)
    }

    /// Which edges its layers follow.
    pub fn scope(&self) -> AttentionScope {
        self.config.model.graph
    }

    /// Whether features of edges reach its layers.
    pub fn reads_edges(&self) -> bool {
        self.config.model.graph == AttentionScope::Sparse && self.config.model.edges != Some(false)
    }

    /// Checks that graphs have the model's columns, and no value beyond its vocabularies.
    ///
    /// # Errors
    /// The first column, or value, that does not fit.
    pub fn check(&self, graphs: &GraphStore) -> Result<(), ModelError> {
        let levels = [(Level::Node, &self.schema.node), (Level::Edge, &self.schema.edge)];
        for (level, columns) in levels {
            let layout = graphs.layout();
            let found = if level == Level::Node { &layout.node } else { &layout.edge };
            if *found != columns.layout() {
                return Err(ModelError::Columns { level, found: found.clone(), expected: columns.layout() });
            }
            if level == Level::Edge && !self.reads_edges() {
                continue;
            }
            let (seen, words) = graphs.vocabularies(level);
            let vocabularies = columns.categorical.iter().zip(seen).chain(columns.multi_hot.iter().map(|v| (v, words)));
            if let Some((vocabulary, seen)) = vocabularies.into_iter().find(|(known, seen)| *seen > known.size) {
                let (column, size) = (vocabulary.name.clone(), vocabulary.size);
                return Err(ModelError::BeyondVocabulary { level, column, value: seen - 1, size });
            }
        }
        Ok(())
    }
}
