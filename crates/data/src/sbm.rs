//! PATTERN and CLUSTER, the stochastic-block-model sets of *Benchmarking GNNs* (§3.1 of the paper
//! uses both).
//!
//! The published files were drawn without a seed, so only their distribution can be reproduced.
//! Nodes belong to blocks. Two nodes are joined with probability p within a block, and with
//! probability q across blocks.
//!
//! * CLUSTER: six blocks of 5..=34 nodes, p = 0.55, q = 0.25. One node of each block has the
//!   feature "number of the block plus 1", all other nodes have 0. Target: the block of every node.
//! * PATTERN: five blocks of 5..=34 nodes, p = 0.5, q = 0.35, and a pattern of 5..=34 nodes. Nodes
//!   of the pattern are joined with probability 0.5 to each other and to all other nodes. Features
//!   are uniform on {0, 1, 2}. A hundred patterns are each planted in many graphs. Target: whether
//!   a node belongs to the pattern.
//!
//! Graphs of both sets are shuffled, undirected and without self loops. Edges are in row-major
//! order.

use gt_graph::{FeatureRows, GraphParts, GraphStore, Level, TargetKind, TargetRows};
use rayon::prelude::*;

use crate::dataset::{Dataset, Splits};
use crate::error::{RequestProblem, Result};
use crate::random::{Probability, Stream};
use gt_graph::{FeatureSchema, Schema, TargetColumn, TargetSchema, Vocabulary};

/// One of the two published sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SbmSet {
    /// Find the nodes of a planted pattern: 2 classes.
    Pattern,
    /// Find each node's block from one labelled node per block: 6 classes.
    Cluster,
}

/// Numbers of graphs per split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SbmSizes {
    /// Training graphs.
    pub train: usize,
    /// Validation graphs.
    pub val: usize,
    /// Test graphs.
    pub test: usize,
}

impl SbmSet {
    /// The published numbers of graphs.
    pub fn published_sizes(self) -> SbmSizes {
        match self {
            SbmSet::Pattern => SbmSizes { train: 10_000, val: 2_000, test: 2_000 },
            SbmSet::Cluster => SbmSizes { train: 10_000, val: 1_000, test: 1_000 },
        }
    }

    fn schema(self) -> Schema {
        let (name, size, classes) = match self {
            SbmSet::Pattern => ("feature", 3, 2),
            SbmSet::Cluster => ("seed", 7, 6),
        };
        Schema {
            node: FeatureSchema { categorical: vec![Vocabulary::new(name, size)], ..Default::default() },
            edge: FeatureSchema::default(),
            target: Some(TargetSchema {
                level: Level::Node,
                kind: TargetKind::Class,
                columns: vec![TargetColumn::new("y", classes)],
            }),
        }
    }

    /// Draws a data set. The same seed and sizes give the same graphs on any number of threads.
    ///
    /// # Errors
    /// If the sizes are all zero.
    ///
    /// ```
    /// use graph_transformer_data::{SbmSet, SbmSizes};
    ///
    /// let set = SbmSet::Cluster.generate(41, SbmSizes { train: 8, val: 1, test: 1 })?;
    /// assert_eq!(set.graphs().len(), 10);
    /// let first = set.graphs().graph(0);
    /// let seeds = first.node().categorical.iter().filter(|&&u| u > 0).count();
    /// assert_eq!(seeds, 6);
    /// # Ok::<(), graph_transformer_data::DataError>(())
    /// ```
    pub fn generate(self, seed: u64, sizes: SbmSizes) -> Result<Dataset> {
        let parts = [("train", sizes.train), ("val", sizes.val), ("test", sizes.test)];
        if parts.iter().all(|(_, count)| *count == 0) {
            return Err(RequestProblem::NoGraphs.into());
        }
        let patterns: Vec<Pattern> = match self {
            SbmSet::Pattern => {
                (0..PATTERNS).map(|k| Pattern::draw(&mut Stream::new(seed, DOMAIN_PATTERN, k))).collect()
            }
            SbmSet::Cluster => Vec::new(),
        };
        // Each split has its own streams, so a larger training set does not change the test set.
        let mut jobs = Vec::new();
        let mut splits = Splits::new(Level::Graph);
        for (part, (name, count)) in parts.into_iter().enumerate() {
            let per_pattern = count.div_ceil(PATTERNS as usize).max(1);
            for i in 0..count {
                splits.push(name).expect("three names");
                jobs.push((part as u8, i as u64, i / per_pattern));
            }
        }
        let schema = self.schema();
        let mut store = GraphStore::new(schema.layout());
        for wave in jobs.chunks(WAVE) {
            let graphs: Vec<Drawn> = wave
                .par_iter()
                .map(|&(part, i, pattern)| match self {
                    SbmSet::Cluster => draw_cluster(&mut Stream::new(seed, DOMAIN_CLUSTER + part, i)),
                    SbmSet::Pattern => {
                        draw_pattern(&mut Stream::new(seed, DOMAIN_BACKGROUND + part, i), &patterns[pattern])
                    }
                })
                .collect();
            for graph in graphs {
                store
                    .push(GraphParts {
                        num_nodes: graph.feature.len(),
                        src: &graph.src,
                        dst: &graph.dst,
                        node: FeatureRows { categorical: &graph.feature, ..Default::default() },
                        target: Some(TargetRows::Class(&graph.label)),
                        ..Default::default()
                    })
                    .expect("a drawn graph is valid");
            }
        }
        store.shrink_to_fit();
        let mut dataset = Dataset::new(schema, store)?;
        dataset.set_split(splits)?;
        Ok(dataset)
    }
}

