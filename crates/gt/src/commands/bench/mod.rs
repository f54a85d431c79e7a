//! `gt bench`

mod limits;
mod sets;
mod steps;

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use gt_data::{Expected, Labels};
use gt_graph::{GraphBatch, GraphStore, Level, Schema, TargetKind, TargetSchema};
use gt_models::{Config, PublishedEncoding, PublishedSet, add_encodings};
use gt_nn::cpu::{BatchSize, GraphSize};
use gt_nn::{Loss, Network};
use serde::Serialize;

use crate::device::{DeviceChoice, PrecisionName};
use sets::{random_graph, synthetic, training_graphs};
use steps::measure;

/// Time one training and one inference step of the published configurations.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
gt bench --set zinc --graph sparse\n  \
gt bench --set large --nodes 10000 --edges 100000")]
pub struct Arguments {
    /// Which configuration; `large` is one random graph, 64 channels, 4 layers
    /// [default: the published three]
    #[arg(long)]
    set: Option<Set>,
    /// Sparse or fully connected graphs [default: both]
    #[arg(long)]
    graph: Option<GraphKind>,
    /// Take batches from this data set instead of synthetic ones (with --set)
    #[arg(long, value_name = "FILE", requires = "set")]
    data: Option<PathBuf>,
    /// Number of layers instead of the configuration's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    layers: Option<u16>,
    /// Nodes of the large graph [default: 200000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    nodes: Option<u32>,
    /// Directed edges of the large graph [default: 2000000]
    #[arg(long, value_name = "N")]
    edges: Option<u32>,
    /// Let the large graph's edges carry features
    #[arg(long)]
    edge_features: bool,
    /// Steps to time
    #[arg(long, default_value_t = 20, value_name = "N")]
    steps: usize,
    /// auto, cpu, cuda or cuda:N
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Precision of products on a GPU
    #[arg(long, value_enum, default_value = "f32")]
    precision: PrecisionName,
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
    /// Measured on CPUs, a GPU's by its datasheet.
    peak_gflops: Option<f64>,
    peak_share: Option<f64>,
    rss_mb: Option<u64>,
    /// Of a pass over the training graphs of the published set.
    s_per_epoch: f64,
    /// On a GPU.
    memory_mb: Option<usize>,
    bandwidth_gbs: Option<f64>,
    bandwidth_share: Option<f64>,
}

/// What is timed.
struct Job {
    network: Network,
    loss: Loss,
    store: GraphStore,
    /// Graphs per batch.
    size: usize,
    /// Graphs in an epoch.
    graphs: usize,
}

impl Job {
    /// Seconds of an epoch whose steps take so many milliseconds.
    fn epoch(&self, ms: f64) -> f64 {
        self.graphs.div_ceil(self.size) as f64 * ms / 1e3
    }
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        ensure!(self.steps > 0, "--steps must be at least 1");
        let device = self.device.device(self.precision)?;
        if self.set == Some(Set::Large) {
            ensure!(self.graph != Some(GraphKind::Full), "the large graph is sparse");
            return measure(&device, self.steps, Set::Large, GraphKind::Sparse, &self.large()?);
        }
        let of_large =
            [("nodes", self.nodes.is_some()), ("edges", self.edges.is_some()), ("edge-features", self.edge_features)];
        if let Some((name, _)) = of_large.into_iter().find(|&(_, given)| given) {
            bail!("--{name} is about the large graph: --set large");
        }
        for (set, published) in [
            (Set::Zinc, PublishedSet::Zinc),
            (Set::Pattern, PublishedSet::Pattern),
            (Set::Cluster, PublishedSet::Cluster),
        ] {
            for graph in [GraphKind::Sparse, GraphKind::Full] {
                if self.set.is_none_or(|s| s == set) && self.graph.is_none_or(|g| g == graph) {
                    measure(&device, self.steps, set, graph, &self.published(published, graph)?)?;
                }
            }
        }
        Ok(())
    }

    fn published(&self, set: PublishedSet, graph: GraphKind) -> Result<Job> {
        let size = set.batch_size(graph == GraphKind::Full);
        let mut config = set.config(PublishedEncoding::Laplacian);
        config.model.layers = self.layers.map_or(config.model.layers, usize::from);
        let schema = set.schema();
        let mut store = match &self.data {
            Some(file) => {
                let expected = Expected { schema: Cow::Borrowed(&schema), encoding: None, labels: Labels::Read };
                gt_data::read_expecting(file, &expected)?.into_graphs()
            }
            None => synthetic(set, 4 * size)?,
        };
        add_encodings(&mut store, &config.model)?;
        let (network, loss) = (config.network(&schema)?, config.loss(&schema)?);
        Ok(Job { network, loss, store, size, graphs: training_graphs(set) })
    }

    /// A random graph whose nodes are to be classified.
    fn large(&self) -> Result<Job> {
        let mut config = Config::default();
        config.model.layers = self.layers.map_or(4, usize::from);
        let edge: &[usize] = if self.edge_features { &[4] } else { &[] };
        let schema = Schema::categorical(&[8], edge, TargetSchema::new(Level::Node, TargetKind::Class, &[4]));
        let network = config.network(&schema)?;
        let (nodes, edges) = (self.nodes.unwrap_or(200_000) as usize, self.edges.unwrap_or(2_000_000) as usize);
        let size = GraphSize { nodes, edges, followed: edges, most_into: edges / nodes.max(1), ..Default::default() };
        gt_train::ensure_memory(&network, &BatchSize::from_iter([size]))?;
        let store = random_graph(nodes, edges, self.edge_features)?;
        Ok(Job { network, loss: config.loss(&schema)?, store, size: 1, graphs: 1 })
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

fn peak_rss_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb / 1024)
}
