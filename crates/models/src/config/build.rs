//! From a configuration and the columns of the data to a network and its loss.

use gt_nn::AttentionScope;
use std::borrow::Cow;

use gt_graph::{FeatureSchema, Level, Schema, TargetKind, TargetSchema};
use gt_nn::{Channels, HeadInput, Input, Loss, Network, Parameters};

use super::{
    Config, ConfigError, DataConfig, EdgeHead, Encoding, LinksConfig, LossName, ModelConfig, ProblemKind, TaskName,
    TrainConfig,
};

/// The input that embeds the columns; without columns, the constant 1 through a linear layer, as
/// published.
fn input(columns: &FeatureSchema, bias: bool) -> Input {
    let constant = columns.layout().is_empty();
    Input {
        categorical: columns.vocabulary_sizes(),
        continuous: columns.continuous.len(),
        multi_hot: columns.multi_hot.as_ref().map(|words| words.size),
        constant,
        // Linear layers have a bias already.
        bias: bias && columns.continuous.is_empty() && !constant,
        ..Default::default()
    }
}

/// The meaning of a row of a model's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// Real numbers, one per target.
    Numbers,
    /// Logits of the classes of one target.
    Classes,
    /// One logit: the log-odds of the second of two classes.
    TwoClasses,
    /// Logits of yes/no labels.
    Labels,
}

impl OutputKind {
    /// The kind of the network's own outputs, before [`OutputKind::expand`].
    pub fn unexpanded(self) -> Self {
        if self == OutputKind::TwoClasses { OutputKind::Labels } else { self }
    }

    /// Turns log-odds of the second of two classes into logits of both classes, 0 and the log-odds.
    /// Other outputs stay as they are.
    ///
    /// ```
    /// use graph_transformer_models::config::OutputKind;
    ///
    /// assert_eq!(OutputKind::TwoClasses.expand(vec![0.5, -2.0]), [0.0, 0.5, 0.0, -2.0]);
    /// assert_eq!(OutputKind::Classes.expand(vec![0.5, -2.0]), [0.5, -2.0]);
    /// ```
    pub fn expand(self, outputs: Vec<f32>) -> Vec<f32> {
        match self {
            OutputKind::TwoClasses => outputs.into_iter().flat_map(|odds| [0.0, odds]).collect(),
            _ => outputs,
        }
    }
}

