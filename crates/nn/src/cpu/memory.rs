//! Memory that passes take, computed before they begin.
//!
//! The numbers follow from the buffers of [`Workspace`](super::workspace::Workspace), array by
//! array. A test compares them with what engines of all kinds allocate.

use gt_graph::{FullView, GraphRef};

use super::activations;
use super::head;
use super::plan;
use crate::AttentionScope;
use crate::channels::padded;
use crate::layers::{Between, Combine, Rows};
use crate::network::{HeadInput, Jump, Network};
use crate::parameters::Parameters;

/// Size of a graph, as far as memory depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphSize {
    /// Nodes.
    pub nodes: usize,
    /// Edges of the data.
    pub edges: usize,
    /// Edges that the layers follow: those of the data, or all pairs of nodes.
    pub followed: usize,
    /// Most edges into one node.
    pub most_into: usize,
    /// Pairs that are scored, where links are predicted.
    pub pairs: usize,
    /// Indices of multi-hot features.
    pub words: usize,
}

impl GraphSize {
    /// The size of a graph, without pairs.
    pub fn new(graph: &GraphRef<'_>, scope: AttentionScope) -> Self {
        let (nodes, edges) = (graph.num_nodes(), graph.num_edges());
        let words = [graph.node(), graph.edge()].iter().filter_map(|rows| Some(rows.multi_hot?.indices.len())).sum();
        let (followed, most_into) = match scope {
            AttentionScope::Full => (FullView::count(nodes), nodes.saturating_sub(1)),
            // The degrees of small graphs do not matter: each is in one block.
            AttentionScope::Sparse if edges <= plan::BLOCK_EDGES => (edges, edges),
            AttentionScope::Sparse => {
                let mut into = vec![0; nodes];
                graph.dst().iter().for_each(|&node| into[node as usize] += 1);
                (edges, into.into_iter().max().unwrap_or(0))
            }
        };
        Self { nodes, edges, followed, most_into, pairs: 0, words }
    }
}

/// Size of a batch, as far as memory depends on it.
///
/// ```
/// use graph_transformer_nn::cpu::{BatchSize, GraphSize, PassMemory};
/// use graph_transformer_nn::{Channels, Network};
///
/// let mut batch = BatchSize::default();
/// (0..128).for_each(|_| {
///     batch.add(GraphSize { nodes: 23, edges: 50, followed: 50, most_into: 4, ..Default::default() })
/// });
/// let network = Network::new(Channels::new(64, 8), 10);
/// let [train, infer] = [true, false].map(|train| PassMemory::new(&network, train).bytes(&batch));
/// assert!(train > 2.0 * infer);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchSize {
    /// Graphs.
    pub graphs: usize,
    /// The sizes of all graphs together; of `most_into` the maximum.
    pub total: GraphSize,
    /// The maximum of each size over the graphs.
    pub largest: GraphSize,
    /// The maximum over the graphs of followed edges per node.
    density: f64,
}

impl BatchSize {
    /// Adds a graph.
    pub fn add(&mut self, graph: GraphSize) {
        let GraphSize { nodes, edges, followed, most_into, pairs, words } = graph;
        let combine = |own: GraphSize, with: fn(usize, usize) -> usize| GraphSize {
            nodes: with(own.nodes, nodes),
            edges: with(own.edges, edges),
            followed: with(own.followed, followed),
            most_into: own.most_into.max(most_into),
            pairs: with(own.pairs, pairs),
            words: with(own.words, words),
        };
        self.graphs += 1;
        self.total = combine(self.total, usize::saturating_add);
        self.largest = combine(self.largest, usize::max);
        self.density = self.density.max(followed as f64 / nodes.max(1) as f64);
    }
}

impl FromIterator<GraphSize> for BatchSize {
    fn from_iter<I: IntoIterator<Item = GraphSize>>(graphs: I) -> Self {
        let mut batch = Self::default();
        graphs.into_iter().for_each(|graph| batch.add(graph));
        batch
    }
}

/// Bytes that an engine's parameters take in single precision: values and transposes; in training
/// also gradients, moments, and the copies that a checkpoint is written from.
pub fn parameter_bytes(network: &Network, train: bool) -> f64 {
    let copies = if train { 12.0 } else { 4.0 };
    copies * FLOAT * Parameters::new(network).size() as f64
}

const FLOAT: f64 = size_of::<f32>() as f64;

/// Batches that a pass holds: the one that is computed, the next, and the one that is filled.
const BATCHES: f64 = 3.0;

