//! A branch of a layer during its forward or backward pass: what it reads, and what it leaves.
//!
//! Branches that are not run block by block work on arrays of the whole batch, whether blocks cut
//! through graphs or not. Arrays that are read at an edge's other end hold the whole batch. Arrays
//! that are written begin with the first own node, or the first edge into it. All passes only
//! gather, so no two threads write to the same row.

use std::ops::Range;

use super::{EdgeUse, MOST_KEPT, MOST_PASSED, Rows};
use crate::cpu::buffer::Buffer;
use crate::cpu::engine::Engine;
use crate::cpu::gradient::Gradient;
use crate::cpu::product::{Epilogue, product};
use crate::cpu::stage::Gradients;
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::PartState;
use crate::network::{Network, Norm};
use crate::parameters::{BranchRegions, Region};
use crate::real::Real;
use crate::stream::{Pair, Stream};

/// The arrays that a branch writes in its forward pass.
#[derive(Debug)]
pub(crate) struct Kept<'a, T> {
    /// The branch's own arrays, as long as it said.
    pub(crate) own: [&'a mut [T]; MOST_KEPT],
    /// The input of its normalisation. `[rows, d]`, empty where the branch does not update edges.
    pub(crate) x: Pair<&'a mut [T]>,
}

/// The arrays of a branch's backward pass.
#[derive(Debug)]
pub(crate) struct BranchBack<'a, T> {
    /// In: the gradient of the layer's output. Out: that of its input.
    pub(crate) g: Gradients<'a, T>,
    /// The gradient of the normalisation's output, for branches that add their normalised output.
    pub(crate) dy: Gradients<'a, T>,
    /// The gradient of the embedded edges that all layers share, to which branches add.
    pub(crate) dshared_edges: &'a mut [T],
    pub(crate) between: &'a mut Between<T>,
}

/// Gradients between the parts of a branch's backward pass. Every branch gives the arrays a meaning
/// of its own, and the branches of a layer use the memory one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Between<T> {
    arrays: [Buffer<T>; MOST_PASSED],
}

impl<T: Real> Between<T> {
    /// Lengths of the arrays, long enough for every branch of a network.
    pub(crate) fn lengths(network: &Network, rows: Rows) -> [usize; MOST_PASSED] {
        let passed = |at: usize| network.branches.iter().map(move |branch| branch.passed(network, rows)[at]).max();
        std::array::from_fn(|at| passed(at).unwrap_or(0))
    }

    /// Allocates memory for every branch of a network.
    pub(crate) fn size(&mut self, network: &Network, rows: Rows) {
        let lengths = Self::lengths(network, rows);
        self.arrays.iter_mut().zip(lengths).for_each(|(array, length)| array.size(length));
    }

    /// The arrays, with the lengths that a branch has stated for some rows.
    pub(crate) fn cut(&mut self, lengths: [usize; MOST_PASSED]) -> [&mut [T]; MOST_PASSED] {
        let mut arrays = self.arrays.iter_mut().zip(lengths);
        std::array::from_fn(|_| {
            let (array, length) = arrays.next().expect("as many arrays as lengths");
            &mut array[..length]
        })
    }
}

/// A branch of a layer during its forward or backward pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass<'a, T> {
    pub(crate) engine: &'a Engine<T>,
    pub(crate) layer: usize,
    /// Number of the branch in its layer.
    pub(crate) branch: usize,
    pub(crate) train: bool,
}

impl<'a, T: Real> Pass<'a, T> {
    pub(crate) fn width(&self) -> usize {
        self.engine.network.channels.padded_width()
    }

