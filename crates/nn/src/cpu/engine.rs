//! A network on the processor: parameters, statistics, workspace, and the stages in order.
//!
//! A stage is everything between two normalisation barriers. Within a stage each block of graphs goes through all operations while its data
//! is in cache; at a barrier the parts' statistics are merged in fixed order.

use std::ops::Range;

use gt_graph::{GraphBatch, Level, TargetRows};
use rayon::prelude::*;

use super::adam::AdamState;
use super::batch_norm::{BatchNorm, Moments};
use super::buffer::Buffer;
use super::gradient::Gradient;
use super::plan::{Plan, Topology};
use super::{Isa, head, input, stage};
use crate::channels::padded;
use crate::loss::{Loss, loss};
use crate::network::{Network, Norm};
use crate::parameters::{Affine, Layer, Parameters, Region};
use crate::real::Real;

/// Which graph a network sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// The edges of the data.
    Sparse,
    /// Every ordered pair of distinct nodes of a graph; the edges' features are all 0.
    Full,
}

/// A normalisation's state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site<T> {
    pub(crate) batch: BatchNorm<T>,
    pub(crate) running_mean: Vec<T>,
    pub(crate) running_var: Vec<T>,
}

/// The two streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pair<T> {
    pub(crate) node: T,
    pub(crate) edge: T,
}

/// Activations of one stream's half of a layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct HalfActivations<T> {
    /// What goes into the output projection: attended values, or scores. `[rows, d]`
    pub(crate) attended: Buffer<T>,
    /// Before the first normalisation. `[rows, d]`
    pub(crate) middle: Buffer<T>,
    /// After the first feed-forward layer and its ReLU. `[rows, 2d]`
    pub(crate) hidden: Buffer<T>,
}

/// Activations of a layer that its backward needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerActivations<T> {
    pub(crate) qkv: Buffer<T>,
    pub(crate) weight: Buffer<T>,
    pub(crate) inverse: Buffer<T>,
    pub(crate) proj: Buffer<T>,
    pub(crate) halves: Pair<HalfActivations<T>>,
}

/// What a part keeps to itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartState<T> {
    pub(crate) gradient: Gradient<T>,
    pub(crate) moments: Pair<Moments<T>>,
    pub(crate) sums: Pair<Vec<T>>,
    pub(crate) scratch: Pair<Scratch<T>>,
}

/// Buffers of one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch<T> {
    /// A normalised input.
    pub(crate) y: Buffer<T>,
    /// A gradient before a normalisation.
    pub(crate) dx: Buffer<T>,
    /// A gradient of the attended values.
    pub(crate) dattended: Buffer<T>,
    /// A wide gradient: of the hidden layer, or of queries, keys and values.
    pub(crate) wide: Buffer<T>,
    /// A gradient of the logits.
    pub(crate) dlogit: Buffer<T>,
}

/// Values that one task adds up or transposes.
const CHUNK: usize = 1 << 13;

/// A network with its parameters, ready to run.
#[derive(Clone, Debug)]
pub struct Engine<T> {
    pub(crate) network: Network,
    pub(crate) layout: Parameters,
    pub(crate) isa: Isa,
    /// All parameters, inside layout.
    pub(crate) values: Buffer<T>,
    /// Transposes of the matrices, at the same offsets.
    pub(crate) transposed: Buffer<T>,
    pub(crate) gradient: Buffer<T>,
    pub(crate) adam: AdamState<T>,
    /// Per layer: first and second normalisation, of nodes and edges.
    pub(crate) sites: Vec<[Pair<Site<T>>; 2]>,
    /// 1 for channels, 0 for padding.
    pub(crate) mask: Vec<T>,
    pub(crate) work: Workspace<T>,
}

/// Everything that depends on the batch; grows to the largest and is reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace<T> {
    /// Whether the last pass kept its activations.
    pub(crate) training: bool,
    pub(crate) topology: Topology,
    pub(crate) plan: Plan,
    pub(crate) parts: Vec<PartState<T>>,
    /// The streams before normalisation: the embedded input, then after each layer.
    pub(crate) streams: Vec<Pair<Buffer<T>>>,
    pub(crate) layers: Vec<LayerActivations<T>>,
    /// Gradients of the streams.
    pub(crate) gradients: Pair<Buffer<T>>,
    pub(crate) head: head::Activations<T>,
    pub(crate) sums: Vec<T>,
    pub(crate) moments: Moments<T>,
    /// Input rows as this precision has them.
    pub(crate) input: Pair<input::Rows<T>>,
}

