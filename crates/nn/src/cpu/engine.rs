//! A network on the CPU: parameters, statistics, workspace, and the stages in order.
//!
//! A stage is everything between two normalisation barriers. Within a stage each block of graphs
//! goes through all operations while its data is in cache. At a barrier the statistics of the parts
//! are merged in fixed order.

use std::ops::Range;

use gt_graph::{GraphBatch, TargetRows};
use rayon::prelude::*;

use super::adam::AdamState;
use super::buffer::Buffer;
use super::dropout::PADDING;
use super::norm::Site;
use super::workspace::Workspace;
use super::{Isa, head, inference, input};
use crate::AttentionScope;
use crate::channels::{Channels, padded};
use crate::layers;
use crate::loss::Loss;
use crate::network::{Jump, Network, Norm};
use crate::parameters::{Parameters, Region};
use crate::real::Real;
use crate::stream::{Pair, Stream};
use crate::weights::{Frozen, RunningPair, Weights, gather, scatter};

/// Values that one task adds up or transposes.
const CHUNK: usize = 1 << 13;

/// A network with its parameters, ready to run.
///
/// ```
/// use graph_transformer_nn::cpu::{Adam, Engine, Isa};
/// use graph_transformer_nn::{AttentionScope, Channels, Loss, Network};
/// use gt_graph::{Graph, GraphBatch, GraphParts, TargetRows};
///
/// let parts = GraphParts { num_nodes: 2, src: &[0, 1], dst: &[1, 0], ..Default::default() };
/// let mut batch = GraphBatch::new();
/// batch.assemble(Graph::new(parts)?.as_store(), &[0])?;
/// let edges = AttentionScope::Sparse;
///
/// // Parameters are 0, so the output is 0: the loss is 3², and the output's bias has slope −2·3.
/// let mut engine = Engine::<f64>::new(Network::new(Channels::new(8, 2), 1), Isa::detect());
/// let loss = engine.train(&batch, edges, Loss::Mse, TargetRows::Float(&[3.0]));
/// let bias = engine.parameters().list().len() - 1;
/// assert_eq!((loss, engine.gradient(bias)), (9.0, vec![-6.0]));
///
/// // The first step of Adam is as long as the learning rate.
/// engine.step(&Adam { lr: 0.1, ..Default::default() });
/// assert!((engine.predict(&batch, edges)[0] - 0.1).abs() < 1e-6);
/// assert_eq!(engine.weights().parameter(bias), engine.parameter(bias));
/// # Ok::<(), gt_graph::GraphError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Engine<T> {
    pub(crate) network: Network,
    pub(crate) layout: Parameters,
    pub(crate) isa: Isa,
    /// All parameters, in the layout of the engine.
    pub(crate) values: Buffer<T>,
    /// Transposes of the matrices, at the same offsets.
    pub(crate) transposed: Buffer<T>,
    pub(crate) gradient: Buffer<T>,
    /// Sum of several batches' gradients.
    pub(crate) accumulated: Buffer<T>,
    pub(crate) adam: AdamState<T>,
    /// Positions among the values that no step changes.
    pub(crate) frozen: Vec<usize>,
    /// Positions of the running statistics that training does not change.
    frozen_running: Vec<usize>,
    /// Per layer: the normalisations of the branches and of the feed-forward half, of nodes and
    /// edges.
    pub(crate) sites: Vec<Vec<Pair<Site<T>>>>,
    /// 1 for channels, 0 for padding.
    pub(crate) mask: Vec<T>,
    pub(crate) orders: Orders,
    pub(crate) dropout_key: u64,
    pub(crate) work: Workspace<T>,
}

/// Positions of the channels in random numbers; see `dropout.rs`.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) stream: Vec<u32>,
    pub(crate) hidden: Vec<u32>,
}

