//! The head: rows read from the streams, then a multi-layer perceptron.
//!
//! The head reads the nodes or edges of the last layer, or of all layers concatenated or added up
//! (jumping knowledge, Xu et al. 2018). For graphs, nodes become one row: their mean, sum or
//! largest value. For pairs, the rows of source and target are concatenated, or multiplied channel
//! by channel. Perceptron: x ← ReLU(x·W + b), the last layer without ReLU.

use std::ops::Range;

use gt_graph::{GraphBatch, TargetRows};
use rayon::prelude::*;

use super::buffer::Buffer;
use super::columns::add_column_sums;
use super::engine::Engine;
use super::plan::{Divide, Extent, Span, divisible, for_parts};
use super::product::{Epilogue, product, product_tn};
use super::stage::with_parts;
use super::tile::{Tile, TileMut};
use super::workspace::PartState;
use crate::channels::padded;
use crate::loss::{Loss, LossMemory};
use crate::network::{HeadInput, Jump, Network, Norm, Readout};
use crate::real::Real;
use crate::stream::Stream;

/// Activations and gradients of the head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activations<T> {
    /// Normalised nodes or edges of the layers that are read. `[nodes or edges, layers·d]`
    source: Buffer<T>,
    /// A row per graph or pair, where those are predicted for. `[rows, streams·d]`
    joined: Buffer<T>,
    /// The node of each graph and channel that is largest.
    largest: Vec<u32>,
    /// Output of each layer.
    layers: Vec<Buffer<T>>,
    /// Gradient of the output.
    doutput: Buffer<T>,
    /// Gradients between layers.
    dlayers: [Buffer<T>; 2],
    /// Gradient of `source`.
    dsource: Buffer<T>,
    rows: usize,
    loss: LossMemory,
}

impl<T: Real> Activations<T> {
    /// `counts`: graphs, nodes, edges of the stream, pairs.
    pub(crate) fn size(&mut self, network: &Network, counts: [usize; 4], train: bool) {
        let [graphs, nodes, edges, pairs] = counts;
        let d = network.channels.padded_width();
        let (source, joined) = (source_width(network), network.head_streams() * d);
        let (rows, sources, joins) = match network.reads {
            HeadInput::Graphs(_) => (graphs, nodes, graphs),
            HeadInput::Nodes => (nodes, nodes, 0),
            HeadInput::Edges => (edges, edges, 0),
            HeadInput::Pairs | HeadInput::Products => (pairs, nodes, pairs),
        };
        self.rows = rows;
        self.source.size(sources * source);
        self.joined.size(joins * joined);
        self.largest.resize(if network.reads == HeadInput::Graphs(Readout::Max) { graphs * source } else { 0 }, 0);
        self.layers.resize_with(network.head.len(), Buffer::default);
        for (layer, &width) in self.layers.iter_mut().zip(&network.head) {
            layer.size(rows * padded(width));
        }
        if train {
            let widest = network.head.iter().map(|&w| padded(w)).max().unwrap_or(0).max(joined);
            self.doutput.size(rows * padded(network.outputs()));
            self.dlayers.iter_mut().for_each(|buffer| buffer.size(rows * widest));
            self.dsource.size(sources * source);
        }
    }

    /// Loss of the output; its gradient is kept for [`backward`].
    pub(crate) fn loss(&mut self, kind: Loss, width: usize, target: TargetRows<'_>) -> f64 {
        let output = self.layers.last().map_or(&[][..], |layer| layer);
        self.loss.loss(kind, output, width, padded(width), target, &mut self.doutput)
    }

    /// `[rows, padded outputs]`
    pub(crate) fn output(&self) -> &[T] {
        self.layers.last().map_or(&[], |layer| layer)
    }

    /// The rows that the streams are read into.
    pub(crate) fn source_mut(&mut self) -> &mut [T] {
        &mut self.source
    }

    /// The input of the perceptron.
    fn input(&self, reads: HeadInput) -> &[T] {
        match reads {
            HeadInput::Nodes | HeadInput::Edges => &self.source,
            HeadInput::Graphs(_) | HeadInput::Pairs | HeadInput::Products => &self.joined,
        }
    }
}