    pub(crate) fn regions(&self) -> &'a BranchRegions {
        &self.engine.layout.layers[self.layer].branches[self.branch]
    }

    /// The numbers of rows of the batch.
    pub(crate) fn rows(&self) -> Rows {
        self.engine.work.batch_rows(&self.engine.network)
    }

    /// The layer's input, normalised.
    pub(crate) fn input(&self, stream: Stream) -> &'a [T] {
        self.engine.layer_inputs(self.layer).of(stream)
    }

    /// What the branch reads of the edges: the edge stream, normalised, or the embedded edges that
    /// all layers share.
    pub(crate) fn edges(&self) -> &'a [T] {
        if self.engine.network.edge_stream { self.input(Stream::Edge) } else { &self.engine.work.shared_edges }
    }

    /// The arrays that the branch kept in its forward pass.
    pub(crate) fn kept(&self) -> ([&'a [T]; MOST_KEPT], Pair<&'a [T]>) {
        self.engine.work.layers[self.layer].branch(self.branch)
    }

    /// Starts the forward pass of a part.
    pub(crate) fn reset_moments(&self, state: &mut PartState<T>) {
        let moments = &mut state.moments[self.branch];
        moments.node.reset(self.width());
        moments.edge.reset(self.width());
    }

    /// Adds rows of x to the moments of their stream.
    pub(crate) fn add_moments(&self, state: &mut PartState<T>, stream: Stream, x: &[T]) {
        if self.engine.network.norm == Norm::Batch && self.train {
            state.moments[self.branch].of_mut(stream).add(self.engine.isa, x);
        }
    }

    /// Starts the backward pass of a part: zeroes the gradients and sums that the branch adds to.
    pub(crate) fn reset(&self, state: &mut PartState<T>) {
        let regions = self.regions();
        state.reset_sums(self.width());
        state.gradient.zero(regions.own.clone());
        state.gradient.zero(regions.output.node.clone());
        if self.engine.edge_gradient(self.layer) {
            state.gradient.zero(regions.output.edge.clone());
        }
    }

    /// dx of rows of a stream.
    pub(crate) fn normalise_backward(
        &self,
        stream: Stream,
        x: &[T],
        dy: &[T],
        dx: &mut [T],
        gradient: &mut Gradient<T>,
    ) {
        let (site, affine) = self.engine.norm_site(self.layer, self.branch, stream);
        self.engine.normalise_backward(site, affine, x, dy, dx, gradient);
    }

    /// g ← g + dy·Wᵀ for the layer's input. Without residual, g starts at 0.
    pub(crate) fn return_product(
        &self,
        stream: Stream,
        rows: &Range<usize>,
        dy: &[T],
        weight: Region,
        state: &mut PartState<T>,
        g: &mut [T],
    ) {
        let (engine, d, n) = (self.engine, self.width(), rows.len());
        let before = &mut state.scratch.of_mut(stream).y[..g.len()];
        before.copy_from_slice(g);
        let residual = self.returns(stream).then(|| Tile::new(before, n, d));
        let epilogue = Epilogue { residual, ..Default::default() };
        let weight = engine.transpose(weight);
        product(engine.isa, Tile::new(dy, n, weight.rows), weight, TileMut::new(g, n, d), epilogue);
        self.leave(stream, rows, g, state);
    }

    /// Whether the gradient of the layer's output is one of its input too.
    pub(crate) fn returns(&self, stream: Stream) -> bool {
        self.engine.network.residual && (stream == Stream::Node || self.engine.edge_gradient(self.layer))
    }

    /// Completes rows of the gradient of the layer's input, if this is the only branch. With
    /// several branches, the sum of their gradients is completed.
    pub(crate) fn leave(&self, stream: Stream, rows: &Range<usize>, g: &mut [T], state: &mut PartState<T>) {
        if self.engine.network.branches.len() == 1 {
            self.engine.complete_gradient(self.layer, stream, rows, g, state);
        }
    }

    /// Whether the branch works on the edge stream.
    pub(crate) fn reads_edges(&self) -> bool {
        let network = &self.engine.network;
        network.edge_stream && network.branches[self.branch].facts().edges != EdgeUse::Nothing
    }
}

impl<T: Real> Engine<T> {
    /// What a layer's branches read, normalised. Where streams lie before their normalisation, only
    /// networks whose branches need the whole batch keep it.
    pub(crate) fn layer_inputs(&self, layer: usize) -> &Pair<Buffer<T>> {
        if self.network.keeps_inputs() {
            &self.work.inputs[self.stream_index(layer)]
        } else {
            &self.work.streams[self.stream_index(layer)]
        }
    }

    /// Adds the head's gradient to rows of the gradient of a layer's input, and takes the sums that
    /// the normalisation of the layer below waits for.
    pub(crate) fn complete_gradient(
        &self,
        layer: usize,
        stream: Stream,
        rows: &Range<usize>,
        g: &mut [T],
        state: &mut PartState<T>,
    ) {
        self.add_head_gradient(layer, stream, rows, g);
        if let (Norm::Batch, Some((site, _))) = (self.network.norm, self.stream_norm(layer, stream)) {
            let d = self.network.channels.padded_width();
            let x = &self.work.streams[layer].of(stream)[rows.start * d..rows.end * d];
            site.batch.add_gradient_sums(self.isa, g, x, state.sums[0].of_mut(stream));
        }
    }
}
