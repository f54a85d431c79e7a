//! Link prediction: which pairs of nodes are joined.
//!
//! The edges (without loops) are divided into three splits. Both directions of an edge are in the
//! same split. Messages and encodings follow the training split only: no graph that the network
//! sees contains a held-out link. The score of a split compares its links with pairs without an
//! edge, `links.negatives` for each link. These pairs are drawn once from `data.split_seed`.
//!
//! A training step takes a share `links.hidden` of its training edges out of the graphs, predicts
//! them, and draws fresh pairs without an edge. Encodings still know the removed edges. Scores of
//! undirected links are symmetric: they come from the product of the end nodes. With
//! `model.pairs = "ends"`, each pair is scored in both orders and its logits are averaged.

mod pairs;
mod table;
#[cfg(test)]
mod tests;

pub use table::{PairRows, predict_pairs};

use gt_data::{Dataset, RandomStream};
use gt_graph::encoding::Encodings;
use gt_graph::{GraphError, GraphRef, GraphStore, Level, Split};
use gt_models::{Config, is_directed, scores_both_orders};
use gt_nn::backend::{Labels, PairQueries, PreparedBatch};

use crate::error::{DataProblem, Result};
use crate::prepared::draw_split;
use pairs::{Pair, PairLists, ascending, draw_non_edges};

const DOMAIN_FIXED: u8 = 35;

/// The links of a data set, in splits.
#[derive(Clone, Debug)]
pub struct Links {
    directed: bool,
    /// Whether pairs are scored in both orders.
    both: bool,
    negatives: usize,
    hidden: f64,
    /// The links of all splits, ascending.
    known: PairLists,
    /// The links of each split.
    joined: [PairLists; 3],
    /// For each split the pairs without an edge that its links are scored against.
    apart: [PairLists; 3],
    drops_encodings: bool,
}

impl Links {
    /// Divides the edges of a data set. Also returns the graphs without the edges that are held
    /// out.
    pub(crate) fn new(dataset: Dataset, config: &Config) -> Result<(Self, GraphStore)> {
        let divided = match dataset.split().filter(|splits| splits.level == Level::Edge) {
            Some(splits) => splits.clone(),
            None => draw_split(&dataset, config, Level::Edge)?,
        };
        let mut graphs = dataset.into_graphs();
        let directed = config.links.directed.unwrap_or_else(|| is_directed(&graphs));
        let (mut known, mut held_out) = (PairLists::new(), Vec::new());
        let mut joined = [(); 3].map(|()| PairLists::new());
        for (id, graph) in graphs.iter().enumerate() {
            let splits = graphs.edge_range(id).map(|edge| divided.name(edge));
            let mut links: Vec<(Pair, &str)> = ends(graph).zip(splits).filter(|((a, b), _)| a != b).collect();
            let away = links.iter().filter(|(_, of)| *of != Split::Train.name());
            held_out.push(sorted(away.map(|(pair, _)| ascending(*pair))));
            if !directed {
                links.iter_mut().for_each(|(pair, _)| *pair = ascending(*pair));
            }
            links.sort_unstable();
            links.dedup();
            if let Some(two) = links.windows(2).find(|two| two[0].0 == two[1].0) {
                let ((a, b), first, second) = (two[0].0, two[0].1.to_owned(), two[1].1.to_owned());
                return Err(DataProblem::DividedLink { graph: id, a, b, first, second }.into());
            }
            known.push(links.iter().map(|(pair, _)| *pair));
            for (split, lists) in Split::ALL.iter().zip(&mut joined) {
                lists.push(links.iter().filter(|(_, of)| *of == split.name()).map(|(pair, _)| *pair));
            }
        }
        let negatives = config.links.negatives;
        let apart = Split::ALL.map(|split| {
            let mut random = RandomStream::new(config.data.split_seed, DOMAIN_FIXED, split as u64);
            let mut lists = PairLists::new();
            for (id, graph) in graphs.iter().enumerate() {
                let count = negatives * joined[split as usize].of(id).len();
                lists.push(draw_non_edges(graph.num_nodes(), directed, known.of(id), count, &mut random));
            }
            lists
        });
        for split in [Split::Train, Split::Val] {
            if joined[split as usize].len() > 0 && apart[split as usize].len() == 0 {
                return Err(DataProblem::AllJoined(split).into());
            }
        }
        // Encodings of the file know every edge.
        let drops_encodings = !graphs.encodings().is_empty();
        graphs.set_encodings(Encodings::default())?;
        graphs.retain_edges(|graph, _, pair| held_out[graph].binary_search(&ascending(pair)).is_err());
        let (both, hidden) = (scores_both_orders(config, directed), config.links.hidden);
        Ok((Self { directed, both, negatives, hidden, known, joined, apart, drops_encodings }, graphs))
    }

    /// Whether u→v and v→u are different links.
    pub fn directed(&self) -> bool {
        self.directed
    }

