//! First normalisation, feed-forward, the second normalisation's input and moments: out = y +
//! W₂·ReLU(W₁·y + b₁) + b₂ with y = norm(x) (the paper's eq. 7–8).

use std::ops::Range;

use super::{Gradients, HalfBack, halves, wide, with_next, with_parts};
use crate::Stream;
use crate::cpu::dropout::{self, drop_values};
use crate::cpu::engine::Engine;
use crate::cpu::gradient::Gradient;
use crate::cpu::plan::{Divide, Extent, divisible, for_parts};
use crate::cpu::product::{Epilogue, product};
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::{Pair, PartState, Scratch};
use crate::network::Norm;
use crate::real::Real;

divisible! {
    /// Outputs of the stage.
    Out { nodes: [hidden, out], edges: [hidden_e, out_e] }
}

/// Runs the stage.
pub(crate) fn feed_forward<T: Real>(engine: &mut Engine<T>, layer: usize, train: bool) {
    let kept = if train { layer } else { 0 };
    let target = engine.stream_index(layer + 1);
    let mut activations = std::mem::take(&mut engine.work.layers[kept]);
    let mut stream = std::mem::take(&mut engine.work.streams[target]);
    with_parts(engine, |engine, parts| {
        let Pair { node, edge } = activations.arrays_mut().halves;
        let arrays = Out { hidden: node.hidden, out: &mut stream.node, hidden_e: edge.hidden, out_e: &mut stream.edge };
        let (middle, middle_e) = (&*node.middle, &*edge.middle);
        let with_edges = engine.edge_output(layer, train);
        let d = engine.network.channels.padded_width();
        let hidden = engine.layout.layers[layer].node.first.weight.columns;
        for_parts(&engine.work.rows, parts, arrays, &|blocks, part, state, out| {
            state.reset_moments(d);
            let PartState { moments, scratch, .. } = state;
            let moving = engine.network.norm == Norm::Batch && train;
            for (block, next) in with_next(blocks) {
                let half = engine.half(layer, Stream::Node);
                let to = &mut out.out[block.node_rows(part, d)];
                let values = &mut out.hidden[block.node_rows(part, hidden)];
                let x = [block, next].map(|block| &middle[wide(&block.nodes, d)]);
                half.forward(block.nodes.start, x, &mut scratch.node.y, values, to);
                if moving {
                    moments.node.add(engine.isa, to);
                }
                if with_edges {
                    let half = engine.half(layer, Stream::Edge);
                    let to = &mut out.out_e[block.edge_rows(part, d)];
                    let values = &mut out.hidden_e[block.edge_rows(part, hidden)];
                    let x = [block, next].map(|block| &middle_e[wide(&block.edges, d)]);
                    half.forward(block.edges.start, x, &mut scratch.edge.y, values, to);
                    if moving {
                        moments.edge.add(engine.isa, to);
                    }
                }
            }
        });
    });
    engine.work.layers[kept] = activations;
    engine.work.streams[target] = stream;
}

/// One stream's half of a layer.
pub(crate) struct HalfForward<'a, T> {
    engine: &'a Engine<T>,
    layer: usize,
    stream: Stream,
}

impl<T: Real> Engine<T> {
    pub(crate) fn half(&self, layer: usize, stream: Stream) -> HalfForward<'_, T> {
        HalfForward { engine: self, layer, stream }
    }

    /// Drops hidden values in place.
    fn drop_hidden(&self, layer: usize, stream: Stream, first: usize, values: &mut [T]) {
        if self.work.training && self.network.dropout > 0.0 {
            let site = dropout::Site::Hidden(layer, stream);
            drop_values(self.network.dropout, self.dropout_key, site, first, &self.orders.hidden, values);
        }
    }
}

impl<T: Real> HalfForward<'_, T> {
    /// Runs the half layer over the rows `x` of a block, the first of which has the number `first`.
    /// `next` holds the rows of the block after it.
    pub(crate) fn forward(&self, first: usize, [x, next]: [&[T]; 2], y: &mut [T], hidden: &mut [T], out: &mut [T]) {
        let Self { engine, layer, stream } = *self;
        let d = engine.network.channels.padded_width();
        let regions = engine.layout.layers[layer].half(stream);
        let (site, affine) = engine.norm_site(layer, 0, stream);
        let n = x.len() / d;
        let y = &mut y[..n * d];
        engine.normalise(site, affine, x, y);
        let weight = engine.weight(regions.first.weight);
        let bias = Some(engine.vector(regions.first.bias));
        let epilogue = Epilogue { bias, relu: true, ahead: next, ..Default::default() };
        product(engine.isa, Tile::new(y, n, d), weight, TileMut::new(hidden, n, weight.columns), epilogue);
        engine.drop_hidden(layer, stream, first, hidden);
        engine.project(regions.second, hidden, y, out);
    }
}