impl Config {
    /// What a model of this configuration predicts: the targets of the data, or links.
    ///
    /// # Errors
    /// If it predicts targets, and the data has none.
    pub fn target<'a>(&self, schema: &'a Schema) -> Result<Cow<'a, TargetSchema>, ConfigError> {
        match (self.data.task, &schema.target) {
            (TaskName::Links, _) => Ok(Cow::Owned(TargetSchema::link())),
            (_, Some(target)) => Ok(Cow::Borrowed(target)),
            (_, None) => Err(ProblemKind::NoTargets.of("data.task").into()),
        }
    }

    /// The network for data with these columns.
    ///
    /// ```
    /// use graph_transformer_models::{Config, PublishedSet};
    /// use gt_nn::Loss;
    ///
    /// let config = Config::from_toml_with("[model]\nlayers = 2", &["model.width=16".into()])?;
    /// let schema = PublishedSet::Zinc.schema();
    /// let network = config.network(&schema)?;
    /// // The published head halves the width twice before the output.
    /// assert_eq!((network.layers, network.outputs(), network.head), (2, 1, vec![8, 4, 1]));
    /// assert_eq!((config.target(&schema)?.columns.len(), config.loss(&schema)?), (1, Loss::L1));
    /// # Ok::<(), graph_transformer_models::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// If the configuration is wrong in itself, or does not fit the data.
    pub fn network(&self, schema: &Schema) -> Result<Network, ConfigError> {
        self.check()?;
        let target = self.target(schema)?;
        let outputs = match self.loss(schema)? {
            Loss::CrossEntropy { .. } => target.columns[0].classes,
            _ => target.columns.len(),
        };
        let mut network = network(&self.model, schema, target.level, outputs);
        if self.data.task == TaskName::Links {
            // A pair of nodes has no edge stream of its own.
            network.reads = match self.model.pairs {
                EdgeHead::Auto if self.links.directed != Some(true) => HeadInput::Products,
                EdgeHead::Product => HeadInput::Products,
                EdgeHead::Auto | EdgeHead::Ends => HeadInput::Pairs,
            };
        }
        match Parameters::checked(&network) {
            Some(_) => Ok(network),
            None => Err(ProblemKind::TooManyParameters.of("model.width").into()),
        }
    }

    /// The loss for data with these columns.
    ///
    /// # Errors
    /// If the loss does not fit the targets.
    pub fn loss(&self, schema: &Schema) -> Result<Loss, ConfigError> {
        let target = self.target(schema)?;
        let (level, kind, columns) = (target.level, &target.kind, target.classes());
        let links = self.data.task == TaskName::Links;
        let one_class = *kind == TargetKind::Class && columns.len() == 1 && !links;
        let labels = *kind == TargetKind::Class && columns.iter().all(|&classes| classes <= 2);
        let (loss, fits) = match (self.train.loss, kind) {
            (LossName::Auto | LossName::L1, TargetKind::Float) => (Loss::L1, true),
            (LossName::Mse, _) => (Loss::Mse, *kind == TargetKind::Float),
            (LossName::L1, _) => (Loss::L1, false),
            (LossName::Bce, _) => (Loss::Bce, labels),
            (LossName::Auto, _) if !one_class => (Loss::Bce, labels),
            // Weights are those of a batch, which may well hold graphs of one class only.
            (LossName::Auto, _) if level == Level::Graph => (Loss::CrossEntropy { weighted: false }, one_class),
            (LossName::Auto | LossName::WeightedCrossEntropy, _) => (Loss::CrossEntropy { weighted: true }, one_class),
            (LossName::CrossEntropy, _) => (Loss::CrossEntropy { weighted: false }, one_class),
        };
        if fits && !columns.is_empty() {
            return Ok(loss);
        }
        if *kind == TargetKind::Class && columns.len() > 1 && !labels {
            return Err(ProblemKind::SeveralClasses(target.into_owned()).of("data.target").into());
        }
        let target = (!links).then(|| target.into_owned());
        Err(ProblemKind::Loss { loss: self.train.loss, target }.of("train.loss").into())
    }

    /// The meaning of a model's outputs for data with these columns.
    ///
    /// # Errors
    /// If the loss does not fit the targets.
    pub fn outputs(&self, schema: &Schema) -> Result<OutputKind, ConfigError> {
        Ok(match self.loss(schema)? {
            Loss::L1 | Loss::Mse => OutputKind::Numbers,
            Loss::CrossEntropy { .. } => OutputKind::Classes,
            Loss::Bce if self.data.task != TaskName::Links && self.target(schema)?.columns.len() == 1 => {
                OutputKind::TwoClasses
            }
            Loss::Bce => OutputKind::Labels,
        })
    }

    /// A configuration with every key filled in, so that all keys are visible.
    pub(super) fn complete() -> Self {
        Self {
            data: DataConfig::default().complete(),
            model: ModelConfig::default().complete(),
            train: TrainConfig::default().complete(),
            links: LinksConfig::default().complete(),
            ..Default::default()
        }
    }
}

fn network(model: &ModelConfig, schema: &Schema, level: Level, outputs: usize) -> Network {
    let edge_stream = model.edge_stream(!schema.edge.layout().is_empty());
    let heads = if model.has_heads() { model.heads } else { 1 };
    let mut node = input(&schema.node, model.input_bias());
    match model.encoding {
        Encoding::None => {}
        Encoding::Laplacian => node.laplacian = model.encoding_size,
        Encoding::RandomWalk => node.random_walk = model.encoding_size,
        Encoding::Wl => node.roles = Some(model.roles),
    }
    let own_edges = edge_stream && model.graph == AttentionScope::Sparse && model.pairs == EdgeHead::Auto;
    let reads = match level {
        Level::Graph => HeadInput::Graphs(model.readout),
        Level::Node => HeadInput::Nodes,
        Level::Edge if own_edges => HeadInput::Edges,
        Level::Edge if model.pairs == EdgeHead::Product => HeadInput::Products,
        Level::Edge => HeadInput::Pairs,
    };
    let mut network = Network {
        branches: model.branches(),
        feed_forward: model.feed_forward(),
        norm: model.norm,
        residual: model.residual,
        edge_stream,
        gate: model.gate(),
        clamp: model.clamp(),
        symmetric_edges: edge_stream && model.symmetric_edges(),
        dropout: model.dropout,
        input_dropout: model.input_dropout,
        node,
        reads,
        jump: model.jump,
        head: model.head().into_iter().chain([outputs]).collect(),
        ..Network::new(Channels::new(model.width, heads), model.layers)
    };
    if network.embeds_edges() {
        network.edge = input(&schema.edge, model.input_bias());
    }
    network
}
