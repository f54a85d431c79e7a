//! Backward pass of attention, in two passes over the same edges.

use super::{CHANNEL, Form, KEPT, PLAIN, SCALAR, registers, with_shape};
use crate::cpu::Isa;
use crate::cpu::edges::Edges;
use crate::cpu::simd::{Kernel, LANES, Simd};
use crate::network::Gate;
use crate::real::Real;

/// First pass: dq, the gradients of logits, dproj, from the edges into each own node.
pub(crate) struct Incoming<'a, T> {
    pub(crate) form: Form,
    pub(crate) edges: Edges<'a>,
    /// Queries, keys and values; shared.
    pub(crate) qkv: &'a [T],
    /// Projected features of the own edges, where edges have features.
    pub(crate) proj: &'a [T],
    /// Weights of the own edges.
    pub(crate) weight: &'a [T],
    /// Inverse divisors of the own nodes.
    pub(crate) inverse: &'a [T],
    /// Output of the forward pass for the own nodes, divided by `keep`.
    pub(crate) out: &'a [T],
    /// Share that dropout kept of `out`; 1 without.
    pub(crate) keep: T,
    /// Gradient of `out`; becomes that gradient divided by z. Own.
    pub(crate) dout: &'a mut [T],
    /// Gradient of the scores, where the edge stream reads them; own.
    pub(crate) dscore: Option<&'a [T]>,
    /// Gradient of the logits, or, for scalar gates, of the scalar products; own.
    pub(crate) dlogit: &'a mut [T],
    /// Gradients of queries, keys and values of the own nodes, of which dq is written.
    pub(crate) dqkv: &'a mut [T],
    /// Gradient of `proj`, for the own edges.
    pub(crate) dproj: &'a mut [T],
}

/// Runs the first pass.
pub(crate) fn backward_in<T: Real>(isa: Isa, pass: Incoming<'_, T>) {
    let (d, h) = pass.form.sizes();
    let (n, e) = (pass.edges.nodes(), pass.edges.edges());
    assert!(pass.qkv.len() >= pass.edges.shared_nodes * 3 * d && pass.dqkv.len() >= n * 3 * d);
    assert!(pass.inverse.len() >= n * h && pass.out.len() >= n * d && pass.dout.len() >= n * d);
    assert!(pass.weight.len() >= e * h && pass.dlogit.len() >= e * h);
    assert!(pass.form.gate.is_none() || (pass.proj.len() >= e * d && pass.dproj.len() >= e * d));
    assert!(pass.dscore.is_none_or(|s| s.len() >= e * d));
    T::dispatch(isa, pass);
}

impl<T: Real> Kernel<T> for Incoming<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(mut self) {
        with_shape!(self.form, self.nodes::<S>())
    }
}

