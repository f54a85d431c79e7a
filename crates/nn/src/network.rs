//! What a network consists of, without any numbers.

use gt_graph::Level;

use crate::channels::Channels;

/// Normalisation after each residual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Over the rows of the batch.
    Batch,
    /// Over the channels of a row.
    Layer,
    /// None.
    None,
}

/// How the nodes of a graph become one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readout {
    /// Mean of the nodes; 0 for a graph without any.
    Mean,
    /// Sum of the nodes.
    Sum,
    /// Largest value of each channel; 0 for a graph without nodes.
    Max,
}

/// What a row of nodes or edges brings along; all of it is embedded and added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Vocabulary size of each categorical column: an embedding each.
    pub categorical: Vec<usize>,
    /// Number of continuous columns: one linear layer.
    pub continuous: usize,
    /// Vocabulary of the multi-hot feature: a linear layer without bias.
    pub multi_hot: Option<usize>,
    /// Number of Laplacian coordinates (nodes only): a linear layer.
    pub laplacian: usize,
    /// Number of random-walk coordinates (nodes only): a linear layer.
    pub random_walk: usize,
    /// Number of Weisfeiler–Lehman roles (nodes only): an embedding; roles beyond it use the last row.
    pub roles: Option<usize>,
    /// The constant 1 through a linear layer, for streams without any feature.
    pub constant: bool,
}

/// An attention network: input, layers of attention and feed-forward, head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Width and heads of the streams.
    pub channels: Channels,
    /// Number of layers.
    pub layers: usize,
    /// Normalisation.
    pub norm: Norm,
    /// Whether each half layer adds its input.
    pub residual: bool,
    /// Whether edges carry a stream of their own that gates the attention.
    pub edge_stream: bool,
    /// Input of the nodes.
    pub node: Input,
    /// Input of the edges, where they carry a stream.
    pub edge: Input,
    /// What is predicted for: graphs or nodes.
    pub level: Level,
    /// How nodes become graphs.
    pub readout: Readout,
    /// Widths of the head's layers after the first input, the last being the output; ReLU between.
    pub head: Vec<usize>,
}
