//! The layers: what they sum up (*branches*), and the feed-forward half behind the sum.
//!
//! ```text
//! u = Σ_b combine_b(h, norm_b, x_b)      x_b = branch_b(h, e)
//! h ← norm(u + W₂·act(W₁·u + b₁) + b₂)   or, without a feed-forward half, h ← u
//! ```
//!
//! The edge stream has the same form; the sum runs over the branches that update it. See
//! [`Combine`] for the two forms of a branch's term.
//!
//! A branch is a folder here. It owns its formula, parameters with their published names, the
//! arrays that it keeps for its backward pass, its code for CPUs, and tests. This file lists the
//! branches. Outside of its folder, a new branch changes only this file of the engine. The branch
//! adds a variant of [`Branch`] with its name, its place in [`Branch::ALL`], and a line in
//! [`with_branch`].

mod attention;
mod combine;
mod declaration;
mod feed_forward;
mod gat;
mod gated_gcn;
mod gcn;
mod gine;
mod pass;
mod steps;

pub(crate) use attention::AttentionRegions;
pub(crate) use attention::cpu::{Attended, Stage};
pub(crate) use combine::{LayerRows, OfBranches};
pub(crate) use declaration::Declaration;
pub(crate) use pass::{Between, BranchBack, Kept, Pass};
pub(crate) use steps::{backward, forward};

use crate::cpu::activation::Activation;
use crate::cpu::engine::Engine;
use crate::cpu::workspace::PartState;
use crate::network::Network;
use crate::real::Real;
use crate::stream::Stream;

/// What a layer sums up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Branch {
    /// Attention by scaled products of queries and keys (Dwivedi & Bresson 2021).
    Attention,
    /// A weighted sum of neighbours, x_i = W·Σ_j h_j/√(deg_i·deg_j) + b (Kipf & Welling 2017).
    Gcn,
    /// The mean of neighbours, x_i = W·(Σ_j h_j)/deg_i + b: a convolution as benchmarks had it
    /// before.
    GcnMean,
    /// Attention by added logits, x_i = Σ_j softmax_j(leaky(a·z_j + b·z_i))·z_j with z = W·h
    /// (Veličković et al. 2018). The last layer has one head of the full width.
    Gat,
    /// Messages gated channel by channel by an edge stream (Bresson & Laurent 2017):
    /// `x_i = A·h_i + Σ_j σ(x_ij)⊙B·h_j / Σ_j σ(x_ij)` with `x_ij = C·e_ij + D·h_j + E·h_i`.
    GatedGcn,
    /// Isomorphism layers with edge features (Hu et al. 2020):
    /// `x_i = W₂·ReLU(W₁·(h_i + Σ_j ReLU(h_j + e_ij)) + b₁) + b₂`.
    Gine,
}

/// Evaluates an expression with the implementation of a branch.
macro_rules! with_branch {
    ($branch:expr, $of:ident => $body:expr) => {
        match $branch {
            Branch::Attention => {
                let $of = attention::Attention;
                $body
            }
            Branch::Gcn => {
                let $of = gcn::Gcn { mean: false };
                $body
            }
            Branch::GcnMean => {
                let $of = gcn::Gcn { mean: true };
                $body
            }
            Branch::Gat => {
                let $of = gat::Gat;
                $body
            }
            Branch::GatedGcn => {
                let $of = gated_gcn::GatedGcn;
                $body
            }
            Branch::Gine => {
                let $of = gine::Gine;
                $body
            }
        }
    };
}

/// How a branch enters the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// norm(h + drop(x)), as in the Transformer. The branch itself drops and adds h.
    NormOfSum,
    /// drop(h + act(norm(x))), as in the networks of the benchmark.
    SumWithNorm(Activation),
}

/// What a branch does with the edge stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeUse {
    /// It ignores edges' features.
    Nothing,
    /// It reads the edge stream; where there is none, the embedded edges, which all layers share.
    Reads,
    /// It reads and updates the edge stream if there is one.
    Optional,
    /// It reads and updates the edge stream, and cannot do without.
    Required,
}

/// What the engine and configurations need to know about a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchFacts {
    /// How it enters the sum.
    pub combine: Combine,
    /// What it does with the edge stream.
    pub edges: EdgeUse,
    /// Whether its channels are divided into heads.
    pub heads: bool,
    /// Whether it weighs edges by a softmax.
    pub attends: bool,
    /// Whether a feed-forward half usually follows it.
    pub feed_forward: bool,
    /// Whether a plan of whole graphs runs it block by block, from the stream before its
    /// normalisation. Other branches read the layer's normalised input of the whole batch.
    pub(crate) by_block: bool,
    /// Published name of the Laplacian encoding's layer in networks that begin with the branch.
    pub laplacian_name: &'static str,
}

/// Rows of a batch or block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) nodes: usize,
    pub(crate) edges: usize,
    /// Rows of the edge stream: `edges`, or 0 without a stream.
    pub(crate) stream_edges: usize,
}

/// Most branches of a layer: each of them once.
pub(crate) const MOST_BRANCHES: usize = Branch::ALL.len();
/// Most arrays that a branch keeps for its backward pass.
pub(crate) const MOST_KEPT: usize = 6;
/// Most arrays of gradients that a branch passes from one part of its backward pass to the next.
pub(crate) const MOST_PASSED: usize = 5;

/// The implementation of a branch.
pub(crate) trait BranchLayer: Copy + Sync {
    /// What others need to know about it.
    const FACTS: BranchFacts;

