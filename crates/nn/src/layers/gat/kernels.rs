//! Additive attention. For every edge j → i and every head, with z of width d_k per head and
//! vectors a, b:
//!
//! * `l_j = a·z_j`, `r_i = b·z_i`, `t = l_j + r_i`, and s = t for t > 0, else t/5
//! * `w_ij = e^(s − m_i)/Σ_j e^(s − m_i)` with m_i the largest s
//! * `x_i = Σ_j w_ij·z_j`
//!
//! A node without in-edges gives 0.
//!
//! Shapes: `z`, `x`, `dx`, `dz` `[nodes, d]`; `logits`, `softmax` `[nodes, 2 lanes]`; `dt`
//! `[edges, lanes]`. A row of `logits` is l and r, a row of `softmax` m and 1/Σ. Each is one number
//! per head, repeated to whole registers (*lanes*). `heads` is the number of heads of the layer. It
//! may be smaller than that of the channel order: a single head takes all channels.
//!
//! Backward, with `δ_i = Σ_c dx_i·x_i`:
//!
//! * [`Taken`], over the edges into each node: `dw = dx_i·z_j`, `dt = w·(dw − δ_i)·s'(t)`
//! * [`Returned`], over the edges out of each node: `dl_j = Σ_i dt`, `dr_j = Σ_i dt` (edges into
//!   j), `dz_j = Σ_i w·dx_i + a·dl_j + b·dr_j`, `da = Σ_j dl_j·z_j`, `db = Σ_j dr_j·z_j`
//!
//! The backward pass recomputes the weights.

use std::ops::Range;

use crate::cpu::Isa;
use crate::cpu::plan::Topology;
use crate::cpu::simd::{Kernel, LANES, Simd};
use crate::real::Real;

/// Slope of the logits below 0.
const LEAK: f64 = 0.2;

/// Heads of a layer, as its rows hold them: padded, and numbers per row.
#[derive(Clone, Copy, Debug)]
struct Heads {
    heads: usize,
    lanes: usize,
}

impl Heads {
    fn new(heads: usize) -> Self {
        assert!(heads.is_power_of_two() || heads.is_multiple_of(LANES));
        Self { heads, lanes: heads.max(LANES) }
    }

    /// Registers of a row of `width` that begin with the same heads.
    #[inline(always)]
    fn registers(self, group: usize, width: usize) -> impl Iterator<Item = usize> + Clone {
        (group..width).step_by(self.lanes)
    }

    /// Where the registers of a row of lanes begin.
    #[inline(always)]
    fn groups(self) -> impl Iterator<Item = usize> + Clone {
        (0..self.lanes).step_by(LANES)
    }
}

/// Calls a method with the number of heads per register as a constant.
macro_rules! with_heads {
    ($heads:expr, $this:ident . $method:ident :: <$s:ident>()) => {
        match $heads.heads {
            1 => $this.$method::<$s, 1>(),
            2 => $this.$method::<$s, 2>(),
            4 => $this.$method::<$s, 4>(),
            8 => $this.$method::<$s, 8>(),
            _ => $this.$method::<$s, LANES>(),
        }
    };
}

/// Logits of rows: l and r.
pub(super) struct Logits<'a, T> {
    pub(super) heads: usize,
    pub(super) z: &'a [T],
    /// a and b.
    pub(super) vectors: [&'a [T]; 2],
    pub(super) logits: &'a mut [T],
}

impl<T: Real> Logits<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        let (lanes, width) = (Heads::new(self.heads).lanes, self.vectors[0].len());
        assert_eq!(self.logits.len() / (2 * lanes), self.z.len() / width);
        T::dispatch(isa, self);
    }

    #[inline(always)]
    fn rows<S: Simd<T = T>, const HEADS: usize>(self) {
        let heads = Heads::new(self.heads);
        let width = self.vectors[0].len();
        for (z, logits) in self.z.chunks_exact(width).zip(self.logits.chunks_exact_mut(2 * heads.lanes)) {
            for (which, vector) in self.vectors.into_iter().enumerate() {
                for group in heads.groups() {
                    let sum = dot::<S, HEADS>(heads, group, z, vector);
                    S::put(logits, which * heads.lanes + group, sum);
                }
            }
        }
    }
}

impl<T: Real> Kernel<T> for Logits<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        with_heads!(Heads::new(self.heads), self.rows::<S>())
    }
}

/// Sums of a·b over each head of a group, in all of its lanes.
#[inline(always)]
fn dot<S: Simd, const HEADS: usize>(heads: Heads, group: usize, a: &[S::T], b: &[S::T]) -> S::V {
    let mut sum = S::zero();
    for at in heads.registers(group, a.len()) {
        sum = S::fma(S::get(a, at), S::get(b, at), sum);
    }
    S::fold::<HEADS>(sum)
}

