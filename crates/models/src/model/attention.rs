//! The weight of every edge of a graph in the attention of a model.

use gt_graph::{GraphBatch, GraphStore};
use gt_nn::AttentionScope;
use gt_nn::cpu::{Engine, Isa};

use super::{Model, ModelError};

/// The attention of one graph.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphAttention {
    /// Number of nodes.
    pub nodes: usize,
    /// Source and target of every edge that attention follows: those of the data, in its order, or
    /// all ordered pairs of nodes, by target.
    pub edges: Vec<(usize, usize)>,
    /// Heads of each layer.
    pub heads: Vec<usize>,
    /// Softmax weights of each layer; those of the edges into a node add up to 1. `[edges, heads]`
    pub layers: Vec<Vec<f32>>,
}

impl GraphAttention {
    /// Weights of a layer and a head, or of the mean over heads, by edge. Layers and heads count
    /// from 0.
    ///
    /// # Panics
    /// If there is no such layer or head.
    pub fn weights(&self, layer: usize, head: Option<usize>) -> Vec<f32> {
        let of = |row: &[f32]| match head {
            Some(head) => row[head],
            None => row.iter().sum::<f32>() / row.len() as f32,
        };
        self.layers[layer].chunks_exact(self.heads[layer]).map(of).collect()
    }
}

impl Model {
    /// The attention of one graph, in inference. Graphs without the encoding that the model reads
    /// get it.
    ///
    /// # Errors
    /// If there is no such graph, the model does not know one of its values, or has no attention.
    pub fn attention(&self, graphs: &GraphStore, graph: usize) -> Result<GraphAttention, ModelError> {
        if graph >= graphs.len() {
            return Err(ModelError::NoGraph { graph, graphs: graphs.len() });
        }
        let network = self.network();
        if network.attending_branch().is_none() {
            return Err(ModelError::NoAttention);
        }
        self.check(graphs)?;
        let graphs = self.scaled(self.encoded(graphs)?);
        let mut engine = Engine::<f32>::new(network.clone(), Isa::detect());
        engine.load(&self.weights);
        let heads: Vec<usize> = (0..network.layers).map(|layer| network.heads(layer)).collect();
        let mut batch = GraphBatch::new();
        batch.assemble(&graphs, &[graph])?;
        let found = engine.attention(&batch, self.scope());
        let ends = |at: usize| (found.source[at] as usize, found.target[at] as usize);
        let mut order: Vec<usize> = (0..found.source.len()).collect();
        if self.scope() == AttentionScope::Sparse {
            order.sort_by_key(|&edge| batch.in_to_list()[edge]);
        }
        let listed = |(weights, &heads): (&Vec<f32>, &usize)| -> Vec<f32> {
            order.iter().flat_map(|at| &weights[at * heads..(at + 1) * heads]).copied().collect()
        };
        Ok(GraphAttention {
            nodes: graphs.node_range(graph).len(),
            edges: order.iter().map(|&at| ends(at)).collect(),
            layers: found.layers.iter().zip(&heads).map(listed).collect(),
            heads,
        })
    }
}
