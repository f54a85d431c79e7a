//! Truncated files and thousands of random corruptions of small valid files. The result is an error
//! or checked data, never a panic, and never memory that the file cannot justify.

mod support;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use graph_transformer_data::{Dataset, SbmSet, SbmSizes, read, write};
use gt_graph::{GraphStore, Level, TargetKind};
use gt_testing::{PeakMemory, Resource, skip};
use support::{Draw, Shape, make};

#[global_allocator]
static MEMORY: PeakMemory = PeakMemory::new();

const LIMIT: usize = 64 << 20;
const CORRUPTIONS: usize = 10_000;

/// Reads a file that may be damaged, and checks the result.
fn survives(path: &Path, what: &str) -> Result<Dataset, String> {
    let (result, peak) = MEMORY.measure(|| catch_unwind(AssertUnwindSafe(|| read(path))));
    let result = result.unwrap_or_else(|_| panic!("{what}: the reader panicked"));
    assert!(peak <= LIMIT, "{what}: {peak} bytes were in use at once");
    if let Ok(dataset) = &result {
        // A store checks every graph. A second insertion proves that the first one passed these
        // checks.
        let store = dataset.graphs();
        let mut again = GraphStore::new(store.layout().clone());
        store.iter().for_each(|graph| again.push(graph.parts()).unwrap());
    }
    result.map_err(|e| e.to_string())
}

fn shape() -> Shape {
    Shape {
        graphs: 6,
        largest: 5,
        node: (1, 2, true),
        edge: (2, 1, false),
        target: Some((Level::Node, TargetKind::Class, 2)),
        split: Some(Level::Graph),
        encodings: true,
    }
}

/// Damages `damaged`, which is one of the files that `opened` refers to, in every way, and reads
/// `opened`.
fn torture(opened: &Path, damaged: &Path, corruptions: usize, truncation_is_error: bool) {
    let valid = fs::read(damaged).unwrap();
    survives(opened, "the valid file").unwrap();
    for length in 0..valid.len() {
        fs::write(damaged, &valid[..length]).unwrap();
        let result = survives(opened, &format!("cut to {length} bytes"));
        assert!(!truncation_is_error || result.is_err(), "cut to {length} bytes, and nobody noticed");
    }
    let mut draw = Draw(valid.len() as u64);
    let mut noticed = 0;
    for round in 0..corruptions {
        let mut bytes = valid.clone();
        let kind = draw.below(4);
        for _ in 0..=draw.below(3) {
            let at = draw.below(bytes.len());
            match kind {
                0 => bytes[at] ^= 1 << draw.below(8),
                1 => bytes[at] = draw.next() as u8,
                2 => bytes[at] = [0x00, 0x7f, 0x80, 0xff][draw.below(4)],
                _ => {
                    let end = (at + 1 + draw.below(8)).min(bytes.len());
                    bytes[at..end].fill(0xff);
                }
            }
        }
        fs::write(damaged, &bytes).unwrap();
        noticed += usize::from(survives(opened, &format!("corruption {round} (kind {kind})")).is_err());
    }
    fs::write(damaged, &valid).unwrap();
    assert!(noticed > corruptions / 10, "only {noticed} corruptions were noticed");
}

#[test]
fn damaged_parquet_is_refused_or_checked() {
    let _alone = MEMORY.alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graphs.parquet");
    write(&make(&shape(), 1), &path).unwrap();
    torture(&path, &path, CORRUPTIONS, true);
}

#[test]
fn damaged_parquet_of_plain_columns_is_refused_or_checked() {
    let _alone = MEMORY.alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graphs.parquet");
    write(&SbmSet::Cluster.generate(1, SbmSizes { train: 1, val: 0, test: 0 }).unwrap(), &path).unwrap();
    torture(&path, &path, CORRUPTIONS, true);
}

#[test]
fn damaged_json_lines_are_refused_or_checked() {
    let _alone = MEMORY.alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graphs.jsonl");
    write(&make(&shape(), 2), &path).unwrap();
    torture(&path, &path, CORRUPTIONS, false);
}

#[test]
fn damaged_tables_are_refused_or_checked() {
    let _alone = MEMORY.alone();
    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("x_nodes.csv");
    write(&make(&shape(), 3), &nodes).unwrap();
    for name in ["x_nodes.csv", "x_edges.csv", "x_graphs.csv", "x_schema.csv.json"] {
        torture(&nodes, &folder.path().join(name), CORRUPTIONS / 4, false);
    }
    let nodes = folder.path().join("y_nodes.parquet");
    write(&make(&shape(), 4), &nodes).unwrap();
    torture(&nodes, &nodes, CORRUPTIONS, true);
}

#[test]
fn counts_without_content_claim_no_memory() {
    let _alone = MEMORY.alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("claim.jsonl");
    for line in [
        r#"{"num_nodes": 4000000000, "edge_index": [[], []]}"#,
        r#"{"num_nodes": 1e300, "edge_index": [[], []]}"#,
        r#"{"num_nodes": -1, "edge_index": [[], []]}"#,
        r#"{"num_nodes": 2, "edge_index": [[0], [4294967295]]}"#,
    ] {
        fs::write(&path, line).unwrap();
        let message = survives(&path, line).unwrap_err();
        assert!(message.contains("graph 0"), "{message}");
    }
}

/// `GT_HOSTILE=DIR` also damages copies of small Parquet files from other writers.
#[test]
fn damaged_parquet_of_other_writers_is_refused_or_checked() {
    let Some(given) = std::env::var_os("GT_HOSTILE") else {
        return skip(Resource::Hostile, "GT_HOSTILE names no folder of Parquet files");
    };
    let _alone = MEMORY.alone();
    for entry in fs::read_dir(given).unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graphs.parquet");
        fs::copy(entry.unwrap().path(), &path).unwrap();
        torture(&path, &path, CORRUPTIONS, true);
    }
}
