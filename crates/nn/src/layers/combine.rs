//! The sum over the branches of a layer: u = Σ_b norm_b(x_b), or Σ_b drop(h + act(norm_b(x_b))),
//! by the form of each branch.

use std::ops::Range;

use super::{Branch, Combine, MOST_BRANCHES};
use crate::cpu::activation;
use crate::cpu::dropout::{self, drop_values};
use crate::cpu::engine::Engine;
use crate::cpu::plan::{Span, for_parts};
use crate::cpu::stage::{Gradients, edge_rows, wide, with_parts};
use crate::cpu::workspace::{PartState, Scratch};
use crate::network::Norm;
use crate::real::Real;
use crate::stream::Stream;

/// Rows of one stream of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerRows<'a> {
    pub(crate) layer: usize,
    pub(crate) stream: Stream,
    pub(crate) rows: &'a Range<usize>,
}

/// Arrays of each branch.
pub(crate) type OfBranches<A> = [A; MOST_BRANCHES];

impl<T: Real> Engine<T> {
    /// Drops a branch's outputs, or their gradients, in place.
    pub(crate) fn drop_output(&self, branch: usize, at: LayerRows<'_>, values: &mut [T]) {
        if self.work.training && self.network.dropout > 0.0 {
            let site = dropout::Site::Branch(at.layer, branch, at.stream);
            drop_values(self.network.dropout, self.dropout_key, site, at.rows.start, &self.orders.stream, values);
        }
    }

    /// Branches whose outputs are summed up in a stream, with their numbers.
    fn summed(&self, stream: Stream) -> impl Iterator<Item = (usize, Branch)> + '_ {
        let numbered = self.network.branches.iter().copied().enumerate();
        numbered.filter(move |(_, branch)| stream == Stream::Node || branch.updates_edges(&self.network))
    }

    /// The number of the first branch that is summed up in a stream.
    pub(crate) fn leading_branch(&self, stream: Stream) -> usize {
        self.summed(stream).next().map_or(0, |(number, _)| number)
    }

    /// u of some rows, from the branches' x and the layer's input h. Without `h` there is a single
    /// branch, and `u` holds h already.
    pub(crate) fn sum_branches<'x>(
        &self,
        at: LayerRows<'_>,
        x: impl Fn(usize) -> &'x [T],
        h: Option<&[T]>,
        [normalised, term]: [&mut [T]; 2],
        u: &mut [T],
    ) where
        T: 'x,
    {
        let residual = self.network.residual;
        for (place, (number, branch)) in self.summed(at.stream).enumerate() {
            let (site, affine) = self.norm_site(at.layer, number, at.stream);
            let to = if place == 0 { &mut *u } else { &mut term[..u.len()] };
            match branch.facts().combine {
                Combine::NormOfSum => self.normalise(site, affine, x(number), to),
                Combine::SumWithNorm(of) => {
                    let normalised = &mut normalised[..to.len()];
                    self.normalise(site, affine, x(number), normalised);
                    if let (true, Some(h)) = (residual, h) {
                        to.copy_from_slice(h);
                    }
                    activation::activate(self.isa, of, residual, normalised, to);
                    self.drop_output(number, at, to);
                }
            }
            if place > 0 {
                u.iter_mut().zip(&*term).for_each(|(u, &value)| *u += value);
            }
        }
    }

    /// From the gradient g of rows of u to what the branches' backward passes need: the sums for
    /// their batch normalisations, and `dy`. These are the gradients of their normalisations'
    /// outputs, where they are not g. A single branch drops g in place.
    pub(crate) fn split_gradient(
        &self,
        at: LayerRows<'_>,
        g: &mut [T],
        dy: OfBranches<&mut [T]>,
        state: &mut PartState<T>,
    ) {
        let d = self.network.channels.padded_width();
        let activations = &self.work.layers[at.layer];
        let PartState { scratch, sums, .. } = state;
        let Scratch { y, sum: [dropped, _], .. } = scratch.of_mut(at.stream);
        for (number, branch) in self.summed(at.stream) {
            let (site, affine) = self.norm_site(at.layer, number, at.stream);
            let x = &activations.branch(number).1.of(at.stream)[wide(at.rows, d)];
            let sums = sums[number].of_mut(at.stream);
            let dy: &[T] = match branch.facts().combine {
                Combine::NormOfSum => g,
                Combine::SumWithNorm(of) => {
                    let g = match self.network.branches.len() {
                        1 => &mut *g,
                        _ => {
                            let dropped = &mut dropped[..g.len()];
                            dropped.copy_from_slice(g);
                            dropped
                        }
                    };
                    self.drop_output(number, at, g);
                    let y = &mut y[..g.len()];
                    self.normalise(site, affine, x, y);
                    activation::activate_backward(self.isa, of, y, g, dy[number]);
                    dy[number]
                }
            };
            if self.network.norm == Norm::Batch {
                site.batch.add_gradient_sums(self.isa, dy, x, sums);
            }
        }
    }
}

