//! Gated messages. For every edge j → i, with gates g_ij = c_ij + D_j + E_i:
//!
//! x_i = A_i + Σ_j σ(g_ij)⊙B_j / (Σ_j σ(g_ij) + 1e-6), channel by channel. A node without in-edges
//! gives A_i.
//!
//! Shapes: `terms`, `dterms` `[nodes, 4d]`, a row being A, B, D, E; `gates`, `dgates` `[edges, d]`;
//! `inverse`, the divisor inverted, `x` and `dx` `[nodes, d]`.
//!
//! Backward, with the mean `r_i = x_i − A_i`:
//!
//! * [`GateBack`], over the edges into each node: `dg_ij += dx_i/Σ·(B_j − r_i)·σ(1 − σ)`,
//!   `dA_i = dx_i`, `dE_i = Σ_j dg_ij`
//! * [`MessageBack`], over the edges out of each node: `dB_j = Σ_i σ·dx_i/Σ`, `dD_j = Σ_i dg_ij`

use std::ops::Range;

use crate::cpu::Isa;
use crate::cpu::plan::Topology;
use crate::cpu::simd::{Kernel, LANES, Simd};
use crate::real::Real;

/// The divisor's guard.
const GUARD: f64 = 1e-6;

/// σ(x) = 1/(1 + e^−x).
#[inline(always)]
fn sigmoid<S: Simd>(x: S::V) -> S::V {
    let most = S::splat(S::T::from_f64(80.0));
    let power = S::exp(S::max(S::min(S::sub(S::zero(), x), most), S::sub(S::zero(), most)));
    let one = S::splat(S::T::ONE);
    S::div(one, S::add(one, power))
}

/// Forward, of the own nodes.
pub(super) struct Gate<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) terms: &'a [T],
    /// c before, g after, of the own edges.
    pub(super) gates: &'a mut [T],
    /// Inverse divisors of the own nodes.
    pub(super) inverse: &'a mut [T],
    /// Outputs of the own nodes.
    pub(super) x: &'a mut [T],
}

impl<T: Real> Gate<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        assert_eq!((self.x.len(), self.inverse.len()), (self.nodes.len() * self.width, self.nodes.len() * self.width));
        T::dispatch(isa, self);
    }
}

impl<T: Real> Kernel<T> for Gate<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { topology, nodes, width, terms, gates, inverse, x } = self;
        let first = topology.first_into(&nodes);
        let guard = S::splat(T::from_f64(GUARD));
        for (own, node) in nodes.enumerate() {
            let mine = &terms[node * 4 * width..][..4 * width];
            for at in (0..width).step_by(LANES) {
                let target = S::get(mine, 3 * width + at);
                let (mut messages, mut sum) = (S::zero(), S::zero());
                for edge in topology.into(node) {
                    let other = &terms[topology.in_src[edge] as usize * 4 * width..][..4 * width];
                    let place = (edge - first) * width + at;
                    let gate = S::add(S::get(gates, place), S::add(S::get(other, 2 * width + at), target));
                    S::put(gates, place, gate);
                    let open = sigmoid::<S>(gate);
                    messages = S::fma(open, S::get(other, width + at), messages);
                    sum = S::add(sum, open);
                }
                let share = S::div(S::splat(T::ONE), S::add(sum, guard));
                S::put(inverse, own * width + at, share);
                S::put(x, own * width + at, S::fma(messages, share, S::get(mine, at)));
            }
        }
    }
}

/// Backward over the edges into the own nodes.
pub(super) struct GateBack<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) terms: &'a [T],
    pub(super) gates: &'a [T],
    /// Inverse divisors of the own nodes.
    pub(super) inverse: &'a [T],
    /// Outputs of the own nodes.
    pub(super) x: &'a [T],
    /// Gradients of the own nodes' outputs.
    pub(super) dx: &'a [T],
    /// Gradients of the gates, for own edges. Before the pass they hold the share of the edge
    /// stream, after the pass the whole gradient.
    pub(super) dgates: &'a mut [T],
    /// Gradients of the own nodes' terms, of which A and E are written.
    pub(super) dterms: &'a mut [T],
}

impl<T: Real> GateBack<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        assert_eq!(self.dterms.len(), self.nodes.len() * 4 * self.width);
        T::dispatch(isa, self);
    }
}

impl<T: Real> Kernel<T> for GateBack<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { topology, nodes, width, terms, gates, inverse, x, dx, dgates, dterms } = self;
        let first = topology.first_into(&nodes);
        for (own, (node, dterms)) in nodes.zip(dterms.chunks_exact_mut(4 * width)).enumerate() {
            for at in (0..width).step_by(LANES) {
                let place = own * width + at;
                let mean = S::sub(S::get(x, place), S::get(terms, 4 * node * width + at));
                let dx = S::get(dx, place);
                let share = S::mul(dx, S::get(inverse, place));
                let mut target = S::zero();
                for edge in topology.into(node) {
                    let message = S::get(terms, (topology.in_src[edge] as usize * 4 + 1) * width + at);
                    let open = sigmoid::<S>(S::get(gates, edge * width + at));
                    let slope = S::mul(open, S::sub(S::splat(T::ONE), open));
                    let back = S::get(dgates, (edge - first) * width + at);
                    let dgate = S::fma(S::mul(share, S::sub(message, mean)), slope, back);
                    S::put(dgates, (edge - first) * width + at, dgate);
                    target = S::add(target, dgate);
                }
                S::put(dterms, at, dx);
                S::put(dterms, 3 * width + at, target);
            }
        }
    }
}

/// Backward over the edges out of the own nodes.
pub(super) struct MessageBack<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) gates: &'a [T],
    pub(super) inverse: &'a [T],
    pub(super) dx: &'a [T],
    pub(super) dgates: &'a [T],
    /// Gradients of the own nodes' terms, of which B and D are written.
    pub(super) dterms: &'a mut [T],
}

impl<T: Real> MessageBack<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        assert_eq!(self.dterms.len(), self.nodes.len() * 4 * self.width);
        T::dispatch(isa, self);
    }
}

impl<T: Real> Kernel<T> for MessageBack<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { topology, nodes, width, gates, inverse, dx, dgates, dterms } = self;
        for (node, dterms) in nodes.zip(dterms.chunks_exact_mut(4 * width)) {
            for at in (0..width).step_by(LANES) {
                let (mut message, mut source) = (S::zero(), S::zero());
                for place in topology.out_of(node) {
                    let edge = topology.out_to_in[place] as usize * width + at;
                    let target = topology.out_dst[place] as usize * width + at;
                    let open = sigmoid::<S>(S::get(gates, edge));
                    message = S::fma(open, S::mul(S::get(dx, target), S::get(inverse, target)), message);
                    source = S::add(source, S::get(dgates, edge));
                }
                S::put(dterms, width + at, message);
                S::put(dterms, 2 * width + at, source);
            }
        }
    }
}