/// Numbers that [`Activations::size`] allocates memory for.
pub(crate) fn length(network: &Network, [graphs, nodes, edges, pairs]: [usize; 4], train: bool) -> f64 {
    let source = source_width(network) as f64;
    let joined = (network.head_streams() * network.channels.padded_width()) as f64;
    let [graphs, nodes, edges, pairs] = [graphs, nodes, edges, pairs].map(|count| count as f64);
    let (rows, sources, joins) = match network.reads {
        HeadInput::Graphs(_) => (graphs, nodes, graphs),
        HeadInput::Nodes => (nodes, nodes, 0.0),
        HeadInput::Edges => (edges, edges, 0.0),
        HeadInput::Pairs | HeadInput::Products => (pairs, nodes, pairs),
    };
    let widths = || network.head.iter().map(|&width| padded(width) as f64);
    let largest = if network.reads == HeadInput::Graphs(Readout::Max) { graphs * source } else { 0.0 };
    let forward = sources * source + joins * joined + largest + rows * widths().sum::<f64>();
    if !train {
        return forward;
    }
    let widest = widths().fold(joined, f64::max);
    forward + rows * (padded(network.outputs()) as f64 + 2.0 * widest) + sources * source
}

/// Width of a row of the streams that are read.
pub(crate) fn source_width(network: &Network) -> usize {
    let layers = if network.jump == Jump::Concat { network.layers.max(1) } else { 1 };
    layers * network.channels.padded_width()
}

/// Pairs of nodes, and where each node occurs in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs {
    asked: bool,
    source: Vec<u32>,
    target: Vec<u32>,
    /// Places of node i are `offsets[i]..offsets[i + 1]`; place 2p is source of pair p, 2p + 1 its
    /// target.
    offsets: Vec<u32>,
    places: Vec<u32>,
}

impl Pairs {
    pub(crate) fn ask(&mut self, pairs: Option<(&[u32], &[u32])>) {
        self.asked = pairs.is_some();
        if let Some((source, target)) = pairs {
            self.set(source, target);
        }
    }

    fn set(&mut self, source: &[u32], target: &[u32]) {
        assert_eq!(source.len(), target.len(), "a pair has a source and a target");
        self.source.clear();
        self.source.extend_from_slice(source);
        self.target.clear();
        self.target.extend_from_slice(target);
    }

    pub(crate) fn len(&self) -> usize {
        self.source.len()
    }

    /// Takes the batch's edges unless other pairs are set, and sorts positions by node.
    pub(crate) fn prepare(&mut self, network: &Network, batch: &GraphBatch) {
        if !matches!(network.reads, HeadInput::Pairs | HeadInput::Products) {
            return;
        }
        if !self.asked {
            self.set(batch.in_src(), batch.in_dst());
        }
        let Self { source, target, offsets, places, .. } = self;
        let ends = || source.iter().zip(&*target).flat_map(|(&s, &t)| [s as usize, t as usize]);
        offsets.clear();
        offsets.resize(batch.num_nodes() + 1, 0);
        ends().for_each(|node| offsets[node + 1] += 1);
        (0..batch.num_nodes()).for_each(|node| offsets[node + 1] += offsets[node]);
        places.clear();
        places.resize(2 * source.len(), 0);
        // Filling moves every offset to its node's end, which is where the next node's lay.
        ends().enumerate().for_each(|(place, node)| {
            places[offsets[node] as usize] = place as u32;
            offsets[node] += 1;
        });
        offsets.rotate_right(1);
        offsets[0] = 0;
    }
}

divisible! {
    /// The streams that are read, concatenated.
    Source { nodes: [node], edges: [edge] }
}

/// Reads the streams, as far as the pass before has kept them.
pub(crate) fn read<T: Real>(engine: &mut Engine<T>) {
    let mut head = std::mem::take(&mut engine.work.head);
    let reads = engine.network.reads;
    let stream = if reads == HeadInput::Edges { Stream::Edge } else { Stream::Node };
    with_parts(engine, |engine, parts| {
        let arrays = match stream {
            Stream::Node => Source { node: &mut head.source, edge: &mut [] },
            Stream::Edge => Source { node: &mut [], edge: &mut head.source },
        };
        let d = engine.network.channels.padded_width();
        for_parts(&engine.work.rows, parts, arrays, &|_, part: &Span, state, out| {
            let (rows, out) = match stream {
                Stream::Node => (&part.nodes, out.node),
                Stream::Edge => (&part.edges, out.edge),
            };
            for layer in (0..=engine.network.layers).filter(|&layer| engine.network.head_reads(layer)) {
                let x = &engine.work.streams[engine.stream_index(layer)].of(stream)[rows.start * d..rows.end * d];
                read_layer(engine, layer, stream, x, &mut state.scratch.node.dx, out);
            }
        });
    });
    engine.work.head = head;
}

