//! Attention over the edges of a graph, without and with edge features (the paper's eq. 4–5 and
//! 9–12).
//!
//! For every edge j → i and every head, with q, k, v of width d_k per head and p = E·e_ij:
//!
//! * without edge features: `logit = Σ_c q_i·k_j / √d_k`;
//! * with edge features, channel by channel as published: `s_c = q_i·k_j / √d_k · p_c`,
//!   `logit = Σ_c s_c`, and s itself enters the edge stream;
//! * with edge features, by the scalar product as in eq. 12: `a = Σ_c q_i·k_j / √d_k`,
//!   `s_c = a·p_c`, `logit = Σ_c s_c`. Eq. 11 needs one number per head; like the published code,
//!   the engine sums over channels.
//!
//! w = exp(clamp(logit)), z_i = Σ_j w_ij, out_i = Σ_j w_ij·v_j / z_i. With edge features the
//! divisor is z + 1e-6. A node without in-edges gives 0. The clamp is −5..5, or, where exponentials
//! are clamped, at most ln 5. The gradient is 0 where it holds.
//!
//! Shapes: `qkv` `[nodes, 3·d]`; `proj`, `score` `[edges, d]` (edges in in-order); `weight`,
//! `dlogit` `[edges, heads]`; `inverse` `[nodes, heads]`; `out` `[nodes, d]`. `weight` is stored
//! negative where the clamp held.
//!
//! Backward runs in two passes: over the edges into each node (dq, the logits' gradients, dproj),
//! then over the edges out of each node (dk, dv). Both passes only gather, so no two threads write
//! to the same row. A large graph is cut into ranges of nodes with a barrier between the passes.

mod backward;
mod forward;
#[cfg(test)]
mod tests;

pub(crate) use backward::{Incoming, Outgoing, backward_in, backward_out};
pub(crate) use forward::{Forward, forward};

use super::simd::{LANES, Simd};
use crate::channels::Channels;
use crate::network::{Clamp, Gate, Network};
use crate::real::Real;

/// The variant of attention that a network computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) channels: Channels,
    /// With edge features only.
    pub(crate) gate: Option<Gate>,
    pub(crate) clamp: Clamp,
}

impl Form {
    pub(crate) fn of(network: &Network) -> Self {
        let gate = network.edge_stream.then_some(network.gate);
        Self { channels: network.channels, gate, clamp: network.clamp }
    }

    /// Width and heads with padding.
    fn sizes(&self) -> (usize, usize) {
        (self.channels.padded_width(), self.channels.padded_heads())
    }

    /// 1/√d_k.
    #[inline(always)]
    fn scale<S: Simd>(&self) -> S::V {
        S::splat(S::T::from_f64(1.0 / (self.channels.per_head() as f64).sqrt()))
    }
}

/// The edges of some consecutive nodes, the *own* ones.
///
/// Node and edge numbers are absolute. Arrays that are read at an edge's other end are *shared*:
/// they begin at `first_node` and `first_edge`, and hold every end. Arrays of own rows begin with
/// the first own node, or the first edge into it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges<'a> {
    /// `[own nodes + 1]`
    pub(crate) in_offsets: &'a [u32],
    /// Source of each edge into a node, in in-order, of the whole batch.
    pub(crate) in_src: &'a [u32],
    /// `[own nodes + 1]`
    pub(crate) out_offsets: &'a [u32],
    /// Target of each edge out of a node, of the whole batch.
    pub(crate) out_dst: &'a [u32],
    /// In-order position of each edge out of a node, of the whole batch.
    pub(crate) out_to_in: &'a [u32],
    /// The first own node.
    pub(crate) own_node: usize,
    pub(crate) first_node: usize,
    pub(crate) first_edge: usize,
    pub(crate) shared_nodes: usize,
    pub(crate) shared_edges: usize,
}

