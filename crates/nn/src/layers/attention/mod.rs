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

pub(super) mod cpu;

use super::{
    BranchBack, BranchFacts, BranchLayer, Combine, Declaration, EdgeUse, Kept, MOST_KEPT, MOST_PASSED, Pass, Rows,
};
use crate::cpu::engine::Engine;
use crate::cpu::workspace::PartState;
use crate::network::Network;
use crate::parameters::{Affine, BranchRegions, Init, Region};
use crate::real::Real;
use crate::stream::{Pair, Stream};

/// Attention by scaled products of queries and keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention;

/// The parameters of a layer's attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionRegions {
    /// Queries, keys and values.
    pub(crate) qkv: Region,
    /// Projection of the edge stream; empty without a stream.
    pub(crate) projection: Region,
    /// Output layers.
    pub(crate) output: Pair<Affine>,
}

impl From<&BranchRegions> for AttentionRegions {
    fn from(of: &BranchRegions) -> Self {
        let output = Pair { node: of.linear(2), edge: of.linear(4) };
        Self { qkv: of.regions[0], projection: of.regions[1], output }
    }
}

impl BranchLayer for Attention {
    const FACTS: BranchFacts = BranchFacts {
        combine: Combine::NormOfSum,
        edges: EdgeUse::Optional,
        heads: true,
        attends: true,
        feed_forward: true,
        by_block: true,
        laplacian_name: "embedding_lap_pos_enc",
    };

    fn declare(self, to: &mut Declaration<'_>) {
        to.joined_matrices(&["attention.Q.weight", "attention.K.weight", "attention.V.weight"]);
        match to.network.edge_stream {
            true => to.matrix("attention.proj_e.weight", Init::Linear),
            false => to.nothing(),
        }
    }

    fn declare_output(self, to: &mut Declaration<'_>, stream: Stream) {
        to.linear(match (to.network.edge_stream, stream) {
            (false, _) => ["O.weight", "O.bias"],
            (true, Stream::Node) => ["O_h.weight", "O_h.bias"],
            (true, Stream::Edge) => ["O_e.weight", "O_e.bias"],
        });
    }

    fn norm_name(self, layered: bool, edge_stream: bool, stream: Stream) -> &'static str {
        match (layered, edge_stream, stream) {
            (false, false, _) => "batch_norm1",
            (false, true, Stream::Node) => "batch_norm1_h",
            (false, true, Stream::Edge) => "batch_norm1_e",
            (true, false, _) => "layer_norm1",
            (true, true, Stream::Node) => "layer_norm1_h",
            (true, true, Stream::Edge) => "layer_norm1_e",
        }
    }

    /// * queries, keys and values: `[nodes, 3d]`
    /// * weights: `[edges, heads]`, and their inverse divisors: `[nodes, heads]`
    /// * projected edges: `[edges, d]`
    /// * inputs of the output layers, after dropout: attended values, `[nodes, d]`, and scores,
    ///   `[edges, d]`
    fn kept(self, network: &Network, rows: Rows) -> [usize; MOST_KEPT] {
        let (d, h) = (network.channels.padded_width(), network.channels.padded_heads());
        let (nodes, edges) = (rows.nodes * d, rows.stream_edges * d);
        [3 * nodes, rows.edges * h, rows.nodes * h, edges, nodes, edges]
    }

    /// Gradients of:
    ///
    /// * the normalisation's input, and the attended values: `[nodes, d]`
    /// * queries, keys and values: `[nodes, 3d]`
    /// * the logits: `[edges, heads]`
    /// * the scores: `[edges, d]`
    fn passed(self, network: &Network, rows: Rows) -> [usize; MOST_PASSED] {
        let (d, h) = (network.channels.padded_width(), network.channels.padded_heads());
        let nodes = rows.nodes * d;
        [nodes, nodes, 3 * nodes, rows.edges * h, rows.stream_edges * d]
    }

    fn forward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
        cpu::forward_pass(pass, parts, kept);
    }

    fn backward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
        cpu::backward_pass(pass, parts, back);
    }

    fn weights<T: Real>(self, engine: &Engine<T>, branch: usize, _layer: usize) -> Vec<T> {
        cpu::weights(engine, branch)
    }
}
