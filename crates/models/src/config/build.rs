//! From a configuration and the shape of the data to a network and its loss.

use gt_graph::{Level, TargetKind};
use gt_nn::{Channels, Input, Loss, Network, Reads};
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, Encoding, Graph, LinksConfig, LossName, ModelConfig, Pairs, TaskName};

/// Columns of the features on nodes, or on edges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Columns {
    /// Vocabulary size of each categorical column.
    pub categorical: Vec<usize>,
    /// Number of continuous columns.
    pub continuous: usize,
    /// Vocabulary size of the multi-hot feature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_hot: Option<usize>,
}

impl Columns {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The input that embeds them; without any, the constant 1 through a linear layer, as published.
    fn input(&self, bias: bool) -> Input {
        Input {
            categorical: self.categorical.clone(),
            continuous: self.continuous,
            multi_hot: self.multi_hot,
            constant: self.is_empty(),
            // Linear layers have a bias already.
            bias: bias && self.continuous == 0 && !self.is_empty(),
            ..Default::default()
        }
    }
}

/// What is predicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetShape {
    /// What a target belongs to.
    pub level: Level,
    /// Real numbers or classes.
    pub kind: TargetKind,
    /// Number of classes of each column (0 for real numbers).
    pub columns: Vec<usize>,
}

impl TargetShape {
    /// Whether a pair of nodes is joined: what link prediction learns.
    pub fn link() -> Self {
        Self { level: Level::Edge, kind: TargetKind::Class, columns: vec![2] }
    }
}

/// What a network has to know of the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataShape {
    /// Features on nodes.
    pub node: Columns,
    /// Features on edges.
    pub edge: Columns,
    /// Targets.
    pub target: TargetShape,
}

impl Config {
    /// The network for data of a shape.
    ///
    /// # Errors
    /// If the configuration is wrong in itself, or does not fit the data.
    pub fn network(&self, data: &DataShape) -> Result<Network, ConfigError> {
        self.check()?;
        let loss = self.loss(data)?;
        let outputs = match loss {
            Loss::CrossEntropy { .. } => data.target.columns[0],
            _ => data.target.columns.len(),
        };
        let mut network = network(&self.model, data, outputs);
        if self.data.task == TaskName::Links {
            // A pair that is asked about has no edge stream of its own.
            network.reads = match self.model.pairs {
                Pairs::Auto if self.links.directed != Some(true) => Reads::Products,
                Pairs::Product => Reads::Products,
                Pairs::Auto | Pairs::Ends => Reads::Pairs,
            };
        }
        Ok(network)
    }

    /// The loss for data of a shape.
    ///
    /// # Errors
    /// If the loss does not fit the targets.
    pub fn loss(&self, data: &DataShape) -> Result<Loss, ConfigError> {
        let TargetShape { kind, columns, .. } = &data.target;
        let links = self.data.task == TaskName::Links;
        let one_class = *kind == TargetKind::Class && columns.len() == 1 && !links;
        let labels = *kind == TargetKind::Class && columns.iter().all(|&classes| classes <= 2);
        let found = match (kind, columns.len()) {
            _ if links => "links to predict, which needs bce".to_owned(),
            (TargetKind::Float, n) => format!("{n} real-valued target{}", if n == 1 { "" } else { "s" }),
            (TargetKind::Class, 1) => format!("one target of {} classes", columns[0]),
            (TargetKind::Class, n) => format!("{n} targets of classes {columns:?}"),
        };
        let (loss, fits) = match (self.train.loss, kind) {
            (LossName::Auto | LossName::L1, TargetKind::Float) => (Loss::L1, true),
            (LossName::Mse, _) => (Loss::Mse, *kind == TargetKind::Float),
            (LossName::L1, _) => (Loss::L1, false),
            (LossName::Bce, _) => (Loss::Bce, labels),
            (LossName::Auto, _) if !one_class => (Loss::Bce, labels),
            // Weights are those of a batch, which may well hold graphs of one class only.
            (LossName::Auto, _) if data.target.level == Level::Graph => {
                (Loss::CrossEntropy { weighted: false }, one_class)
            }
            (LossName::Auto | LossName::WeightedCrossEntropy, _) => (Loss::CrossEntropy { weighted: true }, one_class),
            (LossName::CrossEntropy, _) => (Loss::CrossEntropy { weighted: false }, one_class),
        };
        if fits && !columns.is_empty() {
            return Ok(loss);
        }
        let name = toml::Value::try_from(self.train.loss).ok();
        let name = name.as_ref().and_then(|n| n.as_str()).unwrap_or_default();
        // Whoever asks for a distance wants numbers.
        let hint = match loss {
            Loss::L1 | Loss::Mse if !links => {
                "; whole numbers are classes, with a decimal point they are numbers to predict"
            }
            _ => "",
        };
        Err(ConfigError::new(vec![format!("`train.loss`: {name} does not fit the data, which has {found}{hint}")]))
    }

    /// Every key filled in, so that all of them show.
    pub(super) fn complete() -> Self {
        Self {
            model: ModelConfig::default().complete(),
            links: LinksConfig::default().complete(),
            ..Default::default()
        }
    }
}

fn network(model: &ModelConfig, data: &DataShape, outputs: usize) -> Network {
    let edge_stream = model.edge_stream(!data.edge.is_empty());
    let heads = if model.kind.has_heads() { model.heads } else { 1 };
    let mut node = data.node.input(model.input_bias());
    match model.encoding {
        Encoding::None => {}
        Encoding::Laplacian => node.laplacian = model.encoding_size,
        Encoding::RandomWalk => node.random_walk = model.encoding_size,
        Encoding::Wl => node.roles = Some(model.roles),
    }
    let own_edges = edge_stream && model.graph == Graph::Sparse && model.pairs == Pairs::Auto;
    let reads = match data.target.level {
        Level::Graph => Reads::Graphs(model.readout),
        Level::Node => Reads::Nodes,
        Level::Edge if own_edges => Reads::Edges,
        Level::Edge if model.pairs == Pairs::Product => Reads::Products,
        Level::Edge => Reads::Pairs,
    };
    Network {
        kind: model.kind.layers(),
        norm: model.norm,
        residual: model.residual,
        edge_stream,
        gate: model.gate(),
        clamp: model.clamp(),
        symmetric_edges: edge_stream && model.symmetric_edges(),
        dropout: model.dropout,
        input_dropout: model.input_dropout,
        node,
        edge: if edge_stream { data.edge.input(model.input_bias()) } else { Input::default() },
        reads,
        jump: model.jump,
        head: model.head().into_iter().chain([outputs]).collect(),
        ..Network::new(Channels::new(model.width, heads), model.layers)
    }
}
