//! Attention over the edges of a graph, without and with edge features (the paper's eq. 4–5 and 11–12, as published in code).
//!
//! For every edge j → i and every head, with q, k, v of width d_k per head and p = E·e_ij:
//!
//! * without edge features: logit = Σ_c q_i·k_j / √d_k;
//! * with: s_c = q_i·k_j / √d_k · p_c, logit = Σ_c s_c, and s itself goes on to the edge stream.
//!
//! w = exp(clamp(logit, −5, 5)), z_i = Σ_j w_ij, out_i = Σ_j w_ij·v_j / z_i. With edge features the divisor is z + 1e-6. A node without
//! in-edges gives 0. The gradient is 0 where the clamp holds.
//!
//! Shapes: `qkv` `[nodes, 3·d]`; `proj`, `score` `[edges, d]` (edges in in-order); `weight`, `dlogit` `[edges, heads]`;
//! `inverse` `[nodes, heads]`; `out` `[nodes, d]`. `weight` is stored negative where the clamp held.
//!
//! Backward runs in two passes: over the edges into each node (dq, the logits' gradients, dproj), then over the edges out of each node (dk, dv). Both only
//! gather, so nobody writes where another does.

use super::simd::{Kernel, LANES, Simd};
use crate::channels::Channels;
use crate::cpu::Isa;
use crate::real::Real;

/// The edges of some consecutive nodes, whose sources all lie among them.
///
/// Node and edge numbers are absolute; `first_node` and `first_edge` are where the slices of a call begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges<'a> {
    /// `[nodes + 1]` of these nodes.
    pub(crate) in_offsets: &'a [u32],
    /// Of the whole batch.
    pub(crate) in_src: &'a [u32],
    /// `[nodes + 1]` of these nodes.
    pub(crate) out_offsets: &'a [u32],
    /// Of the whole batch.
    pub(crate) out_dst: &'a [u32],
    /// Of the whole batch.
    pub(crate) out_to_in: &'a [u32],
    pub(crate) first_node: usize,
    pub(crate) first_edge: usize,
}

impl Edges<'_> {
    pub(crate) fn nodes(&self) -> usize {
        self.in_offsets.len() - 1
    }

    pub(crate) fn edges(&self) -> usize {
        (self.in_offsets[self.nodes()] - self.in_offsets[0]) as usize
    }

    /// Checks every index that the kernels will follow. It is done once per batch; the kernels rely on it.
    pub(crate) fn check(&self) {
        let (n, e) = (self.nodes(), self.edges());
        assert_eq!(self.out_offsets.len(), n + 1);
        assert_eq!(self.in_offsets[0] as usize, self.first_edge);
        assert_eq!((self.out_offsets[n] - self.out_offsets[0]) as usize, e, "sources lie in the same nodes as targets");
        assert!(self.in_offsets.is_sorted() && self.out_offsets.is_sorted());
        let edges = self.first_edge..self.first_edge + e;
        let outs = self.out_offsets[0] as usize..self.out_offsets[n] as usize;
        let inside = |ends: &[u32]| ends.iter().all(|&v| (v as usize).wrapping_sub(self.first_node) < n);
        assert!(inside(&self.in_src[edges.clone()]) && inside(&self.out_dst[outs.clone()]));
        assert!(self.out_to_in[outs].iter().all(|&v| edges.contains(&(v as usize))));
    }
}

/// What a forward pass writes.
pub(crate) struct Forward<'a, T> {
    pub(crate) channels: Channels,
    pub(crate) edges: Edges<'a>,
    pub(crate) qkv: &'a [T],
    /// Edge features after their projection, where there are any.
    pub(crate) proj: Option<&'a [T]>,
    /// Per-channel scores, for the edge stream; with `proj` only.
    pub(crate) score: &'a mut [T],
    pub(crate) weight: &'a mut [T],
    pub(crate) inverse: &'a mut [T],
    pub(crate) out: &'a mut [T],
}

/// The divisor's guard of the layer with edge features.
const GUARD: f64 = 1e-6;
const CLAMP: f64 = 5.0;

