//! The activations that a layer keeps for its backward pass: ten arrays in one piece of memory,
//! large enough for huge pages.

use super::buffer::Buffer;
use super::simd::LANES;
use super::workspace::Pair;
use crate::channels::padded;
use crate::network::{LayerKind, Network};
use crate::real::Real;

/// A layer's activations.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerActivations<T> {
    memory: Buffer<T>,
    /// In the order of [`LayerArrays`].
    lengths: [usize; 10],
}

/// The arrays of a layer, shared or exclusive.
pub(crate) struct LayerArrays<S> {
    /// Queries, keys and values: `[nodes, 3d]`. In layers of other kinds the projected nodes, if
    /// the layer projects them: `[nodes, d]`, in gated layers `[nodes, 4d]`.
    pub(crate) qkv: S,
    /// Weights of the attention: `[edges, heads]`.
    pub(crate) weight: S,
    /// Inverse divisors of the weights: `[nodes, heads]`, in gated layers `[nodes, d]`. In additive
    /// attention the largest logits and the inverse divisors: `[nodes, 2 lanes]`.
    pub(crate) inverse: S,
    /// Projected edges, where edges have a stream: `[edges, d]`.
    pub(crate) proj: S,
    pub(crate) halves: Pair<HalfArrays<S>>,
}

/// The arrays of one stream's half of a layer.
pub(crate) struct HalfArrays<S> {
    /// Input of the output projection, `[rows, d]`: attended values or scores after dropout, or the
    /// sums of a convolution. In additive attention the nodes' shares of the logits:
    /// `[rows, 2 lanes]`.
    pub(crate) attended: S,
    /// Values before the first, or only, normalisation: `[rows, d]`.
    pub(crate) middle: S,
    /// Values after the first feed-forward layer, its ReLU and dropout: `[rows, 2d]`.
    pub(crate) hidden: S,
}

impl<S> LayerArrays<S> {
    fn new(arrays: [S; 10]) -> Self {
        let [qkv, weight, inverse, proj, attended, middle, hidden, attended_e, middle_e, hidden_e] = arrays;
        let node = HalfArrays { attended, middle, hidden };
        let edge = HalfArrays { attended: attended_e, middle: middle_e, hidden: hidden_e };
        Self { qkv, weight, inverse, proj, halves: Pair { node, edge } }
    }
}

impl<T: Real> LayerActivations<T> {
    /// Allocates memory for some nodes and edges, of which `stream_edges` have a stream.
    pub(crate) fn size(&mut self, network: &Network, nodes: usize, edges: usize, stream_edges: usize) {
        self.lengths = lengths(network, nodes, edges, stream_edges);
        self.memory.size(self.lengths.iter().map(|length| length.next_multiple_of(LANES)).sum());
    }

    /// All arrays, to read.
    pub(crate) fn arrays(&self) -> LayerArrays<&[T]> {
        let mut rest = &self.memory[..];
        LayerArrays::new(self.lengths.map(|length| {
            let (array, after) = rest.split_at(length.next_multiple_of(LANES));
            rest = after;
            &array[..length]
        }))
    }

    /// All arrays, to write.
    pub(crate) fn arrays_mut(&mut self) -> LayerArrays<&mut [T]> {
        let mut rest = &mut self.memory[..];
        LayerArrays::new(self.lengths.map(|length| {
            let (array, after) = std::mem::take(&mut rest).split_at_mut(length.next_multiple_of(LANES));
            rest = after;
            &mut array[..length]
        }))
    }
}

/// Numbers in each array of a layer, in the order of [`LayerArrays`].
pub(crate) fn lengths(network: &Network, nodes: usize, edges: usize, stream_edges: usize) -> [usize; 10] {
    let (d, h) = (network.channels.padded_width(), network.channels.padded_heads());
    let hidden = padded(2 * network.channels.width());
    let half = |rows: usize| [rows * d, rows * d, rows * hidden];
    let [a, b, c] = half(nodes);
    let [x, y, z] = half(stream_edges);
    match network.kind {
        LayerKind::Attention => [nodes * 3 * d, edges * h, nodes * h, stream_edges * d, a, b, c, x, y, z],
        LayerKind::Convolution | LayerKind::Averaging => [0, 0, 0, 0, a, b, 0, 0, 0, 0],
        LayerKind::AdditiveAttention => {
            let lanes = nodes * 2 * network.channels.lanes();
            [nodes * d, 0, lanes, 0, lanes, b, 0, 0, 0, 0]
        }
        LayerKind::Gated => [nodes * 4 * d, 0, nodes * d, 0, 0, b, 0, 0, y, 0],
    }
}
