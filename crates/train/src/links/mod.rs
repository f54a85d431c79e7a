//! Link prediction: which pairs of nodes are joined.
//!
//! The edges (without loops) are divided into three parts, both directions of an edge always into the same one. Messages and encodings follow the training
//! part only: what is held out is in no graph that the network sees. A part's score is that of its links against as many pairs without any edge, `links.negatives`
//! for each link, which are drawn once from `data.split_seed`. A training step draws its own: a share `links.hidden` of its graphs' training edges, which it takes out of
//! the graphs (encodings still know them), and fresh pairs without an edge. Scores of undirected links are symmetric: they come from the product
//! of the end nodes, or, with `model.pairs = "ends"`, from both orders of a pair, whose logits are averaged.

mod asked;
mod pairs;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use asked::Asked;
pub use asked::score_pairs;
pub use table::{PairInputs, predict_pairs};

use gt_data::{Dataset, RandomStream};
use gt_graph::encoding::Encodings;
use gt_graph::{GraphRef, GraphStore, Level};
use gt_models::Config;

use crate::batches::{Labels, Ready};
use crate::error::{Result, TrainError};
use crate::task::{Part, new_split};
use pairs::{Pair, PairLists, ascending, draw_non_edges};

const DOMAIN_FIXED: u8 = 35;

/// The links of a data set, in parts.
#[derive(Clone, Debug)]
pub struct Links {
    directed: bool,
    /// Whether pairs are asked in both orders.
    both: bool,
    negatives: usize,
    hidden: f64,
    /// All of them, whatever their part, ascending.
    known: PairLists,
    /// By part.
    joined: [PairLists; 3],
    /// By part, for evaluation.
    apart: [PairLists; 3],
}

impl Links {
    /// Divides the edges of a data set; also gives the graphs that are left to see.
    pub(crate) fn new(dataset: &Dataset, config: &Config) -> Result<(Self, GraphStore)> {
        let graphs = dataset.graphs();
        let split = match dataset.split().filter(|split| split.level == Level::Edge) {
            Some(split) => split.clone(),
            None => new_split(dataset, config, Level::Edge)?,
        };
        let directed = config.links.directed.unwrap_or_else(|| !graphs.iter().all(is_symmetric));
        let (mut known, mut held_out) = (PairLists::new(), Vec::new());
        let mut joined = [(); 3].map(|()| PairLists::new());
        for (id, graph) in graphs.iter().enumerate() {
            let parts = graphs.edge_range(id).map(|edge| split.name(edge));
            let mut links: Vec<(Pair, &str)> = ends(graph).zip(parts).filter(|((a, b), _)| a != b).collect();
            let away = links.iter().filter(|(_, of)| *of != Part::Train.name());
            held_out.push(away.map(|(pair, _)| *pair).collect());
            if !directed {
                links.iter_mut().for_each(|(pair, _)| *pair = ascending(*pair));
            }
            links.sort_unstable();
            links.dedup();
            if let Some(two) = links.windows(2).find(|two| two[0].0 == two[1].0) {
                let ((a, b), first, second) = (two[0].0, two[0].1, two[1].1);
                return Err(TrainError::Data(format!(
                    "graph {id}: the edges between nodes {a} and {b} lie in two parts of the split, `{first}` and `{second}`"
                )));
            }
            known.push(links.iter().map(|(pair, _)| *pair));
            for (part, lists) in Part::ALL.iter().zip(&mut joined) {
                lists.push(links.iter().filter(|(_, of)| *of == part.name()).map(|(pair, _)| *pair));
            }
        }
        let all: Vec<usize> = (0..graphs.len()).collect();
        let mut seen = without(graphs, &all, &held_out);
        // Those of the file know every edge.
        seen.set_encodings(Encodings::default()).map_err(|e| TrainError::Data(e.to_string()))?;
        let negatives = config.links.negatives;
        let apart = Part::ALL.map(|part| {
            let mut random = RandomStream::new(config.data.split_seed, DOMAIN_FIXED, part as u64);
            let mut lists = PairLists::new();
            for (id, graph) in graphs.iter().enumerate() {
                let count = negatives * joined[part as usize].of(id).len();
                lists.push(draw_non_edges(graph.num_nodes(), directed, known.of(id), count, &mut random));
            }
            lists
        });
        for part in [Part::Train, Part::Val] {
            if joined[part as usize].len() > 0 && apart[part as usize].len() == 0 {
                return Err(TrainError::Data(format!(
                    "all nodes of the graphs with links in {} are joined: there is no pair without an edge to tell links from",
                    part.name()
                )));
            }
        }
        let (both, hidden) = (asked::both_orders(config, directed), config.links.hidden);
        Ok((Self { directed, both, negatives, hidden, known, joined, apart }, seen))
    }