/// Joins what was read, and predicts.
pub(crate) fn forward<T: Real>(engine: &mut Engine<T>) {
    let mut head = std::mem::take(&mut engine.work.head);
    let reads = engine.network.reads;
    let width = source_width(&engine.network);
    match reads {
        HeadInput::Graphs(readout) => pool(engine, readout, width, &mut head),
        HeadInput::Pairs | HeadInput::Products => {
            let (pairs, source) = (&engine.work.pairs, &head.source);
            let row = |node: u32| &source[node as usize * width..(node as usize + 1) * width];
            let streams = if reads == HeadInput::Pairs { 2 } else { 1 };
            head.joined.par_chunks_mut(streams * width).enumerate().with_min_len(64).for_each(|(pair, out)| {
                let (from, to) = (row(pairs.source[pair]), row(pairs.target[pair]));
                if reads == HeadInput::Pairs {
                    out[..width].copy_from_slice(from);
                    out[width..].copy_from_slice(to);
                } else {
                    out.iter_mut().zip(from.iter().zip(to)).for_each(|(out, (&a, &b))| *out = a * b);
                }
            });
        }
        HeadInput::Nodes | HeadInput::Edges => {}
    }
    perceptron(engine, &mut head);
    engine.work.head = head;
}

/// Normalises rows of a layer's output into the rows that the head reads: appended to the other
/// layers' channels, or added to them. Layers come in order.
pub(crate) fn read_layer<T: Real>(
    engine: &Engine<T>,
    layer: usize,
    stream: Stream,
    x: &[T],
    scratch: &mut Buffer<T>,
    out: &mut [T],
) {
    let network = &engine.network;
    let (d, width) = (network.channels.padded_width(), source_width(network));
    let normalise = |x: &[T], y: &mut [T]| match engine.stream_norm(layer, stream) {
        Some((site, affine)) => engine.normalise(site, affine, x, y),
        None => y.copy_from_slice(x),
    };
    match network.jump {
        Jump::Concat if width > d => {
            let column = (layer - 1) * d;
            for (x, out) in x.chunks_exact(d).zip(out.chunks_exact_mut(width)) {
                normalise(x, &mut out[column..column + d]);
            }
        }
        Jump::Sum if layer > 1 => {
            // Other stages rely on the size of the scratch memory, so it only grows.
            if scratch.len() < x.len() {
                scratch.size(x.len());
            }
            let normalised = &mut scratch[..x.len()];
            normalise(x, normalised);
            out.iter_mut().zip(&*normalised).for_each(|(to, &value)| *to += value);
        }
        _ => normalise(x, out),
    }
}

/// One row out of each graph's nodes; 0 for a graph without nodes.
fn pool<T: Real>(engine: &Engine<T>, readout: Readout, width: usize, head: &mut Activations<T>) {
    let Activations { source, joined, largest, .. } = head;
    let offsets = &engine.work.topology.node_offsets;
    let each = |graph: usize, out: &mut [T], largest: &mut [u32]| {
        let nodes = &source[offsets[graph] * width..offsets[graph + 1] * width];
        out.fill(T::ZERO);
        for (node, row) in nodes.chunks_exact(width).enumerate() {
            if readout == Readout::Max {
                for ((out, largest), &value) in out.iter_mut().zip(&mut *largest).zip(row) {
                    // Ties go to the first node.
                    if node == 0 || value > *out {
                        (*out, *largest) = (value, (offsets[graph] + node) as u32);
                    }
                }
            } else {
                out.iter_mut().zip(row).for_each(|(out, &value)| *out += value);
            }
        }
        if readout == Readout::Mean && !nodes.is_empty() {
            let share = T::from_f64(width as f64 / nodes.len() as f64);
            out.iter_mut().for_each(|value| *value *= share);
        }
    };
    let graphs = joined.par_chunks_mut(width).enumerate();
    if readout == Readout::Max {
        graphs.zip(largest.par_chunks_mut(width)).for_each(|((graph, out), largest)| each(graph, out, largest));
    } else {
        graphs.for_each(|(graph, out)| each(graph, out, &mut []));
    }
}

