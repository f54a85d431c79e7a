//! Sums of a graph convolution, over the edges j → i:
//!
//! * forward: `m_i = Σ_j h_j/√(deg⁻_i·deg⁺_j)`, or `m_i = Σ_j h_j/deg⁻_i` where neighbours are
//!   averaged
//! * backward: `dh_j = Σ_i dm_i/√(deg⁻_i·deg⁺_j)`, or `dh_j = Σ_i dm_i/deg⁻_i`
//!
//! In- and out-degrees count as at least 1. No self loops are added.
//!
//! `from` `[all nodes, d]`, `to` `[own nodes, d]`. A node without edges gets 0.

use std::ops::Range;

use crate::cpu::Isa;
use crate::cpu::plan::Topology;
use crate::cpu::simd::{Kernel, LANES, Simd};
use crate::real::Real;

/// Which edges a node sums over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The edges into the node.
    Forward,
    /// The edges out of the node.
    Backward,
}

pub(super) struct Gather<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) direction: Direction,
    /// Whether an edge's share depends on the degree of its target alone, not of both ends.
    pub(super) mean: bool,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) from: &'a [T],
    pub(super) to: &'a mut [T],
}

impl<T: Real> Gather<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        assert_eq!(self.to.len(), self.nodes.len() * self.width);
        T::dispatch(isa, self);
    }
}

impl<T: Real> Kernel<T> for Gather<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { topology, direction, mean, nodes, width, from, to } = self;
        let (offsets, ends, other) = match direction {
            Direction::Forward => (&topology.in_offsets, &topology.in_src, &topology.out_offsets),
            Direction::Backward => (&topology.out_offsets, &topology.out_dst, &topology.in_offsets),
        };
        let factor = |offsets: &[u32], node: usize, is_target: bool| {
            let degree = f64::from((offsets[node + 1] - offsets[node]).max(1));
            T::from_f64(match (mean, is_target) {
                (false, _) => 1.0 / degree.sqrt(),
                (true, true) => 1.0 / degree,
                (true, false) => 1.0,
            })
        };
        let forward = direction == Direction::Forward;
        for (node, row) in nodes.zip(to.chunks_exact_mut(width)) {
            row.fill(T::ZERO);
            for &end in &ends[offsets[node] as usize..offsets[node + 1] as usize] {
                let share = S::splat(factor(other, end as usize, !forward));
                let from = &from[end as usize * width..][..width];
                for at in (0..width).step_by(LANES) {
                    S::put(row, at, S::fma(share, S::get(from, at), S::get(row, at)));
                }
            }
            let share = S::splat(factor(offsets, node, forward));
            for at in (0..width).step_by(LANES) {
                S::put(row, at, S::mul(share, S::get(row, at)));
            }
        }
    }
}