/// Attention of a block of whole graphs.
pub(crate) fn forward<T: Real>(isa: Isa, pass: Forward<'_, T>) {
    let (d, h) = (pass.channels.padded_width(), pass.channels.padded_heads());
    let (n, e) = (pass.edges.nodes(), pass.edges.edges());
    assert!(
        pass.qkv.len() >= n * 3 * d
            && pass.out.len() >= n * d
            && pass.inverse.len() >= n * h
            && pass.weight.len() >= e * h
    );
    assert!(pass.proj.is_none_or(|p| p.len() >= e * d && pass.score.len() >= e * d));
    T::dispatch(isa, pass);
}

/// Calls a method with the number of heads per register, and of registers per row, as constants where they are usual.
macro_rules! with_shape {
    ($channels:expr, $this:ident . $method:ident :: <$s:ident, $edge:literal>()) => {{
        let vectors = $channels.padded_width() / LANES;
        match ($channels.padded_heads().min(LANES), vectors) {
            (8, 4) => $this.$method::<$s, 8, 4, $edge>(),
            (8, 5) => $this.$method::<$s, 8, 5, $edge>(),
            (8, _) => $this.$method::<$s, 8, 0, $edge>(),
            (1, _) => $this.$method::<$s, 1, 0, $edge>(),
            (2, _) => $this.$method::<$s, 2, 0, $edge>(),
            (4, _) => $this.$method::<$s, 4, 0, $edge>(),
            _ => $this.$method::<$s, 16, 0, $edge>(),
        }
    }};
}

impl<T: Real> Kernel<T> for Forward<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(mut self) {
        let channels = self.channels;
        if self.proj.is_some() {
            with_shape!(channels, self.nodes::<S, true>());
        } else {
            with_shape!(channels, self.nodes::<S, false>());
        }
    }
}

/// Most registers per row that are kept in registers; wider rows are added up in memory.
const KEPT: usize = 5;