/// Rows that one task of the perceptron takes: one task for each part, whose gradient it adds to.
fn rows_per_task<T: Real>(engine: &Engine<T>, rows: usize) -> usize {
    rows.div_ceil(engine.work.plan.parts.len().max(1)).max(1)
}

/// x ← ReLU(x·W + b), layer by layer.
fn perceptron<T: Real>(engine: &Engine<T>, head: &mut Activations<T>) {
    let mut outputs = std::mem::take(&mut head.layers);
    let task = rows_per_task(engine, head.rows);
    let mut x = head.input(engine.network.reads);
    let last = outputs.len().saturating_sub(1);
    for (index, (out, affine)) in outputs.iter_mut().zip(&engine.layout.head).enumerate() {
        let (from, to) = (affine.weight.rows, affine.weight.columns);
        let epilogue = Epilogue { bias: Some(engine.vector(affine.bias)), relu: index < last, ..Default::default() };
        out.par_chunks_mut(task * to).zip(x.par_chunks(task * from)).for_each(|(out, x)| {
            let n = out.len() / to;
            product(
                engine.isa,
                Tile::new(x, n, from),
                engine.weight(affine.weight),
                TileMut::new(out, n, to),
                epilogue,
            );
        });
        x = out;
    }
    head.layers = outputs;
}

/// Backward of [`forward`]: gradients of the head's parameters and of the last layer's normalised
/// stream.
pub(crate) fn backward<T: Real>(engine: &mut Engine<T>) {
    let mut head = std::mem::take(&mut engine.work.head);
    with_parts(engine, |engine, parts| {
        let count = engine.work.plan.parts.len();
        perceptron_backward(engine, &mut head, &mut parts[..count]);
        source_backward(engine, &mut head);
    });
    engine.work.head = head;
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    with_parts(engine, |engine, parts| {
        let arrays = Source { node: &mut gradients.node, edge: &mut gradients.edge };
        for_parts(&engine.work.rows, parts, arrays, &|_, part: &Span, state, g| {
            let d = engine.network.channels.padded_width();
            state.reset_sums(d);
            let layers = engine.network.layers;
            let sums = &mut state.sums[0];
            for (stream, rows, g, sums) in [
                (Stream::Node, &part.nodes, g.node, &mut sums.node),
                (Stream::Edge, &part.edges, g.edge, &mut sums.edge),
            ] {
                g.fill(T::ZERO);
                engine.add_head_gradient(layers, stream, rows, g);
                let norm = engine.stream_norm(layers, stream);
                if let (Norm::Batch, Some((site, _)), false) = (engine.network.norm, norm, g.is_empty()) {
                    let x = &engine.work.streams[layers].of(stream)[rows.start * d..rows.end * d];
                    site.batch.add_gradient_sums(engine.isa, g, x, sums);
                }
            }
        });
    });
    engine.work.gradients = gradients;
}

impl<T: Real> Engine<T> {
    /// Adds the head's gradient to rows of a layer's normalised output, if the head reads the
    /// layer.
    pub(crate) fn add_head_gradient(&self, layer: usize, stream: Stream, rows: &Range<usize>, g: &mut [T]) {
        let reads = if self.network.reads == HeadInput::Edges { Stream::Edge } else { Stream::Node };
        if reads != stream || !self.network.head_reads(layer) {
            return;
        }
        let (d, width) = (self.network.channels.padded_width(), source_width(&self.network));
        let column = if self.network.jump == Jump::Concat { layer.saturating_sub(1) * d } else { 0 };
        let from = self.work.head.dsource[rows.start * width..rows.end * width].chunks_exact(width);
        for (to, from) in g.chunks_exact_mut(d).zip(from) {
            to.iter_mut().zip(&from[column..column + d]).for_each(|(to, &value)| *to += value);
        }
    }
}

