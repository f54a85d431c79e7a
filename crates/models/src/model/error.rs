//! Why a model cannot be used on some graphs.

use gt_graph::{FeatureLayout, GraphError, Level};
use gt_nn::backend::BackendError;

use crate::ConfigError;
use crate::encodings::EncodingError;

/// Why a model cannot be used on some graphs.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The configuration does not fit the columns.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The encoding that the model reads is not to be had.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// The graphs have other columns than the model.
    #[error("the graphs have {} of {level}s, the model reads {}", columns(.found), columns(.expected))]
    Columns {
        /// Nodes or edges.
        level: Level,
        /// Columns of the graphs.
        found: FeatureLayout,
        /// Columns of the model.
        expected: FeatureLayout,
    },
    /// A value has no parameters.
    #[error("{level} column \"{column}\": the model knows the values 0 to {last}, not {value}", last = size.saturating_sub(1))]
    BeyondVocabulary {
        /// Nodes or edges.
        level: Level,
        /// The column.
        column: String,
        /// The value.
        value: usize,
        /// Values that the model knows.
        size: usize,
    },
    /// The graphs have no such graph.
    #[error("there is no graph {graph}; there are {graphs}, counted from 0")]
    NoGraph {
        /// The graph asked for.
        graph: usize,
        /// How many there are.
        graphs: usize,
    },
    /// A pair names a node that its graph does not have.
    #[error("graph {graph}: a pair names node {node}, but the graph has {nodes} nodes")]
    NoNode {
        /// The graph.
        graph: usize,
        /// The node.
        node: u32,
        /// How many nodes the graph has.
        nodes: usize,
    },
    /// The layers weigh no edges.
    #[error("the model's layers do not weigh edges by attention, so there is none to show")]
    NoAttention,
    /// The model predicts targets, not links.
    #[error("the model predicts targets, not links")]
    NotLinks,
}

impl From<GraphError> for ModelError {
    fn from(error: GraphError) -> Self {
        Self::Backend(error.into())
    }
}

fn columns(layout: &FeatureLayout) -> String {
    let words = if layout.multi_hot { " and lists of indices" } else { "" };
    format!("{} categorical and {} continuous columns{words}", layout.categorical, layout.continuous)
}
