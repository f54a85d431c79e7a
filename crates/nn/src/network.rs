//! The structure of a network, without its weights.

use gt_graph::Level;
use serde::{Deserialize, Serialize};

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

/// The kind of a layer. All kinds but [`LayerKind::Attention`] normalise once per stream, h ← h +
/// act(norm(x)), and differ in x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// Attention by scaled products of queries and keys, then a feed-forward half (Dwivedi &
    /// Bresson 2021).
    Attention,
    /// A weighted sum of neighbours, x_i = W·Σ_j h_j/√(deg_i·deg_j) + b (Kipf & Welling 2017).
    Convolution,
    /// Attention by added logits, x_i = Σ_j softmax_j(leaky(a·z_j + b·z_i))·z_j with z = W·h
    /// (Veličković et al. 2018). The last layer has one head of the full width.
    AdditiveAttention,
    /// Messages gated channel by channel by an edge stream (Bresson & Laurent 2017):
    /// `x_i = A·h_i + Σ_j σ(x_ij)⊙B·h_j / Σ_j σ(x_ij)` with `x_ij = C·e_ij + D·h_j + E·h_i`.
    Gated,
    /// The mean of neighbours, x_i = W·(Σ_j h_j)/deg_i + b: a convolution as benchmarks had it
    /// before.
    Averaging,
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

/// Which edges the layers of a network follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionScope {
    /// The edges of the data.
    #[default]
    Sparse,
    /// Every ordered pair of distinct nodes of a graph; the edges' features are all 0.
    Full,
}

/// Which rows the head predicts for, and its input for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadInput {
    /// Graphs, out of their nodes.
    Graphs(Readout),
    /// Nodes.
    Nodes,
    /// Edges, out of their stream.
    Edges,
    /// Pairs of nodes (the edges, unless other pairs are set), from the concatenated rows of source
    /// and target.
    Pairs,
    /// Pairs of nodes, from the product of source and target, channel by channel; the product
    /// ignores direction.
    Products,
}

impl HeadInput {
    /// The level of the predictions: graphs, nodes or edges.
    pub fn level(self) -> Level {
        match self {
            HeadInput::Graphs(_) => Level::Graph,
            HeadInput::Nodes => Level::Node,
            HeadInput::Edges | HeadInput::Pairs | HeadInput::Products => Level::Edge,
        }
    }
}

/// Which layers the head reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// The last layer.
    Last,
    /// All layers, concatenated.
    Concat,
    /// The sum of all layers.
    Sum,
}

/// How an edge's projected features p enter the score of its end nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Channel by channel, s = q·k/√d_k·p, as in the published code.
    PerChannel,
    /// The scalar product times each channel, s = (Σ q·k)/√d_k·p, as in the paper's eq. 12.
    Scalar,
}

/// The values that the softmax clamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clamp {
    /// The logits, to −5..5, as in the published code.
    Logits,
    /// Their exponentials, to at most 5, as in the paper's text.
    Exponentials,
}

/// The values of a node or edge, each of which is embedded; the input is the sum of the embeddings.
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
    /// Number of Weisfeiler–Lehman roles (nodes only): an embedding; roles beyond it use the last
    /// row.
    pub roles: Option<usize>,
    /// The constant 1 through a linear layer, for streams without any feature.
    pub constant: bool,
    /// One more vector that is added to every row, as in the paper's eq. 1; the published code's
    /// embeddings have none.
    pub bias: bool,
}

/// A network over graphs: input, layers of one kind, head.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Width and heads of the streams.
    pub channels: Channels,
    /// Number of layers.
    pub layers: usize,
    /// Kind of the layers.
    pub kind: LayerKind,
    /// Normalisation.
    pub norm: Norm,
    /// Whether each half layer, or layer of another kind than attention, adds its input.
    pub residual: bool,
    /// Whether edges carry a stream of their own that gates the attention. Gated layers always have
    /// one, convolutions and additive attention never.
    pub edge_stream: bool,
    /// How the edge stream gates the attention.
    pub gate: Gate,
    /// The values that the softmax clamps.
    pub clamp: Clamp,
    /// Whether an edge and its reverse share one representation: the mean of both directions,
    /// wherever the stream takes something in.
    pub symmetric_edges: bool,
    /// Share of the values that are dropped in training: attended values before their projection,
    /// and hidden values of the feed-forward layers; the outputs of layers of another kind.
    pub dropout: f64,
    /// Share of the nodes' embedded features (not encodings) that are dropped in training.
    pub input_dropout: f64,
    /// Input of the nodes.
    pub node: Input,
    /// Input of the edges, where they carry a stream.
    pub edge: Input,
    /// Which rows the head predicts for, and its input.
    pub reads: HeadInput,
    /// Which layers the head reads.
    pub jump: Jump,
    /// Widths of the head's layers after the first input, the last being the output; ReLU between.
    pub head: Vec<usize>,
}

impl Network {
    /// A network with batch normalisation and residuals on one constant input, whose only head
    /// layer predicts one number per graph from the mean of its nodes. Change what differs:
    ///
    /// ```
    /// use graph_transformer_nn::{Channels, Input, Network, Norm, Parameters};
    ///
    /// let node = Input { categorical: vec![28], ..Default::default() };
    /// let network = Network { norm: Norm::Layer, node, ..Network::new(Channels::new(64, 8), 10) };
    /// assert_eq!(Parameters::new(&network).list()[0].shape(), [28, 64]);
    /// ```
    pub fn new(channels: Channels, layers: usize) -> Self {
        Self {
            channels,
            layers,
            kind: LayerKind::Attention,
            norm: Norm::Batch,
            residual: true,
            edge_stream: false,
            gate: Gate::PerChannel,
            clamp: Clamp::Logits,
            symmetric_edges: false,
            dropout: 0.0,
            input_dropout: 0.0,
            node: Input { constant: true, ..Default::default() },
            edge: Input::default(),
            reads: HeadInput::Graphs(Readout::Mean),
            jump: Jump::Last,
            head: vec![1],
        }
    }

    /// Numbers per row that the head predicts.
    pub fn outputs(&self) -> usize {
        *self.head.last().expect("a head has an output")
    }

    /// Number of concatenated streams in a row that the head reads.
    pub(crate) fn head_streams(&self) -> usize {
        let layers = if self.jump == Jump::Concat { self.layers.max(1) } else { 1 };
        if self.reads == HeadInput::Pairs { 2 * layers } else { layers }
    }

    /// Whether the head reads a layer's output (0 is the embedded input).
    pub(crate) fn head_reads(&self, layer: usize) -> bool {
        layer == self.layers || (self.jump != Jump::Last && layer > 0)
    }

    /// Normalisations of each stream in a layer.
    pub fn norms(&self) -> usize {
        if self.kind == LayerKind::Attention { 2 } else { 1 }
    }

    /// Whether layers weigh edges by a softmax.
    pub fn attends(&self) -> bool {
        matches!(self.kind, LayerKind::Attention | LayerKind::AdditiveAttention)
    }

    /// Heads of a layer.
    pub fn heads(&self, layer: usize) -> usize {
        let single = self.kind == LayerKind::AdditiveAttention && layer + 1 == self.layers;
        if single { 1 } else { self.channels.heads() }
    }

    /// Whether the last layer's edge stream is read by anything.
    pub(crate) fn last_edges_read(&self) -> bool {
        self.edge_stream && self.reads == HeadInput::Edges
    }
}
