//! How much every edge of one graph weighs in the attention of a trained model.

use gt_graph::{GraphBatch, Level};
use gt_nn::cpu::{Edges, Engine};

use crate::error::{Result, TrainError};
use crate::inputs::Inputs;

/// The attention of one graph.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphAttention {
    /// Number of nodes.
    pub nodes: usize,
    /// Source and target of every edge that attention follows: those of the data, in its order, or all ordered pairs of nodes, by target.
    pub edges: Vec<(usize, usize)>,
    /// Heads of each layer.
    pub heads: Vec<usize>,
    /// Softmax weights of each layer; those of the edges into a node add up to 1. `[edges, heads]`
    pub layers: Vec<Vec<f32>>,
}

impl GraphAttention {
    /// Weights of a layer and a head, or of the mean over heads, by edge. Layers and heads count from 0.
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

/// The attention of a graph, in inference.
///
/// # Errors
/// If there is no such graph, the model cannot take it, or it has no attention.
pub fn attention(engine: &mut Engine<f32>, inputs: &Inputs, graph: usize) -> Result<GraphAttention> {
    let graphs = inputs.graphs();
    if graph >= graphs.len() {
        let count = graphs.len();
        return Err(TrainError::Data(format!("there is no graph {graph}; there are {count}, counted from 0")));
    }
    if let Some(reason) = inputs.unusable().get(&graph) {
        return Err(TrainError::Data(format!("graph {graph}: {reason}")));
    }
    let network = engine.network();
    if !network.attends() {
        return Err(TrainError::Data(
            "the model's layers do not weigh edges by attention, so there is none to show".into(),
        ));
    }
    let heads: Vec<usize> = (0..network.layers).map(|layer| network.heads(layer)).collect();
    let mut batch = GraphBatch::new();
    batch.assemble(graphs, &[graph]).map_err(|e| TrainError::Data(e.to_string()))?;
    let found = engine.attention(&batch, inputs.edges());
    let ends = |at: usize| (found.source[at] as usize, found.target[at] as usize);
    let mut order: Vec<usize> = (0..found.source.len()).collect();
    if inputs.edges() == Edges::Sparse {
        order.sort_by_key(|&edge| batch.in_to_list()[edge]);
    }
    let listed = |(weights, &heads): (&Vec<f32>, &usize)| -> Vec<f32> {
        order.iter().flat_map(|at| &weights[at * heads..(at + 1) * heads]).copied().collect()
    };
    Ok(GraphAttention {
        nodes: graphs.row_range(Level::Node, graph).len(),
        edges: order.iter().map(|&at| ends(at)).collect(),
        layers: found.layers.iter().zip(&heads).map(listed).collect(),
        heads,
    })
}