/// Backward of [`feed_forward`].
pub(crate) fn feed_forward_backward<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    with_parts(engine, |engine, parts| {
        let d = engine.network.channels.padded_width();
        let half = halves(engine, layer);
        let with_edges = engine.edge_gradient(layer);
        let arrays = Gradients { node: &mut gradients.node, edge: &mut gradients.edge };
        for_parts(&engine.work.rows, parts, arrays, &|blocks, part, state, g| {
            state.reset_sums(d);
            let PartState { gradient, sums, scratch, .. } = state;
            gradient.zero(half.node.half.feed_forward());
            if with_edges {
                gradient.zero(half.edge.half.feed_forward());
            }
            for (block, next) in with_next(blocks) {
                let g_node = &mut g.node[block.node_rows(part, d)];
                half.node.feed_forward(
                    engine,
                    [&block.nodes, &next.nodes],
                    g_node,
                    &mut scratch.node,
                    gradient,
                    &mut sums.node,
                );
                if with_edges {
                    let g_edge = &mut g.edge[block.edge_rows(part, d)];
                    half.edge.feed_forward(
                        engine,
                        [&block.edges, &next.edges],
                        g_edge,
                        &mut scratch.edge,
                        gradient,
                        &mut sums.edge,
                    );
                }
            }
        });
    });
    engine.work.gradients = gradients;
}

impl<T: Real> HalfBack<'_, T> {
    /// From the gradient of the second normalisation's output to that of the first's, for the rows
    /// of a block.
    fn feed_forward(
        &self,
        engine: &Engine<T>,
        [rows, next]: [&Range<usize>; 2],
        g: &mut [T],
        scratch: &mut Scratch<T>,
        gradient: &mut Gradient<T>,
        sums: &mut [T],
    ) {
        let d = engine.network.channels.padded_width();
        let isa = engine.isa;
        let n = rows.len();
        let width = self.half.first.weight.columns;
        let hidden = &self.activations.hidden[wide(rows, width)];
        let (hidden_ahead, more_hidden_ahead) =
            self.activations.hidden[wide(next, width)].split_at(next.len() * width / 2);
        let (y, dx, dhidden) = (&mut scratch.y[..n * d], &mut scratch.dx[..n * d], &mut scratch.wide[..n * width]);
        engine.normalise_backward(self.sites[1], self.half.norms[1], &self.out[wide(rows, d)], g, dx, gradient);
        engine.add_affine_gradient(self.half.second, hidden, dx, gradient, &self.out[wide(next, d)]);
        let weight = engine.transpose(self.half.second.weight);
        let gate = Some(Tile::new(hidden, n, width));
        let epilogue = Epilogue { gate, ahead: hidden_ahead, ..Default::default() };
        product(isa, Tile::new(dx, n, d), weight, TileMut::new(dhidden, n, width), epilogue);
        if engine.kept() < 1.0 {
            // The gate has let through what was kept; only its scale is left.
            let scale = T::from_f64(1.0 / engine.kept());
            dhidden.iter_mut().for_each(|v| *v *= scale);
        }
        let x = &self.activations.middle[wide(rows, d)];
        engine.normalise(self.sites[0], self.half.norms[0], x, y);
        engine.add_affine_gradient(self.half.first, y, dhidden, gradient, more_hidden_ahead);
        let weight = engine.transpose(self.half.first.weight);
        let residual = engine.network.residual.then(|| Tile::new(dx, n, d));
        let ahead = &self.activations.middle[wide(next, d)];
        let epilogue = Epilogue { residual, ahead, ..Default::default() };
        product(isa, Tile::new(dhidden, n, width), weight, TileMut::new(g, n, d), epilogue);
        if engine.network.norm == Norm::Batch {
            self.sites[0].batch.add_gradient_sums(isa, g, x, sums);
        }
    }
}
