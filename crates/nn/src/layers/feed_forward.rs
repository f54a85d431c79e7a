//! The feed-forward half of a layer, behind the sum u of its branches (the paper's eq. 7–8).
//! It gives out = u + W₂·ReLU(W₁·u + b₁) + b₂ and its moments. Readers of the stream apply the
//! normalisation.

use std::ops::Range;

use super::combine::{LayerRows, rows_of_branches};
use crate::cpu::dropout::{self, drop_values};
use crate::cpu::engine::Engine;
use crate::cpu::gradient::Gradient;
use crate::cpu::plan::{Divide, Extent, divisible, for_parts};
use crate::cpu::product::{Epilogue, product};
use crate::cpu::stage::{Gradients, wide, with_next, with_parts};
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::{PartState, Scratch};
use crate::network::Norm;
use crate::real::Real;
use crate::stream::{Pair, Stream};

divisible! {
    /// Outputs of the half.
    Out { nodes: [hidden, out], edges: [hidden_e, out_e] }
}

/// Runs the half.
pub(crate) fn forward<T: Real>(engine: &mut Engine<T>, layer: usize, train: bool) {
    let kept = if train { layer } else { 0 };
    let target = engine.stream_index(layer + 1);
    let mut activations = std::mem::take(&mut engine.work.layers[kept]);
    let mut stream = std::mem::take(&mut engine.work.streams[target]);
    with_parts(engine, |engine, parts| {
        let (branches, Pair { node, edge }) = activations.feed_forward();
        let arrays = Out { hidden: node, out: &mut stream.node, hidden_e: edge, out_e: &mut stream.edge };
        let d = engine.network.channels.padded_width();
        let width = engine.layout.layers[layer].feed_forward.node.first.weight.columns;
        for_parts(&engine.work.rows, parts, arrays, &|blocks, part, state, out| {
            let PartState { moments, scratch, .. } = state;
            let moments = &mut moments[0];
            moments.node.reset(d);
            moments.edge.reset(d);
            let moving = engine.network.norm == Norm::Batch && train;
            for (block, next) in with_next(blocks) {
                for (stream, rows, next, hidden, to) in [
                    (
                        Stream::Node,
                        &block.nodes,
                        &next.nodes,
                        &mut out.hidden[block.node_rows(part, width)],
                        &mut out.out[block.node_rows(part, d)],
                    ),
                    (
                        Stream::Edge,
                        &block.edges,
                        &next.edges,
                        &mut out.hidden_e[block.edge_rows(part, width)],
                        &mut out.out_e[block.edge_rows(part, d)],
                    ),
                ] {
                    if stream == Stream::Edge && !engine.edge_output(layer, train) {
                        continue;
                    }
                    let at = LayerRows { layer, stream, rows };
                    let x = |branch, rows| &branches.of(branch).1.of(stream)[wide(rows, d)];
                    let Scratch { y, sum: [normalised, term], .. } = scratch.of_mut(stream);
                    let u = &mut y[..rows.len() * d];
                    engine.sum_branches(at, |branch| x(branch, rows), engine.kept_input(at), [normalised, term], u);
                    engine.feed_forward(at, u, x(engine.leading_branch(stream), next), hidden, to);
                    if moving {
                        moments.of_mut(stream).add(engine.isa, to);
                    }
                }
            }
        });
    });
    engine.work.layers[kept] = activations;
    engine.work.streams[target] = stream;
}

impl<T: Real> Engine<T> {
    /// The half for some rows of u. `next` is what comes after them.
    pub(crate) fn feed_forward(&self, at: LayerRows<'_>, u: &[T], next: &[T], hidden: &mut [T], out: &mut [T]) {
        let d = self.network.channels.padded_width();
        let regions = self.layout.layers[at.layer].feed_forward.of(at.stream);
        let n = u.len() / d;
        let weight = self.weight(regions.first.weight);
        let bias = Some(self.vector(regions.first.bias));
        let epilogue = Epilogue { bias, relu: true, ahead: next, ..Default::default() };
        product(self.isa, Tile::new(u, n, d), weight, TileMut::new(hidden, n, weight.columns), epilogue);
        self.drop_hidden(at, hidden);
        self.project(regions.second, hidden, u, out);
    }

    /// Drops hidden values in place.
    fn drop_hidden(&self, at: LayerRows<'_>, values: &mut [T]) {
        if self.work.training && self.network.dropout > 0.0 {
            let site = dropout::Site::Hidden(at.layer, at.stream);
            drop_values(self.network.dropout, self.dropout_key, site, at.rows.start, &self.orders.hidden, values);
        }
    }

