//! A trained model, on no device: what it computes, which data it is for, and its weights.

mod attention;
mod embed;
mod ensemble;
mod error;
mod file;
mod links;
mod predict;
mod scaling;

use gt_nn::AttentionScope;
use std::borrow::Cow;

use gt_graph::{GraphStore, Level, Schema, TargetSchema};
use gt_nn::{Loss, Network, Weights};

pub use attention::GraphAttention;
pub use ensemble::{Ensemble, EnsembleError, OutputMean};
pub use error::ModelError;
pub use file::ModelFileError;
pub use links::{PairGroup, is_directed, scores_both_orders};
pub use predict::{Predictions, Softmax, largest, sigmoid};
pub use scaling::{Scaling, ScalingProblem, mean_and_spread};

use crate::encodings::{add_encodings, has_encoding};
use crate::torch::{StateDict, Values};
use crate::weights::{LazyValues, NamedTensor, weights_from};
use crate::{Config, ConfigError, initial_weights};

/// A model: configuration, the columns of its data, the scale of its targets, and weights.
///
/// ```
/// use graph_transformer_models::{Config, Model, PublishedSet, add_encodings};
/// use gt_graph::{FeatureRows, GraphParts, GraphStore, Layout, Level};
/// use gt_nn::backend::Device;
///
/// // 28 kinds of atoms, 4 kinds of bonds, and one number to predict for each molecule.
/// let text = "[model]\nlayers = 2\nwidth = 16\nheads = 4\nencoding = \"laplacian\"";
/// let model = Model::new(Config::from_toml(text)?, PublishedSet::Zinc.schema())?;
/// let mut graphs = GraphStore::new(Layout { target: None, ..model.schema.layout() });
/// graphs.push(GraphParts {
///     num_nodes: 3,
///     src: &[0, 1, 0, 2],
///     dst: &[1, 0, 2, 0],
///     node: FeatureRows { categorical: &[1, 0, 2], ..Default::default() },
///     edge: FeatureRows { categorical: &[1, 1, 2, 2], ..Default::default() },
///     ..Default::default()
/// })?;
/// model.check(&graphs)?;
/// let predictions = model.predict(&graphs)?;
/// assert_eq!((predictions.len(), predictions.width), (1, 1));
///
/// // A model file holds everything that predictions need.
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("model.safetensors");
/// model.save(&file)?;
/// let model = Model::open(&file)?;
/// add_encodings(&mut graphs, &model.config.model)?;
/// assert_eq!(model.predict_on(&Device::Cpu, &graphs)?, predictions);
///
/// // The hidden values behind a prediction. Attention into a node sums to 1.
/// assert_eq!(model.embed(&graphs, Level::Node)?.row(2).len(), 16);
/// let attention = model.attention(&graphs, 0)?;
/// assert_eq!(attention.edges, [(0, 1), (1, 0), (0, 2), (2, 0)]);
/// let weights = attention.weights(1, Some(3));
/// assert!((weights[1] + weights[3] - 1.0).abs() < 1e-4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The configuration that the model was made with.
    pub config: Config,
    /// The columns of the data that the model reads.
    pub schema: Schema,
    /// Mean and deviation of standardised inputs and targets.
    pub scaling: Scaling,
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
        Ok(Self { config, schema, scaling: Scaling::default(), weights })
    }

    /// A model with the weights of a PyTorch state dictionary of the published code.
    ///
    /// ```
    /// use graph_transformer_models::{Config, Model, schema_of_checkpoint, torch};
    /// use gt_graph::{Level, TargetKind};
    ///
    /// let bytes = std::fs::read("tests/checkpoints/transformer.pt")?;
    /// let state = torch::read_state_dict(&bytes)?;
    /// let schema = schema_of_checkpoint(&state, Level::Graph, TargetKind::Float)?;
    /// assert_eq!(schema.node.vocabulary_sizes(), [6]);
    /// assert_eq!(schema.edge.vocabulary_sizes(), [4]);
    ///
    /// let text = "[model]\nlayers = 2\nwidth = 16\nheads = 4\nencoding = \"laplacian\"";
    /// let config = Config::from_toml_with(text, &["model.encoding_size=4".into()])?;
    /// let model = Model::import(config, schema, &state)?;
    /// let name = "layers.1.FFN_h_layer1.weight";
    /// let count = state.get(name).map(|tensor| tensor.values().len());
    /// assert_eq!((count, model.network().outputs()), (Some(512), 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the configuration is wrong, or tensors are missing, unknown or mis-shaped.
    pub fn import(config: Config, schema: Schema, state: &StateDict) -> Result<Self, ModelFileError> {
        let network = config.network(&schema)?;
        let tensors = state.tensors().iter().map(|tensor| {
            let values: Result<LazyValues<'_>, String> = match tensor.values() {
                Values::I64(_) => Err("integers".to_owned()),
                floats => Ok(Box::new(move || floats.to_f64())),
            };
            (tensor.name().to_owned(), NamedTensor { shape: tensor.shape().to_vec(), values })
        });
        let weights = weights_from(&network, tensors.collect())?;
        Ok(Self { config, schema, scaling: Scaling::default(), weights })
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

    /// The loss that the training of the model minimised.
    ///
    /// # Errors
    /// If the configuration does not fit the columns.
    pub fn loss(&self) -> Result<Loss, ConfigError> {
        self.config.loss(&self.schema)
    }

    /// Which edges the layers of the model follow.
    pub fn scope(&self) -> AttentionScope {
        self.config.model.graph
    }

    /// Whether features of edges reach the layers of the model.
    pub fn reads_edges(&self) -> bool {
        self.config.model.graph == AttentionScope::Sparse && self.config.model.edges != Some(false)
    }

    /// Graphs with the encoding that the model reads. Graphs that carry the encoding are borrowed.
    fn encoded<'a>(&self, graphs: &'a GraphStore) -> Result<Cow<'a, GraphStore>, ModelError> {
        if has_encoding(graphs, &self.config.model)? {
            return Ok(Cow::Borrowed(graphs));
        }
        let mut encoded = graphs.clone();
        add_encodings(&mut encoded, &self.config.model)?;
        Ok(Cow::Owned(encoded))
    }

    /// Graphs whose continuous features have the scale of training.
    fn scaled<'a>(&self, mut graphs: Cow<'a, GraphStore>) -> Cow<'a, GraphStore> {
        if self.scaling.scales_inputs() {
            self.scaling.scale_inputs(graphs.to_mut());
        }
        graphs
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
