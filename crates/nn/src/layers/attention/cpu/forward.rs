//! Forward pass of attention: logits of a node's in-edges, their weights, the weighted sum of
//! values.

use super::{CHANNEL, Form, PLAIN, SCALAR, registers, with_shape};
use crate::cpu::Isa;
use crate::cpu::edges::Edges;
use crate::cpu::simd::{Kernel, LANES, Simd};
use crate::network::{Clamp, Gate};
use crate::real::Real;

/// Inputs and outputs of a forward pass.
pub(crate) struct Forward<'a, T> {
    pub(crate) form: Form,
    pub(crate) edges: Edges<'a>,
    /// Queries, keys and values; shared.
    pub(crate) qkv: &'a [T],
    /// Edge features after their projection, where there are any; own.
    pub(crate) proj: &'a [T],
    /// Per-channel scores, for the edge stream, where there are edge features; own.
    pub(crate) score: &'a mut [T],
    /// Weights of the own edges.
    pub(crate) weight: &'a mut [T],
    /// Inverse divisors of the own nodes.
    pub(crate) inverse: &'a mut [T],
    /// Attended values of the own nodes.
    pub(crate) out: &'a mut [T],
}

/// The divisor's guard of the layer with edge features.
const GUARD: f64 = 1e-6;

/// Attention of the own nodes.
pub(crate) fn forward<T: Real>(isa: Isa, pass: Forward<'_, T>) {
    let (d, h) = pass.form.sizes();
    let (n, e) = (pass.edges.nodes(), pass.edges.edges());
    assert!(pass.qkv.len() >= pass.edges.shared_nodes * 3 * d);
    assert!(pass.out.len() >= n * d && pass.inverse.len() >= n * h && pass.weight.len() >= e * h);
    assert!(pass.form.gate.is_none() || (pass.proj.len() >= e * d && pass.score.len() >= e * d));
    T::dispatch(isa, pass);
}

impl<T: Real> Kernel<T> for Forward<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(mut self) {
        with_shape!(self.form, self.nodes::<S>())
    }
}

