//! Everything that depends on the batch: it grows to the largest one and is reused, so that a step
//! allocates nothing.

use gt_graph::GraphBatch;
use rayon::prelude::*;

use super::activations::LayerActivations;
use super::batch_norm::Moments;
use super::buffer::Buffer;
use super::gradient::Gradient;
use super::head::{self, Pairs};
use super::input;
use super::plan::{Plan, Span, Topology};
use crate::AttentionScope;
use crate::Stream;
use crate::channels::padded;
use crate::network::{Jump, LayerKind, Network};
use crate::real::Real;

/// The two streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pair<T> {
    pub(crate) node: T,
    pub(crate) edge: T,
}

impl<T> Pair<T> {
    pub(crate) fn of(&self, stream: Stream) -> &T {
        match stream {
            Stream::Node => &self.node,
            Stream::Edge => &self.edge,
        }
    }

    pub(crate) fn of_mut(&mut self, stream: Stream) -> &mut T {
        match stream {
            Stream::Node => &mut self.node,
            Stream::Edge => &mut self.edge,
        }
    }
}

/// Gradients that live between the two backward passes of an attention: of a block, or, in an open
/// plan, of the batch. Layers of other kinds always work on the batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Between<T> {
    /// Gradients of the first normalisation's input, or of the only normalisation's output:
    /// `[nodes, d]`.
    pub(crate) dx: Buffer<T>,
    /// Gradients of the attended values, or of the only normalisation's input: `[nodes, d]`.
    pub(crate) dattended: Buffer<T>,
    /// Gradients of queries, keys and values: `[nodes, 3d]`. In layers of other kinds gradients of
    /// the projected nodes or of a convolution's sums: `[nodes, d]`, in gated layers `[nodes, 4d]`.
    pub(crate) dqkv: Buffer<T>,
    /// Gradients of the logits: `[edges, heads]`, in additive attention `[edges, lanes]`.
    pub(crate) dlogit: Buffer<T>,
    /// Gradients of the scores, where edges have a stream: `[edges, d]`. In gated layers gradients
    /// of the normalisation's output, then of the gates.
    pub(crate) dscore: Buffer<T>,
}

impl<T: Real> Between<T> {
    /// Numbers in each array, in the order of the fields.
    pub(crate) fn lengths(network: &Network, nodes: usize, edges: usize) -> [usize; 5] {
        let (d, h) = (network.channels.padded_width(), network.channels.padded_heads());
        let (projected, logits) = match network.kind {
            LayerKind::Attention => (3 * d, h),
            LayerKind::Convolution | LayerKind::Averaging => (d, 0),
            LayerKind::AdditiveAttention => (d, network.channels.lanes()),
            LayerKind::Gated => (4 * d, 0),
        };
        let scores = if network.edge_stream { edges * d } else { 0 };
        [nodes * d, nodes * d, nodes * projected, edges * logits, scores]
    }

    fn size(&mut self, network: &Network, nodes: usize, edges: usize) {
        let Self { dx, dattended, dqkv, dlogit, dscore } = self;
        let lengths = Self::lengths(network, nodes, edges);
        [dx, dattended, dqkv, dlogit, dscore].into_iter().zip(lengths).for_each(|(buffer, length)| buffer.size(length));
    }
}

/// Memory that only one part uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartState<T> {
    pub(crate) gradient: Gradient<T>,
    pub(crate) moments: Pair<Moments<T>>,
    pub(crate) sums: Pair<Vec<T>>,
    pub(crate) scratch: Pair<Scratch<T>>,
    pub(crate) between: Between<T>,
    pub(crate) local: Local<T>,
}

/// A block's own streams and activations, in inference.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local<T> {
    pub(crate) stream: Pair<Buffer<T>>,
    pub(crate) layer: LayerActivations<T>,
}

impl<T: Real> PartState<T> {
    pub(crate) fn reset_moments(&mut self, width: usize) {
        self.moments.node.reset(width);
        self.moments.edge.reset(width);
    }

    pub(crate) fn reset_sums(&mut self, width: usize) {
        for sums in [&mut self.sums.node, &mut self.sums.edge] {
            sums.clear();
            sums.resize(2 * width, T::ZERO);
        }
    }
}

/// Buffers of one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch<T> {
    /// A normalised input.
    pub(crate) y: Buffer<T>,
    /// A gradient before a normalisation.
    pub(crate) dx: Buffer<T>,
    /// A gradient of the hidden layer, or of projected edges.
    pub(crate) wide: Buffer<T>,
}

