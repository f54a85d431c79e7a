//! Graph convolution: x_i = W·m_i + b, with sums m over the edges j → i (Kipf & Welling 2017):
//! m_i = Σ_j h_j/√(deg⁻_i·deg⁺_j), or the mean m_i = Σ_j h_j/deg⁻_i.

mod cpu;
mod gather;

use super::{
    BranchBack, BranchFacts, BranchLayer, Combine, Declaration, EdgeUse, Kept, MOST_KEPT, MOST_PASSED, Pass, Rows,
};
use crate::cpu::activation::Activation;
use crate::cpu::workspace::PartState;
use crate::network::Network;
use crate::parameters::Init;
use crate::real::Real;
use crate::stream::Stream;

/// Graph convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gcn {
    /// Whether neighbours are averaged.
    pub(super) mean: bool,
}

impl BranchLayer for Gcn {
    const FACTS: BranchFacts = BranchFacts {
        combine: Combine::SumWithNorm(Activation::Relu),
        edges: EdgeUse::Nothing,
        heads: false,
        attends: false,
        feed_forward: false,
        by_block: false,
        laplacian_name: "embedding_pos_enc",
    };

    fn declare(self, to: &mut Declaration<'_>) {
        // The benchmark draws the convolution by Glorot's rule, and means as a linear layer.
        let [weight, bias] = if self.mean { [Init::Linear; 2] } else { [Init::Glorot, Init::Zero] };
        // Both may be branches of one layer.
        let names = match self.mean && to.network.branches.len() > 1 {
            true => ["conv_mean.weight", "conv_mean.bias"],
            false => ["conv.weight", "conv.bias"],
        };
        to.matrix_in_out(names[0], weight);
        to.vector(names[1], bias);
    }

    fn norm_name(self, layered: bool, _: bool, _: Stream) -> &'static str {
        if layered { "layernorm_h" } else { "batchnorm_h" }
    }

    /// The sums m: `[nodes, d]`.
    fn kept(self, network: &Network, rows: Rows) -> [usize; MOST_KEPT] {
        [rows.nodes * network.channels.padded_width(), 0, 0, 0, 0, 0]
    }

    /// Gradients of the normalisation's input and of the sums: `[nodes, d]`.
    fn passed(self, network: &Network, rows: Rows) -> [usize; MOST_PASSED] {
        let nodes = rows.nodes * network.channels.padded_width();
        [nodes, nodes, 0, 0, 0]
    }

    fn forward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
        cpu::forward(self.mean, pass, parts, kept);
    }

    fn backward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
        cpu::backward(self, pass, parts, back);
    }
}