impl<T: Real> Forward<'_, T> {
    #[inline(always)]
    fn nodes<S: Simd<T = T>, const HEADS: usize, const NV: usize, const EDGE: bool>(&mut self) {
        let d = self.channels.padded_width();
        let h = self.channels.padded_heads();
        // More heads than a register holds are taken sixteen at a time: every `groups`-th register belongs together.
        let groups = h.div_ceil(LANES);
        for node in 0..self.edges.nodes() {
            for group in 0..groups {
                if NV > 0 {
                    // SAFETY: `forward` has checked all lengths and indices.
                    unsafe { self.node_in_registers::<S, HEADS, NV, EDGE>(node, d) };
                } else {
                    // SAFETY: as above.
                    unsafe { self.node_in_memory::<S, HEADS>(node, d, h, group, groups) };
                }
            }
        }
    }

    #[inline(always)]
    fn scale<S: Simd<T = T>>(&self) -> S::V {
        S::splat(T::from_f64(1.0 / (self.channels.per_head() as f64).sqrt()))
    }

    /// Divides by z, or by z + 1e-6; nodes without in-edges get 0.
    #[inline(always)]
    fn inverse_of<S: Simd<T = T>>(&self, z: S::V) -> S::V {
        let divisor = if self.proj.is_some() { S::add(z, S::splat(T::from_f64(GUARD))) } else { z };
        S::where_positive(z, S::div(S::splat(T::ONE), divisor))
    }

    #[inline(always)]
    unsafe fn node_in_registers<S: Simd<T = T>, const HEADS: usize, const NV: usize, const EDGE: bool>(
        &mut self,
        node: usize,
        d: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let Edges { in_offsets, in_src, first_node, first_edge, .. } = self.edges;
            let qkv = self.qkv.as_ptr();
            let proj = self.proj.unwrap_or_default().as_ptr();
            let scale = self.scale::<S>();
            let mut q = [S::zero(); NV];
            for (v, q) in q.iter_mut().enumerate() {
                *q = S::mul(S::load(qkv.add(node * 3 * d + v * LANES)), scale);
            }
            let into = *in_offsets.get_unchecked(node) as usize..*in_offsets.get_unchecked(node + 1) as usize;
            let source = |edge: usize| qkv.add((*in_src.get_unchecked(edge) as usize - first_node) * 3 * d);
            // Logits of all edges first: their exponentials then fill whole registers, and no edge waits for another's.
            for edge in into.clone() {
                let k = source(edge).add(d);
                let edge = edge - first_edge;
                let mut t = S::zero();
                for (v, &q) in q.iter().enumerate() {
                    let k = S::load(k.add(v * LANES));
                    if EDGE {
                        let s = S::mul(S::mul(q, k), S::load(proj.add(edge * d + v * LANES)));
                        S::store(self.score.as_mut_ptr().add(edge * d + v * LANES), s);
                        t = S::add(t, s);
                    } else {
                        t = S::fma(q, k, t);
                    }
                }
                S::store_heads::<HEADS>(self.weight.as_mut_ptr().add(edge * HEADS), S::fold::<HEADS>(t));
            }
            let row = (into.start - first_edge) * HEADS..(into.end - first_edge) * HEADS;
            self.weigh::<S>(row);
            let mut sums = [S::zero(); NV];
            let mut z = S::zero();
            for edge in into {
                let value = source(edge).add(2 * d);
                let stored = S::load_heads::<HEADS>(self.weight.as_ptr().add((edge - first_edge) * HEADS));
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
        let logits = &mut self.weight[range];
        let mut whole = logits.chunks_exact_mut(LANES);
        for chunk in &mut whole {
            // SAFETY: the chunk has sixteen numbers.
            unsafe { S::store(chunk.as_mut_ptr(), weight::<S>(S::load(chunk.as_ptr()))) };
        }
        let rest = whole.into_remainder();
        if !rest.is_empty() {
            let mut lanes = [T::ZERO; LANES];
            lanes[..rest.len()].copy_from_slice(rest);
            let weights = S::to_array(weight::<S>(S::from_array(&lanes)));
            rest.copy_from_slice(&weights[..rest.len()]);
        }
    }

    /// The same for any width: sums are kept in the output row.
    #[inline(always)]
    unsafe fn node_in_memory<S: Simd<T = T>, const HEADS: usize>(
        &mut self,
        node: usize,
        d: usize,
        h: usize,
        group: usize,
        groups: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let Edges { in_offsets, in_src, first_node, first_edge, .. } = self.edges;
            let qkv = self.qkv.as_ptr();
            let scale = self.scale::<S>();
            let registers = || (group..d / LANES).step_by(groups).map(|v| v * LANES);
            let row = self.out.as_mut_ptr().add(node * d);
            registers().for_each(|at| S::store(row.add(at), S::zero()));
            let mut z = S::zero();
            for edge in *in_offsets.get_unchecked(node) as usize..*in_offsets.get_unchecked(node + 1) as usize {
                let source = qkv.add((*in_src.get_unchecked(edge) as usize - first_node) * 3 * d);
                let edge = edge - first_edge;
                let mut t = S::zero();
                for at in registers() {
                    let mut s = S::mul(S::mul(S::load(qkv.add(node * 3 * d + at)), scale), S::load(source.add(d + at)));
                    if let Some(proj) = self.proj {
                        s = S::mul(s, S::load(proj.as_ptr().add(edge * d + at)));
                        S::store(self.score.as_mut_ptr().add(edge * d + at), s);
                    }
                    t = S::add(t, s);
                }
                let stored = weight::<S>(S::fold::<HEADS>(t));
                S::store_heads::<HEADS>(self.weight.as_mut_ptr().add(edge * h + group * LANES), stored);
                let w = S::max(stored, S::sub(S::zero(), stored));
                z = S::add(z, w);
                for at in registers() {
                    S::store(row.add(at), S::fma(w, S::load(source.add(2 * d + at)), S::load(row.add(at))));
                }
            }
            let inverse = self.inverse_of::<S>(z);
            S::store_heads::<HEADS>(self.inverse.as_mut_ptr().add(node * h + group * LANES), inverse);
            registers().for_each(|at| S::store(row.add(at), S::mul(S::load(row.add(at)), inverse)));
        }
    }
}