impl<T: Real> Engine<T> {
    /// A network with all parameters zero (γ one); fill them with [`Engine::set_parameter`].
    pub fn new(network: Network, isa: Isa) -> Self {
        let layout = Parameters::new(&network);
        let width = network.channels.padded_width();
        let mut mask = vec![T::ZERO; width];
        (0..network.channels.width()).for_each(|c| mask[network.channels.place(c)] = T::ONE);
        let site =
            || Site { running_mean: vec![T::ZERO; width], running_var: vec![T::ONE; width], ..Default::default() };
        let sites = (0..network.layers).map(|_| [(); 2].map(|()| Pair { node: site(), edge: site() })).collect();
        let mut engine = Self {
            values: Buffer::zeros(layout.size()),
            transposed: Buffer::zeros(layout.size()),
            gradient: Buffer::zeros(layout.size()),
            adam: AdamState::default(),
            sites,
            mask,
            work: Workspace::default(),
            network,
            layout,
            isa,
        };
        engine.refresh();
        engine
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The layout of the parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.layout
    }

    /// Sets a parameter, in the layout of files. Call [`Engine::refresh`] after the last one.
    ///
    /// # Panics
    /// If the number of values is not that of the parameter.
    pub fn set_parameter(&mut self, index: usize, values: &[T]) {
        let parameter = &self.layout.list()[index];
        assert_eq!(values.len(), parameter.len());
        parameter.places().zip(values).for_each(|(place, &value)| self.values[place] = value);
    }

    /// A parameter, in the layout of files.
    pub fn parameter(&self, index: usize) -> Vec<T> {
        self.layout.list()[index].places().map(|place| self.values[place]).collect()
    }

    /// A parameter's gradient, in the layout of files.
    pub fn gradient(&self, index: usize) -> Vec<T> {
        self.layout.list()[index].places().map(|place| self.gradient[place]).collect()
    }

    /// Running mean and variance of a normalisation (1 or 2) of a layer, in the order of files.
    pub fn running(&self, layer: usize, stream: crate::Stream, number: usize) -> (Vec<T>, Vec<T>) {
        let pair = &self.sites[layer][number - 1];
        let site = if stream == crate::Stream::Node { &pair.node } else { &pair.edge };
        let order =
            |values: &[T]| (0..self.network.channels.width()).map(|c| values[self.network.channels.place(c)]).collect();
        (order(&site.running_mean), order(&site.running_var))
    }

    /// Sets the running statistics of a normalisation.
    pub fn set_running(&mut self, layer: usize, stream: crate::Stream, number: usize, mean: &[T], var: &[T]) {
        let channels = self.network.channels;
        let pair = &mut self.sites[layer][number - 1];
        let site = if stream == crate::Stream::Node { &mut pair.node } else { &mut pair.edge };
        for c in 0..channels.width() {
            site.running_mean[channels.place(c)] = mean[c];
            site.running_var[channels.place(c)] = var[c];
        }
    }

    /// Brings what is derived from the parameters up to date.
    pub fn refresh(&mut self) {
        transpose_all(&self.values, &mut self.transposed, 0, &self.layout.transposed);
    }

    /// Outputs of a batch in inference: `[rows, outputs]`, a row per graph or node.
    pub fn predict(&mut self, batch: &GraphBatch, edges: Edges) -> Vec<T> {
        self.forward(batch, edges, false);
        self.outputs()
    }

    /// Forward in training mode, loss, and all gradients. Returns the loss; outputs are in [`Engine::outputs`].
    pub fn train(&mut self, batch: &GraphBatch, edges: Edges, kind: Loss, target: TargetRows<'_>) -> f64 {
        self.forward(batch, edges, true);
        let width = *self.network.head.last().expect("a head has an output");
        let value =
            self.work.head.with_output(|output, gradient| loss(kind, output, width, padded(width), target, gradient));
        self.backward();
        value
    }