/// All buffers of an engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace<T> {
    /// Whether the last pass kept its activations.
    pub(crate) training: bool,
    pub(crate) topology: Topology,
    /// The plan of stages that follow edges.
    pub(crate) plan: Plan,
    /// The plan of stages that follow no edges, with as many parts as `plan`.
    pub(crate) rows: Plan,
    pub(crate) parts: Vec<PartState<T>>,
    /// The streams before normalisation: the embedded input, then after each layer.
    pub(crate) streams: Vec<Pair<Buffer<T>>>,
    pub(crate) layers: Vec<LayerActivations<T>>,
    /// Gradients of the streams.
    pub(crate) gradients: Pair<Buffer<T>>,
    pub(crate) between: Between<T>,
    pub(crate) head: head::Activations<T>,
    pub(crate) pairs: Pairs,
    pub(crate) sums: Vec<T>,
    pub(crate) moments: Moments<T>,
    /// Input rows as this precision has them.
    pub(crate) input: Pair<input::Rows<T>>,
}

impl<T: Real> Workspace<T> {
    /// Sizes everything for a batch.
    pub(crate) fn prepare(&mut self, network: &Network, batch: &GraphBatch, edges: AttentionScope, train: bool) {
        self.training = train;
        match edges {
            AttentionScope::Sparse => self.topology.set_sparse(batch),
            AttentionScope::Full => self.topology.set_full(batch),
        }
        let symmetric = network.edge_stream && network.symmetric_edges;
        if symmetric {
            self.topology.find_mirrors();
        }
        // A reverse edge may lie anywhere in its graph, so symmetric edges keep graphs whole.
        self.plan.set(&self.topology, network.edge_stream, symmetric);
        let Self { plan, topology, .. } = &*self;
        plan.blocks.par_iter().for_each(|block| topology.edges_of(block, plan.open).check());
        let (nodes, all_edges) = (self.topology.nodes(), self.topology.edges());
        let stream_edges = if network.edge_stream { all_edges } else { 0 };
        self.rows.set_rows(nodes, stream_edges, self.plan.parts.len());
        let by_stage = self.plan.open || network.kind != LayerKind::Attention;
        if train || by_stage {
            self.size_activations(network, nodes, all_edges, stream_edges, train);
        }
        self.size_parts(network, train);
        if train {
            let d = network.channels.padded_width();
            self.gradients.node.size(nodes * d);
            self.gradients.edge.size(stream_edges * d);
            if by_stage {
                self.between.size(network, nodes, all_edges);
            }
        }
        self.pairs.prepare(network, batch);
        let rows = [batch.num_graphs(), nodes, stream_edges, self.pairs.len()];
        self.head.size(network, rows, train);
        input::prepare(&mut self.input, network, batch, edges, all_edges);
    }

    /// Allocates memory for the streams and activations of an inference that goes stage by stage,
    /// whatever the plan.
    pub(crate) fn keep_stages(&mut self, network: &Network) {
        let (nodes, edges) = (self.topology.nodes(), self.topology.edges());
        self.size_activations(network, nodes, edges, if network.edge_stream { edges } else { 0 }, false);
    }

    fn size_activations(&mut self, network: &Network, nodes: usize, edges: usize, stream_edges: usize, train: bool) {
        let d = network.channels.padded_width();
        let streams = if train || network.jump != Jump::Last { network.layers + 1 } else { 1 };
        self.streams.resize_with(streams.max(self.streams.len()), Default::default);
        for stream in &mut self.streams[..streams] {
            stream.node.size(nodes * d);
            stream.edge.size(stream_edges * d);
        }
        let layers = if train { network.layers } else { 1 };
        self.layers.resize_with(layers.max(self.layers.len()), Default::default);
        for layer in &mut self.layers[..layers] {
            layer.size(network, nodes, edges, stream_edges);
        }
    }

    fn size_parts(&mut self, network: &Network, train: bool) {
        let d = network.channels.padded_width();
        let hidden = padded(2 * network.channels.width());
        let blocks = || self.plan.blocks.iter().chain(&self.rows.blocks);
        let most = |count: fn(&Span) -> usize| blocks().map(count).max().unwrap_or(0);
        let (nodes, edges) = (most(|b| b.nodes.len()), most(|b| b.edges.len()));
        let stream_edges = if network.edge_stream { edges } else { 0 };
        let count = self.plan.parts.len();
        self.parts.resize_with(count.max(self.parts.len()), Default::default);
        for part in &mut self.parts[..count] {
            for (scratch, rows) in [(&mut part.scratch.node, nodes), (&mut part.scratch.edge, stream_edges)] {
                scratch.y.size(rows * d);
                if train {
                    scratch.dx.size(rows * d);
                    scratch.wide.size(rows * hidden);
                }
            }
            match (self.plan.open || network.kind != LayerKind::Attention, train) {
                (true, _) => {}
                (false, true) => part.between.size(network, nodes, edges),
                (false, false) => {
                    part.local.stream.node.size(nodes * d);
                    part.local.stream.edge.size(stream_edges * d);
                    part.local.layer.size(network, nodes, edges, stream_edges);
                }
            }
        }
    }
}
