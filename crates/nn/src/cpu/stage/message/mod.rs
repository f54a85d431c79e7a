//! Layers of other kinds than attention, in two stages:
//!
//! 1. Messages up to the normalisation's input x and its moments. Each kind of layer has a file.
//! 2. h ← h + act(norm(x)), of nodes and, in gated layers, of edges.
//!
//! Every pass runs over the blocks of the plan with arrays of the whole batch, whether blocks cut
//! through graphs or not.

mod additive;
mod convolution;
mod gated;

use std::ops::Range;

use super::{Gradients, wide, with_parts};
use crate::Stream;
use crate::cpu::dropout::{self, drop_values};
use crate::cpu::engine::Engine;
use crate::cpu::gradient::Gradient;
use crate::cpu::message::{self, Activation};
use crate::cpu::plan::{Divide, Extent, Span, divisible, for_parts};
use crate::cpu::product::{Epilogue, product};
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::{Between, PartState};
use crate::network::{LayerKind, Norm};
use crate::parameters::Region;
use crate::real::Real;

divisible! {
    /// The projected nodes and their logits.
    Projected { nodes: [projected, logits], edges: [] }
}

divisible! {
    /// Outputs of the messages.
    Passed { nodes: [summed, inverse, x], edges: [x_e] }
}

divisible! {
    /// Gradients of the rows of both streams, and the gradients derived from them.
    Back { nodes: [dy, dx, dprojected], edges: [dy_e, dlogit] }
}

divisible! {
    /// Outputs of the second backward pass.
    Finishing { nodes: [g, dprojected], edges: [] }
}

/// Runs the first stage.
pub(crate) fn message<T: Real>(engine: &mut Engine<T>, layer: usize, train: bool) {
    let kept = if train { layer } else { 0 };
    let mut activations = std::mem::take(&mut engine.work.layers[kept]);
    with_parts(engine, |engine, parts| {
        let pass = Pass { engine, layer, train };
        let arrays = activations.arrays_mut();
        match engine.network.kind {
            LayerKind::Attention => unreachable!("attention has stages of its own"),
            LayerKind::Convolution | LayerKind::Averaging => pass.convolution(parts, arrays),
            LayerKind::AdditiveAttention => pass.additive(parts, arrays),
            LayerKind::Gated => pass.gated(parts, arrays),
        }
    });
    engine.work.layers[kept] = activations;
}

/// A layer during its forward or backward pass.
#[derive(Clone, Copy)]
struct Pass<'a, T> {
    engine: &'a Engine<T>,
    layer: usize,
    train: bool,
}

impl<'a, T: Real> Pass<'a, T> {
    fn width(&self) -> usize {
        self.engine.network.channels.padded_width()
    }

    /// The layer's input.
    fn input(&self, stream: Stream) -> &'a [T] {
        self.engine.work.streams[self.engine.stream_index(self.layer)].of(stream)
    }

    /// Adds rows of x to the moments of their stream.
    fn add_moments(&self, state: &mut PartState<T>, stream: Stream, x: &[T]) {
        if self.engine.network.norm == Norm::Batch && self.train {
            state.moments.of_mut(stream).add(self.engine.isa, x);
        }
    }

    /// dx of rows of a stream.
    fn normalise_backward(&self, stream: Stream, x: &[T], dy: &[T], dx: &mut [T], gradient: &mut Gradient<T>) {
        let (site, affine) = self.engine.norm_site(self.layer, 0, stream);
        self.engine.normalise_backward(site, affine, x, dy, dx, gradient);
    }

    /// g ← g + dy·Wᵀ for the layer's input, plus the head's gradient of that input. Without
    /// residual, g starts at 0.
    fn return_product(
        &self,
        stream: Stream,
        rows: &Range<usize>,
        dy: &[T],
        weight: Region,
        scratch: &mut [T],
        g: &mut [T],
    ) {
        let (engine, d, n) = (self.engine, self.width(), rows.len());
        let before = &mut scratch[..g.len()];
        before.copy_from_slice(g);
        let residual = self.returns(stream).then(|| Tile::new(before, n, d));
        let epilogue = Epilogue { residual, ..Default::default() };
        let weight = engine.transpose(weight);
        product(engine.isa, Tile::new(dy, n, weight.rows), weight, TileMut::new(g, n, d), epilogue);
        engine.add_head_gradient(self.layer, stream, rows, g);
    }

    /// Whether the gradient of the layer's output is one of its input too.
    fn returns(&self, stream: Stream) -> bool {
        self.engine.network.residual && (stream == Stream::Node || self.engine.edge_gradient(self.layer))
    }
}

