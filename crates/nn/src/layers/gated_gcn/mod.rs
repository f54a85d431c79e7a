//! Gated messages: `x_i = A·h_i + Σ_j σ(x_ij)⊙B·h_j / Σ_j σ(x_ij)`, and the edge stream is
//! updated by `x_ij = C·e_ij + D·h_j + E·h_i` (Bresson & Laurent 2017).

mod cpu;
mod kernels;

use super::{
    BranchBack, BranchFacts, BranchLayer, Combine, Declaration, EdgeUse, Kept, MOST_KEPT, MOST_PASSED, Pass, Rows,
};
use crate::cpu::activation::Activation;
use crate::cpu::workspace::PartState;
use crate::network::Network;
use crate::real::Real;
use crate::stream::Stream;

/// Gated messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatedGcn;

impl BranchLayer for GatedGcn {
    const FACTS: BranchFacts = BranchFacts {
        combine: Combine::SumWithNorm(Activation::Relu),
        edges: EdgeUse::Required,
        heads: false,
        attends: false,
        feed_forward: false,
        by_block: false,
        laplacian_name: "embedding_pos_enc",
    };

    fn declare(self, to: &mut Declaration<'_>) {
        to.joined_linears(&[
            ["A.weight", "A.bias"],
            ["B.weight", "B.bias"],
            ["D.weight", "D.bias"],
            ["E.weight", "E.bias"],
        ]);
        to.linear(["C.weight", "C.bias"]);
    }

    fn norm_name(self, layered: bool, _: bool, stream: Stream) -> &'static str {
        match (layered, stream) {
            (false, Stream::Node) => "bn_node_h",
            (false, Stream::Edge) => "bn_node_e",
            (true, Stream::Node) => "ln_node_h",
            (true, Stream::Edge) => "ln_node_e",
        }
    }

    /// The nodes' terms A, B, D and E, `[nodes, 4d]`, and the inverse divisors, `[nodes, d]`.
    fn kept(self, network: &Network, rows: Rows) -> [usize; MOST_KEPT] {
        let nodes = rows.nodes * network.channels.padded_width();
        [4 * nodes, nodes, 0, 0, 0, 0]
    }

    /// Gradients of the normalisation's input, `[nodes, d]`, and of the terms, `[nodes, 4d]`.
    fn passed(self, network: &Network, rows: Rows) -> [usize; MOST_PASSED] {
        let nodes = rows.nodes * network.channels.padded_width();
        [nodes, 4 * nodes, 0, 0, 0]
    }

    fn forward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
        cpu::forward(pass, parts, kept);
    }

    fn backward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
        cpu::backward(pass, parts, back);
    }
}
