//! The inner values of a network in inference: its nodes after the last layer, and the attention
//! weight of every edge.

use gt_graph::GraphBatch;

use super::engine::{Engine, in_pool};
use crate::AttentionScope;
use crate::Stream;
use crate::network::LayerKind;
use crate::real::Real;

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

    /// The attention weight of every edge, in every layer and head.
    ///
    /// # Panics
    /// If the layers do not weigh edges by attention: convolutions, and gated layers.
    pub fn attention(&mut self, batch: &GraphBatch, edges: AttentionScope) -> Attention<T> {
        assert!(self.network.attends(), "{:?} has no attention", self.network.kind);
        let mut layers = Vec::new();
        self.look(batch, edges, |engine| {
            let weights = match engine.network.kind {
                LayerKind::AdditiveAttention => engine.additive_weights(layers.len()),
                _ => engine.attention_weights(),
            };
            layers.push(weights);
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

    /// Weights of the layer whose attention has just run. `[edges, heads]`
    fn attention_weights(&self) -> Vec<T> {
        let channels = self.network.channels;
        let (heads, padded) = (channels.heads(), channels.padded_heads());
        let (arrays, topology) = (self.work.layers[0].arrays(), &self.work.topology);
        let mut weights = Vec::with_capacity(topology.edges() * heads);
        for node in 0..topology.nodes() {
            let inverse = &arrays.inverse[node * padded..][..heads];
            for edge in topology.in_offsets[node]..topology.in_offsets[node + 1] {
                let exponentials = &arrays.weight[edge as usize * padded..][..heads];
                // The sign says whether the clamp held.
                weights.extend(exponentials.iter().zip(inverse).map(|(&w, &inverse)| w.abs() * inverse));
            }
        }
        weights
    }
}