    /// Outputs of the last forward pass, without padding.
    pub fn outputs(&self) -> Vec<T> {
        let width = *self.network.head.last().expect("a head has an output");
        self.work.head.output().chunks_exact(padded(width)).flat_map(|row| &row[..width]).copied().collect()
    }

    /// The node stream after the input (0) or after a layer, normalised, in the order of files; of the last training pass.
    pub fn hidden_nodes(&self, index: usize) -> Vec<T> {
        self.hidden(index, &self.work.streams[index].node, |pair| &pair.node, |layer| layer.node.norms[1])
    }

    /// The edge stream likewise, edges in in-order.
    pub fn hidden_edges(&self, index: usize) -> Vec<T> {
        self.hidden(index, &self.work.streams[index].edge, |pair| &pair.edge, |layer| layer.edge.norms[1])
    }

    fn hidden(
        &self,
        index: usize,
        stream: &[T],
        site: impl Fn(&Pair<Site<T>>) -> &Site<T>,
        norm: impl Fn(&Layer) -> Affine,
    ) -> Vec<T> {
        let mut y = stream.to_vec();
        if index > 0 {
            self.normalise(site(&self.sites[index - 1][1]), norm(&self.layout.layers[index - 1]), stream, &mut y);
        }
        let channels = self.network.channels;
        let order = |row: &[T]| (0..channels.width()).map(|c| row[channels.place(c)]).collect::<Vec<T>>();
        y.chunks_exact(channels.padded_width()).flat_map(order).collect()
    }

    fn forward(&mut self, batch: &GraphBatch, edges: Edges, train: bool) {
        self.prepare(batch, edges, train);
        input::forward(self);
        for layer in 0..self.network.layers {
            stage::attention_forward(self, layer, train);
            self.finish_statistics(layer, 0, train);
            stage::feed_forward(self, layer, train);
            self.finish_statistics(layer, 1, train);
        }
        head::forward(self);
    }

    fn backward(&mut self) {
        let size = self.layout.size();
        let layers = self.network.layers;
        let start = |layout: &Parameters, layer: usize| match layout.layers.get(layer) {
            Some(layer) => layer.qkv.offset,
            None => layout.head.first().map_or(size, |affine| affine.weight.offset),
        };
        self.with_gradients(start(&self.layout, layers)..size, head::backward);
        for layer in (0..layers).rev() {
            self.with_gradients(start(&self.layout, layer)..start(&self.layout, layer + 1), |engine| {
                engine.zero_idle_gradients(layer);
                engine.finish_gradients(layer, 1);
                stage::feed_forward_backward(engine, layer);
                engine.finish_gradients(layer, 0);
                stage::attention_backward(engine, layer);
            });
        }
        self.with_gradients(0..start(&self.layout, 0), input::backward);
    }

    /// Zeroes what the barriers add to, and what no stage of this layer adds to.
    fn zero_idle_gradients(&mut self, layer: usize) {
        let Layer { node, edge, .. } = self.layout.layers[layer];
        let (with_edges, idle_edges) = (self.network.edge_stream, !self.edge_gradient(layer));
        let count = self.work.plan.parts.len();
        for part in &mut self.work.parts[..count] {
            part.gradient.zero(node.normalisations());
            if with_edges {
                part.gradient.zero(edge.normalisations());
                if idle_edges {
                    part.gradient.zero(edge.projection());
                    part.gradient.zero(edge.feed_forward());
                }
            }
        }
    }

