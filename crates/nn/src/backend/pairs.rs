//! Pairs of nodes that a network over pairs scores.

use gt_graph::TargetRows;

use crate::cpu::Engine;

/// Pairs of nodes of a batch, by the batch's node numbers.
///
/// Scores of undirected links are symmetric: where `both_orders` says so, every pair is scored in
/// both orders, and its logits are averaged.
///
/// ```
/// use graph_transformer_nn::backend::PairQueries;
/// use gt_graph::TargetRows;
///
/// let pairs = PairQueries::new(true, [(0, 2), (1, 2)].into_iter());
/// assert_eq!(pairs.iter().collect::<Vec<_>>(), [(0, 2), (1, 2)]);
/// // Both orders have the labels of the pairs; a pair's logit is the mean of both orders.
/// assert_eq!(pairs.labels(TargetRows::Class(&[1, 0])), [1, 0, 1, 0]);
/// assert_eq!(pairs.merge(vec![1.0, 2.0, 3.0, 6.0]), [2.0, 4.0]);
/// ```
#[derive(Clone, Debug)]
pub struct PairQueries {
    both_orders: bool,
    sources: Vec<u32>,
    targets: Vec<u32>,
}

impl PairQueries {
    /// The queries of pairs (source, target), in their order.
    pub fn new(both_orders: bool, pairs: impl Iterator<Item = (u32, u32)>) -> Self {
        let (mut sources, mut targets): (Vec<u32>, Vec<u32>) = pairs.unzip();
        if both_orders {
            let forward = sources.clone();
            sources.extend_from_slice(&targets);
            targets.extend(forward);
        }
        Self { both_orders, sources, targets }
    }

    /// Each pair once.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.sources[..self.len()].iter().copied().zip(self.targets[..self.len()].iter().copied())
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.sources.len() / self.orders()
    }

    /// True when there is no pair.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    fn orders(&self) -> usize {
        if self.both_orders { 2 } else { 1 }
    }

    /// Lets the engine score the pairs during a pass.
    pub(super) fn during<T>(&self, engine: &mut Engine<f32>, pass: impl FnOnce(&mut Engine<f32>) -> T) -> T {
        engine.set_pairs(Some((&self.sources, &self.targets)));
        let result = pass(engine);
        // The next batch may have fewer nodes.
        engine.set_pairs(None);
        result
    }

    /// Labels of the pairs in all orders.
    pub fn labels(&self, labels: TargetRows<'_>) -> Vec<u32> {
        labels.classes().unwrap_or_default().repeat(self.orders())
    }

    /// One logit per pair, out of those of all orders.
    pub fn merge(&self, mut outputs: Vec<f32>) -> Vec<f32> {
        if self.both_orders {
            let (forward, backward) = outputs.split_at_mut(self.len());
            forward.iter_mut().zip(backward).for_each(|(a, b)| *a = (*a + *b) / 2.0);
            outputs.truncate(self.len());
        }
        outputs
    }
}
