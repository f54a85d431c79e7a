//! Steps on the processor.

use std::time::Instant;

use anyhow::Result;
use gt_graph::GraphBatch;
use gt_models::initialise;
use gt_nn::cpu::{Adam, Edges, Engine, Isa, peak_gflops};

use super::{GraphKind, Job, Line, Set, linear_flops, peak_rss_mb};
use crate::console;

/// Times training and inference steps one by one.
pub fn measure(steps: usize, set: Set, graph: GraphKind, job: Job) -> Result<()> {
    let Job { network, loss, store, size, .. } = &job;
    let (loss, size) = (*loss, *size);
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
            batch.assemble(store, &ids).map(|()| batch)
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
        for round in 0..steps {
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
        let flops = linear_flops(network, batch, count, mode == "train");
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
            peak_gflops: Some(peak),
            peak_share: Some(flops / median / 1e6 / peak),
            rss_mb: peak_rss_mb(),
            s_per_epoch: job.epoch(median),
            memory_mb: None,
            bandwidth_gbs: None,
            bandwidth_share: None,
        })?;
    }
    Ok(())
}