/// Memory of lists that grow by doubling, per byte of their contents.
const GROWTH: f64 = 1.6;

/// Memory of passes of a network on the CPU, in single precision, without its parameters.
#[derive(Clone, Debug)]
pub struct PassMemory<'a> {
    network: &'a Network,
    train: bool,
    /// Whether all nodes and edges of a batch go through a layer before any goes through the next.
    by_stage: bool,
    /// Parameters whose gradients a part holds at once.
    window: usize,
}

impl<'a> PassMemory<'a> {
    /// Passes that train, or passes in inference.
    pub fn new(network: &'a Network, train: bool) -> Self {
        let layout = Parameters::new(network);
        let starts: Vec<usize> = (0..=network.layers).map(|layer| layout.start(layer)).chain([layout.size()]).collect();
        let window = starts.windows(2).map(|ends| ends[1] - ends[0]).chain([starts[0]]).max().unwrap_or(0);
        Self { network, train, by_stage: train || !network.runs_by_block(), window }
    }

    /// Passes that read the inner values of a network: embeddings or weights of attention.
    pub fn of_inner_values(network: &'a Network) -> Self {
        Self { by_stage: true, ..Self::new(network, false) }
    }

    /// Bytes of a pass whose largest batch has a size.
    pub fn bytes(&self, batch: &BatchSize) -> f64 {
        let network = self.network;
        let (nodes, edges) = (batch.total.nodes as f64, batch.total.edges as f64);
        let values = |input: &crate::Input| {
            let encodings = input.laplacian + input.random_walk + usize::from(input.roles.is_some());
            (input.categorical.len() + input.continuous.max(usize::from(input.constant)) + encodings) as f64
        };
        // Offsets, ends and orders of nodes and edges, features, labels.
        let of_node = 4.0 + values(&network.node);
        let of_edge = 6.0 + values(&network.edge);
        let rows = self.rows(batch) as f64;
        let graphs = FLOAT
            * (8.0 * batch.graphs as f64
                + nodes * of_node
                + edges * of_edge
                + batch.total.words as f64
                + 2.0 * batch.total.pairs as f64
                + 2.0 * rows);
        BATCHES * GROWTH * graphs + self.workspace(batch) + FLOAT * 2.0 * rows * network.outputs() as f64
    }

    /// Rows that the head predicts.
    fn rows(&self, batch: &BatchSize) -> usize {
        match self.network.reads {
            HeadInput::Graphs(_) => batch.graphs,
            HeadInput::Nodes => batch.total.nodes,
            HeadInput::Edges => batch.total.followed,
            HeadInput::Pairs | HeadInput::Products => pairs(batch),
        }
    }

    /// Bytes of an engine's buffers.
    pub(crate) fn workspace(&self, batch: &BatchSize) -> f64 {
        let Self { network, train, .. } = *self;
        let d = network.channels.padded_width() as f64;
        let (nodes, edges) = (batch.total.nodes as f64, batch.total.followed as f64);
        let stream = |edges: f64| if network.edge_stream { edges } else { 0.0 };
        let streams = |nodes: f64, edges: f64| (nodes + stream(edges)) * d;
        let embedded = |edges: f64| if network.embeds_edges() { edges } else { 0.0 };
        let shared = |edges: f64| if network.shares_edges() { edges * d } else { 0.0 };
        // Lengths of arrays are linear in the rows.
        let linear = |length: &dyn Fn(Rows) -> usize, nodes: f64, edges: f64| {
            let of_edge = Rows { nodes: 0, edges: 1, stream_edges: usize::from(network.edge_stream) };
            let of_node = Rows { nodes: 1, edges: 0, stream_edges: 0 };
            nodes * length(of_node) as f64 + edges * length(of_edge) as f64
        };
        let activations = |nodes: f64, edges: f64| linear(&|rows| activations::length(network, rows), nodes, edges);
        let between =
            |nodes: f64, edges: f64| linear(&|rows| Between::<f32>::lengths(network, rows).iter().sum(), nodes, edges);
        let open = self.is_open(batch);
        let any_by_block = network.branches.iter().any(|branch| branch.facts().by_block);
        let several = network.branches.len() > 1;
        let mut floats = 0.0;
        if open || self.by_stage {
            let kept = if train || network.jump != Jump::Last { network.layers + 1 } else { 1 } as f64;
            let layers = if train { network.layers } else { 1 };
            floats += kept * streams(nodes, edges) + layers as f64 * activations(nodes, edges) + shared(edges);
            floats += if network.keeps_inputs() { kept * streams(nodes, edges) } else { 0.0 };
        }
        if train {
            floats += streams(nodes, edges) * if several { 3.0 } else { 1.0 } + shared(edges);
            for branch in &network.branches {
                if let Combine::SumWithNorm(_) = branch.facts().combine {
                    floats += nodes * d + if branch.updates_edges(network) { stream(edges) * d } else { 0.0 };
                }
            }
            if open || network.branches.iter().any(|branch| !branch.facts().by_block) {
                floats += between(nodes, edges);
            }
        }
        let (block_nodes, block_edges) = self.block(batch, open);
        let hidden = padded(2 * network.channels.width()) as f64;
        let block = block_nodes + embedded(block_edges);
        let mut of_part = block * d * if several || network.keeps_inputs() { 3.0 } else { 1.0 };
        if train {
            of_part += block * (d + hidden) + self.window as f64;
        }
        if !open {
            of_part += match train {
                true if any_by_block => between(block_nodes, block_edges),
                false if network.runs_by_block() => {
                    streams(block_nodes, block_edges) + activations(block_nodes, block_edges)
                }
                _ => 0.0,
            };
        }
        floats += self.parts(batch, open) * of_part;
        floats += head::length(network, [batch.graphs, batch.total.nodes, batch.total.followed, pairs(batch)], train);
        FLOAT * (floats + GROWTH * self.indices(batch))
    }

