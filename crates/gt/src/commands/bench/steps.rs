//! Times steps of training and inference in passes of a backend, as training and prediction run
//! them.

use gt_nn::AttentionScope;
use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::Result;
use gt_graph::{GraphBatch, Split};
use gt_models::initial_weights;
use gt_nn::backend::{Backend, Cpu, Cuda, CudaDataset, CudaSettings, Device, GraphSource, PassPlan, TrainingPlan, run};
use gt_nn::cpu::{Adam, Isa, peak_gflops};
use gt_nn::cuda::{CudaDevice, Precision};

use super::limits::{self, least_bytes};
use super::{GraphKind, Job, Line, Set, linear_flops, peak_rss_mb};
use crate::console;

/// Steps of a pass on a GPU, which are timed together: a GPU runs ahead of the CPU that times it.
const GPU_PASS: usize = 100;
/// Passes on a GPU, at least.
const GPU_PASSES: usize = 5;
/// Different batches on the CPU.
const CPU_BATCHES: usize = 4;

/// Milliseconds of steps, ascending, and the peaks that were measured between them.
struct Timing {
    steps: Vec<f64>,
    peaks: Vec<f64>,
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Times training and inference steps on a device, and prints a line of JSON for each.
pub fn measure(device: &Device, steps: usize, set: Set, graph: GraphKind, job: &Job) -> Result<()> {
    let Job { network, loss, store, size, .. } = job;
    let scope = if graph == GraphKind::Full { AttentionScope::Full } else { AttentionScope::Sparse };
    let source = GraphSource::new(store, scope);
    let weights = initial_weights(network, 41);
    let order = match device {
        Device::Cpu => cpu_order(job, steps),
        Device::Cuda { .. } => gpu_order(job),
    };
    let (mut backend, gpu_bytes): (Box<dyn Backend + '_>, Option<usize>) = match device {
        Device::Cpu => (Box::new(Cpu::new(&source, &weights, *loss, Isa::detect())), None),
        Device::Cuda { device, precision, cache } => {
            let data = CudaDataset::new(device, &source, network, *loss, &[Split::Train])?;
            let settings = CudaSettings {
                loss: *loss,
                batch: *size,
                signs_per_graph: false,
                precision: *precision,
                cache: cache.as_deref(),
            };
            let cuda = Cuda::new(&data, &weights, &settings, std::slice::from_ref(&order))?;
            let bytes = cuda.bytes() + data.bytes();
            (Box::new(cuda), Some(bytes))
        }
    };
    let mut batch = GraphBatch::new();
    batch.assemble(store, &order[..*size.min(&order.len())])?;
    let edges = if graph == GraphKind::Full { batch.full().num_edges() } else { batch.num_edges() };
    for mode in ["train", "infer"] {
        let train = mode == "train";
        let plan = |steps: usize| plan(&order[..(steps * size).min(order.len())], *size, train);
        // The first batches fill caches and buffers.
        run(backend.as_mut(), plan(CPU_BATCHES))?;
        let mut timing = match device {
            Device::Cpu => time_on_cpu(backend.as_mut(), plan(steps))?,
            Device::Cuda { .. } => time_on_gpu(backend.as_mut(), || plan(GPU_PASS), steps)?,
        };
        let flops = linear_flops(network, &batch, edges, train);
        let ms_median = median(&mut timing.steps).unwrap_or(f64::NAN);
        let gflops = flops / ms_median / 1e6;
        let gpu = match device {
            Device::Cuda { device, precision, .. } => Some((device, *precision)),
            Device::Cpu => None,
        };
        let peak = match gpu {
            Some((device, precision)) => limits::peak_gflops(device.name(), precision),
            None => median(&mut timing.peaks),
        };
        let gbs = gpu.map(|_| least_bytes(network, batch.num_nodes(), edges, train) / ms_median / 1e6);
        let bandwidth = gpu.and_then(|(device, _)| CudaDevice::bandwidth(device));
        console::print_json(&Line {
            set,
            graph,
            mode,
            device: if gpu.is_some() { "cuda" } else { "cpu" },
            threads: rayon::current_num_threads(),
            simd: Isa::detect().name(),
            precision: gpu.map_or(Precision::F32, |(_, precision)| precision).name(),
            batch: batch.num_graphs(),
            nodes: batch.num_nodes(),
            edges,
            ms_median,
            ms_min: timing.steps.first().copied().unwrap_or(f64::NAN),
            gflops,
            peak_gflops: peak,
            peak_share: peak.map(|peak| gflops / peak),
            rss_mb: peak_rss_mb(),
            s_per_epoch: job.epoch(ms_median),
            memory_mb: gpu_bytes.map(|bytes| bytes >> 20),
            bandwidth_gbs: gbs,
            bandwidth_share: gbs.zip(bandwidth).map(|(gbs, bytes)| 1e9 * gbs / bytes),
        })?;
    }
    Ok(())
}

fn plan(order: &[usize], size: usize, train: bool) -> PassPlan {
    let adam = Adam { lr: 7e-4, ..Default::default() };
    let step = TrainingPlan { adam, dropout_key: 0, accumulate: 1, skip_bad_steps: false, draws: (0, 0) };
    PassPlan { training: train.then_some(step), ..PassPlan::evaluation(Split::Train, order.to_vec(), size) }
}

/// A few batches, over and over.
fn cpu_order(job: &Job, steps: usize) -> Vec<usize> {
    let graphs = job.store.len();
    let batches = if graphs == 1 { 1 } else { CPU_BATCHES };
    let size = job.size.min(graphs);
    (0..steps.max(CPU_BATCHES))
        .flat_map(|step| (0..size).map(move |at| (step % batches * size + at) % graphs))
        .collect()
}

/// Every batch its own graphs, in an order that mixes their sizes.
fn gpu_order(job: &Job) -> Vec<usize> {
    let graphs = job.store.len() as u64;
    let mixed = |at: u64| ((at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % graphs) as usize;
    (0..(GPU_PASS * job.size) as u64).map(mixed).collect()
}

/// Times step by step; now and then the peak, because the speed of a shared machine changes.
fn time_on_cpu(backend: &mut dyn Backend, plan: PassPlan) -> Result<Timing> {
    let mut timing = Timing { steps: Vec::new(), peaks: Vec::new() };
    backend.begin(plan)?;
    let mut start = Instant::now();
    backend.finish(&mut |_| {
        timing.steps.push(start.elapsed().as_secs_f64() * 1e3);
        if timing.steps.len() % 4 == 1 {
            timing.peaks.push(peak_gflops(Isa::detect()));
        }
        start = Instant::now();
        ControlFlow::Continue(())
    })?;
    Ok(timing)
}

/// Times whole passes, and counts a step as its share.
fn time_on_gpu(backend: &mut dyn Backend, plan: impl Fn() -> PassPlan, steps: usize) -> Result<Timing> {
    let mut timing = Timing { steps: Vec::new(), peaks: Vec::new() };
    for _ in 0..steps.div_ceil(GPU_PASS).max(GPU_PASSES) {
        let start = Instant::now();
        run(backend, plan())?;
        timing.steps.push(start.elapsed().as_secs_f64() * 1e3 / GPU_PASS as f64);
    }
    Ok(timing)
}
