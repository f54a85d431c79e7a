//! The structure of a network, without its weights.

use gt_graph::Level;
use serde::{Deserialize, Serialize};

use crate::channels::Channels;
use crate::layers::Branch;

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

/// A network over graphs: input, layers, head.
///
/// A layer is a sum of branches, then a feed-forward half: u = Σ_b combine_b(h, branch_b(h, e)),
/// and h ← norm(u + FFN(u)), or h ← u without a feed-forward half. See [`Branch`].
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Width and heads of the streams.
    pub channels: Channels,
    /// Number of layers.
    pub layers: usize,
    /// The branches that every layer sums up, each at most once.
    pub branches: Vec<Branch>,
    /// Whether a feed-forward half follows the sum of the branches.
    pub feed_forward: bool,
    /// Normalisation.
    pub norm: Norm,
    /// Whether each branch and the feed-forward half add their input.
    pub residual: bool,
    /// Whether edges carry a stream of their own, which layers read and update.
    pub edge_stream: bool,
    /// How the edge stream gates the attention.
    pub gate: Gate,
    /// The values that the softmax clamps.
    pub clamp: Clamp,
    /// Whether an edge and its reverse share one representation: the mean of both directions,
    /// wherever the stream takes something in.
    pub symmetric_edges: bool,
    /// Share of the values that are dropped in training: attended values before their projection,
    /// hidden values of the feed-forward half, and the outputs of other branches than attention.
    pub dropout: f64,
    /// Share of the nodes' embedded features (not encodings) that are dropped in training.
    pub input_dropout: f64,
    /// Input of the nodes.
    pub node: Input,
    /// Input of the edges, where they are embedded; see [`Network::embeds_edges`].
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
            branches: vec![Branch::Attention],
            feed_forward: true,
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

    /// Replaces the branches of the layers, and whether a feed-forward half follows them.
    ///
    /// ```
    /// use graph_transformer_nn::{Branch, Channels, Network, Parameters};
    ///
    /// let network = Network::new(Channels::new(8, 1), 1).with_branches(&[Branch::Gcn], false);
    /// // The input's linear layer, W, b, γ, β, and the head.
    /// assert_eq!(Parameters::new(&network).count(), 2 * 8 + (8 * 8 + 8) + 2 * 8 + (8 + 1));
    /// ```
    pub fn with_branches(self, branches: &[Branch], feed_forward: bool) -> Self {
        Self { branches: branches.to_vec(), feed_forward, ..self }
    }

    /// Normalisations of the node stream in a layer: one per branch, and that of the feed-forward
    /// half.
    pub fn norms(&self) -> usize {
        self.branches.len() + usize::from(self.feed_forward)
    }

    /// The branch that weighs edges by a softmax: the first that does, if any.
    pub fn attending_branch(&self) -> Option<Branch> {
        self.branches.iter().copied().find(|branch| branch.facts().attends)
    }

    /// Heads of a layer's attention.
    pub fn heads(&self, layer: usize) -> usize {
        match self.attending_branch() {
            Some(branch) => branch.heads(self, layer),
            None => self.channels.heads(),
        }
    }

    /// Whether a normalisation (numbered from 0: the branches in their order, then the feed-forward
    /// half) also works on a layer's edge stream.
    pub(crate) fn normalises_edges(&self, number: usize) -> bool {
        self.edge_stream && self.branches.get(number).is_none_or(|branch| branch.updates_edges(self))
    }

    /// Whether streams lie before their normalisation, which their readers apply.
    pub(crate) fn normalises_late(&self) -> bool {
        self.feed_forward
    }

    /// Whether the last layer's edge stream is read by anything.
    pub(crate) fn last_edges_read(&self) -> bool {
        self.edge_stream && self.reads == HeadInput::Edges
    }
}
