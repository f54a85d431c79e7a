//! Link prediction: which pairs of nodes are joined.
//!
//! The edges (without loops) are divided into three parts, both directions of an edge always into the same one. Messages and encodings follow the training
//! part only: what is held out is in no graph that the network sees. A part's score is that of its links against as many pairs without any edge, `links.negatives`
//! for each link, which are drawn once from `data.split_seed`. A training step draws its own: a share `links.hidden` of its graphs' training edges, which it takes out of
//! the graphs (encodings still know them), and fresh pairs without an edge. Where direction does not count, each pair is asked in both orders; its logit is their mean.

mod pairs;

use gt_data::{Dataset, RandomStream};
use gt_graph::encoding::Encodings;
use gt_graph::{GraphBatch, GraphRef, GraphStore, Level, TargetRows};
use gt_models::Config;
use gt_models::config::Graph;
use gt_nn::cpu::{Edges, Engine};

use crate::batches::{Labels, Ready};
use crate::error::{Result, TrainError};
use crate::task::{Part, new_split};
use pairs::{Pair, PairLists, ascending, draw_non_edges};

const DOMAIN_FIXED: u8 = 35;

/// The links of a data set, in parts.
#[derive(Clone, Debug)]
pub struct Links {
    directed: bool,
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
        let (mut known, mut held_out) = (PairLists::new(), PairLists::new());
        let mut joined = [(); 3].map(|()| PairLists::new());
        for (id, graph) in graphs.iter().enumerate() {
            let parts = graphs.edge_range(id).map(|edge| split.name(edge));
            let mut links: Vec<(Pair, &str)> = ends(graph).zip(parts).filter(|((a, b), _)| a != b).collect();
            let train = |part: &str| part == Part::Train.name();
            let mut away: Vec<Pair> =
                links.iter().filter(|(_, of)| !train(of)).map(|(pair, _)| ascending(*pair)).collect();
            away.sort_unstable();
            away.dedup();
            held_out.push(away);
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
        let mut seen = graphs.with_edges(&all, |id, edge| {
            let graph = graphs.graph(id);
            held_out.of(id).binary_search(&ascending((graph.src()[edge], graph.dst()[edge]))).is_err()
        });
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
        Ok((Self { directed, negatives, hidden: config.links.hidden, known, joined, apart }, seen))
    }

    /// Whether u→v and v→u are different links.
    pub fn directed(&self) -> bool {
        self.directed
    }

    /// Links of a part, and pairs that they are scored against.
    pub fn counts(&self, part: Part) -> (usize, usize) {
        (self.joined[part as usize].len(), self.apart[part as usize].len())
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
        let failed = |e: gt_graph::GraphError| TrainError::Data(e.to_string());
        let lists = &self.joined[part as usize];
        let (joined, apart): (Vec<Vec<Pair>>, Vec<Vec<Pair>>) = match random {
            None => {
                ready.batch.assemble(graphs, ids).map_err(failed)?;
                let of = |lists: &PairLists| ids.iter().map(|&id| lists.of(id).to_vec()).collect();
                (of(lists), of(&self.apart[part as usize]))
            }
            Some(mut random) => {
                let joined = self.asked(ids.iter().map(|&id| lists.of(id)), &mut random);
                if self.hidden > 0.0 {
                    let hidden: Vec<Vec<Pair>> =
                        joined.iter().map(|pairs| sorted(pairs.iter().copied().map(ascending))).collect();
                    let thinned = graphs.with_edges(ids, |place, edge| {
                        let graph = graphs.graph(ids[place]);
                        hidden[place].binary_search(&ascending((graph.src()[edge], graph.dst()[edge]))).is_err()
                    });
                    ready.batch.assemble(&thinned, &(0..ids.len()).collect::<Vec<_>>()).map_err(failed)?;
                } else {
                    ready.batch.assemble(graphs, ids).map_err(failed)?;
                }
                let each = ids.iter().zip(&joined).map(|(&id, joined)| {
                    let (nodes, count) = (graphs.node_range(id).len(), self.negatives * joined.len());
                    draw_non_edges(nodes, self.directed, self.known.of(id), count, &mut random)
                });
                let apart = each.collect();
                (joined, apart)
            }
        };
        let asked = ready.pairs.get_or_insert_default();
        asked.clear(!self.directed);
        let mut labels = Vec::new();
        for (position, (joined, apart)) in joined.iter().zip(&apart).enumerate() {
            let first = ready.batch.nodes_of(position).start as u32;
            for (pairs, label) in [(joined, 1), (apart, 0)] {
                pairs.iter().for_each(|(a, b)| asked.push(first + a, first + b));
                labels.resize(labels.len() + pairs.len(), label);
            }
        }
        asked.finish();
        ready.labels = Labels::Class(labels);
        Ok(())
    }

    /// The links that a training step asks about.
    fn asked<'a>(&self, links: impl Iterator<Item = &'a [Pair]>, random: &mut RandomStream) -> Vec<Vec<Pair>> {
        let all: Vec<&[Pair]> = links.collect();
        if self.hidden == 0.0 {
            return all.into_iter().map(<[Pair]>::to_vec).collect();
        }
        let mut places: Vec<(usize, Pair)> = all
            .iter()
            .enumerate()
            .flat_map(|(position, pairs)| pairs.iter().map(move |pair| (position, *pair)))
            .collect();
        random.shuffle(&mut places);
        places.truncate((self.hidden * places.len() as f64).ceil() as usize);
        let mut asked = vec![Vec::new(); all.len()];
        places.into_iter().for_each(|(position, pair)| asked[position].push(pair));
        asked
    }
}

/// Pairs that a network is asked about, by the batch's node numbers; in both orders, the reversed ones behind the others, where direction does not count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    both: bool,
    sources: Vec<u32>,
    targets: Vec<u32>,
}

impl Asked {
    fn clear(&mut self, both: bool) {
        self.both = both;
        self.sources.clear();
        self.targets.clear();
    }

    fn push(&mut self, source: u32, target: u32) {
        self.sources.push(source);
        self.targets.push(target);
    }

    fn finish(&mut self) {
        if self.both {
            let forward = self.sources.clone();
            self.sources.extend_from_slice(&self.targets);
            self.targets.extend(forward);
        }
    }

    /// Makes them what the engine is asked about.
    pub(crate) fn ask(&self, engine: &mut Engine<f32>) {
        engine.set_pairs(Some((&self.sources, &self.targets)));
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
    if config.data.task != gt_models::config::TaskName::Links {
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
    let mut asked = Asked::default();
    asked.clear(!directed);
    pairs.iter().for_each(|&(a, b)| asked.push(a, b));
    asked.finish();
    asked.ask(engine);
    let edges = if config.model.graph == Graph::Full { Edges::Full } else { Edges::Sparse };
    Ok(asked.merge(engine.predict(&batch, edges)))
}

fn ends(graph: GraphRef<'_>) -> impl Iterator<Item = Pair> + Clone {
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
