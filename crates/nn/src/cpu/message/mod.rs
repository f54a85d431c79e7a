//! Messages along edges in layers of other kinds than attention: one operation per file, forward
//! and backward.
//!
//! Every operation works on some consecutive nodes, the *own* ones, and their edges. Arrays that
//! are read at an edge's other end hold the whole batch. Arrays that are written begin with the
//! first own node, or the first edge into it. All passes only gather, so no two threads write to
//! the same row.

mod activation;
mod additive;
mod convolution;
mod gated;

pub(crate) use activation::{Activation, activate, activate_backward};
pub(crate) use additive::{Attend, Logits, Returned, Taken, weights};
pub(crate) use convolution::{Direction, Gather};
pub(crate) use gated::{Gate, GateBack, MessageBack};

use std::ops::Range;

use super::plan::Topology;

impl Topology {
    /// Numbers of the edges into a node.
    pub(crate) fn into(&self, node: usize) -> Range<usize> {
        self.in_offsets[node] as usize..self.in_offsets[node + 1] as usize
    }

    /// Number of the first edge into some consecutive nodes, of which there may be none.
    fn first_into(&self, nodes: &Range<usize>) -> usize {
        self.in_offsets[nodes.start] as usize
    }

    /// Places of the edges out of a node.
    fn out_of(&self, node: usize) -> Range<usize> {
        self.out_offsets[node] as usize..self.out_offsets[node + 1] as usize
    }
}
