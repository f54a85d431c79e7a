//! The stages of a layer, forward and backward. An attention layer has two: attention up to the
//! first normalisation's input, and feed-forward up to the second's. Layers of other kinds have
//! messages up to the only normalisation's input, then the activation after it.

mod attention;
mod feed_forward;
mod message;

pub(crate) use attention::{Attended, Stage, attention_backward, attention_forward};
pub(crate) use feed_forward::{feed_forward, feed_forward_backward};
pub(crate) use message::{activate, activate_backward, message, message_backward};

use std::ops::Range;

use super::activations::HalfArrays;
use super::columns::add_column_sums;
use super::dropout::{self, drop_values};
use super::engine::Engine;
use super::gradient::Gradient;
use super::norm::Site;
use super::plan::{Divide, Extent, Span, divisible};
use super::product::{Epilogue, product, product_tn};
use super::tile::{Tile, TileMut};
use super::workspace::{Pair, PartState};
use crate::Stream;
use crate::parameters::{Affine, Half, Region};
use crate::real::Real;

divisible! {
    /// Gradients of the two streams.
    Gradients { nodes: [node], edges: [edge] }
}

impl<T: Real> Engine<T> {
    pub(crate) fn weight(&self, region: Region) -> Tile<'_, T> {
        Tile::new(&self.values[region.range()], region.rows, region.columns)
    }

    pub(crate) fn transpose(&self, region: Region) -> Tile<'_, T> {
        Tile::new(&self.transposed[region.range()], region.columns, region.rows)
    }

    pub(crate) fn vector(&self, region: Region) -> &[T] {
        &self.values[region.range()]
    }

    /// out = x·W + b + residual
    fn project(&self, affine: Affine, x: &[T], residual: &[T], out: &mut [T]) {
        let (from, to) = (affine.weight.rows, affine.weight.columns);
        let n = out.len() / to;
        let residual = self.network.residual.then(|| Tile::new(residual, n, to));
        let epilogue = Epilogue { bias: Some(self.vector(affine.bias)), residual, ..Default::default() };
        product(self.isa, Tile::new(x, n, from), self.weight(affine.weight), TileMut::new(out, n, to), epilogue);
    }

    /// y = x, normalised by the second normalisation of the layer before.
    fn layer_input(&self, layer: usize, stream: Stream, x: &[T], y: &mut [T]) {
        match self.stream_norm(layer, stream) {
            Some((site, affine)) => self.normalise(site, affine, x, y),
            None => y.copy_from_slice(x),
        }
    }

    /// Drops attended values, or their gradients, in place; `first` is the number of the first row.
    fn drop_attended(&self, layer: usize, stream: Stream, first: usize, values: &mut [T]) {
        if self.work.training && self.network.dropout > 0.0 {
            let site = dropout::Site::Attended(layer, stream);
            drop_values(self.network.dropout, self.dropout_key, site, first, &self.orders.stream, values);
        }
    }

    /// Share of the values that dropout keeps in the layers, in the pass that runs.
    fn kept(&self) -> f64 {
        if self.work.training { 1.0 - self.network.dropout } else { 1.0 }
    }

    /// Gradients of a linear layer's weight and bias.
    fn add_affine_gradient(&self, affine: Affine, x: &[T], dy: &[T], gradient: &mut Gradient<T>, ahead: &[T]) {
        let (from, to) = (affine.weight.rows, affine.weight.columns);
        let n = dy.len() / to;
        let weight = TileMut::new(gradient.of(affine.weight), from, to);
        product_tn(self.isa, Tile::new(x, n, from), Tile::new(dy, n, to), weight, ahead);
        add_column_sums(self.isa, dy, gradient.of(affine.bias));
    }
}

/// Takes the mutable parts of the workspace out, so that the rest of the engine can be read
/// meanwhile.
pub(crate) fn with_parts<T: Real>(engine: &mut Engine<T>, run: impl FnOnce(&Engine<T>, &mut [PartState<T>])) {
    let mut parts = std::mem::take(&mut engine.work.parts);
    run(engine, &mut parts);
    engine.work.parts = parts;
}

/// Inputs of the backward pass of one stream's half of a layer.
struct HalfBack<'a, T> {
    stream: Stream,
    sites: [&'a Site<T>; 2],
    half: &'a Half,
    activations: HalfArrays<&'a [T]>,
    /// The half's output before its normalisation.
    out: &'a [T],
}

fn halves<'a, T: Real>(engine: &'a Engine<T>, layer: usize) -> Pair<HalfBack<'a, T>> {
    let [first, second] = &engine.sites[layer];
    let (activations, regions, out) =
        (engine.work.layers[layer].arrays().halves, &engine.layout.layers[layer], &engine.work.streams[layer + 1]);
    Pair {
        node: HalfBack {
            stream: Stream::Node,
            sites: [&first.node, &second.node],
            half: &regions.node,
            activations: activations.node,
            out: &out.node,
        },
        edge: HalfBack {
            stream: Stream::Edge,
            sites: [&first.edge, &second.edge],
            half: &regions.edge,
            activations: activations.edge,
            out: &out.edge,
        },
    }
}

/// Every block with the one after it (itself, at the end), whose data is fetched while the first is
/// computed.
fn with_next(blocks: &[Span]) -> impl Iterator<Item = (&Span, &Span)> {
    blocks.iter().zip(blocks.iter().skip(1).chain(blocks.last()))
}

/// Places of some rows in an array.
fn wide(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}