    /// Runs what contributes to the gradients of a window of the parameters, and adds the parts up in their order.
    fn with_gradients(&mut self, window: Range<usize>, run: impl FnOnce(&mut Self)) {
        let count = self.work.plan.parts.len();
        self.work.parts[..count].par_iter_mut().for_each(|part| part.gradient.open(window.clone()));
        run(self);
        let parts = &self.work.parts[..count];
        self.gradient[window].par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, sums)| {
            sums.fill(T::ZERO);
            for part in parts {
                let values = &part.gradient.values()[chunk * CHUNK..chunk * CHUNK + sums.len()];
                sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += value);
            }
        });
    }

    /// Sizes everything for a batch.
    fn prepare(&mut self, batch: &GraphBatch, edges: Edges, train: bool) {
        let Self { network, work, .. } = self;
        work.training = train;
        match edges {
            Edges::Sparse => work.topology.set_sparse(batch),
            Edges::Full => work.topology.set_full(batch),
        }
        work.plan.set(&work.topology, network.edge_stream);
        work.plan.blocks.par_iter().for_each(|block| work.topology.edges_of(block).check());
        let (n, e) = (work.topology.nodes(), if network.edge_stream { work.topology.edges() } else { 0 });
        let (d, h) = (network.channels.padded_width(), network.channels.padded_heads());
        let hidden = padded(2 * network.channels.width());
        let kept = if train { network.layers } else { 1 };
        work.streams.resize_with(if train { network.layers + 1 } else { 1 }.max(work.streams.len()), Default::default);
        for stream in work.streams.iter_mut().take(if train { network.layers + 1 } else { 1 }) {
            stream.node.size(n * d);
            stream.edge.size(e * d);
        }
        work.layers.resize_with(kept.max(work.layers.len()), Default::default);
        for layer in work.layers.iter_mut().take(kept) {
            layer.qkv.size(n * 3 * d);
            layer.weight.size(work.topology.edges() * h);
            layer.inverse.size(n * h);
            layer.proj.size(e * d);
            for (half, rows) in [(&mut layer.halves.node, n), (&mut layer.halves.edge, e)] {
                half.attended.size(rows * d);
                half.middle.size(rows * d);
                half.hidden.size(rows * hidden);
            }
        }
        if train {
            work.gradients.node.size(n * d);
            work.gradients.edge.size(e * d);
        }
        let rows = if network.level == Level::Graph { work.topology.graphs() } else { n };
        work.head.size(network, work.topology.graphs(), rows, train);
        work.parts.resize_with(work.plan.parts.len().max(work.parts.len()), Default::default);
        let most = |count: fn(&super::plan::Span) -> usize| work.plan.blocks.iter().map(count).max().unwrap_or(0);
        let (block_nodes, block_edges) = (most(|b| b.nodes.len()), most(|b| b.edges.len()));
        for part in work.parts.iter_mut().take(work.plan.parts.len()) {
            let stream_edges = if network.edge_stream { block_edges } else { 0 };
            for (scratch, rows, edges) in
                [(&mut part.scratch.node, block_nodes, block_edges), (&mut part.scratch.edge, stream_edges, 0)]
            {
                scratch.y.size(rows * d);
                scratch.dx.size(rows * d);
                scratch.dattended.size(rows * d);
                scratch.wide.size(rows * hidden.max(3 * d));
                scratch.dlogit.size(edges * h);
            }
        }
        input::prepare(&mut work.input, network, batch, edges, work.topology.edges());
    }

    /// Whether the last layer's edge stream is computed: it feeds nothing, but in training its statistics move as published.
    pub(crate) fn edge_output(&self, layer: usize, train: bool) -> bool {
        self.network.edge_stream && (train || layer + 1 < self.network.layers)
    }

    /// Whether a gradient comes back through a layer's edge stream.
    pub(crate) fn edge_gradient(&self, layer: usize) -> bool {
        self.network.edge_stream && layer + 1 < self.network.layers
    }

    /// y = norm(x), with a normalisation whose statistics are known.
    pub(crate) fn normalise(&self, site: &Site<T>, affine: Affine, x: &[T], y: &mut [T]) {
        match self.network.norm {
            Norm::Batch => site.batch.apply(self.isa, x, y),
            Norm::Layer => {
                let (gamma, beta) = (&self.values[affine.weight.range()], &self.values[affine.bias.range()]);
                super::layer_norm::forward(self.isa, &self.mask, gamma, beta, x, y);
            }
            Norm::None => y.copy_from_slice(x),
        }
    }

    /// dx from dy; a layer normalisation's dγ and dβ are added to `gradient`.
    pub(crate) fn normalise_backward(
        &self,
        site: &Site<T>,
        affine: Affine,
        x: &[T],
        dy: &[T],
        dx: &mut [T],
        gradient: &mut Gradient<T>,
    ) {
        match self.network.norm {
            Norm::Batch => site.batch.backward(self.isa, dy, x, dx),
            Norm::Layer => {
                let gamma = &self.values[affine.weight.range()];
                let (dgamma, dbeta) = gradient.both(affine);
                super::layer_norm::backward(self.isa, &self.mask, gamma, x, dy, dx, dgamma, dbeta);
            }
            Norm::None => dx.copy_from_slice(dy),
        }
    }

    /// The barrier of the forward pass: merges the parts' moments.
    fn finish_statistics(&mut self, layer: usize, number: usize, train: bool) {
        if self.network.norm != Norm::Batch {
            return;
        }
        let Self { network, layout, values, sites, work, .. } = self;
        let width = network.channels.padded_width();
        let regions = &layout.layers[layer];
        let pair = &mut sites[layer][number];
        let parts = &work.parts[..work.plan.parts.len()];
        let mut finish = |site: &mut Site<T>, affine: Affine, of: fn(&PartState<T>) -> &Moments<T>| {
            let (gamma, beta) = (&values[affine.weight.range()], &values[affine.bias.range()]);
            if train {
                work.moments.reset(width);
                parts.iter().for_each(|part| work.moments.merge(of(part)));
                site.batch.train(&work.moments, gamma, beta, &mut site.running_mean, &mut site.running_var);
            } else {
                site.batch.infer(gamma, beta, &site.running_mean, &site.running_var);
            }
        };
        finish(&mut pair.node, regions.node.norms[number], |part| &part.moments.node);
        if network.edge_stream {
            finish(&mut pair.edge, regions.edge.norms[number], |part| &part.moments.edge);
        }
    }

    /// The barrier of the backward pass: merges the parts' sums.
    fn finish_gradients(&mut self, layer: usize, number: usize) {
        if self.network.norm != Norm::Batch {
            return;
        }
        let with_edges = self.edge_gradient(layer);
        let Self { network, layout, sites, work, .. } = self;
        let width = network.channels.padded_width();
        let regions = &layout.layers[layer];
        let pair = &mut sites[layer][number];
        let count = work.plan.parts.len();
        let parts = &mut work.parts[..count];
        let sums = &mut work.sums;
        let mut finish = |site: &mut Site<T>, affine: Affine, of: fn(&PartState<T>) -> &Vec<T>| {
            sums.clear();
            sums.resize(2 * width, T::ZERO);
            for part in parts.iter() {
                sums.iter_mut().zip(of(part)).for_each(|(sum, &value)| *sum += value);
            }
            // The first part's gradient takes them; which one does not matter for the sum.
            let Some(first) = parts.first_mut() else { return };
            let (dgamma, dbeta) = first.gradient.both(affine);
            site.batch.finish_gradient(sums, dgamma, dbeta);
        };
        finish(&mut pair.node, regions.node.norms[number], |part| &part.sums.node);
        if with_edges {
            finish(&mut pair.edge, regions.edge.norms[number], |part| &part.sums.edge);
        }
    }
}

/// Transposes regions, which lie in ascending order, side by side; `to` begins at `base`.
fn transpose_all<T: Real>(values: &[T], to: &mut [T], base: usize, regions: &[Region]) {
    match regions {
        [] => {}
        [region] => {
            let range = region.range();
            transpose(
                &values[range.clone()],
                &mut to[range.start - base..range.end - base],
                region.rows,
                region.columns,
            );
        }
        _ => {
            let (left, right) = regions.split_at(regions.len() / 2);
            let middle = right[0].offset;
            let (front, back) = to.split_at_mut(middle - base);
            rayon::join(|| transpose_all(values, front, base, left), || transpose_all(values, back, middle, right));
        }
    }
}

/// `to` `[columns, rows]` from `from` `[rows, columns]`.
fn transpose<T: Copy>(from: &[T], to: &mut [T], rows: usize, columns: usize) {
    const TILE: usize = 16;
    for r in (0..rows).step_by(TILE) {
        for c in (0..columns).step_by(TILE) {
            for i in r..(r + TILE).min(rows) {
                for j in c..(c + TILE).min(columns) {
                    to[j * rows + i] = from[i * columns + j];
                }
            }
        }
    }
}
