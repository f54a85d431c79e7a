//! Operations that the passes through layers share.

use std::ops::Range;

use super::columns::add_column_sums;
use super::engine::Engine;
use super::gradient::Gradient;
use super::plan::{Divide, Extent, Span, divisible};
use super::product::{Epilogue, product, product_tn};
use super::tile::{Tile, TileMut};
use super::workspace::PartState;
use crate::parameters::{Affine, Region};
use crate::real::Real;
use crate::stream::Stream;

divisible! {
    /// Gradients of the two streams.
    #[derive(Debug)]
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
    pub(crate) fn project(&self, affine: Affine, x: &[T], residual: &[T], out: &mut [T]) {
        let (from, to) = (affine.weight.rows, affine.weight.columns);
        let n = out.len() / to;
        let residual = self.network.residual.then(|| Tile::new(residual, n, to));
        let epilogue = Epilogue { bias: Some(self.vector(affine.bias)), residual, ..Default::default() };
        product(self.isa, Tile::new(x, n, from), self.weight(affine.weight), TileMut::new(out, n, to), epilogue);
    }

    /// y = x, normalised as the layer below left it to its readers.
    pub(crate) fn layer_input(&self, layer: usize, stream: Stream, x: &[T], y: &mut [T]) {
        match self.stream_norm(layer, stream) {
            Some((site, affine)) => self.normalise(site, affine, x, y),
            None => y.copy_from_slice(x),
        }
    }

    /// Share of the values that dropout keeps in the layers, in the pass that runs.
    pub(crate) fn kept(&self) -> f64 {
        if self.work.training { 1.0 - self.network.dropout } else { 1.0 }
    }

    /// Gradients of a linear layer's weight and bias.
    pub(crate) fn add_affine_gradient(
        &self,
        affine: Affine,
        x: &[T],
        dy: &[T],
        gradient: &mut Gradient<T>,
        ahead: &[T],
    ) {
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

/// A block's rows of an edge array, which is empty without an edge stream.
pub(crate) fn edge_rows<'a, T: Real>(engine: &Engine<T>, array: &'a mut [T], block: &Span, part: &Span) -> &'a mut [T] {
    let width = if engine.network.edge_stream { engine.network.channels.padded_width() } else { 0 };
    &mut array[block.edge_rows(part, width)]
}

/// Every block with the one after it (itself, at the end), whose data is fetched while the first is
/// computed.
pub(crate) fn with_next(blocks: &[Span]) -> impl Iterator<Item = (&Span, &Span)> {
    blocks.iter().zip(blocks.iter().skip(1).chain(blocks.last()))
}

/// Places of some rows in an array.
pub(crate) fn wide(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}