    /// `directed` or `undirected`.
    pub fn kind(&self) -> &'static str {
        if self.directed { "directed" } else { "undirected" }
    }

    /// Whether the data had encodings, which know the links that are held out and so are not used.
    pub fn drops_encodings(&self) -> bool {
        self.drops_encodings
    }

    /// Number of links of a split.
    pub fn count(&self, split: Split) -> usize {
        self.joined[split as usize].len()
    }

    /// Links of a split in a graph, and the pairs without an edge that they are scored against.
    pub fn pairs(&self, split: Split, graph: usize) -> [&[(u32, u32)]; 2] {
        [&self.joined, &self.apart].map(|lists| lists[split as usize].of(graph))
    }

    /// Pairs of a graph that a pass over a split scores, at most; each order counts.
    pub(crate) fn scored(&self, split: Split, graph: usize) -> usize {
        let [joined, apart] = self.pairs(split, graph).map(<[_]>::len);
        (joined + apart) * if self.both { 2 } else { 1 }
    }

    /// Graphs that have a link in a split.
    pub(crate) fn graphs_of(&self, split: Split, graphs: usize) -> Vec<usize> {
        (0..graphs).filter(|&graph| !self.joined[split as usize].of(graph).is_empty()).collect()
    }

    /// Fills a batch with some graphs and the pairs of a split; with those of a training step,
    /// where there is a stream to draw them from.
    pub(crate) fn fill(
        &self,
        graphs: &GraphStore,
        split: Split,
        ids: &[usize],
        random: Option<RandomStream>,
        batch: &mut PreparedBatch,
    ) -> Result<(), GraphError> {
        let training = random.is_some();
        let split = split as usize;
        let (joined, apart) = match random {
            None => {
                let of = |lists: &PairLists| ids.iter().map(|&id| lists.of(id).to_vec()).collect::<Vec<_>>();
                (of(&self.joined[split]), of(&self.apart[split]))
            }
            Some(mut random) => {
                let joined = self.draw_links(split, ids, &mut random);
                let apart = ids.iter().zip(&joined).map(|(&id, joined)| {
                    let (nodes, count) = (graphs.node_range(id).len(), self.negatives * joined.len());
                    draw_non_edges(nodes, self.directed, self.known.of(id), count, &mut random)
                });
                let apart = apart.collect();
                (joined, apart)
            }
        };
        if training && self.hidden > 0.0 {
            batch.graphs.assemble(&without(graphs, ids, &joined), &(0..ids.len()).collect::<Vec<_>>())?;
        } else {
            batch.graphs.assemble(graphs, ids)?;
        }
        let (mut pairs, mut labels) = (Vec::new(), Vec::new());
        for (position, (joined, apart)) in joined.iter().zip(&apart).enumerate() {
            let first = batch.graphs.nodes_of(position).start as u32;
            for (some, label) in [(joined, 1), (apart, 0)] {
                pairs.extend(some.iter().map(|(source, target)| (first + source, first + target)));
                labels.resize(pairs.len(), label);
            }
        }
        batch.pairs = Some(PairQueries::new(self.both, pairs.into_iter()));
        batch.labels = Labels::Class(labels);
        Ok(())
    }

    /// The links of some graphs that a training step scores.
    fn draw_links(&self, split: usize, ids: &[usize], random: &mut RandomStream) -> Vec<Vec<Pair>> {
        let all = ids.iter().map(|&id| self.joined[split].of(id));
        if self.hidden == 0.0 {
            return all.map(<[Pair]>::to_vec).collect();
        }
        let mut links: Vec<(usize, Pair)> =
            all.enumerate().flat_map(|(place, pairs)| pairs.iter().map(move |pair| (place, *pair))).collect();
        random.shuffle(&mut links);
        links.truncate((self.hidden * links.len() as f64).ceil() as usize);
        let mut drawn = vec![Vec::new(); ids.len()];
        links.into_iter().for_each(|(place, pair)| drawn[place].push(pair));
        drawn
    }
}

/// Some graphs without some of their edges, in both directions.
fn without(graphs: &GraphStore, ids: &[usize], pairs: &[Vec<Pair>]) -> GraphStore {
    let gone: Vec<Vec<Pair>> = pairs.iter().map(|pairs| sorted(pairs.iter().copied().map(ascending))).collect();
    graphs.with_edges(ids, |place, edge| {
        let graph = graphs.graph(ids[place]);
        gone[place].binary_search(&ascending((graph.src()[edge], graph.dst()[edge]))).is_err()
    })
}

/// Source and target of every edge, in the order of the list.
pub(crate) fn ends(graph: GraphRef<'_>) -> impl Iterator<Item = Pair> + Clone {
    graph.src().iter().copied().zip(graph.dst().iter().copied())
}

fn sorted(pairs: impl Iterator<Item = Pair>) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = pairs.collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}