impl Orders {
    fn new(channels: Channels) -> Self {
        let (width, heads, per_head) = (channels.width(), channels.heads(), channels.per_head());
        let mut stream = vec![PADDING; channels.padded_width()];
        (0..width).for_each(|c| stream[channels.place(c)] = (c % per_head * heads + c / per_head) as u32);
        let mut hidden = vec![PADDING; padded(2 * width)];
        (0..2 * width).for_each(|c| hidden[c] = c as u32);
        Self { stream, hidden }
    }
}

impl<T: Real> Engine<T> {
    /// A network with all parameters zero (γ one); fill them with [`Engine::set_parameter`].
    ///
    /// # Panics
    /// If the CPU lacks the instructions.
    pub fn new(network: Network, isa: Isa) -> Self {
        assert!(isa.available(), "this CPU has no {isa:?}");
        let layout = Parameters::new(&network);
        let width = network.channels.padded_width();
        let mut mask = vec![T::ZERO; width];
        (0..network.channels.width()).for_each(|c| mask[network.channels.place(c)] = T::ONE);
        let site =
            || Site { running_mean: vec![T::ZERO; width], running_var: vec![T::ONE; width], ..Default::default() };
        let of_layer = || (0..network.norm_places()).map(|_| Pair { node: site(), edge: site() }).collect();
        let sites = (0..network.layers).map(|_| of_layer()).collect();
        let mut engine = Self {
            values: Buffer::zeros(layout.size()),
            transposed: Buffer::zeros(layout.size()),
            gradient: Buffer::zeros(layout.size()),
            accumulated: Buffer::default(),
            adam: AdamState::default(),
            frozen: Vec::new(),
            frozen_running: Vec::new(),
            sites,
            mask,
            orders: Orders::new(network.channels),
            dropout_key: 0,
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
        scatter(&self.layout.list()[index], values, &mut self.values);
    }

    /// A parameter, in the layout of files.
    pub fn parameter(&self, index: usize) -> Vec<T> {
        gather(&self.layout.list()[index], &self.values)
    }

    /// A parameter's gradient, in the layout of files.
    pub fn gradient(&self, index: usize) -> Vec<T> {
        gather(&self.layout.list()[index], &self.gradient)
    }

    /// Freezes parameters and running statistics: no later step changes them.
    pub fn freeze(&mut self, frozen: &Frozen) {
        self.frozen = frozen.parameters.iter().flat_map(|&index| self.layout.list()[index].places()).collect();
        self.frozen_running = frozen.sites.iter().map(|site| site.index(&self.network)).collect();
    }

    /// The running statistics that a training pass must not change; `None` if it may change all.
    pub(crate) fn frozen_running(&self) -> Option<Vec<RunningPair<T>>> {
        (!self.frozen_running.is_empty()).then(|| self.running_pairs())
    }

    /// Puts back the frozen ones of earlier running statistics.
    pub(crate) fn restore_frozen_running(&mut self, before: &[RunningPair<T>]) {
        let mut now = self.running_pairs();
        self.frozen_running.iter().for_each(|&at| now[at] = before[at].clone());
        self.load_running(&now);
    }

    /// Loads parameters and running statistics.
    ///
    /// # Panics
    /// If the weights are those of another network.
    pub fn load(&mut self, weights: &Weights<T>) {
        self.values.copy_from_slice(&weights.values);
        self.load_running(&weights.running);
        self.refresh();
    }

    /// Parameters and running statistics.
    pub fn weights(&self) -> Weights<T> {
        let mut weights = Weights::zeros(&self.network);
        weights.values.copy_from_slice(&self.values);
        weights.running = self.running_pairs();
        weights
    }

    /// Running statistics of all batch normalisations, which a forward pass in training moves even
    /// where no step follows.
    pub(crate) fn running_pairs(&self) -> Vec<RunningPair<T>> {
        let pair = |site: &Site<T>| RunningPair { mean: site.running_mean.clone(), variance: site.running_var.clone() };
        self.batch_norms().map(pair).collect()
    }

    /// Restores running statistics.
    pub(crate) fn load_running(&mut self, pairs: &[RunningPair<T>]) {
        let edges = self.network.edge_stream;
        let sites = self
            .sites
            .iter_mut()
            .flatten()
            .flat_map(|Pair { node, edge }| [Some(node), edges.then_some(edge)].into_iter().flatten());
        for (site, pair) in sites.zip(pairs) {
            site.running_mean.copy_from_slice(&pair.mean);
            site.running_var.copy_from_slice(&pair.variance);
        }
    }

    /// Whether all running statistics are finite numbers.
    pub(crate) fn has_finite_statistics(&self) -> bool {
        self.batch_norms().all(|site| site.running_mean.iter().chain(&site.running_var).all(|value| value.is_finite()))
    }

    /// Sites of the batch normalisations: layer, number, nodes before edges.
    fn batch_norms(&self) -> impl Iterator<Item = &Site<T>> {
        let (batch, edges) = (self.network.norm == Norm::Batch, self.network.edge_stream);
        self.sites
            .iter()
            .filter(move |_| batch)
            .flatten()
            .flat_map(move |Pair { node, edge }| [Some(node), edges.then_some(edge)].into_iter().flatten())
    }

    /// Running mean and variance of a normalisation of a layer (from 1 on: those of the branches,
    /// then that of the feed-forward half), in the order of files.
    pub fn running(&self, layer: usize, stream: Stream, number: usize) -> (Vec<T>, Vec<T>) {
        let site = self.sites[layer][number - 1].of(stream);
        let channels = self.network.channels;
        let order = |values: &[T]| (0..channels.width()).map(|c| values[channels.place(c)]).collect();
        (order(&site.running_mean), order(&site.running_var))
    }

    /// Sets the running statistics of a normalisation.
    pub fn set_running(&mut self, layer: usize, stream: Stream, number: usize, mean: &[T], var: &[T]) {
        let channels = self.network.channels;
        let site = self.sites[layer][number - 1].of_mut(stream);
        for c in 0..channels.width() {
            site.running_mean[channels.place(c)] = mean[c];
            site.running_var[channels.place(c)] = var[c];
        }
    }

    /// Sets what dropout's masks derive from; give every training step a key of its own. The same
    /// key, weights and batch give the same gradients.
    pub fn set_dropout_key(&mut self, key: u64) {
        self.dropout_key = key;
    }

    /// Sets the pairs of nodes that a network over pairs predicts from now on, instead of a batch's
    /// edges: sources and targets, as numbers within the batch.
    ///
    /// # Panics
    /// If there are not as many sources as targets. Numbers beyond a batch's nodes panic when that
    /// batch comes.
    pub fn set_pairs(&mut self, pairs: Option<(&[u32], &[u32])>) {
        self.work.pairs.ask(pairs);
    }

    /// Updates the transposes that are derived from the parameters.
    pub fn refresh(&mut self) {
        transpose_all(&self.values, &mut self.transposed, 0, &self.layout.transposed);
    }

    /// Outputs of a batch in inference: `[rows, outputs]`, a row per graph, node, edge (in
    /// in-order) or pair.
    pub fn predict(&mut self, batch: &GraphBatch, edges: AttentionScope) -> Vec<T> {
        in_pool(|| self.forward(batch, edges, false));
        self.outputs()
    }

    /// Forward in training mode, loss, and all gradients. Returns the loss; outputs are in
    /// [`Engine::outputs`].
    pub fn train(&mut self, batch: &GraphBatch, edges: AttentionScope, loss: Loss, target: TargetRows<'_>) -> f64 {
        in_pool(|| {
            self.forward(batch, edges, true);
            let value = self.work.head.loss(loss, self.network.outputs(), target);
            self.backward();
            value
        })
    }

    /// Outputs of the last forward pass, without padding.
    pub fn outputs(&self) -> Vec<T> {
        let width = self.network.outputs();
        self.work.head.output().chunks_exact(padded(width)).flat_map(|row| &row[..width]).copied().collect()
    }

    /// The normalised node stream of the last training pass after the input (0) or after a layer,
    /// in the order of files.
    pub fn hidden_nodes(&self, index: usize) -> Vec<T> {
        self.hidden(index, Stream::Node)
    }

    /// The normalised edge stream of the last training pass after the input (0) or after a layer,
    /// edges in in-order, channels in the order of files.
    pub fn hidden_edges(&self, index: usize) -> Vec<T> {
        self.hidden(index, Stream::Edge)
    }

    pub(crate) fn hidden(&self, index: usize, stream: Stream) -> Vec<T> {
        let x = self.work.streams[self.stream_index(index)].of(stream);
        let mut y = x.to_vec();
        if let Some((site, affine)) = self.stream_norm(index, stream) {
            self.normalise(site, affine, x, &mut y);
        }
        let channels = self.network.channels;
        let order = |row: &[T]| (0..channels.width()).map(|c| row[channels.place(c)]).collect::<Vec<T>>();
        y.chunks_exact(channels.padded_width()).flat_map(order).collect()
    }

    fn forward(&mut self, batch: &GraphBatch, edges: AttentionScope, train: bool) {
        self.work.prepare(&self.network, batch, edges, train);
        if train || self.work.plan.open || !self.network.runs_by_block() {
            self.stages(train, |_| {});
            head::read(self);
        } else {
            inference::forward(self);
        }
        head::forward(self);
    }

    /// Stage by stage over the whole batch; `attended` is called when a layer's branches have run.
    pub(crate) fn stages(&mut self, train: bool, mut attended: impl FnMut(&Self)) {
        input::forward(self);
        for layer in 0..self.network.layers {
            layers::forward(self, layer, train, &mut attended);
        }
    }

    fn backward(&mut self) {
        let layers = self.network.layers;
        self.with_gradients(self.layout.start(layers)..self.layout.size(), head::backward);
        // Every layer adds to it.
        self.work.dshared_edges.par_chunks_mut(CHUNK).for_each(|values| values.fill(T::ZERO));
        for layer in (0..layers).rev() {
            self.with_gradients(self.layout.start(layer)..self.layout.start(layer + 1), |engine| {
                layers::backward(engine, layer);
            });
        }
        self.with_gradients(0..self.layout.start(0), input::backward);
    }

    /// Zeroes the gradients that the barriers add to, and those that no stage of this layer adds
    /// to.
    pub(crate) fn zero_idle_gradients(&mut self, layer: usize) {
        let idle_edges = !self.edge_gradient(layer);
        let Self { network, layout, work, .. } = self;
        let regions = &layout.layers[layer];
        let count = work.plan.parts.len();
        for part in &mut work.parts[..count] {
            for stream in [Stream::Node, Stream::Edge] {
                for norm in (0..network.norms()).map(|number| regions.norm(number, stream)) {
                    part.gradient.zero(norm.weight.offset..norm.bias.range().end);
                }
            }
            if idle_edges {
                regions.branches.iter().for_each(|branch| part.gradient.zero(branch.output.edge.clone()));
                part.gradient.zero(regions.feed_forward.edge.range());
            }
        }
    }

    /// Calls `run`, which contributes to the gradients of a window of the parameters, and adds up
    /// the parts in their order.
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

    /// Where a layer's input lies among the streams: inference keeps one, unless the head reads
    /// all.
    pub(crate) fn stream_index(&self, layer: usize) -> usize {
        if self.work.training || self.network.jump != Jump::Last { layer } else { 0 }
    }

    /// Whether a layer's edge stream is computed. The last layer's may have no reader, but in
    /// training its statistics move as published.
    pub(crate) fn edge_output(&self, layer: usize, train: bool) -> bool {
        self.network.edge_stream && (train || self.edge_gradient(layer))
    }

    /// Whether a gradient comes back through a layer's edge stream.
    pub(crate) fn edge_gradient(&self, layer: usize) -> bool {
        self.network.edge_stream && (layer + 1 < self.network.layers || self.network.last_edges_read())
    }
}

/// Runs a whole pass on a thread of the pool: entering it from outside costs two wake-ups, once
/// here instead of at every barrier.
pub(crate) fn in_pool<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| run())
}

/// Transposes adjacent regions in ascending order; `to` begins at `base`.
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
