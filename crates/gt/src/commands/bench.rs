//! `gt bench`

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use gt_data::{SbmSet, SbmSizes};
use gt_graph::{
    FeatureLayout, FeatureRows, GraphBatch, GraphParts, GraphStore, Layout, Level, TargetKind, TargetLayout, TargetRows,
};
use gt_models::config::{Columns, DataShape, TargetShape};
use gt_models::{Config, PublishedEncoding, PublishedSet, initialise};
use gt_nn::cpu::{Adam, Edges, Engine, Isa, peak_gflops};
use gt_nn::{Loss, Network};
use serde::Serialize;

use crate::console;

/// Time one training and one inference step of the published configurations.
#[derive(Args)]
pub struct Arguments {
    /// Which configuration [default: the published three]; `large` is one random graph, 64 channels, 4 layers
    #[arg(long)]
    set: Option<Set>,
    /// Sparse or fully connected graphs [default: both]
    #[arg(long)]
    graph: Option<GraphKind>,
    /// Take batches from this data set instead of synthetic ones (with --set)
    #[arg(long, value_name = "FILE", requires = "set")]
    data: Option<PathBuf>,
    /// Number of layers instead of the configuration's
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Nodes of the large graph
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    nodes: usize,
    /// Directed edges of the large graph
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    edges: usize,
    /// Let the large graph's edges carry features
    #[arg(long)]
    edge_features: bool,
    /// Steps to time
    #[arg(long, default_value_t = 20, value_name = "N")]
    steps: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Set {
    Zinc,
    Pattern,
    Cluster,
    Large,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum GraphKind {
    Sparse,
    Full,
}

/// One line of output.
#[derive(Serialize)]
struct Line {
    set: Set,
    graph: GraphKind,
    mode: &'static str,
    device: &'static str,
    threads: usize,
    simd: &'static str,
    precision: &'static str,
    batch: usize,
    nodes: usize,
    edges: usize,
    ms_median: f64,
    ms_min: f64,
    gflops: f64,
    peak_gflops: f64,
    peak_share: f64,
    rss_mb: Option<u64>,
}

/// What is timed.
struct Job {
    network: Network,
    loss: Loss,
    store: GraphStore,
    /// Graphs per batch.
    size: usize,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        ensure!(self.steps > 0, "--steps must be at least 1");
        ensure!(self.nodes > 0, "--nodes must be at least 1");
        if self.set == Some(Set::Large) {
            ensure!(self.graph != Some(GraphKind::Full), "the large graph is sparse");
            return self.measure(Set::Large, GraphKind::Sparse, self.large()?);
        }
        for (set, published) in [
            (Set::Zinc, PublishedSet::Zinc),
            (Set::Pattern, PublishedSet::Pattern),
            (Set::Cluster, PublishedSet::Cluster),
        ] {
            for graph in [GraphKind::Sparse, GraphKind::Full] {
                if self.set.is_none_or(|s| s == set) && self.graph.is_none_or(|g| g == graph) {
                    self.measure(set, graph, self.published(published, graph)?)?;
                }
            }
        }
        Ok(())
    }

    fn published(&self, set: PublishedSet, graph: GraphKind) -> Result<Job> {
        let size = set.batch_size(graph == GraphKind::Full);
        let mut store = match &self.data {
            Some(file) => gt_data::read(file)?.graphs().clone(),
            None => synthetic(set, 4 * size)?,
        };
        let mut config = set.config(PublishedEncoding::Laplacian);
        gt_train::ensure_encodings(&mut store, &config, None)?;
        config.model.layers = self.layers.unwrap_or(config.model.layers);
        let network = config.network(&set.shape())?;
        Ok(Job { network, loss: config.loss(&set.shape())?, store, size })
    }

    /// A random graph whose nodes are to be classified.
    fn large(&self) -> Result<Job> {
        let store = random_graph(self.nodes, self.edges, self.edge_features)?;
        let mut config = Config::default();
        config.model.layers = self.layers.unwrap_or(4);
        let edge = if self.edge_features { vec![4] } else { vec![] };
        let shape = DataShape {
            node: Columns { categorical: vec![8], ..Default::default() },
            edge: Columns { categorical: edge, ..Default::default() },
            target: TargetShape { level: Level::Node, kind: TargetKind::Class, columns: vec![4] },
        };
        Ok(Job { network: config.network(&shape)?, loss: config.loss(&shape)?, store, size: 1 })
    }

    fn measure(&self, set: Set, graph: GraphKind, job: Job) -> Result<()> {
        let Job { network, loss, store, size } = job;
        let full = graph == GraphKind::Full;
        let isa = Isa::detect();
        let mut engine = Engine::<f32>::new(network.clone(), isa);
        initialise(&mut engine, 41);
        let edges = if full { Edges::Full } else { Edges::Sparse };
        let count = if store.len() == 1 { 1 } else { 4 };
        let batches: Vec<GraphBatch> = (0..count)
            .map(|i| {
                let ids: Vec<usize> = (0..size.min(store.len())).map(|j| (i * size + j) % store.len()).collect();
                let mut batch = GraphBatch::new();
                batch.assemble(&store, &ids).map(|()| batch)
            })
            .collect::<Result<_, _>>()?;
        for mode in ["train", "infer"] {
            let mut step = |batch: &GraphBatch| {
                if mode == "train" {
                    engine.train(batch, edges, loss, batch.target().expect("labelled"));
                    engine.step(&Adam { lr: 7e-4, ..Default::default() });
                } else {
                    engine.predict(batch, edges);
                }
            };
            batches.iter().for_each(&mut step);
            let (mut times, mut peaks) = (Vec::new(), Vec::new());
            for round in 0..self.steps {
                let start = Instant::now();
                step(&batches[round % batches.len()]);
                times.push(start.elapsed().as_secs_f64() * 1e3);
                if round % 4 == 0 {
                    peaks.push(peak_gflops(isa));
                }
            }
            times.sort_by(f64::total_cmp);
            peaks.sort_by(f64::total_cmp);
            let batch = &batches[0];
            let count = if full { batch.full().num_edges() } else { batch.num_edges() };
            let flops = linear_flops(&network, batch, count, mode == "train");
            let median = times[times.len() / 2];
            let peak = peaks[peaks.len() / 2];
            console::print_json(&Line {
                set,
                graph,
                mode,
                device: "cpu",
                threads: rayon::current_num_threads(),
                simd: isa.name(),
                precision: "f32",
                batch: batch.num_graphs(),
                nodes: batch.num_nodes(),
                edges: count,
                ms_median: median,
                ms_min: times[0],
                gflops: flops / median / 1e6,
                peak_gflops: peak,
                peak_share: flops / median / 1e6 / peak,
                rss_mb: peak_rss_mb(),
            })?;
        }
        Ok(())
    }
}

/// 2·in·out per row of every linear layer that is executed, three times that in training.
fn linear_flops(network: &Network, batch: &GraphBatch, edges: usize, train: bool) -> f64 {
    let d = network.channels.width() as f64;
    let (n, e) = (batch.num_nodes() as f64, if network.edge_stream { edges as f64 } else { 0.0 });
    let half = 2.0 * d * (d + 2.0 * d + 2.0 * d);
    let layers = network.layers as f64;
    // The last layer's edge output: computed in training (forward only), left out in inference.
    let edge_halves = if train { 3.0 * (layers - 1.0) + 1.0 } else { layers - 1.0 };
    let passes = if train { 3.0 } else { 1.0 };
    let attention = passes * layers * (n * 6.0 * d * d + e * 2.0 * d * d);
    let halves = passes * layers * n * half + edge_halves * e * half;
    let rows = if network.reads.level() == Level::Graph { batch.num_graphs() as f64 } else { n };
    let mut input = d;
    let mut head = 0.0;
    for &width in &network.head {
        head += 2.0 * input * width as f64 * rows;
        input = width as f64;
    }
    attention + halves + passes * (head + 2.0 * n * network.node.laplacian as f64 * d)
}

/// Graphs of the published sizes.
fn synthetic(set: PublishedSet, count: usize) -> Result<GraphStore> {
    let sizes = SbmSizes { train: count, val: 0, test: 0 };
    Ok(match set {
        PublishedSet::Pattern => SbmSet::Pattern.generate(41, sizes)?.graphs().clone(),
        PublishedSet::Cluster => SbmSet::Cluster.generate(41, sizes)?.graphs().clone(),
        PublishedSet::Zinc => molecules(count)?,
    })
}

/// One graph with edges between random nodes.
fn random_graph(nodes: usize, edges: usize, edge_features: bool) -> Result<GraphStore> {
    let one = FeatureLayout { categorical: 1, ..Default::default() };
    let target = TargetLayout { level: Level::Node, kind: TargetKind::Class, columns: 1 };
    let edge = if edge_features { one.clone() } else { FeatureLayout::default() };
    let mut store = GraphStore::new(Layout { node: one, edge, target: Some(target) });
    let mut state = 41u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize % below) as u32
    };
    let ends: Vec<[u32; 2]> = (0..edges).map(|_| [random(nodes), random(nodes)]).collect();
    let (src, dst): (Vec<u32>, Vec<u32>) = ends.into_iter().map(|[s, d]| (s, d)).unzip();
    let types: Vec<u32> = (0..nodes).map(|_| random(8)).collect();
    let kinds: Vec<u32> = if edge_features { (0..edges).map(|_| random(4)).collect() } else { vec![] };
    let classes: Vec<u32> = (0..nodes).map(|_| random(4)).collect();
    store.push(GraphParts {
        num_nodes: nodes,
        src: &src,
        dst: &dst,
        node: FeatureRows { categorical: &types, ..Default::default() },
        edge: FeatureRows { categorical: &kinds, ..Default::default() },
        target: Some(TargetRows::Class(&classes)),
    })?;
    Ok(store)
}