    /// Declares the parameters that both streams' outputs depend on.
    fn declare(self, to: &mut Declaration<'_>);

    /// Declares the parameters that only one stream's output depends on.
    fn declare_output(self, _to: &mut Declaration<'_>, _stream: Stream) {}

    /// The published name of its normalisation in a layer without other branches, such as
    /// `batch_norm1_h`. `layered` says whether it is a layer normalisation.
    fn norm_name(self, layered: bool, edge_stream: bool, stream: Stream) -> &'static str;

    /// Heads of a layer.
    fn heads(self, network: &Network, _layer: usize) -> usize {
        network.channels.heads()
    }

    /// Lengths of the arrays that it keeps for its backward pass. The input of its normalisation is
    /// not among them.
    fn kept(self, network: &Network, rows: Rows) -> [usize; MOST_KEPT];

    /// Lengths of the arrays of gradients between the parts of its backward pass.
    fn passed(self, network: &Network, rows: Rows) -> [usize; MOST_PASSED];

    /// Computes the input of its normalisation, and adds it to the parts' moments.
    fn forward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>);

    /// Turns the gradient of the layer's output into that of its input, in place, and adds the
    /// gradients of its parameters.
    fn backward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>);

    /// The attention weights of a layer that has just run in inference. `[edges, heads]`
    fn weights<T: Real>(self, _engine: &Engine<T>, _branch: usize, _layer: usize) -> Vec<T> {
        panic!("the branch has no attention")
    }
}

impl Branch {
    /// All branches.
    pub const ALL: [Self; 6] = [Self::Attention, Self::Gcn, Self::GcnMean, Self::Gat, Self::GatedGcn, Self::Gine];

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Gcn => "gcn",
            Self::GcnMean => "gcn-mean",
            Self::Gat => "gat",
            Self::GatedGcn => "gatedgcn",
            Self::Gine => "gine",
        }
    }

    /// The names of [`Branch::ALL`] in configurations.
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

    /// What the engine and configurations need to know about the branch.
    pub fn facts(self) -> BranchFacts {
        fn of<B: BranchLayer>(_: B) -> BranchFacts {
            B::FACTS
        }
        with_branch!(self, branch => of(branch))
    }

    /// Whether the branch cannot do without an edge stream.
    pub fn needs_edge_stream(self) -> bool {
        self.facts().edges == EdgeUse::Required
    }

    /// Whether the branch updates the edge stream of a network.
    pub(crate) fn updates_edges(self, network: &Network) -> bool {
        network.edge_stream && matches!(self.facts().edges, EdgeUse::Optional | EdgeUse::Required)
    }

    /// Heads of a layer.
    pub(crate) fn heads(self, network: &Network, layer: usize) -> usize {
        with_branch!(self, branch => branch.heads(network, layer))
    }

    /// The name of the branch's normalisation within a layer: as published, such as
    /// `batch_norm1_h`, or in a layer of several branches such as `gat.batch_norm`.
    pub fn norm_name(self, network: &Network, stream: Stream) -> String {
        let layered = network.norm == crate::Norm::Layer;
        if network.branches.len() == 1 {
            return with_branch!(self, branch => branch.norm_name(layered, network.edge_stream, stream)).into();
        }
        let suffix = if stream == Stream::Edge { "_e" } else { "" };
        format!("{}.{}_norm{suffix}", self.name(), if layered { "layer" } else { "batch" })
    }

    pub(crate) fn declare(self, to: &mut Declaration<'_>) {
        with_branch!(self, branch => branch.declare(to));
    }

    pub(crate) fn declare_output(self, to: &mut Declaration<'_>, stream: Stream) {
        with_branch!(self, branch => branch.declare_output(to, stream));
    }

    pub(crate) fn kept(self, network: &Network, rows: Rows) -> [usize; MOST_KEPT] {
        with_branch!(self, branch => branch.kept(network, rows))
    }

    pub(crate) fn passed(self, network: &Network, rows: Rows) -> [usize; MOST_PASSED] {
        with_branch!(self, branch => branch.passed(network, rows))
    }

    fn forward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
        with_branch!(self, branch => branch.forward(pass, parts, kept));
    }

    fn backward<T: Real>(self, pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
        with_branch!(self, branch => branch.backward(pass, parts, back));
    }

    /// The attention weights of a layer that has just run in inference. `[edges, heads]`
    pub(crate) fn weights<T: Real>(self, engine: &Engine<T>, branch: usize, layer: usize) -> Vec<T> {
        with_branch!(self, of => of.weights(engine, branch, layer))
    }
}

impl Network {
    /// Whether branches read embedded edges that no layer updates.
    pub fn shares_edges(&self) -> bool {
        !self.edge_stream && self.branches.iter().any(|branch| branch.facts().edges == EdgeUse::Reads)
    }

    /// Whether edges are embedded: for a stream of their own, or shared by all layers.
    pub fn embeds_edges(&self) -> bool {
        self.edge_stream || self.shares_edges()
    }

    /// The layer's input before the branches' normalisations, of whole batches, is kept normalised
    /// for the branches that read it so.
    pub(crate) fn keeps_inputs(&self) -> bool {
        self.normalises_late() && self.branches.iter().any(|branch| !branch.facts().by_block)
    }

    /// Whether inference sends a block of whole graphs through all layers while it is in cache.
    pub(crate) fn runs_by_block(&self) -> bool {
        self.feed_forward && self.branches.len() == 1 && self.branches[0].facts().by_block
    }
}