    /// Rows of the layer's input, normalised, where branches add it to their normalised output.
    fn kept_input(&self, at: LayerRows<'_>) -> Option<&[T]> {
        let d = self.network.channels.padded_width();
        self.network.keeps_inputs().then(|| &self.layer_inputs(at.layer).of(at.stream)[wide(at.rows, d)])
    }
}

/// Backward of [`forward`]: from the gradient of the layer's output to those of the branches'
/// normalisations, whose sums are taken.
pub(crate) fn backward<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    let mut dy = std::mem::take(&mut engine.work.dy);
    with_parts(engine, |engine, parts| {
        let d = engine.network.channels.padded_width();
        let with_edges = engine.edge_gradient(layer);
        let regions = &engine.layout.layers[layer].feed_forward;
        let arrays = Gradients { node: &mut gradients.node, edge: &mut gradients.edge };
        let found = dy.each_mut().map(|dy| Gradients { node: &mut dy.node, edge: &mut dy.edge });
        for_parts(&engine.work.rows, parts, (arrays, found), &|blocks, part, state, (g, mut dy)| {
            state.reset_sums(d);
            state.gradient.zero(regions.node.range());
            if with_edges {
                state.gradient.zero(regions.edge.range());
            }
            for (block, next) in with_next(blocks) {
                for (stream, rows, next, g) in [
                    (Stream::Node, &block.nodes, &next.nodes, &mut g.node[block.node_rows(part, d)]),
                    (Stream::Edge, &block.edges, &next.edges, &mut g.edge[block.edge_rows(part, d)]),
                ] {
                    if stream == Stream::Edge && !with_edges {
                        continue;
                    }
                    let at = LayerRows { layer, stream, rows };
                    let PartState { gradient, scratch, .. } = state;
                    engine.feed_forward_backward(at, next, g, scratch.of_mut(stream), gradient);
                    engine.split_gradient(at, g, rows_of_branches(&mut dy, stream, block, part, d), state);
                }
            }
        });
    });
    engine.work.gradients = gradients;
    engine.work.dy = dy;
}

impl<T: Real> Engine<T> {
    /// From the gradient of the half's normalised output to that of u, for some rows.
    fn feed_forward_backward(
        &self,
        at: LayerRows<'_>,
        next: &Range<usize>,
        g: &mut [T],
        scratch: &mut Scratch<T>,
        gradient: &mut Gradient<T>,
    ) {
        let LayerRows { layer, stream, rows } = at;
        let (isa, n, d) = (self.isa, rows.len(), self.network.channels.padded_width());
        let regions = *self.layout.layers[layer].feed_forward.of(stream);
        let width = regions.first.weight.columns;
        let branches = self.work.layers[layer].branches();
        let x = |branch, rows| &branches.of(branch).1.of(stream)[wide(rows, d)];
        let (hidden, out) = (self.work.layers[layer].hidden(), self.work.streams[layer + 1].of(stream));
        let (hidden, hidden_ahead) = (*hidden.of(stream), &hidden.of(stream)[wide(next, width)]);
        let hidden = &hidden[wide(rows, width)];
        let (hidden_ahead, more_hidden_ahead) = hidden_ahead.split_at(next.len() * width / 2);
        let Scratch { y, dx, wide: dhidden, sum: [normalised, term] } = scratch;
        let (y, dx, dhidden) = (&mut y[..n * d], &mut dx[..n * d], &mut dhidden[..n * width]);
        let (site, norm) = self.norm_site(layer, self.network.branches.len(), stream);
        self.normalise_backward(site, norm, &out[wide(rows, d)], g, dx, gradient);
        self.add_affine_gradient(regions.second, hidden, dx, gradient, &out[wide(next, d)]);
        let weight = self.transpose(regions.second.weight);
        let gate = Some(Tile::new(hidden, n, width));
        let epilogue = Epilogue { gate, ahead: hidden_ahead, ..Default::default() };
        product(isa, Tile::new(dx, n, d), weight, TileMut::new(dhidden, n, width), epilogue);
        if self.kept() < 1.0 {
            // The gate has let through what was kept; only its scale is left.
            let scale = T::from_f64(1.0 / self.kept());
            dhidden.iter_mut().for_each(|v| *v *= scale);
        }
        self.sum_branches(at, |branch| x(branch, rows), self.kept_input(at), [normalised, term], y);
        self.add_affine_gradient(regions.first, y, dhidden, gradient, more_hidden_ahead);
        let weight = self.transpose(regions.first.weight);
        let residual = self.network.residual.then(|| Tile::new(dx, n, d));
        let ahead = x(self.leading_branch(stream), next);
        let epilogue = Epilogue { residual, ahead, ..Default::default() };
        product(isa, Tile::new(dhidden, n, width), weight, TileMut::new(g, n, d), epilogue);
    }
}