impl<T: Real> Forward<'_, T> {
    #[inline(always)]
    fn nodes<S: Simd<T = T>, const HEADS: usize, const NV: usize, const GATE: u8>(&mut self) {
        // More heads than a register holds are taken sixteen at a time: every `groups`-th register
        // belongs together.
        let groups = self.form.channels.padded_heads().div_ceil(LANES);
        for node in 0..self.edges.nodes() {
            for group in 0..groups {
                if NV > 0 {
                    // SAFETY: `forward` has checked all lengths, `Edges::check` all indices.
                    unsafe { self.node_in_registers::<S, HEADS, NV, GATE>(node) };
                } else {
                    // SAFETY: as above.
                    unsafe { self.node_in_memory::<S, HEADS, GATE>(node, group, groups) };
                }
            }
        }
    }

    /// Divides by z, or by z + 1e-6; nodes without in-edges get 0.
    #[inline(always)]
    fn inverse_of<S: Simd<T = T>>(&self, z: S::V) -> S::V {
        let divisor = if self.form.gate.is_some() { S::add(z, S::splat(T::from_f64(GUARD))) } else { z };
        S::where_positive(z, S::div(S::splat(T::ONE), divisor))
    }

    /// One node of a width that registers hold.
    ///
    /// # Safety
    /// `node` is one of the own nodes, the width is 16·NV, and all arrays have the lengths and
    /// indices that `forward` and `Edges::check` demand.
    #[inline(always)]
    unsafe fn node_in_registers<S: Simd<T = T>, const HEADS: usize, const NV: usize, const GATE: u8>(
        &mut self,
        node: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let Edges { in_offsets, in_src, own_node, first_node, .. } = self.edges;
            let d = NV * LANES;
            let own_edge = *in_offsets.get_unchecked(0) as usize;
            let (qkv, proj) = (self.qkv.as_ptr(), self.proj.as_ptr());
            let scale = self.form.scale::<S>();
            let mut q = [S::zero(); NV];
            for (v, q) in q.iter_mut().enumerate() {
                *q = S::mul(S::load(qkv.add((own_node - first_node + node) * 3 * d + v * LANES)), scale);
            }
            let into = *in_offsets.get_unchecked(node) as usize..*in_offsets.get_unchecked(node + 1) as usize;
            let source = |edge: usize| qkv.add((*in_src.get_unchecked(edge) as usize - first_node) * 3 * d);
            // Logits of all edges first: their exponentials then fill whole registers, and no edge
            // waits for another's.
            for edge in into.clone() {
                let k = source(edge).add(d);
                let edge = edge - own_edge;
                let mut t = S::zero();
                for (v, &q) in q.iter().enumerate() {
                    let k = S::load(k.add(v * LANES));
                    if GATE == CHANNEL {
                        let s = S::mul(S::mul(q, k), S::load(proj.add(edge * d + v * LANES)));
                        S::store(self.score.as_mut_ptr().add(edge * d + v * LANES), s);
                        t = S::add(t, s);
                    } else {
                        t = S::fma(q, k, t);
                    }
                }
                S::store_heads::<HEADS>(self.weight.as_mut_ptr().add(edge * HEADS), S::fold::<HEADS>(t));
            }
            self.weigh::<S>((into.start - own_edge) * HEADS..(into.end - own_edge) * HEADS);
            let mut sums = [S::zero(); NV];
            let mut z = S::zero();
            for edge in into {
                let value = source(edge).add(2 * d);
                let stored = S::load_heads::<HEADS>(self.weight.as_ptr().add((edge - own_edge) * HEADS));
                let w = S::max(stored, S::sub(S::zero(), stored));
                z = S::add(z, w);
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = S::fma(w, S::load(value.add(v * LANES)), *sum);
                }
            }
            let inverse = self.inverse_of::<S>(z);
            S::store_heads::<HEADS>(self.inverse.as_mut_ptr().add(node * HEADS), inverse);
            for (v, &sum) in sums.iter().enumerate() {
                S::store(self.out.as_mut_ptr().add(node * d + v * LANES), S::mul(sum, inverse));
            }
        }
    }

    /// Turns logits into weights, in place.
    #[inline(always)]
    fn weigh<S: Simd<T = T>>(&mut self, range: std::ops::Range<usize>) {
        let clamp = self.form.clamp;
        let logits = &mut self.weight[range];
        let mut whole = logits.chunks_exact_mut(LANES);
        for chunk in &mut whole {
            // SAFETY: the chunk has sixteen numbers.
            unsafe { S::store(chunk.as_mut_ptr(), weight::<S>(clamp, S::load(chunk.as_ptr()))) };
        }
        let rest = whole.into_remainder();
        if !rest.is_empty() {
            let mut lanes = [T::ZERO; LANES];
            lanes[..rest.len()].copy_from_slice(rest);
            let weights = S::to_array(weight::<S>(clamp, S::from_array(&lanes)));
            rest.copy_from_slice(&weights[..rest.len()]);
        }
    }

    /// One node of any width: sums are kept in the output row, not in registers.
    ///
    /// # Safety
    /// `node` is one of the own nodes, `group` is below `groups`, and all arrays have the lengths
    /// and indices that `forward` and `Edges::check` demand.
    #[inline(always)]
    unsafe fn node_in_memory<S: Simd<T = T>, const HEADS: usize, const GATE: u8>(
        &mut self,
        node: usize,
        group: usize,
        groups: usize,
    ) {
        let (d, h) = self.form.sizes();
        // SAFETY: the caller's promise.
        unsafe {
            let Edges { in_offsets, in_src, own_node, first_node, .. } = self.edges;
            let own_edge = *in_offsets.get_unchecked(0) as usize;
            let (qkv, proj) = (self.qkv.as_ptr(), self.proj.as_ptr());
            let q = qkv.add((own_node - first_node + node) * 3 * d);
            let scale = self.form.scale::<S>();
            let registers = registers::<0>(d, group, groups);
            let row = self.out.as_mut_ptr().add(node * d);
            registers.clone().for_each(|at| S::store(row.add(at), S::zero()));
            let mut z = S::zero();
            for edge in *in_offsets.get_unchecked(node) as usize..*in_offsets.get_unchecked(node + 1) as usize {
                let source = qkv.add((*in_src.get_unchecked(edge) as usize - first_node) * 3 * d);
                let edge = edge - own_edge;
                let score = self.score.as_mut_ptr().add(if GATE == PLAIN { 0 } else { edge * d });
                let mut t = S::zero();
                for at in registers.clone() {
                    let mut s = S::mul(S::mul(S::load(q.add(at)), scale), S::load(source.add(d + at)));
                    if GATE == CHANNEL {
                        s = S::mul(s, S::load(proj.add(edge * d + at)));
                        S::store(score.add(at), s);
                    }
                    t = S::add(t, s);
                }
                if GATE == SCALAR {
                    let a = S::fold::<HEADS>(t);
                    t = S::zero();
                    for at in registers.clone() {
                        let s = S::mul(a, S::load(proj.add(edge * d + at)));
                        S::store(score.add(at), s);
                        t = S::add(t, s);
                    }
                }
                let stored = weight::<S>(self.form.clamp, S::fold::<HEADS>(t));
                S::store_heads::<HEADS>(self.weight.as_mut_ptr().add(edge * h + group * LANES), stored);
                let w = S::max(stored, S::sub(S::zero(), stored));
                z = S::add(z, w);
                for at in registers.clone() {
                    S::store(row.add(at), S::fma(w, S::load(source.add(2 * d + at)), S::load(row.add(at))));
                }
            }
            let inverse = self.inverse_of::<S>(z);
            S::store_heads::<HEADS>(self.inverse.as_mut_ptr().add(node * h + group * LANES), inverse);
            registers.for_each(|at| S::store(row.add(at), S::mul(S::load(row.add(at)), inverse)));
        }
    }
}

/// exp of the clamped logit, negative where the clamp held.
#[inline(always)]
fn weight<S: Simd>(clamp: Clamp, logit: S::V) -> S::V {
    // min(exp(x), 5) = exp(min(x, ln 5)); the lower end only keeps exp inside its domain.
    let (low, high) = match clamp {
        Clamp::Logits => (-5.0, 5.0),
        Clamp::Exponentials => (-80.0, 1.609_437_912_434_100_3),
    };
    let clamped = S::min(S::max(logit, S::splat(S::T::from_f64(low))), S::splat(S::T::from_f64(high)));
    let w = S::exp(clamped);
    // |logit − clamped| > 0 exactly where the clamp changed something.
    let beyond = S::max(S::sub(logit, clamped), S::sub(clamped, logit));
    S::sub(w, S::where_positive(beyond, S::add(w, w)))
}
