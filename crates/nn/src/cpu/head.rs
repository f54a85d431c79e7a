//! The head: readout of graphs where graphs are predicted, then a multi-layer perceptron.
//!
//! Readout: mean, sum or largest value of a graph's nodes. Perceptron: x ← ReLU(x·W + b), the last layer without ReLU.

use gt_graph::Level;

use super::buffer::Buffer;
use super::columns::add_column_sums;
use super::engine::Engine;
use super::plan::{Divide, Extent, Span, divisible, for_parts};
use super::product::{Epilogue, product, product_tn};
use super::tile::{Tile, TileMut};
use crate::channels::padded;
use crate::network::{Network, Norm, Readout};
use crate::real::Real;

/// What the head keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activations<T> {
    /// The last layer's nodes, normalised. `[nodes, d]`
    nodes: Buffer<T>,
    /// One row per graph. `[graphs, d]`
    pooled: Buffer<T>,
    /// Output of each layer.
    layers: Vec<Buffer<T>>,
    /// Gradient of the output.
    doutput: Buffer<T>,
    /// Gradients between layers.
    dlayers: [Buffer<T>; 2],
    rows: usize,
}

impl<T: Real> Activations<T> {
    pub(crate) fn size(&mut self, network: &Network, graphs: usize, rows: usize, train: bool) {
        self.rows = rows;
        let d = network.channels.padded_width();
        self.pooled.size(if network.level == Level::Graph { graphs * d } else { 0 });
        self.layers.resize_with(network.head.len(), Buffer::default);
        for (layer, &width) in self.layers.iter_mut().zip(&network.head) {
            layer.size(rows * padded(width));
        }
        if train {
            let widest = network.head.iter().map(|&w| padded(w)).max().unwrap_or(0).max(d);
            self.doutput.size(rows * network.head.last().map_or(0, |&w| padded(w)));
            self.dlayers.iter_mut().for_each(|buffer| buffer.size(rows * widest));
        }
    }

    /// Calls with the output and the place for its gradient.
    pub(crate) fn with_output<R>(&mut self, call: impl FnOnce(&[T], &mut [T]) -> R) -> R {
        call(self.layers.last().map_or(&[], |l| l), &mut self.doutput)
    }

    /// `[rows, padded outputs]`
    pub(crate) fn output(&self) -> &[T] {
        self.layers.last().map_or(&[], |l| l)
    }
}

divisible! {
    /// What normalisation and readout write.
    Pooled { graphs: [pooled], nodes: [nodes], edges: [] }
}

/// Normalises, pools and predicts.
pub(crate) fn forward<T: Real>(engine: &mut Engine<T>) {
    let d = engine.network.channels.padded_width();
    let mut head = std::mem::take(&mut engine.work.head);
    let mut parts = std::mem::take(&mut engine.work.parts);
    head.nodes.size(engine.work.topology.nodes() * d);
    let reader = &*engine;
    let layers = reader.network.layers;
    let stream = &reader.work.streams[if reader.work.training { layers } else { 0 }].node;
    let arrays = Pooled { pooled: &mut head.pooled, nodes: &mut head.nodes };
    for_parts(&reader.work.plan, &mut parts, arrays, &|_, part: &Span, _, out| {
        let x = &stream[part.nodes.start * d..part.nodes.end * d];
        if layers == 0 {
            out.nodes.copy_from_slice(x);
        } else {
            reader.normalise(
                &reader.sites[layers - 1][1].node,
                reader.layout.layers[layers - 1].node.norms[1],
                x,
                out.nodes,
            );
        }
        if reader.network.level == Level::Graph {
            for (graph, to) in part.graphs.clone().zip(out.pooled.chunks_exact_mut(d)) {
                let nodes = reader.nodes_of(graph, part);
                pool(reader.network.readout, &out.nodes[nodes.start * d..nodes.end * d], to);
            }
        }
    });
    let Activations { nodes, pooled, layers: outputs, rows, .. } = &mut head;
    let mut x: &[T] = if engine.network.level == Level::Graph { pooled } else { nodes };
    let last = outputs.len().saturating_sub(1);
    for (index, (out, affine)) in outputs.iter_mut().zip(&engine.layout.head).enumerate() {
        let (from, to) = (affine.weight.rows, affine.weight.columns);
        let weight = Tile::new(&engine.values[affine.weight.range()], from, to);
        let epilogue =
            Epilogue { bias: Some(&engine.values[affine.bias.range()]), relu: index < last, ..Default::default() };
        product(engine.isa, Tile::new(x, *rows, from), weight, TileMut::new(out, *rows, to), epilogue);
        x = out;
    }
    engine.work.parts = parts;
    engine.work.head = head;
}

impl<T: Real> Engine<T> {
    /// A graph's nodes, counted from the first of its part.
    fn nodes_of(&self, graph: usize, part: &Span) -> std::ops::Range<usize> {
        let offsets = &self.work.topology.node_offsets;
        offsets[graph] - part.nodes.start..offsets[graph + 1] - part.nodes.start
    }
}