impl<T: Real> Incoming<'_, T> {
    #[inline(always)]
    fn nodes<S: Simd<T = T>, const HEADS: usize, const NV: usize, const GATE: u8>(&mut self) {
        let groups = self.form.channels.padded_heads().div_ceil(LANES);
        for node in 0..self.edges.nodes() {
            for group in 0..groups {
                // SAFETY: `backward_in` has checked all lengths, `Edges::check` all indices.
                unsafe { self.node::<S, HEADS, NV, GATE>(node, group, groups) };
            }
        }
    }

    /// Gradients through the edges into one node.
    ///
    /// # Safety
    /// `node` is one of the own nodes, `group` is below `groups`, and all arrays have the lengths
    /// and indices that `backward_in` and `Edges::check` demand.
    #[inline(always)]
    unsafe fn node<S: Simd<T = T>, const HEADS: usize, const NV: usize, const GATE: u8>(
        &mut self,
        node: usize,
        group: usize,
        groups: usize,
    ) {
        let (d, h) = self.form.sizes();
        let Edges { in_offsets, in_src, own_node, first_node, .. } = self.edges;
        let registers = registers::<NV>(d, group, groups);
        // SAFETY: the caller's promise.
        unsafe {
            let own_edge = *in_offsets.get_unchecked(0) as usize;
            let scale = self.form.scale::<S>();
            let (qkv, proj) = (self.qkv.as_ptr(), self.proj.as_ptr());
            let (q, dq) = (qkv.add((own_node - first_node + node) * 3 * d), self.dqkv.as_mut_ptr().add(node * 3 * d));
            let inverse = S::load_heads::<HEADS>(self.inverse.as_ptr().add(node * h + group * LANES));
            // dz = −Σ dout·out / z; dout is divided by z for good.
            let dout = self.dout.as_mut_ptr().add(node * d);
            let mut t = S::zero();
            for at in registers.clone() {
                let gradient = S::load(dout.add(at));
                t = S::fma(gradient, S::load(self.out.as_ptr().add(node * d + at)), t);
                S::store(dout.add(at), S::mul(gradient, inverse));
            }
            let minus_dz = S::mul(S::mul(S::fold::<HEADS>(t), inverse), S::splat(self.keep));
            let mut sums = [S::zero(); KEPT];
            if NV == 0 {
                registers.clone().for_each(|at| S::store(dq.add(at), S::zero()));
            }
            for edge in *in_offsets.get_unchecked(node) as usize..*in_offsets.get_unchecked(node + 1) as usize {
                let source = qkv.add((*in_src.get_unchecked(edge) as usize - first_node) * 3 * d);
                let edge = edge - own_edge;
                let stored = S::load_heads::<HEADS>(self.weight.as_ptr().add(edge * h + group * LANES));
                let mut t = S::zero();
                for at in registers.clone() {
                    t = S::fma(S::load(dout.add(at)), S::load(source.add(2 * d + at)), t);
                }
                // A negative weight marks the clamp, where no gradient passes.
                let mut dlogit = S::where_positive(stored, S::mul(S::sub(S::fold::<HEADS>(t), minus_dz), stored));
                if GATE == SCALAR {
                    // s = a·p: dp = ds·a and da = Σ ds·p, which takes the logit's place from here
                    // on.
                    let mut t = S::zero();
                    for at in registers.clone() {
                        t = S::fma(S::mul(S::load(q.add(at)), scale), S::load(source.add(d + at)), t);
                    }
                    let a = S::fold::<HEADS>(t);
                    let mut t = S::zero();
                    for at in registers.clone() {
                        let ds = score_gradient::<S>(self.dscore, dlogit, edge * d + at);
                        S::store(self.dproj.as_mut_ptr().add(edge * d + at), S::mul(ds, a));
                        t = S::fma(ds, S::load(proj.add(edge * d + at)), t);
                    }
                    dlogit = S::fold::<HEADS>(t);
                }
                S::store_heads::<HEADS>(self.dlogit.as_mut_ptr().add(edge * h + group * LANES), dlogit);
                for (v, at) in registers.clone().enumerate() {
                    let k = S::load(source.add(d + at));
                    let u = if GATE == CHANNEL {
                        let ds = score_gradient::<S>(self.dscore, dlogit, edge * d + at);
                        let qk = S::mul(S::mul(S::load(q.add(at)), scale), k);
                        S::store(self.dproj.as_mut_ptr().add(edge * d + at), S::mul(ds, qk));
                        S::mul(ds, S::load(proj.add(edge * d + at)))
                    } else {
                        dlogit
                    };
                    if NV > 0 {
                        sums[v] = S::fma(u, k, sums[v]);
                    } else {
                        S::store(dq.add(at), S::fma(u, k, S::load(dq.add(at))));
                    }
                }
            }
            for (v, at) in registers.enumerate() {
                let sum = if NV > 0 { sums[v] } else { S::load(dq.add(at)) };
                S::store(dq.add(at), S::mul(sum, scale));
            }
        }
    }
}

/// Gradient of a score: through the logit, and from the edge stream.
///
/// # Safety
/// `dscore` has sixteen numbers from `at` on.
#[inline(always)]
unsafe fn score_gradient<S: Simd>(dscore: Option<&[S::T]>, dlogit: S::V, at: usize) -> S::V {
    match dscore {
        // SAFETY: the caller's promise: the score exists.
        Some(dscore) => S::add(dlogit, unsafe { S::load(dscore.as_ptr().add(at)) }),
        None => dlogit,
    }
}

/// Second pass: dk and dv, from the edges out of each own node.
pub(crate) struct Outgoing<'a, T> {
    pub(crate) form: Form,
    pub(crate) edges: Edges<'a>,
    /// Queries, keys and values; shared.
    pub(crate) qkv: &'a [T],
    /// Projected edge features, where edges have features; shared.
    pub(crate) proj: &'a [T],
    /// Weights of the edges; shared.
    pub(crate) weight: &'a [T],
    /// Gradient of the output as the first pass left it; shared.
    pub(crate) dout: &'a [T],
    /// Gradient of the scores, where the edge stream reads them; shared.
    pub(crate) dscore: Option<&'a [T]>,
    /// Gradient of the logits as the first pass left it; shared.
    pub(crate) dlogit: &'a [T],
    /// Gradients of queries, keys and values of the own nodes, of which dk and dv are written.
    pub(crate) dqkv: &'a mut [T],
}

