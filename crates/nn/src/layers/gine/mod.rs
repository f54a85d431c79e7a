//! GINE, the graph isomorphism network with edge features (Hu et al. 2020, ε = 0). For every node i
//! and its edges j → i:
//!
//! * `m_i = h_i + Σ_j ReLU(h_j + e_ij)`
//! * `x_i = W₂·ReLU(W₁·m_i + b₁) + b₂`
//!
//! e_ij is the edge stream, normalised. In a network without an edge stream, it is one embedding of
//! the edges that all layers share. A node without in-edges gives m_i = h_i.
//!
//! Alone, with a feed-forward half, this is the layer of GIN+ (Luo et al. 2025). Next to attention
//! it is that of GPS (Rampášek et al. 2022), with attention over the edges.
//!
//! Shapes: h, m, x `[nodes, d]`; e `[edges, d]`, edges in in-order. Backward, with dm from the two
//! linear layers:
//!
//! * `de_ij = dm_i ⊙ [h_j + e_ij > 0]`
//! * `dh_j = dm_j + Σ_i dm_i ⊙ [h_j + e_ij > 0]`, over the edges out of j

mod cpu;
mod kernels;
#[cfg(test)]
mod tests;

use super::{
    BranchBack, BranchFacts, BranchLayer, Combine, Declaration, EdgeUse, Kept, MOST_KEPT, MOST_PASSED, Pass, Rows,
};
use crate::cpu::workspace::PartState;
use crate::network::Network;
use crate::real::Real;
use crate::stream::Stream;

/// GINE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gine;

impl BranchLayer for Gine {
    const FACTS: BranchFacts = BranchFacts {
        combine: Combine::NormOfSum,
        edges: EdgeUse::Reads,
        heads: false,
        attends: false,
        feed_forward: true,
        by_block: false,
        laplacian_name: "embedding_lap_pos_enc",
    };

    fn declare(self, to: &mut Declaration<'_>) {
        to.linear(["gine.linear1.weight", "gine.linear1.bias"]);
        to.linear(["gine.linear2.weight", "gine.linear2.bias"]);
    }

    fn norm_name(self, layered: bool, _: bool, _: Stream) -> &'static str {
        if layered { "gine.layer_norm" } else { "gine.batch_norm" }
    }

    /// The sums m, and the values behind the ReLU: `[nodes, d]`.
    fn kept(self, network: &Network, rows: Rows) -> [usize; MOST_KEPT] {
        let nodes = rows.nodes * network.channels.padded_width();
        [nodes, nodes, 0, 0, 0, 0]
    }

    /// Gradients of the normalisation's input and of the sums: `[nodes, d]`.
    fn passed(self, network: &Network, rows: Rows) -> [usize; MOST_PASSED] {
        let nodes = rows.nodes * network.channels.padded_width();
        [nodes, nodes, 0, 0, 0]
    }

    fn forward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
        cpu::forward(pass, parts, kept);
    }

    fn backward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
        cpu::backward(pass, parts, back);
    }
}
