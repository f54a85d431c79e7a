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
use crate::channels::padded;
use crate::layers::{Between, Combine, OfBranches, Rows};
use crate::network::{Jump, Network};
use crate::real::Real;
use crate::stream::Pair;

/// Memory that only one part uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartState<T> {
    pub(crate) gradient: Gradient<T>,
    /// Moments of each branch's values. Those of the feed-forward half come after the branches'
    /// are merged, and take the first place.
    pub(crate) moments: OfBranches<Pair<Moments<T>>>,
    /// Sums of each branch's gradients; the first place also serves the feed-forward half.
    pub(crate) sums: OfBranches<Pair<Vec<T>>>,
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
    /// Zeroes all sums of gradients.
    pub(crate) fn reset_sums(&mut self, width: usize) {
        for sums in self.sums.iter_mut().flat_map(|sums| [&mut sums.node, &mut sums.edge]) {
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
    /// Terms of a sum of branches.
    pub(crate) sum: [Buffer<T>; 2],
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
    /// The embedded edges and their gradients, where all layers share them: `[edges, d]`.
    pub(crate) shared_edges: Buffer<T>,
    pub(crate) dshared_edges: Buffer<T>,
    /// The streams normalised, where branches read them of the whole batch.
    pub(crate) inputs: Vec<Pair<Buffer<T>>>,
    pub(crate) layers: Vec<LayerActivations<T>>,
    /// Gradients of the streams.
    pub(crate) gradients: Pair<Buffer<T>>,
    /// With several branches: the gradients of one of them, and their sum.
    pub(crate) own_gradients: Pair<Buffer<T>>,
    pub(crate) collected: Pair<Buffer<T>>,
    /// Gradients of the normalised outputs of branches that add these.
    pub(crate) dy: OfBranches<Pair<Buffer<T>>>,
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
        self.plan.set(&self.topology, network.embeds_edges(), symmetric);
        let Self { plan, topology, .. } = &*self;
        plan.blocks.par_iter().for_each(|block| topology.edges_of(block, plan.open).check());
        let (nodes, all_edges) = (self.topology.nodes(), self.topology.edges());
        let stream_edges = if network.edge_stream { all_edges } else { 0 };
        self.rows.set_rows(nodes, stream_edges, self.plan.parts.len());
        let batch_rows = self.batch_rows(network);
        if train || self.plan.open || !network.runs_by_block() {
            self.size_activations(network, batch_rows, train);
        }
        self.size_parts(network, train);
        if train {
            self.size_gradients(network, batch_rows);
        }
        self.pairs.prepare(network, batch);
        let rows = [batch.num_graphs(), nodes, stream_edges, self.pairs.len()];
        self.head.size(network, rows, train);
        input::prepare(&mut self.input, network, batch, edges, all_edges);
    }

    /// Allocates memory for the streams and activations of an inference that goes stage by stage,
    /// whatever the plan.
    pub(crate) fn keep_stages(&mut self, network: &Network) {
        self.size_activations(network, self.batch_rows(network), false);
    }

    /// The rows of the batch.
    pub(crate) fn batch_rows(&self, network: &Network) -> Rows {
        let (nodes, edges) = (self.topology.nodes(), self.topology.edges());
        Rows { nodes, edges, stream_edges: if network.edge_stream { edges } else { 0 } }
    }

    fn size_activations(&mut self, network: &Network, rows: Rows, train: bool) {
        let d = network.channels.padded_width();
        self.shared_edges.size(if network.shares_edges() { rows.edges * d } else { 0 });
        let streams = if train || network.jump != Jump::Last { network.layers + 1 } else { 1 };
        for (list, needed) in [(&mut self.streams, true), (&mut self.inputs, network.keeps_inputs())] {
            list.resize_with(streams.max(list.len()), Default::default);
            for stream in list[..streams].iter_mut().filter(|_| needed) {
                stream.node.size(rows.nodes * d);
                stream.edge.size(rows.stream_edges * d);
            }
        }
        let layers = if train { network.layers } else { 1 };
        self.layers.resize_with(layers.max(self.layers.len()), Default::default);
        for layer in &mut self.layers[..layers] {
            layer.size(network, rows);
        }
    }

    fn size_gradients(&mut self, network: &Network, rows: Rows) {
        let (d, several) = (network.channels.padded_width(), network.branches.len() > 1);
        let size = |pair: &mut Pair<Buffer<T>>, stream_edges: usize| {
            pair.node.size(rows.nodes * d);
            pair.edge.size(stream_edges * d);
        };
        size(&mut self.gradients, rows.stream_edges);
        self.dshared_edges.size(if network.shares_edges() { rows.edges * d } else { 0 });
        if several {
            size(&mut self.own_gradients, rows.stream_edges);
            size(&mut self.collected, rows.stream_edges);
        }
        for (branch, dy) in network.branches.iter().zip(&mut self.dy) {
            if let Combine::SumWithNorm(_) = branch.facts().combine {
                size(dy, if branch.updates_edges(network) { rows.stream_edges } else { 0 });
            }
        }
        if self.plan.open || network.branches.iter().any(|branch| !branch.facts().by_block) {
            self.between.size(network, rows);
        }
    }

    fn size_parts(&mut self, network: &Network, train: bool) {
        let d = network.channels.padded_width();
        let hidden = padded(2 * network.channels.width());
        let blocks = || self.plan.blocks.iter().chain(&self.rows.blocks);
        let most = |count: fn(&Span) -> usize| blocks().map(count).max().unwrap_or(0);
        let (nodes, edges) = (most(|b| b.nodes.len()), most(|b| b.edges.len()));
        let stream_edges = if network.edge_stream { edges } else { 0 };
        let rows = Rows { nodes, edges, stream_edges };
        // The only branch is summed up where it lies.
        let sums = network.branches.len() > 1 || network.keeps_inputs();
        let count = self.plan.parts.len();
        self.parts.resize_with(count.max(self.parts.len()), Default::default);
        for part in &mut self.parts[..count] {
            let edge_rows = if network.embeds_edges() { edges } else { 0 };
            for (scratch, rows) in [(&mut part.scratch.node, nodes), (&mut part.scratch.edge, edge_rows)] {
                scratch.y.size(rows * d);
                if sums {
                    scratch.sum.iter_mut().for_each(|sum| sum.size(rows * d));
                }
                if train {
                    scratch.dx.size(rows * d);
                    scratch.wide.size(rows * hidden);
                }
            }
            match train {
                true if !self.plan.open && network.branches.iter().any(|branch| branch.facts().by_block) => {
                    part.between.size(network, rows);
                }
                false if !self.plan.open && network.runs_by_block() => {
                    part.local.stream.node.size(nodes * d);
                    part.local.stream.edge.size(stream_edges * d);
                    part.local.layer.size(network, rows);
                }
                _ => {}
            }
        }
    }
}
