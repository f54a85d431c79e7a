//! Additive attention: x_i = Σ_j w_ij·z_j with z = W·h (Veličković et al. 2018). The module
//! [`kernels`] has the formula of the weights. The last layer has one head of the full width.

mod cpu;
mod kernels;

use super::{
    BranchBack, BranchFacts, BranchLayer, Combine, Declaration, EdgeUse, Kept, MOST_KEPT, MOST_PASSED, Pass, Rows,
};
use crate::cpu::activation::Activation;
use crate::cpu::engine::Engine;
use crate::cpu::workspace::PartState;
use crate::network::Network;
use crate::parameters::Init;
use crate::real::Real;
use crate::stream::Stream;

/// Additive attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gat;

impl BranchLayer for Gat {
    const FACTS: BranchFacts = BranchFacts {
        combine: Combine::SumWithNorm(Activation::Elu),
        edges: EdgeUse::Nothing,
        heads: true,
        attends: true,
        feed_forward: false,
        by_block: false,
        laplacian_name: "embedding_pos_enc",
    };

    fn declare(self, to: &mut Declaration<'_>) {
        let heads = self.heads(to.network, to.layer);
        to.matrix("gatconv.fc.weight", Init::GlorotNormal);
        // What sources and targets add to the logits.
        to.vector_of_heads("gatconv.attn_l", heads, Init::GlorotNormal);
        to.vector_of_heads("gatconv.attn_r", heads, Init::GlorotNormal);
    }

    fn norm_name(self, layered: bool, _: bool, _: Stream) -> &'static str {
        if layered { "layernorm_h" } else { "batchnorm_h" }
    }

    fn heads(self, network: &Network, layer: usize) -> usize {
        if layer + 1 == network.layers { 1 } else { network.channels.heads() }
    }

    /// Projected nodes z `[nodes, d]`, the nodes' shares of the logits, and the largest logits with
    /// the inverse divisors: `[nodes, 2 lanes]`.
    fn kept(self, network: &Network, rows: Rows) -> [usize; MOST_KEPT] {
        let lanes = rows.nodes * 2 * network.channels.lanes();
        [rows.nodes * network.channels.padded_width(), lanes, lanes, 0, 0, 0]
    }

    /// Gradients of the normalisation's input and of z, `[nodes, d]`, and of the logits,
    /// `[edges, lanes]`.
    fn passed(self, network: &Network, rows: Rows) -> [usize; MOST_PASSED] {
        let nodes = rows.nodes * network.channels.padded_width();
        [nodes, nodes, rows.edges * network.channels.lanes(), 0, 0]
    }

    fn forward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
        cpu::forward(pass, parts, kept);
    }

    fn backward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
        cpu::backward(pass, parts, back);
    }

    fn weights<T: Real>(self, engine: &Engine<T>, branch: usize, layer: usize) -> Vec<T> {
        let ([_, logits, softmax, ..], _) = engine.work.layers[0].branch(branch);
        let (heads, _) = cpu::layer_heads(&engine.network, layer);
        kernels::weights(&engine.work.topology, heads, self.heads(&engine.network, layer), logits, softmax)
    }
}