/// One row out of a graph's nodes.
fn pool<T: Real>(readout: Readout, nodes: &[T], out: &mut [T]) {
    let d = out.len();
    out.fill(T::ZERO);
    for (index, row) in nodes.chunks_exact(d).enumerate() {
        match readout {
            Readout::Max => out.iter_mut().zip(row).for_each(|(o, &v)| {
                if index == 0 || v > *o {
                    *o = v
                }
            }),
            Readout::Mean | Readout::Sum => out.iter_mut().zip(row).for_each(|(o, &v)| *o += v),
        }
    }
    if readout == Readout::Mean && !nodes.is_empty() {
        let share = T::from_f64(d as f64 / nodes.len() as f64);
        out.iter_mut().for_each(|o| *o *= share);
    }
}

/// Gradient of a graph's nodes from that of its row: ties of the largest value go to the first node.
fn pool_backward<T: Real>(readout: Readout, nodes: &[T], dout: &[T], dnodes: &mut [T]) {
    let d = dout.len();
    let count = nodes.len() / d;
    match readout {
        Readout::Max => {
            dnodes.fill(T::ZERO);
            for c in 0..d {
                let largest =
                    (0..count).fold(0, |best, row| if nodes[row * d + c] > nodes[best * d + c] { row } else { best });
                if count > 0 {
                    dnodes[largest * d + c] = dout[c];
                }
            }
        }
        Readout::Mean | Readout::Sum => {
            let share = if readout == Readout::Mean { T::from_f64(1.0 / count.max(1) as f64) } else { T::ONE };
            for row in dnodes.chunks_exact_mut(d) {
                row.iter_mut().zip(dout).for_each(|(to, &g)| *to = g * share);
            }
        }
    }
}

divisible! {
    /// Gradient of the nodes.
    Back { graphs: [], nodes: [nodes], edges: [] }
}

/// Backward of [`forward`]: gradients of the head's parameters and of the last layer's normalised nodes.
pub(crate) fn backward<T: Real>(engine: &mut Engine<T>) {
    let d = engine.network.channels.padded_width();
    let isa = engine.isa;
    let mut head = std::mem::take(&mut engine.work.head);
    let mut parts = std::mem::take(&mut engine.work.parts);
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    // The head's own gradients are small and taken as a whole, by the first part.
    parts[..engine.work.plan.parts.len()].iter_mut().for_each(|part| part.gradient.zero_all());
    if let Some(first) = parts.first_mut() {
        let Activations { nodes, pooled, layers, doutput, dlayers: [a, b], rows, .. } = &mut head;
        let input: &[T] = if engine.network.level == Level::Graph { pooled } else { nodes };
        let (mut here, mut next) = (a, b);
        here[..doutput.len()].copy_from_slice(doutput);
        for (index, affine) in engine.layout.head.iter().enumerate().rev() {
            let (from, to) = (affine.weight.rows, affine.weight.columns);
            let x = if index == 0 { input } else { &layers[index - 1] };
            let dy = &here[..*rows * to];
            let weight = first.gradient.of(affine.weight);
            product_tn(isa, Tile::new(x, *rows, from), Tile::new(dy, *rows, to), TileMut::new(weight, from, to));
            add_column_sums(isa, dy, first.gradient.of(affine.bias));
            let transposed = Tile::new(&engine.transposed[affine.weight.range()], to, from);
            let gate = (index > 0).then(|| Tile::new(x, *rows, from));
            product(
                isa,
                Tile::new(dy, *rows, to),
                transposed,
                TileMut::new(next, *rows, from),
                Epilogue { gate, ..Default::default() },
            );
            std::mem::swap(&mut here, &mut next);
        }
        let dinput = &here[..*rows * d];
        let reader = &*engine;
        let layers = reader.network.layers;
        let stream = &reader.work.streams[layers].node;
        for_parts(
            &reader.work.plan,
            &mut parts,
            Back { nodes: &mut gradients.node },
            &|blocks, part: &Span, state, out| {
                if reader.network.level == Level::Graph {
                    for graph in part.graphs.clone() {
                        let local = reader.nodes_of(graph, part);
                        let global = part.nodes.start + local.start..part.nodes.start + local.end;
                        let dgraph = &dinput[graph * d..(graph + 1) * d];
                        pool_backward(
                            reader.network.readout,
                            &nodes[global.start * d..global.end * d],
                            dgraph,
                            &mut out.nodes[local.start * d..local.end * d],
                        );
                    }
                } else {
                    out.nodes.copy_from_slice(&dinput[part.nodes.start * d..part.nodes.end * d]);
                }
                state.sums.node.clear();
                state.sums.node.resize(2 * d, T::ZERO);
                state.sums.edge.clear();
                state.sums.edge.resize(2 * d, T::ZERO);
                if reader.network.norm == Norm::Batch && layers > 0 {
                    for block in blocks {
                        let x = &stream[block.nodes.start * d..block.nodes.end * d];
                        let local =
                            (block.nodes.start - part.nodes.start) * d..(block.nodes.end - part.nodes.start) * d;
                        reader.sites[layers - 1][1].node.batch.add_gradient_sums(
                            isa,
                            &out.nodes[local],
                            x,
                            &mut state.sums.node,
                        );
                    }
                }
            },
        );
    }
    engine.work.gradients = gradients;
    engine.work.parts = parts;
    engine.work.head = head;
}
