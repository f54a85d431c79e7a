//! Generators, files and batches: seconds and memory, one JSON object a line.
//!
//! `cargo bench -p gt-data`; the ZINC lines need the folder `shared/` next to the checkout.

use std::path::{Path, PathBuf};
use std::time::Instant;

use graph_transformer_data::{SbmSet, read, write};
use gt_graph::GraphBatch;

const REPEATS: usize = 3;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    for (name, set) in [("cluster", SbmSet::Cluster), ("pattern", SbmSet::Pattern)] {
        let path = folder.path().join(format!("{name}.parquet"));
        report(&format!("draw and write {name}"), || {
            let dataset = set.generate(41, set.published_sizes()).unwrap();
            write(&dataset, &path).unwrap();
            dataset.graphs().len()
        });
        report(&format!("read {name}"), || read(&path).unwrap().graphs().len());
    }
    for name in ["zinc12k.parquet", "zinc_full.parquet"] {
        let Some(path) = shared(name) else { continue };
        report(&format!("read {name}"), || read(&path).unwrap().graphs().len());
        let json = folder.path().join(name).with_extension("jsonl");
        write(&read(&path).unwrap(), &json).unwrap();
        report(&format!("read {name} as JSON lines"), || read(&json).unwrap().graphs().len());
    }
    if let Some(path) = shared("zinc12k.parquet") {
        batches(&path, "zinc", 128);
    }
    batches(&folder.path().join("pattern.parquet"), "pattern", 26);
}

fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    path.exists().then_some(path)
}

/// Measures the time of a job and the peak memory of the process. The peak includes earlier jobs.
fn report(what: &str, mut job: impl FnMut() -> usize) {
    let mut seconds: Vec<f64> = Vec::new();
    let mut graphs = 0;
    for _ in 0..REPEATS {
        let start = Instant::now();
        graphs = job();
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    println!(
        "{}",
        serde_json::json!({
            "bench": what, "graphs": graphs, "threads": rayon::current_num_threads(),
            "s_median": seconds[REPEATS / 2], "s_min": seconds[0], "peak_rss_mb": peak_mb(),
        })
    );
}

/// Time to assemble a batch of graphs in random order, in steady state.
fn batches(path: &Path, name: &str, size: usize) {
    let dataset = read(path).unwrap();
    let mut batch = GraphBatch::new();
    let mut micros: Vec<f64> = Vec::new();
    let count = dataset.graphs().len();
    for round in 0..400 {
        let ids: Vec<usize> = (0..size).map(|i| (round * 7919 + i * 104_729) % count).collect();
        let start = Instant::now();
        batch.assemble(dataset.graphs(), &ids).unwrap();
        micros.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let mut steady = micros.split_off(100);
    steady.sort_by(f64::total_cmp);
    let (nodes, edges) = (batch.num_nodes(), batch.num_edges());
    println!(
        "{}",
        serde_json::json!({
            "bench": format!("batch of {size} {name} graphs"), "nodes": nodes, "edges": edges,
            "us_median": steady[steady.len() / 2], "us_min": steady[0],
        })
    );
}

fn peak_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb / 1024)
}
