//! Steps on a card, launched one after the other without waiting, as training does.

use std::time::Instant;

use anyhow::{Result, anyhow};
use gt_graph::GraphBatch;
use gt_models::initialise;
use gt_nn::cpu::{Adam, Edges, Engine, Isa};
use gt_nn::cuda::{CudaDevice, CudaEngine, CudaLabels, CudaTask, Pass, Precision, ResidentData};

use super::limits::{least_bytes, peak_gflops};
use super::{GraphKind, Job, Line, Set, linear_flops, peak_rss_mb};
use crate::cache::kernel_cache;
use crate::console;

/// Steps that are timed together.
const GROUP: usize = 20;

/// Times training and inference steps: the median of groups of steps over batches of changing size.
pub fn measure(
    device: &CudaDevice,
    precision: Precision,
    steps: usize,
    set: Set,
    graph: GraphKind,
    job: Job,
) -> Result<()> {
    let Job { network, loss, store, size, .. } = &job;
    let (loss, size) = (*loss, *size);
    let full = graph == GraphKind::Full;
    let edges = if full { Edges::Full } else { Edges::Sparse };
    let mut engine = Engine::<f32>::new(network.clone(), Isa::detect());
    initialise(&mut engine, 41);
    let groups = steps.div_ceil(GROUP).max(5);
    // Every batch its own graphs, in an order that mixes their sizes.
    let listed = (groups + 1) * GROUP * size;
    let order: Vec<u32> =
        (0..listed as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32 % store.len() as u32).collect();
    let data = ResidentData::new(device, store, network, edges)?;
    let mut all = GraphBatch::new();
    all.assemble(store, &(0..store.len()).collect::<Vec<_>>())?;
    let rows = store.rows(network.reads.level());
    let labels = CudaLabels::new(device, rows, all.target().ok_or_else(|| anyhow!("the data has no labels"))?)?;
    let most = (0..store.len()).map(|graph| store.row_range(network.reads.level(), graph).len()).max().unwrap_or(0);
    let task = CudaTask {
        network: network.clone(),
        loss,
        batch: size,
        rows: listed * most,
        listed,
        signs_per_graph: false,
        precision,
    };
    let mut cuda = CudaEngine::new(device, &data, task, kernel_cache().as_deref())?;
    cuda.load(&engine)?;
    let ids: Vec<usize> = order[..size].iter().map(|&id| id as usize).collect();
    all.assemble(store, &ids)?;
    for mode in ["train", "infer"] {
        let train = (mode == "train").then_some((Adam { lr: 7e-4, ..Default::default() }, 0));
        cuda.begin(Pass { order: &order, from: 0, signs: &[], labels: &labels, train })?;
        cuda.launch(GROUP)?;
        cuda.wait()?;
        let mut times = Vec::new();
        for _ in 0..groups {
            let start = Instant::now();
            cuda.launch(GROUP)?;
            cuda.wait()?;
            times.push(start.elapsed().as_secs_f64() * 1e3 / GROUP as f64);
        }
        times.sort_by(f64::total_cmp);
        let count = if full { all.full().num_edges() } else { all.num_edges() };
        let flops = linear_flops(network, &all, count, mode == "train");
        let median = times[times.len() / 2];
        let gflops = flops / median / 1e6;
        let peak = peak_gflops(device.name(), precision);
        let gbs = least_bytes(network, all.num_nodes(), count, mode == "train") / median / 1e6;
        console::print_json(&Line {
            set,
            graph,
            mode,
            device: "cuda",
            threads: rayon::current_num_threads(),
            simd: Isa::detect().name(),
            precision: precision.name(),
            batch: size,
            nodes: all.num_nodes(),
            edges: count,
            ms_median: median,
            ms_min: times[0],
            gflops,
            peak_gflops: peak,
            peak_share: peak.map(|peak| gflops / peak),
            rss_mb: peak_rss_mb(),
            s_per_epoch: job.epoch(median),
            memory_mb: Some((cuda.bytes() + data.bytes() + labels.bytes()) >> 20),
            bandwidth_gbs: Some(gbs),
            bandwidth_share: device.bandwidth().map(|bytes| 1e9 * gbs / bytes),
        })?;
    }
    Ok(())
}