impl Edges<'_> {
    pub(crate) fn nodes(&self) -> usize {
        self.in_offsets.len() - 1
    }

    pub(crate) fn edges(&self) -> usize {
        (self.in_offsets[self.nodes()] - self.in_offsets[0]) as usize
    }

    /// Checks every index that the kernels will follow. It is done once per batch; the kernels rely
    /// on it.
    pub(crate) fn check(&self) {
        let n = self.nodes();
        assert_eq!(self.out_offsets.len(), n + 1);
        assert!(self.in_offsets.is_sorted() && self.out_offsets.is_sorted());
        let ins = self.in_offsets[0] as usize..self.in_offsets[n] as usize;
        let outs = self.out_offsets[0] as usize..self.out_offsets[n] as usize;
        let among = |values: &[u32], first: usize, count: usize| {
            values.iter().all(|&v| (v as usize).wrapping_sub(first) < count)
        };
        assert!(among(&self.in_src[ins.clone()], self.first_node, self.shared_nodes));
        assert!(among(&self.out_dst[outs.clone()], self.first_node, self.shared_nodes));
        assert!(among(&self.out_to_in[outs], self.first_edge, self.shared_edges));
        assert!(self.own_node >= self.first_node && self.own_node + n <= self.first_node + self.shared_nodes);
        assert!(ins.start >= self.first_edge && ins.end <= self.first_edge + self.shared_edges);
    }
}

/// No edge features.
const PLAIN: u8 = 0;
/// [`Gate::PerChannel`].
const CHANNEL: u8 = 1;
/// [`Gate::Scalar`].
const SCALAR: u8 = 2;

/// Calls a method with the kind of gate, the number of heads per register, and of registers per
/// row, as constants where they are usual.
macro_rules! with_shape {
    ($form:expr, $this:ident . $method:ident :: <$s:ident>()) => {{
        let channels = $form.channels;
        let shape = (channels.padded_heads().min(LANES), channels.padded_width() / LANES);
        match ($form.gate, shape) {
            (None, (8, 4)) => $this.$method::<$s, 8, 4, PLAIN>(),
            (None, (8, 5)) => $this.$method::<$s, 8, 5, PLAIN>(),
            (None, (8, _)) => $this.$method::<$s, 8, 0, PLAIN>(),
            (None, (1, _)) => $this.$method::<$s, 1, 0, PLAIN>(),
            (None, (2, _)) => $this.$method::<$s, 2, 0, PLAIN>(),
            (None, (4, _)) => $this.$method::<$s, 4, 0, PLAIN>(),
            (None, _) => $this.$method::<$s, 16, 0, PLAIN>(),
            (Some(Gate::PerChannel), (8, 4)) => $this.$method::<$s, 8, 4, CHANNEL>(),
            (Some(Gate::PerChannel), (8, 5)) => $this.$method::<$s, 8, 5, CHANNEL>(),
            (Some(Gate::PerChannel), (8, _)) => $this.$method::<$s, 8, 0, CHANNEL>(),
            (Some(Gate::PerChannel), (1, _)) => $this.$method::<$s, 1, 0, CHANNEL>(),
            (Some(Gate::PerChannel), (2, _)) => $this.$method::<$s, 2, 0, CHANNEL>(),
            (Some(Gate::PerChannel), (4, _)) => $this.$method::<$s, 4, 0, CHANNEL>(),
            (Some(Gate::PerChannel), _) => $this.$method::<$s, 16, 0, CHANNEL>(),
            (Some(Gate::Scalar), (1, _)) => $this.$method::<$s, 1, 0, SCALAR>(),
            (Some(Gate::Scalar), (2, _)) => $this.$method::<$s, 2, 0, SCALAR>(),
            (Some(Gate::Scalar), (4, _)) => $this.$method::<$s, 4, 0, SCALAR>(),
            (Some(Gate::Scalar), (8, _)) => $this.$method::<$s, 8, 0, SCALAR>(),
            (Some(Gate::Scalar), _) => $this.$method::<$s, 16, 0, SCALAR>(),
        }
    }};
}
use with_shape;

/// Most registers per row that are kept in registers; wider rows are added up in memory.
const KEPT: usize = 5;

/// Where the registers of a group of heads begin in a row.
#[inline(always)]
fn registers<const NV: usize>(d: usize, group: usize, groups: usize) -> impl Iterator<Item = usize> + Clone {
    // With a constant count the loops unroll and sums stay in registers.
    let (start, end, step) = if NV > 0 { (0, NV, 1) } else { (group, d / LANES, groups) };
    (0..(end - start).div_ceil(step)).map(move |i| (start + i * step) * LANES)
}