/// Number of graphs to draw in parallel before they are stored.
const WAVE: usize = 512;
/// Number of patterns shared by the three splits.
const PATTERNS: u64 = 100;

const DOMAIN_CLUSTER: u8 = 0;
const DOMAIN_BACKGROUND: u8 = 4;
const DOMAIN_PATTERN: u8 = 8;

const SMALLEST_BLOCK: u32 = 5;
const BLOCK_SIZES: u32 = 30;

/// Number of 64-bit words in a row of the adjacency matrix. A graph has at most 6 · 34 = 204 nodes.
const WORDS: usize = 4;

/// Symmetric adjacency matrix in the final numbering.
struct Adjacency(Vec<[u64; WORDS]>);

impl Adjacency {
    fn join(&mut self, i: usize, j: usize) {
        self.0[i][j / 64] |= 1 << (j % 64);
        self.0[j][i / 64] |= 1 << (i % 64);
    }

    /// Non-zero entries in row-major order.
    fn edges(&self) -> (Vec<u32>, Vec<u32>) {
        let count = self.0.iter().flatten().map(|word| word.count_ones() as usize).sum();
        let (mut src, mut dst) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (i, row) in self.0.iter().enumerate() {
            for (word, &bits) in row.iter().enumerate() {
                let mut bits = bits;
                while bits != 0 {
                    src.push(i as u32);
                    dst.push((word * 64) as u32 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
        (src, dst)
    }
}

struct Drawn {
    src: Vec<u32>,
    dst: Vec<u32>,
    feature: Vec<u32>,
    label: Vec<u32>,
}

fn block_size(random: &mut Stream) -> usize {
    (SMALLEST_BLOCK + random.below(BLOCK_SIZES)) as usize
}

/// The block of each node, block by block.
fn draw_blocks(random: &mut Stream, blocks: u32) -> Vec<u32> {
    (0..blocks).flat_map(|r| std::iter::repeat_n(r, block_size(random))).collect()
}

/// The final position of each of `n` nodes: a uniform permutation.
fn draw_places(random: &mut Stream, n: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..n).collect();
    random.shuffle(&mut places);
    places
}

/// Draws one coin per pair i < j, with i ascending, then j: p within a block, q across blocks.
fn draw_edges(random: &mut Stream, block: &[u32], places: &[usize], p: f64, q: f64, adjacency: &mut Adjacency) {
    let (p, q) = (Probability::new(p), Probability::new(q));
    for i in 0..block.len() {
        for j in i + 1..block.len() {
            if random.coin(if block[i] == block[j] { p } else { q }) {
                adjacency.join(places[i], places[j]);
            }
        }
    }
}

fn draw_cluster(random: &mut Stream) -> Drawn {
    let block = draw_blocks(random, 6);
    let n = block.len();
    let places = draw_places(random, n);
    let mut adjacency = Adjacency(vec![[0; WORDS]; n]);
    draw_edges(random, &block, &places, 0.55, 0.25, &mut adjacency);
    let (mut feature, mut label) = (vec![0; n], vec![0; n]);
    for (i, &place) in places.iter().enumerate() {
        label[place] = block[i];
    }
    for r in 0..6 {
        let members: Vec<usize> = (0..n).filter(|&k| label[k] == r).collect();
        feature[members[random.below(members.len() as u32) as usize]] = r + 1;
    }
    let (src, dst) = adjacency.edges();
    Drawn { src, dst, feature, label }
}

/// A pattern: its inner edges (i < j) and the features of its nodes.
struct Pattern {
    edges: Vec<(usize, usize)>,
    feature: Vec<u32>,
}

impl Pattern {
    fn draw(random: &mut Stream) -> Self {
        let n = block_size(random);
        let half = Probability::new(0.5);
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        let edges = pairs.filter(|_| random.coin(half)).collect();
        Self { edges, feature: (0..n).map(|_| random.below(3)).collect() }
    }
}

fn draw_pattern(random: &mut Stream, pattern: &Pattern) -> Drawn {
    let block = draw_blocks(random, 5);
    let background = block.len();
    let n = background + pattern.feature.len();
    let places = draw_places(random, n);
    let mut adjacency = Adjacency(vec![[0; WORDS]; n]);
    draw_edges(random, &block, &places, 0.5, 0.35, &mut adjacency);
    let (mut feature, mut label) = (vec![0; n], vec![0; n]);
    for &place in &places[..background] {
        feature[place] = random.below(3);
    }
    let half = Probability::new(0.5);
    for (j, &planted) in pattern.feature.iter().enumerate() {
        let place = places[background + j];
        feature[place] = planted;
        label[place] = 1;
        for &other in &places[..background] {
            if random.coin(half) {
                adjacency.join(place, other);
            }
        }
    }
    for &(i, j) in &pattern.edges {
        adjacency.join(places[background + i], places[background + j]);
    }
    let (src, dst) = adjacency.edges();
    Drawn { src, dst, feature, label }
}