/// Chains of 18 to 28 atoms with a ring bond every few atoms: as many atoms and bonds as ZINC's molecules have on average.
fn molecules(count: usize) -> Result<GraphStore> {
    let one = FeatureLayout { categorical: 1, ..Default::default() };
    let target = TargetLayout { level: Level::Graph, kind: TargetKind::Float, columns: 1 };
    let mut store = GraphStore::new(Layout { node: one.clone(), edge: one, target: Some(target) });
    for molecule in 0..count {
        let n = 18 + molecule * 7 % 11;
        let mut bonds: Vec<(usize, usize)> = (1..n).map(|v| (v - 1, v)).collect();
        bonds.extend((0..n / 8).map(|ring| (ring * 8, ring * 8 + 5)));
        let mut edges: Vec<(u32, u32)> =
            bonds.iter().flat_map(|&(a, b)| [(a as u32, b as u32), (b as u32, a as u32)]).collect();
        edges.sort_unstable();
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.into_iter().unzip();
        let atoms: Vec<u32> = (0..n).map(|v| ((v * v + molecule) % 21) as u32).collect();
        let kinds: Vec<u32> = src.iter().zip(&dst).map(|(a, b)| 1 + (a + b) % 3).collect();
        store.push(GraphParts {
            num_nodes: n,
            src: &src,
            dst: &dst,
            node: FeatureRows { categorical: &atoms, ..Default::default() },
            edge: FeatureRows { categorical: &kinds, ..Default::default() },
            target: Some(TargetRows::Float(&[(molecule % 5) as f32 - 2.0])),
        })?;
    }
    Ok(store)
}

fn peak_rss_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb / 1024)
}