/// Runs the second stage.
pub(crate) fn activate<T: Real>(engine: &mut Engine<T>, layer: usize, train: bool) {
    let kept = if train { layer } else { 0 };
    let (source, target) = (engine.stream_index(layer), engine.stream_index(layer + 1));
    let mut out = std::mem::take(&mut engine.work.streams[target]);
    with_parts(engine, |engine, parts| {
        let (d, residual) = (engine.network.channels.padded_width(), engine.network.residual);
        let halves = engine.work.layers[kept].arrays().halves;
        let arrays = Gradients { node: &mut out.node, edge: &mut out.edge };
        for_parts(&engine.work.rows, parts, arrays, &|blocks, part, state, out| {
            for block in blocks {
                for (stream, rows, to, x) in [
                    (Stream::Node, &block.nodes, &mut out.node[block.node_rows(part, d)], halves.node.middle),
                    (Stream::Edge, &block.edges, edge_rows(engine, &mut *out.edge, block, part), halves.edge.middle),
                ] {
                    if stream == Stream::Edge && !engine.edge_output(layer, train) {
                        continue;
                    }
                    let y = &mut state.scratch.of_mut(stream).y[..to.len()];
                    let (site, affine) = engine.norm_site(layer, 0, stream);
                    engine.normalise(site, affine, &x[wide(rows, d)], y);
                    // Where all layers share one stream, its rows are already there.
                    if residual && source != target {
                        to.copy_from_slice(&engine.work.streams[source].of(stream)[wide(rows, d)]);
                    }
                    message::activate(engine.isa, Activation::of(engine.network.kind), residual, y, to);
                    engine.drop_output(layer, stream, rows.start, to);
                }
            }
        });
    });
    engine.work.streams[target] = out;
}

/// A block's rows of an edge array, which is empty without an edge stream.
fn edge_rows<'a, T: Real>(engine: &Engine<T>, array: &'a mut [T], block: &Span, part: &Span) -> &'a mut [T] {
    let width = if engine.network.edge_stream { engine.network.channels.padded_width() } else { 0 };
    &mut array[block.edge_rows(part, width)]
}

impl<T: Real> Engine<T> {
    /// Drops a layer's outputs, or their gradients, in place.
    fn drop_output(&self, layer: usize, stream: Stream, first: usize, values: &mut [T]) {
        if self.work.training && self.network.dropout > 0.0 {
            let site = dropout::Site::Attended(layer, stream);
            drop_values(self.network.dropout, self.dropout_key, site, first, &self.orders.stream, values);
        }
    }
}

/// Backward of [`activate`]: from the gradient of the layer's output to the gradient of the
/// normalisation's output, whose sums are taken. Sets all gradients of the layer's parameters to 0.
pub(crate) fn activate_backward<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    let mut between = std::mem::take(&mut engine.work.between);
    with_parts(engine, |engine, parts| {
        let d = engine.network.channels.padded_width();
        let halves = engine.work.layers[layer].arrays().halves;
        let arrays = Gradients { node: &mut gradients.node, edge: &mut gradients.edge };
        let found = Gradients { node: &mut between.dx, edge: &mut between.dscore };
        for_parts(&engine.work.rows, parts, (arrays, found), &|blocks, part, state, (g, dy)| {
            state.gradient.zero_all();
            state.reset_sums(d);
            for block in blocks {
                let node_rows = block.node_rows(part, d);
                for (stream, rows, g, dy, x) in [
                    (
                        Stream::Node,
                        &block.nodes,
                        &mut g.node[node_rows.clone()],
                        &mut dy.node[node_rows],
                        halves.node.middle,
                    ),
                    (
                        Stream::Edge,
                        &block.edges,
                        edge_rows(engine, &mut *g.edge, block, part),
                        edge_rows(engine, &mut *dy.edge, block, part),
                        halves.edge.middle,
                    ),
                ] {
                    if stream == Stream::Edge && !engine.edge_gradient(layer) {
                        continue;
                    }
                    engine.drop_output(layer, stream, rows.start, g);
                    let x = &x[wide(rows, d)];
                    let y = &mut state.scratch.of_mut(stream).y[..g.len()];
                    let (site, affine) = engine.norm_site(layer, 0, stream);
                    engine.normalise(site, affine, x, y);
                    message::activate_backward(engine.isa, Activation::of(engine.network.kind), y, g, dy);
                    if engine.network.norm == Norm::Batch {
                        site.batch.add_gradient_sums(engine.isa, dy, x, state.sums.of_mut(stream));
                    }
                }
            }
        });
    });
    engine.work.gradients = gradients;
    engine.work.between = between;
}

/// Backward of [`message`].
pub(crate) fn message_backward<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    let mut between = std::mem::take(&mut engine.work.between);
    with_parts(engine, |engine, parts| {
        let pass = Pass { engine, layer, train: true };
        let g = Gradients { node: &mut gradients.node, edge: &mut gradients.edge };
        match engine.network.kind {
            LayerKind::Attention => unreachable!("attention has stages of its own"),
            LayerKind::Convolution | LayerKind::Averaging => pass.convolution_backward(parts, g, &mut between),
            LayerKind::AdditiveAttention => pass.additive_backward(parts, g, &mut between),
            LayerKind::Gated => pass.gated_backward(parts, g, &mut between),
        }
    });
    engine.work.gradients = gradients;
    engine.work.between = between;
}

impl<T: Real> Between<T> {
    fn back(&mut self) -> Back<'_, T> {
        let Self { dx, dattended, dqkv, dlogit, dscore } = self;
        Back { dy: dx, dx: dattended, dprojected: dqkv, dy_e: dscore, dlogit }
    }
}
