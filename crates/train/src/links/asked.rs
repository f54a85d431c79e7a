//! Pairs of nodes that a network is asked about.

use gt_graph::{GraphBatch, GraphStore, TargetRows};
use gt_models::Config;
use gt_models::config::{Pairs, TaskName};
use gt_nn::cpu::Engine;

use super::is_symmetric;
use super::pairs::Pair;
use crate::error::{Result, TrainError};
use crate::task::edges_of;

/// Pairs that a network is asked about, by the batch's node numbers; where asked for in both orders, the reversed ones behind the others.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    both: bool,
    sources: Vec<u32>,
    targets: Vec<u32>,
}

impl Asked {
    /// None yet.
    pub(crate) fn new(both: bool) -> Self {
        Self { both, sources: Vec::new(), targets: Vec::new() }
    }

    /// Adds pairs of a graph, given its first node.
    pub(crate) fn extend(&mut self, first: u32, pairs: &[Pair]) {
        self.sources.extend(pairs.iter().map(|(source, _)| first + source));
        self.targets.extend(pairs.iter().map(|(_, target)| first + target));
    }

    /// No more are added.
    pub(crate) fn finish(&mut self) {
        if self.both {
            let forward = self.sources.clone();
            self.sources.extend_from_slice(&self.targets);
            self.targets.extend(forward);
        }
    }

    /// Each pair once.
    #[cfg(test)]
    pub(crate) fn list(&self) -> impl Iterator<Item = Pair> {
        let count = self.sources.len() / if self.both { 2 } else { 1 };
        self.sources[..count].iter().copied().zip(self.targets[..count].iter().copied())
    }

    /// A pass in which the engine is asked about them; what comes after it may have fewer nodes.
    pub(crate) fn ask<T>(&self, engine: &mut Engine<f32>, pass: impl FnOnce(&mut Engine<f32>) -> T) -> T {
        engine.set_pairs(Some((&self.sources, &self.targets)));
        let result = pass(engine);
        engine.set_pairs(None);
        result
    }

    /// Labels of all orders.
    pub(crate) fn labels(&self, labels: TargetRows<'_>) -> Vec<u32> {
        labels.classes().unwrap_or_default().repeat(if self.both { 2 } else { 1 })
    }

    /// One logit per pair out of those of all orders.
    pub(crate) fn merge(&self, mut outputs: Vec<f32>) -> Vec<f32> {
        if self.both {
            let (forward, backward) = outputs.split_at_mut(self.sources.len() / 2);
            forward.iter_mut().zip(backward).for_each(|(a, b)| *a = (*a + *b) / 2.0);
            outputs.truncate(self.sources.len() / 2);
        }
        outputs
    }
}

/// Whether pairs must be asked in both orders, so that scores are symmetric where links are.
pub(crate) fn both_orders(config: &Config, directed: bool) -> bool {
    !directed && config.model.pairs == Pairs::Ends
}

/// How likely a link model finds pairs of nodes of one graph to be joined: a logit each, in the order of the pairs.
///
/// Messages follow all edges of `graphs`, which must have the encoding that the model reads ([`crate::ensure_encodings`]); a task's graphs have the training
/// edges only. `config` is that of the model's file.
///
/// # Errors
/// If the model predicts something else, or there is no such graph or node.
pub fn score_pairs(
    engine: &mut Engine<f32>,
    config: &Config,
    graphs: &GraphStore,
    graph: usize,
    pairs: &[(u32, u32)],
) -> Result<Vec<f32>> {
    let fail = |message: String| Err(TrainError::Data(message));
    if config.data.task != TaskName::Links {
        return fail("the model predicts targets, not links".into());
    }
    if graph >= graphs.len() {
        return fail(format!("there is no graph {graph}; it has {}", graphs.len()));
    }
    let nodes = graphs.node_range(graph).len();
    if let Some(at) = pairs.iter().position(|&(a, b)| a.max(b) as usize >= nodes) {
        let (a, b) = pairs[at];
        return fail(format!("pair {at} is of nodes {a} and {b}, but graph {graph} has {nodes} nodes"));
    }
    let mut batch = GraphBatch::new();
    batch.assemble(graphs, &[graph]).map_err(|e| TrainError::Data(e.to_string()))?;
    let directed = config.links.directed.unwrap_or_else(|| !graphs.iter().all(is_symmetric));
    let mut asked = Asked::new(both_orders(config, directed));
    asked.extend(0, pairs);
    asked.finish();
    Ok(asked.merge(asked.ask(engine, |engine| engine.predict(&batch, edges_of(config)))))
}