/// Gradients of the perceptron. The gradient of its input is left in the first of `dlayers`.
fn perceptron_backward<T: Real>(engine: &Engine<T>, head: &mut Activations<T>, parts: &mut [PartState<T>]) {
    let isa = engine.isa;
    let mut dlayers = std::mem::take(&mut head.dlayers);
    let [here, next] = &mut dlayers;
    let rows = head.rows;
    let task = rows_per_task(engine, rows);
    parts.par_iter_mut().for_each(|part| part.gradient.zero_all());
    here[..head.doutput.len()].copy_from_slice(&head.doutput);
    for (index, affine) in engine.layout.head.iter().enumerate().rev() {
        let (from, to) = (affine.weight.rows, affine.weight.columns);
        let x = if index == 0 { head.input(engine.network.reads) } else { &head.layers[index - 1] };
        let tasks = parts
            .par_iter_mut()
            .zip(x[..rows * from].par_chunks(task * from))
            .zip(here[..rows * to].par_chunks(task * to))
            .zip(next[..rows * from].par_chunks_mut(task * from));
        tasks.for_each(|(((part, x), dy), dx)| {
            let n = dy.len() / to;
            let (x, tile) = (Tile::new(x, n, from), Tile::new(dy, n, to));
            product_tn(isa, x, tile, TileMut::new(part.gradient.of(affine.weight), from, to), &[]);
            add_column_sums(isa, dy, part.gradient.of(affine.bias));
            let epilogue = Epilogue { gate: (index > 0).then_some(x), ..Default::default() };
            product(isa, tile, engine.transpose(affine.weight), TileMut::new(dx, n, from), epilogue);
        });
        std::mem::swap(here, next);
    }
    head.dlayers = dlayers;
}

/// Gradient of `source`, from the gradient of the perceptron's input.
fn source_backward<T: Real>(engine: &Engine<T>, head: &mut Activations<T>) {
    let width = source_width(&engine.network);
    let Activations { source, largest, dlayers: [dinput, _], dsource, .. } = head;
    let offsets = &engine.work.topology.node_offsets;
    match engine.network.reads {
        HeadInput::Nodes | HeadInput::Edges => {
            let length = dsource.len();
            dsource.copy_from_slice(&dinput[..length]);
        }
        HeadInput::Pairs => {
            let Pairs { offsets, places, .. } = &engine.work.pairs;
            dsource.par_chunks_mut(width).enumerate().with_min_len(64).for_each(|(node, out)| {
                out.fill(T::ZERO);
                for &place in &places[offsets[node] as usize..offsets[node + 1] as usize] {
                    let from = &dinput[place as usize * width..(place as usize + 1) * width];
                    out.iter_mut().zip(from).for_each(|(to, &value)| *to += value);
                }
            });
        }
        HeadInput::Products => {
            let Pairs { source: from, target: to, offsets, places, .. } = &engine.work.pairs;
            dsource.par_chunks_mut(width).enumerate().with_min_len(64).for_each(|(node, out)| {
                out.fill(T::ZERO);
                for &place in &places[offsets[node] as usize..offsets[node + 1] as usize] {
                    let pair = place as usize / 2;
                    let other = if place % 2 == 0 { to[pair] } else { from[pair] } as usize;
                    let factors = &source[other * width..(other + 1) * width];
                    let slopes = &dinput[pair * width..(pair + 1) * width];
                    out.iter_mut().zip(factors.iter().zip(slopes)).for_each(|(to, (&a, &b))| *to += a * b);
                }
            });
        }
        HeadInput::Graphs(readout) => {
            let graphs = offsets.windows(2).zip(dinput.chunks_exact(width)).enumerate();
            for (graph, (nodes, from)) in graphs {
                let rows = &mut dsource[nodes[0] * width..nodes[1] * width];
                if readout == Readout::Max {
                    rows.fill(T::ZERO);
                    if !rows.is_empty() {
                        let largest = &largest[graph * width..(graph + 1) * width];
                        for (c, (&node, &value)) in largest.iter().zip(from).enumerate() {
                            rows[(node as usize - nodes[0]) * width + c] = value;
                        }
                    }
                } else {
                    let count = nodes[1] - nodes[0];
                    let share = if readout == Readout::Mean { T::from_f64(1.0 / count.max(1) as f64) } else { T::ONE };
                    for row in rows.chunks_exact_mut(width) {
                        row.iter_mut().zip(from).for_each(|(to, &value)| *to = value * share);
                    }
                }
            }
        }
    }
}