/// exp of the clamped logit, negative where the clamp held.
#[inline(always)]
fn weight<S: Simd>(logit: S::V) -> S::V {
    let (low, high) = (S::splat(S::T::from_f64(-CLAMP)), S::splat(S::T::from_f64(CLAMP)));
    let clamped = S::min(S::max(logit, low), high);
    let w = S::exp(clamped);
    // |logit − clamped| > 0 exactly where the clamp changed something.
    let beyond = S::max(S::sub(logit, clamped), S::sub(clamped, logit));
    S::sub(w, S::where_positive(beyond, S::add(w, w)))
}

/// What a backward pass reads and writes.
pub(crate) struct Backward<'a, T> {
    pub(crate) channels: Channels,
    pub(crate) edges: Edges<'a>,
    pub(crate) qkv: &'a [T],
    pub(crate) proj: Option<&'a [T]>,
    pub(crate) weight: &'a [T],
    pub(crate) inverse: &'a [T],
    pub(crate) out: &'a [T],
    /// Gradient of `out`; becomes that gradient divided by z.
    pub(crate) dout: &'a mut [T],
    /// Gradient of `score`, where the edge stream reads it.
    pub(crate) dscore: Option<&'a [T]>,
    /// Scratch, `[edges, heads]`.
    pub(crate) dlogit: &'a mut [T],
    pub(crate) dqkv: &'a mut [T],
    /// Gradient of `proj`.
    pub(crate) dproj: &'a mut [T],
}

/// Gradients of a block of whole graphs.
pub(crate) fn backward<T: Real>(isa: Isa, pass: Backward<'_, T>) {
    let (d, h) = (pass.channels.padded_width(), pass.channels.padded_heads());
    let (n, e) = (pass.edges.nodes(), pass.edges.edges());
    assert!(pass.qkv.len() >= n * 3 * d && pass.dqkv.len() >= n * 3 * d && pass.inverse.len() >= n * h);
    assert!(
        pass.out.len() >= n * d && pass.dout.len() >= n * d && pass.weight.len() >= e * h && pass.dlogit.len() >= e * h
    );
    assert!(pass.proj.is_none_or(|p| p.len() >= e * d && pass.dproj.len() >= e * d));
    assert!(pass.dscore.is_none_or(|s| s.len() >= e * d));
    T::dispatch(isa, pass);
}

impl<T: Real> Kernel<T> for Backward<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(mut self) {
        let channels = self.channels;
        if self.proj.is_some() {
            with_shape!(channels, self.passes::<S, true>());
        } else {
            with_shape!(channels, self.passes::<S, false>());
        }
    }
}

