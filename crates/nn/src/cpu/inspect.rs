//! The inner values of a network in inference: its nodes after the last layer, and the attention
//! weight of every edge.

use gt_graph::GraphBatch;

use super::engine::{Engine, in_pool};
use crate::AttentionScope;
use crate::layers::Branch;
use crate::real::Real;
use crate::stream::Stream;

/// The softmax weights of a batch: `w_ij = exp(logit_ij) / Σ_j exp(logit_ij)` (eq. 5 and 11, with
/// the network's clamp). j runs over the sources of the edges into i.
///
/// The weights of the edges into a node add up to 1. With an edge stream the sum is slightly below
/// 1: the divisor is the sum of exponentials + 1e-6, as published.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention<T> {
    /// Sources of the edges that attention follows, numbered within the batch; ordered by target.
    /// `[edges]`
    pub source: Vec<u32>,
    /// Targets of the edges that attention follows, numbered within the batch. `[edges]`
    pub target: Vec<u32>,
    /// Weights of each layer. `[edges, heads]`, where the last layer of additive attention has one
    /// head.
    pub layers: Vec<Vec<T>>,
}

impl<T: Real> Engine<T> {
    /// The node stream after the last layer, normalised, in the order of files. `[nodes, width]`
    pub fn embed(&mut self, batch: &GraphBatch, edges: AttentionScope) -> Vec<T> {
        self.look(batch, edges, |_| {});
        self.hidden(self.network.layers, Stream::Node)
    }

    /// The attention weight of every edge, in every layer and head; with several branches, those of
    /// the first that has attention.
    ///
    /// # Panics
    /// If no branch weighs edges by attention; see [`BranchFacts::attends`].
    ///
    /// [`BranchFacts::attends`]: crate::BranchFacts::attends
    pub fn attention(&mut self, batch: &GraphBatch, edges: AttentionScope) -> Attention<T> {
        let attends = |branch: &Branch| branch.facts().attends;
        let number = self.network.branches.iter().position(attends).expect("a branch has attention");
        let mut layers = Vec::new();
        self.look(batch, edges, |engine| {
            layers.push(engine.network.branches[number].weights(engine, number, layers.len()));
        });
        let topology = &self.work.topology;
        let into = |node: usize| (topology.in_offsets[node + 1] - topology.in_offsets[node]) as usize;
        let target = (0..topology.nodes()).flat_map(|node| std::iter::repeat_n(node as u32, into(node))).collect();
        Attention { source: topology.in_src.clone(), target, layers }
    }

    fn look(&mut self, batch: &GraphBatch, edges: AttentionScope, attended: impl FnMut(&Self) + Send) {
        in_pool(|| {
            self.work.prepare(&self.network, batch, edges, false);
            self.work.keep_stages(&self.network);
            self.stages(false, attended);
        });
    }
}