    /// Numbers of the topology, of the pairs and of the input rows.
    fn indices(&self, batch: &BatchSize) -> f64 {
        let network = self.network;
        let GraphSize { nodes, followed, words, .. } = batch.total;
        let mut of_node =
            2.0 + (network.node.categorical.len() + network.node.laplacian + network.node.random_walk) as f64;
        of_node += network.node.continuous.max(usize::from(network.node.constant)) as f64;
        of_node += f64::from(u8::from(network.node.roles.is_some()));
        let mut of_edge = 3.0;
        if network.embeds_edges() {
            of_edge += (network.edge.categorical.len()
                + network.edge.continuous.max(usize::from(network.edge.constant))) as f64;
            // Reverses of edges, and the keys they are sorted by.
            of_edge += if network.symmetric_edges { 5.0 } else { 0.0 };
        }
        if network.node.multi_hot.is_some() {
            of_node += 2.0;
        }
        let scored = match network.reads {
            HeadInput::Pairs | HeadInput::Products => 4.0 * pairs(batch) as f64 + nodes as f64,
            _ => 0.0,
        };
        nodes as f64 * of_node + followed as f64 * of_edge + words as f64 + scored
    }

    /// Whether blocks cut through graphs.
    fn is_open(&self, batch: &BatchSize) -> bool {
        let network = self.network;
        let whole = network.edge_stream && network.symmetric_edges;
        let rows = plan::rows(batch.largest.nodes, batch.largest.followed, network.embeds_edges());
        !whole && rows > plan::LARGE
    }

    fn parts(&self, batch: &BatchSize, open: bool) -> f64 {
        let rows = |size: GraphSize| plan::rows(size.nodes, size.followed, self.network.embeds_edges());
        let parts = plan::parts_of_rows(rows(batch.total));
        if open {
            return parts as f64;
        }
        // A whole graph takes the place of several parts.
        let others = 1.0 - rows(batch.largest) as f64 / rows(batch.total) as f64;
        (others.max(0.0) * parts as f64).ceil().min(batch.graphs as f64) + 1.0
    }

    /// Nodes and edges of the largest block.
    fn block(&self, batch: &BatchSize, open: bool) -> (f64, f64) {
        let BatchSize { total, largest, density, .. } = *batch;
        let nodes = plan::BLOCK_NODES.min(total.nodes);
        let rows = plan::BLOCK_EDGES.min(total.followed) as f64;
        if open {
            return (nodes as f64, rows.max(if self.network.embeds_edges() { largest.most_into as f64 } else { 0.0 }));
        }
        let filled = (density * nodes as f64).min(total.followed as f64);
        (nodes.max(largest.nodes) as f64, filled.max(largest.followed as f64).max(rows))
    }
}

/// Pairs that the head scores: those that are set, or the edges of the data.
fn pairs(batch: &BatchSize) -> usize {
    if batch.total.pairs > 0 { batch.total.pairs } else { batch.total.edges }
}