/// The rows of a block in arrays of every branch that begin with its part's.
pub(crate) fn rows_of_branches<'a, T>(
    arrays: &'a mut OfBranches<Gradients<'_, T>>,
    stream: Stream,
    block: &Span,
    part: &Span,
    d: usize,
) -> OfBranches<&'a mut [T]> {
    arrays.each_mut().map(|array| {
        let (array, rows) = match stream {
            Stream::Node => (&mut *array.node, block.node_rows(part, d)),
            Stream::Edge => (&mut *array.edge, block.edge_rows(part, d)),
        };
        if array.is_empty() { &mut [] } else { &mut array[rows] }
    })
}

/// Ends a layer without a feed-forward half: h ← u.
pub(crate) fn join<T: Real>(engine: &mut Engine<T>, layer: usize, train: bool) {
    let kept = if train { layer } else { 0 };
    let (source, target) = (engine.stream_index(layer), engine.stream_index(layer + 1));
    let mut out = std::mem::take(&mut engine.work.streams[target]);
    with_parts(engine, |engine, parts| {
        let (d, alone) = (engine.network.channels.padded_width(), engine.network.branches.len() == 1);
        let activations = &engine.work.layers[kept];
        let arrays = Gradients { node: &mut out.node, edge: &mut out.edge };
        for_parts(&engine.work.rows, parts, arrays, &|blocks, part, state, out| {
            for block in blocks {
                for (stream, rows, to) in [
                    (Stream::Node, &block.nodes, &mut out.node[block.node_rows(part, d)]),
                    (Stream::Edge, &block.edges, edge_rows(engine, &mut *out.edge, block, part)),
                ] {
                    if stream == Stream::Edge && !engine.edge_output(layer, train) {
                        continue;
                    }
                    let at = LayerRows { layer, stream, rows };
                    let x = |branch| &activations.branch(branch).1.of(stream)[wide(rows, d)];
                    // Where all layers share one stream, its rows are already there.
                    let h = (source != target).then(|| &engine.work.streams[source].of(stream)[wide(rows, d)]);
                    let Scratch { y, sum: [u, term], .. } = state.scratch.of_mut(stream);
                    if alone {
                        engine.sum_branches(at, x, h, [y, term], to);
                    } else {
                        let u = &mut u[..to.len()];
                        engine.sum_branches(at, x, Some(h.unwrap_or(&*to)), [y, term], u);
                        to.copy_from_slice(u);
                    }
                }
            }
        });
    });
    engine.work.streams[target] = out;
}

/// Backward of [`join`]: from the gradient of the layer's output to those of the branches'
/// normalisations, whose sums are taken.
pub(crate) fn join_backward<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    let mut dy = std::mem::take(&mut engine.work.dy);
    with_parts(engine, |engine, parts| {
        let d = engine.network.channels.padded_width();
        let arrays = Gradients { node: &mut gradients.node, edge: &mut gradients.edge };
        let found = dy.each_mut().map(|dy| Gradients { node: &mut dy.node, edge: &mut dy.edge });
        for_parts(&engine.work.rows, parts, (arrays, found), &|blocks, part, state, (g, mut dy)| {
            state.reset_sums(d);
            for block in blocks {
                for (stream, rows, g) in [
                    (Stream::Node, &block.nodes, &mut g.node[block.node_rows(part, d)]),
                    (Stream::Edge, &block.edges, edge_rows(engine, &mut *g.edge, block, part)),
                ] {
                    if stream == Stream::Edge && !engine.edge_gradient(layer) {
                        continue;
                    }
                    let dy = rows_of_branches(&mut dy, stream, block, part, d);
                    engine.split_gradient(LayerRows { layer, stream, rows }, g, dy, state);
                }
            }
        });
    });
    engine.work.gradients = gradients;
    engine.work.dy = dy;
}