    /// Whether u→v and v→u are different links.
    pub fn directed(&self) -> bool {
        self.directed
    }

    /// `directed` or `undirected`.
    pub fn kind(&self) -> &'static str {
        if self.directed { "directed" } else { "undirected" }
    }

    /// Number of links of a part.
    pub fn count(&self, part: Part) -> usize {
        self.joined[part as usize].len()
    }

    /// Links of a part in a graph, and the pairs without an edge that they are scored against.
    pub fn pairs(&self, part: Part, graph: usize) -> [&[(u32, u32)]; 2] {
        [&self.joined, &self.apart].map(|lists| lists[part as usize].of(graph))
    }

    /// Graphs that have a link in a part.
    pub(crate) fn graphs_of(&self, part: Part, graphs: usize) -> Vec<usize> {
        (0..graphs).filter(|&graph| !self.joined[part as usize].of(graph).is_empty()).collect()
    }

    /// Fills a batch with some graphs and the pairs of a part; with those of a training step, where there is something to draw them from.
    pub(crate) fn fill(
        &self,
        graphs: &GraphStore,
        part: Part,
        ids: &[usize],
        random: Option<RandomStream>,
        ready: &mut Ready,
    ) -> Result<()> {
        let training = random.is_some();
        let Ready { batch, labels, pairs: asked } = ready;
        let part = part as usize;
        let (joined, apart) = match random {
            None => {
                let of = |lists: &PairLists| ids.iter().map(|&id| lists.of(id).to_vec()).collect::<Vec<_>>();
                (of(&self.joined[part]), of(&self.apart[part]))
            }
            Some(mut random) => {
                let joined = self.draw_links(part, ids, &mut random);
                let apart = ids.iter().zip(&joined).map(|(&id, joined)| {
                    let (nodes, count) = (graphs.node_range(id).len(), self.negatives * joined.len());
                    draw_non_edges(nodes, self.directed, self.known.of(id), count, &mut random)
                });
                let apart = apart.collect();
                (joined, apart)
            }
        };
        let filled = if training && self.hidden > 0.0 {
            batch.assemble(&without(graphs, ids, &joined), &(0..ids.len()).collect::<Vec<_>>())
        } else {
            batch.assemble(graphs, ids)
        };
        filled.map_err(|e| TrainError::Data(e.to_string()))?;
        let mut values = Vec::new();
        let asked = asked.insert(Asked::new(self.both));
        for (place, (joined, apart)) in joined.iter().zip(&apart).enumerate() {
            for (pairs, label) in [(joined, 1), (apart, 0)] {
                asked.extend(batch.nodes_of(place).start as u32, pairs);
                values.resize(values.len() + pairs.len(), label);
            }
        }
        asked.finish();
        *labels = Labels::Class(values);
        Ok(())
    }

    /// The links of some graphs that a training step asks about.
    fn draw_links(&self, part: usize, ids: &[usize], random: &mut RandomStream) -> Vec<Vec<Pair>> {
        let all = ids.iter().map(|&id| self.joined[part].of(id));
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

/// Whether every edge has its reverse.
fn is_symmetric(graph: GraphRef<'_>) -> bool {
    sorted(ends(graph)) == sorted(ends(graph).map(|(a, b)| (b, a)))
}