impl<T: Real> Backward<'_, T> {
    #[inline(always)]
    fn passes<S: Simd<T = T>, const HEADS: usize, const NV: usize, const EDGE: bool>(&mut self) {
        let groups = self.channels.padded_heads().div_ceil(LANES);
        for node in 0..self.edges.nodes() {
            for group in 0..groups {
                // SAFETY: `backward` has checked all lengths and indices.
                unsafe { self.edges_in::<S, HEADS, NV, EDGE>(node, group, groups) };
            }
        }
        for node in 0..self.edges.nodes() {
            for group in 0..groups {
                // SAFETY: as above.
                unsafe { self.edges_out::<S, HEADS, NV, EDGE>(node, group, groups) };
            }
        }
    }

    /// Logits' gradients, dproj and dq of one node, from the edges into it.
    #[inline(always)]
    unsafe fn edges_in<S: Simd<T = T>, const HEADS: usize, const NV: usize, const EDGE: bool>(
        &mut self,
        node: usize,
        group: usize,
        groups: usize,
    ) {
        let (d, h) = (self.channels.padded_width(), self.channels.padded_heads());
        let Edges { in_offsets, in_src, first_node, first_edge, .. } = self.edges;
        let registers = registers::<NV>(d, group, groups);
        // SAFETY: the caller's promise.
        unsafe {
            let scale = S::splat(T::from_f64(1.0 / (self.channels.per_head() as f64).sqrt()));
            let (qkv, proj) = (self.qkv.as_ptr(), self.proj.unwrap_or_default().as_ptr());
            let (q, dq) = (qkv.add(node * 3 * d), self.dqkv.as_mut_ptr().add(node * 3 * d));
            let inverse = S::load_heads::<HEADS>(self.inverse.as_ptr().add(node * h + group * LANES));
            // dz = −Σ dout·out / z; dout is divided by z for good.
            let dout = self.dout.as_mut_ptr().add(node * d);
            let mut t = S::zero();
            for at in registers.clone() {
                let gradient = S::load(dout.add(at));
                t = S::fma(gradient, S::load(self.out.as_ptr().add(node * d + at)), t);
                S::store(dout.add(at), S::mul(gradient, inverse));
            }
            let minus_dz = S::mul(S::fold::<HEADS>(t), inverse);
            let mut sums = [S::zero(); KEPT];
            if NV == 0 {
                registers.clone().for_each(|at| S::store(dq.add(at), S::zero()));
            }
            for edge in *in_offsets.get_unchecked(node) as usize..*in_offsets.get_unchecked(node + 1) as usize {
                let source = qkv.add((*in_src.get_unchecked(edge) as usize - first_node) * 3 * d);
                let edge = edge - first_edge;
                let stored = S::load_heads::<HEADS>(self.weight.as_ptr().add(edge * h + group * LANES));
                let mut t = S::zero();
                for at in registers.clone() {
                    t = S::fma(S::load(dout.add(at)), S::load(source.add(2 * d + at)), t);
                }
                // A negative weight marks the clamp, where no gradient passes.
                let dlogit = S::where_positive(stored, S::mul(S::sub(S::fold::<HEADS>(t), minus_dz), stored));
                S::store_heads::<HEADS>(self.dlogit.as_mut_ptr().add(edge * h + group * LANES), dlogit);
                for (v, at) in registers.clone().enumerate() {
                    let k = S::load(source.add(d + at));
                    let u = if EDGE {
                        let gradient = self.score_gradient::<S>(dlogit, edge * d + at);
                        let qk = S::mul(S::mul(S::load(q.add(at)), scale), k);
                        S::store(self.dproj.as_mut_ptr().add(edge * d + at), S::mul(gradient, qk));
                        S::mul(gradient, S::load(proj.add(edge * d + at)))
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

    /// Gradient of a score: through the logit, and from the edge stream.
    #[inline(always)]
    unsafe fn score_gradient<S: Simd<T = T>>(&self, dlogit: S::V, at: usize) -> S::V {
        match self.dscore {
            // SAFETY: the caller's promise: the score exists.
            Some(dscore) => S::add(dlogit, unsafe { S::load(dscore.as_ptr().add(at)) }),
            None => dlogit,
        }
    }

    /// dk and dv of one node, from the edges out of it.
    #[inline(always)]
    unsafe fn edges_out<S: Simd<T = T>, const HEADS: usize, const NV: usize, const EDGE: bool>(
        &mut self,
        node: usize,
        group: usize,
        groups: usize,
    ) {
        let (d, h) = (self.channels.padded_width(), self.channels.padded_heads());
        let Edges { out_offsets, out_dst, out_to_in, first_node, first_edge, .. } = self.edges;
        let registers = registers::<NV>(d, group, groups);
        // SAFETY: the caller's promise.
        unsafe {
            let scale = S::splat(T::from_f64(1.0 / (self.channels.per_head() as f64).sqrt()));
            let (qkv, dout, proj) = (self.qkv.as_ptr(), self.dout.as_ptr(), self.proj.unwrap_or_default().as_ptr());
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
                    let u = if EDGE {
                        S::mul(self.score_gradient::<S>(dlogit, edge * d + at), S::load(proj.add(edge * d + at)))
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

/// Where the registers of a group of heads begin in a row.
#[inline(always)]
fn registers<const NV: usize>(d: usize, group: usize, groups: usize) -> impl Iterator<Item = usize> + Clone {
    // With a constant count the loops unroll and sums stay in registers.
    let (start, end, step) = if NV > 0 { (0, NV, 1) } else { (group, d / LANES, groups) };
    (0..(end - start).div_ceil(step)).map(move |i| (start + i * step) * LANES)
}