/// s of t.
#[inline(always)]
fn leaky<S: Simd>(t: S::V) -> S::V {
    S::max(t, S::mul(t, S::splat(S::T::from_f64(LEAK))))
}

/// e^(s − m).
#[inline(always)]
fn power<S: Simd>(s: S::V, largest: S::V) -> S::V {
    S::exp(S::max(S::sub(s, largest), S::splat(S::T::from_f64(-80.0))))
}

/// Rows of a batch's arrays.
struct Rows<'a, T> {
    heads: Heads,
    width: usize,
    z: &'a [T],
    logits: &'a [T],
    softmax: &'a [T],
}

impl<T: Real> Rows<'_, T> {
    #[inline(always)]
    fn z(&self, node: usize) -> &[T] {
        &self.z[node * self.width..][..self.width]
    }

    /// t of an edge, for a group of heads.
    #[inline(always)]
    fn logit<S: Simd<T = T>>(&self, source: usize, target: usize, group: usize) -> S::V {
        let lanes = self.heads.lanes;
        S::add(S::get(self.logits, source * 2 * lanes + group), S::get(self.logits, target * 2 * lanes + lanes + group))
    }

    /// w of an edge with logit t.
    #[inline(always)]
    fn weight<S: Simd<T = T>>(&self, t: S::V, target: usize, group: usize) -> S::V {
        let lanes = self.heads.lanes;
        let largest = S::get(self.softmax, target * 2 * lanes + group);
        S::mul(power::<S>(leaky::<S>(t), largest), S::get(self.softmax, target * 2 * lanes + lanes + group))
    }
}

/// Forward, of the own nodes.
pub(super) struct Attend<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) heads: usize,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) z: &'a [T],
    pub(super) logits: &'a [T],
    /// Largest logits and inverse divisors of the own nodes.
    pub(super) softmax: &'a mut [T],
    /// Outputs of the own nodes.
    pub(super) x: &'a mut [T],
}

impl<T: Real> Attend<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        assert_eq!(self.x.len(), self.nodes.len() * self.width);
        T::dispatch(isa, self);
    }
}

impl<T: Real> Kernel<T> for Attend<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { topology, heads, nodes, width, z, logits, softmax, x } = self;
        let heads = Heads::new(heads);
        let rows = Rows { heads, width, z, logits, softmax: &[] };
        let own = x.chunks_exact_mut(width).zip(softmax.chunks_exact_mut(2 * heads.lanes));
        for (node, (x, softmax)) in nodes.zip(own) {
            x.fill(T::ZERO);
            softmax.fill(T::ZERO);
            let into = topology.into(node);
            if into.is_empty() {
                continue;
            }
            for group in heads.groups() {
                let logit = |edge: usize| leaky::<S>(rows.logit::<S>(topology.in_src[edge] as usize, node, group));
                let mut largest = logit(into.start);
                for edge in into.clone() {
                    largest = S::max(largest, logit(edge));
                }
                let mut sum = S::zero();
                for edge in into.clone() {
                    let weight = power::<S>(logit(edge), largest);
                    sum = S::add(sum, weight);
                    let z = rows.z(topology.in_src[edge] as usize);
                    for at in heads.registers(group, width) {
                        S::put(x, at, S::fma(weight, S::get(z, at), S::get(x, at)));
                    }
                }
                let inverse = S::div(S::splat(T::ONE), sum);
                S::put(softmax, group, largest);
                S::put(softmax, heads.lanes + group, inverse);
                for at in heads.registers(group, width) {
                    S::put(x, at, S::mul(inverse, S::get(x, at)));
                }
            }
        }
    }
}

/// Backward over the edges into the own nodes.
pub(super) struct Taken<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) heads: usize,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) z: &'a [T],
    pub(super) logits: &'a [T],
    pub(super) softmax: &'a [T],
    /// Outputs of the own nodes.
    pub(super) x: &'a [T],
    /// Gradients of the own nodes' outputs.
    pub(super) dx: &'a [T],
    /// Gradients of t, for the own edges.
    pub(super) dt: &'a mut [T],
}

