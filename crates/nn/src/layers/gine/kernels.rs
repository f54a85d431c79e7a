//! The messages of GINE, forward and backward; the formula is in the module above.
//!
//! `h`, `dm` of [`Returned`] and `e` hold the whole batch. Arrays that are written begin with the
//! first own node, or the first edge into it.

use std::ops::Range;

use crate::cpu::Isa;
use crate::cpu::plan::Topology;
use crate::cpu::simd::{Kernel, LANES, Simd};
use crate::real::Real;

/// m of the own nodes.
pub(super) struct Messages<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) h: &'a [T],
    pub(super) e: &'a [T],
    pub(super) m: &'a mut [T],
}

impl<T: Real> Messages<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        assert_eq!(self.m.len(), self.nodes.len() * self.width);
        T::dispatch(isa, self);
    }
}

impl<T: Real> Kernel<T> for Messages<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { topology, nodes, width, h, e, m } = self;
        for (node, m) in nodes.zip(m.chunks_exact_mut(width)) {
            for at in (0..width).step_by(LANES) {
                let mut sum = S::get(h, node * width + at);
                for edge in topology.into(node) {
                    let source = topology.in_src[edge] as usize * width + at;
                    let sent = S::add(S::get(h, source), S::get(e, edge * width + at));
                    sum = S::add(sum, S::max(sent, S::zero()));
                }
                S::put(m, at, sum);
            }
        }
    }
}

/// dh of the own nodes, as sources and by themselves.
pub(super) struct Returned<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) h: &'a [T],
    pub(super) e: &'a [T],
    pub(super) dm: &'a [T],
    pub(super) dh: &'a mut [T],
}

impl<T: Real> Returned<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        assert_eq!(self.dh.len(), self.nodes.len() * self.width);
        T::dispatch(isa, self);
    }
}

impl<T: Real> Kernel<T> for Returned<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { topology, nodes, width, h, e, dm, dh } = self;
        for (node, dh) in nodes.zip(dh.chunks_exact_mut(width)) {
            for at in (0..width).step_by(LANES) {
                let own = S::get(h, node * width + at);
                let mut sum = S::get(dm, node * width + at);
                for place in topology.out_of(node) {
                    let edge = topology.out_to_in[place] as usize * width + at;
                    let target = topology.out_dst[place] as usize * width + at;
                    let sent = S::add(own, S::get(e, edge));
                    sum = S::add(sum, S::where_positive(sent, S::get(dm, target)));
                }
                S::put(dh, at, sum);
            }
        }
    }
}

/// de of the edges into the own nodes.
pub(super) struct Edges<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) h: &'a [T],
    pub(super) e: &'a [T],
    pub(super) dm: &'a [T],
    /// Whether de is added to what is there.
    pub(super) add: bool,
    pub(super) de: &'a mut [T],
}

impl<T: Real> Edges<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        T::dispatch(isa, self);
    }
}

impl<T: Real> Kernel<T> for Edges<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { topology, nodes, width, h, e, dm, add, de } = self;
        let first = topology.first_into(&nodes);
        for node in nodes {
            for edge in topology.into(node) {
                let source = topology.in_src[edge] as usize * width;
                let own = (edge - first) * width;
                for at in (0..width).step_by(LANES) {
                    let sent = S::add(S::get(h, source + at), S::get(e, edge * width + at));
                    let mut value = S::where_positive(sent, S::get(dm, node * width + at));
                    if add {
                        value = S::add(value, S::get(de, own + at));
                    }
                    S::put(de, own + at, value);
                }
            }
        }
    }
}