/// Runs the second pass.
pub(crate) fn backward_out<T: Real>(isa: Isa, pass: Outgoing<'_, T>) {
    let (d, h) = pass.form.sizes();
    let (n, e) = (pass.edges.shared_nodes, pass.edges.shared_edges);
    assert!(pass.qkv.len() >= n * 3 * d && pass.dout.len() >= n * d && pass.dqkv.len() >= pass.edges.nodes() * 3 * d);
    assert!(pass.weight.len() >= e * h && pass.dlogit.len() >= e * h);
    assert!(pass.form.gate.is_none() || pass.proj.len() >= e * d);
    assert!(pass.dscore.is_none_or(|s| s.len() >= e * d));
    T::dispatch(isa, pass);
}

impl<T: Real> Kernel<T> for Outgoing<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(mut self) {
        with_shape!(self.form, self.nodes::<S>())
    }
}

impl<T: Real> Outgoing<'_, T> {
    #[inline(always)]
    fn nodes<S: Simd<T = T>, const HEADS: usize, const NV: usize, const GATE: u8>(&mut self) {
        let groups = self.form.channels.padded_heads().div_ceil(LANES);
        for node in 0..self.edges.nodes() {
            for group in 0..groups {
                // SAFETY: `backward_out` has checked all lengths, `Edges::check` all indices.
                unsafe { self.node::<S, HEADS, NV, GATE>(node, group, groups) };
            }
        }
    }

    /// Gradients through the edges out of one node.
    ///
    /// # Safety
    /// `node` is one of the own nodes, `group` is below `groups`, and all arrays have the lengths
    /// and indices that `backward_out` and `Edges::check` demand.
    #[inline(always)]
    unsafe fn node<S: Simd<T = T>, const HEADS: usize, const NV: usize, const GATE: u8>(
        &mut self,
        node: usize,
        group: usize,
        groups: usize,
    ) {
        let (d, h) = self.form.sizes();
        let Edges { out_offsets, out_dst, out_to_in, first_node, first_edge, .. } = self.edges;
        let registers = registers::<NV>(d, group, groups);
        // SAFETY: the caller's promise.
        unsafe {
            let scale = self.form.scale::<S>();
            let (qkv, dout, proj) = (self.qkv.as_ptr(), self.dout.as_ptr(), self.proj.as_ptr());
            let row = self.dqkv.as_mut_ptr().add(node * 3 * d);
            let mut dk = [S::zero(); KEPT];
            let mut dv = [S::zero(); KEPT];
            if NV == 0 {
                for at in registers.clone() {
                    S::store(row.add(d + at), S::zero());
                    S::store(row.add(2 * d + at), S::zero());
                }
            }
            for out in *out_offsets.get_unchecked(node) as usize..*out_offsets.get_unchecked(node + 1) as usize {
                let target = *out_dst.get_unchecked(out) as usize - first_node;
                let edge = *out_to_in.get_unchecked(out) as usize - first_edge;
                let stored = S::load_heads::<HEADS>(self.weight.as_ptr().add(edge * h + group * LANES));
                let weight = S::max(stored, S::sub(S::zero(), stored));
                let dlogit = S::load_heads::<HEADS>(self.dlogit.as_ptr().add(edge * h + group * LANES));
                for (v, at) in registers.clone().enumerate() {
                    let q = S::load(qkv.add(target * 3 * d + at));
                    let u = if GATE == CHANNEL {
                        let ds = score_gradient::<S>(self.dscore, dlogit, edge * d + at);
                        S::mul(ds, S::load(proj.add(edge * d + at)))
                    } else {
                        dlogit
                    };
                    let g = S::load(dout.add(target * d + at));
                    if NV > 0 {
                        dk[v] = S::fma(u, q, dk[v]);
                        dv[v] = S::fma(weight, g, dv[v]);
                    } else {
                        let (k, w) = (row.add(d + at), row.add(2 * d + at));
                        S::store(k, S::fma(u, q, S::load(k)));
                        S::store(w, S::fma(weight, g, S::load(w)));
                    }
                }
            }
            for (v, at) in registers.enumerate() {
                let k = if NV > 0 { dk[v] } else { S::load(row.add(d + at)) };
                S::store(row.add(d + at), S::mul(k, scale));
                if NV > 0 {
                    S::store(row.add(2 * d + at), dv[v]);
                }
            }
        }
    }
}