impl<T: Real> Taken<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        assert_eq!((self.x.len(), self.dx.len()), (self.nodes.len() * self.width, self.nodes.len() * self.width));
        T::dispatch(isa, self);
    }

    #[inline(always)]
    fn all<S: Simd<T = T>, const HEADS: usize>(self) {
        let Self { topology, heads, nodes, width, z, logits, softmax, x, dx, dt } = self;
        let heads = Heads::new(heads);
        let rows = Rows { heads, width, z, logits, softmax };
        let first = topology.first_into(&nodes);
        for (node, (x, dx)) in nodes.zip(x.chunks_exact(width).zip(dx.chunks_exact(width))) {
            for group in heads.groups() {
                let delta = dot::<S, HEADS>(heads, group, dx, x);
                for edge in topology.into(node) {
                    let source = topology.in_src[edge] as usize;
                    let t = rows.logit::<S>(source, node, group);
                    let dw = dot::<S, HEADS>(heads, group, dx, rows.z(source));
                    let ds = S::mul(rows.weight::<S>(t, node, group), S::sub(dw, delta));
                    // Slope 1 above 0, else the leak's.
                    let steep = S::where_positive(t, S::splat(T::from_f64(1.0 - LEAK)));
                    let dt_edge = S::mul(ds, S::add(steep, S::splat(T::from_f64(LEAK))));
                    S::put(dt, (edge - first) * heads.lanes + group, dt_edge);
                }
            }
        }
    }
}

impl<T: Real> Kernel<T> for Taken<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        with_heads!(Heads::new(self.heads), self.all::<S>())
    }
}

/// Backward over the edges out of the own nodes.
pub(super) struct Returned<'a, T> {
    pub(super) topology: &'a Topology,
    pub(super) heads: usize,
    pub(super) nodes: Range<usize>,
    pub(super) width: usize,
    pub(super) z: &'a [T],
    pub(super) logits: &'a [T],
    pub(super) softmax: &'a [T],
    pub(super) vectors: [&'a [T]; 2],
    pub(super) dx: &'a [T],
    pub(super) dt: &'a [T],
    /// Gradients of z, for the own nodes.
    pub(super) dz: &'a mut [T],
    /// Gradients of both vectors, which the pass adds to.
    pub(super) dvectors: [&'a mut [T]; 2],
}

impl<T: Real> Returned<'_, T> {
    pub(super) fn run_on(self, isa: Isa) {
        assert_eq!(self.dz.len(), self.nodes.len() * self.width);
        T::dispatch(isa, self);
    }
}

impl<T: Real> Kernel<T> for Returned<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let Self { topology, heads, nodes, width, z, logits, softmax, vectors, dx, dt, dz, dvectors } = self;
        let [dsource, dtarget] = dvectors;
        let heads = Heads::new(heads);
        let rows = Rows { heads, width, z, logits, softmax };
        for (node, dz) in nodes.zip(dz.chunks_exact_mut(width)) {
            dz.fill(T::ZERO);
            let z = rows.z(node);
            for group in heads.groups() {
                let (mut dl, mut dr) = (S::zero(), S::zero());
                for edge in topology.into(node) {
                    dr = S::add(dr, S::get(dt, edge * heads.lanes + group));
                }
                for place in topology.out_of(node) {
                    let (edge, target) = (topology.out_to_in[place] as usize, topology.out_dst[place] as usize);
                    dl = S::add(dl, S::get(dt, edge * heads.lanes + group));
                    let weight = rows.weight::<S>(rows.logit::<S>(node, target, group), target, group);
                    let dx = &dx[target * width..][..width];
                    for at in heads.registers(group, width) {
                        S::put(dz, at, S::fma(weight, S::get(dx, at), S::get(dz, at)));
                    }
                }
                for (slope, vector, dvector) in [(dl, vectors[0], &mut *dsource), (dr, vectors[1], &mut *dtarget)] {
                    for at in heads.registers(group, width) {
                        S::put(dz, at, S::fma(slope, S::get(vector, at), S::get(dz, at)));
                        S::put(dvector, at, S::fma(slope, S::get(z, at), S::get(dvector, at)));
                    }
                }
            }
        }
    }
}

/// The weights of all edges, `[edges, shown heads]`; `heads` are padded.
pub(super) fn weights<T: Real>(topology: &Topology, heads: usize, shown: usize, logits: &[T], softmax: &[T]) -> Vec<T> {
    let lanes = Heads::new(heads).lanes;
    let row = |array: &[T], node: usize, half: usize, head: usize| array[(2 * node + half) * lanes + head];
    let mut weights = Vec::with_capacity(topology.edges() * shown);
    for node in 0..topology.nodes() {
        for edge in topology.into(node) {
            weights.extend((0..shown).map(|head| {
                let t = row(logits, topology.in_src[edge] as usize, 0, head) + row(logits, node, 1, head);
                let s = t.max(t * T::from_f64(LEAK));
                (s - row(softmax, node, 0, head)).exp() * row(softmax, node, 1, head)
            }));
        }
    }
    weights
}
