//! What a layer keeps for its backward pass: the arrays of its branches and of its feed-forward
//! half in one piece of memory, large enough for huge pages.

use super::buffer::Buffer;
use super::simd::LANES;
use crate::channels::padded;
use crate::layers::{Kept, MOST_KEPT, Rows};
use crate::network::Network;
use crate::real::Real;
use crate::stream::Pair;

/// A branch's own arrays, then the inputs of its normalisation: of nodes, of edges.
const OF_BRANCH: usize = MOST_KEPT + 2;

/// The arrays that a layer keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerActivations<T> {
    memory: Buffer<T>,
    /// Lengths of each branch's arrays.
    branches: Vec<[usize; OF_BRANCH]>,
    /// Lengths of the values after the first feed-forward layer, its activation and dropout:
    /// `[rows, 2d]`.
    hidden: [usize; 2],
}

/// Memory that some arrays take.
fn extent(lengths: &[usize]) -> usize {
    lengths.iter().map(|length| length.next_multiple_of(LANES)).sum()
}

/// Cuts memory into arrays.
fn cut<T, const N: usize>(memory: &[T], lengths: [usize; N]) -> [&[T]; N] {
    let mut rest = memory;
    lengths.map(|length| {
        let (array, after) = rest.split_at(length.next_multiple_of(LANES));
        rest = after;
        &array[..length]
    })
}

/// Cuts memory into arrays, to write.
fn cut_mut<T, const N: usize>(memory: &mut [T], lengths: [usize; N]) -> [&mut [T]; N] {
    let mut rest = memory;
    lengths.map(|length| {
        let (array, after) = std::mem::take(&mut rest).split_at_mut(length.next_multiple_of(LANES));
        rest = after;
        &mut array[..length]
    })
}

/// The arrays of the branches, to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BranchArrays<'a, T> {
    memory: &'a [T],
    lengths: &'a [[usize; OF_BRANCH]],
}

impl<'a, T> BranchArrays<'a, T> {
    /// A branch's own arrays, and the inputs of its normalisation.
    pub(crate) fn of(self, branch: usize) -> ([&'a [T]; MOST_KEPT], Pair<&'a [T]>) {
        let before = extent(self.lengths[..branch].as_flattened());
        let [own @ .., node, edge] = cut(&self.memory[before..], self.lengths[branch]);
        (own, Pair { node, edge })
    }
}

impl<T: Real> LayerActivations<T> {
    /// Allocates memory for the rows of a batch or block.
    pub(crate) fn size(&mut self, network: &Network, rows: Rows) {
        self.branches.clear();
        self.branches.extend(branch_lengths(network, rows));
        self.hidden = hidden_lengths(network, rows);
        self.memory.size(extent(self.branches.as_flattened()) + extent(&self.hidden));
    }

    /// The arrays of the branches.
    pub(crate) fn branches(&self) -> BranchArrays<'_, T> {
        BranchArrays { memory: &self.memory, lengths: &self.branches }
    }

    /// A branch's own arrays, and the inputs of its normalisation.
    pub(crate) fn branch(&self, branch: usize) -> ([&[T]; MOST_KEPT], Pair<&[T]>) {
        self.branches().of(branch)
    }

    /// A branch's arrays, to write.
    pub(crate) fn branch_mut(&mut self, branch: usize) -> Kept<'_, T> {
        let before = extent(self.branches[..branch].as_flattened());
        let [own @ .., node, edge] = cut_mut(&mut self.memory[before..], self.branches[branch]);
        Kept { own, x: Pair { node, edge } }
    }

    /// The values after the first feed-forward layer.
    pub(crate) fn hidden(&self) -> Pair<&[T]> {
        let [node, edge] = cut(&self.memory[extent(self.branches.as_flattened())..], self.hidden);
        Pair { node, edge }
    }

    /// The branches' arrays, and those of the feed-forward half, to write.
    pub(crate) fn feed_forward(&mut self) -> (BranchArrays<'_, T>, Pair<&mut [T]>) {
        let (memory, hidden) = self.memory.split_at_mut(extent(self.branches.as_flattened()));
        let [node, edge] = cut_mut(hidden, self.hidden);
        (BranchArrays { memory, lengths: &self.branches }, Pair { node, edge })
    }
}

fn branch_lengths(network: &Network, rows: Rows) -> impl Iterator<Item = [usize; OF_BRANCH]> + '_ {
    let d = network.channels.padded_width();
    network.branches.iter().map(move |branch| {
        let mut lengths = [0; OF_BRANCH];
        lengths[..MOST_KEPT].copy_from_slice(&branch.kept(network, rows));
        lengths[MOST_KEPT] = rows.nodes * d;
        lengths[MOST_KEPT + 1] = if branch.updates_edges(network) { rows.stream_edges * d } else { 0 };
        lengths
    })
}

fn hidden_lengths(network: &Network, rows: Rows) -> [usize; 2] {
    let width = if network.feed_forward { padded(2 * network.channels.width()) } else { 0 };
    [rows.nodes * width, rows.stream_edges * width]
}

/// Numbers that a layer keeps.
pub(crate) fn length(network: &Network, rows: Rows) -> usize {
    let of_branches = branch_lengths(network, rows).flatten().sum::<usize>();
    of_branches + hidden_lengths(network, rows).iter().sum::<usize>()
}
