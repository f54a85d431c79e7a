//! Memory: queries need that of a chunk, and a training has one copy of its graphs.

use std::path::Path;

use graph_transformer_train::{OnError, Prepared, Purpose, Query, Resident, RunDirectory, Shard, Trainer, query};
use gt_data::{Dataset, SbmSet, SbmSizes, read, write};
use gt_models::{Config, Model};
use gt_nn::backend::Device;
use gt_testing::PeakMemory;

#[global_allocator]
static MEMORY: PeakMemory = PeakMemory::new();

fn cluster(train: usize) -> Dataset {
    SbmSet::Cluster.generate(7, SbmSizes { train, val: 2, test: 2 }).unwrap()
}

/// A network whose own memory is small.
fn config() -> Config {
    Config::from_toml("[model]\nlayers = 1\nwidth = 8\nheads = 2\n[train]\nepochs = 1\nbatch = 2").unwrap()
}

/// A model, trained for an epoch.
fn model(folder: &Path) -> Model {
    let (config, run) = (config(), RunDirectory::open(&folder.join("run")).unwrap());
    let prepared = Prepared::for_training(cluster(4), &config, None).unwrap();
    let backend = Resident::Cpu.backend(&prepared, &config, Purpose::Training).unwrap();
    Trainer::new(&prepared, &config, &run, backend, &mut ()).unwrap().run(&false.into(), &mut ()).unwrap();
    Model::open(folder.join("run/model.safetensors")).unwrap()
}

#[test]
fn a_query_of_ten_times_the_graphs_needs_the_same_memory() {
    let _alone = MEMORY.alone();
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    // A chunk holds about a million nodes and edges: some 220 of these graphs.
    let graphs = 446;
    let lines = folder.path().join("small.jsonl");
    write(&cluster(graphs), &lines).unwrap();
    let text = std::fs::read_to_string(&lines).unwrap();
    let (first, others) = text.split_once('\n').unwrap();
    let copies = format!("{first}\n{}", others.repeat(10));
    let large = folder.path().join("large.jsonl");
    std::fs::write(&large, copies).unwrap();
    drop(text);
    for queried in [Query::Predictions(Device::Cpu), Query::Embeddings(gt_graph::Level::Node)] {
        let peak = |data: &Path| {
            let out = folder.path().join("out.jsonl");
            let run = || query(&model, data, &out, &queried, OnError::Stop, Shard::WHOLE).unwrap();
            let (report, peak) = MEMORY.measure(run);
            (report.graphs, peak)
        };
        let ((few, of_few), (many, of_many)) = (peak(&lines), peak(&large));
        assert!(few > 400 && many > 9 * few, "{few} and {many} graphs");
        assert!(of_many < of_few + of_few / 5, "{few} graphs: {of_few} bytes, {many} graphs: {of_many} bytes");
    }
}

#[test]
fn reading_and_preparing_a_training_hold_the_graphs_once() {
    let _alone = MEMORY.alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write(&cluster(600), &path).unwrap();
    let config = config();
    let (prepared, peak) = MEMORY.measure(|| Prepared::for_training(read(&path).unwrap(), &config, None).unwrap());
    let graphs = prepared.graphs.bytes();
    // Next to the graphs there are decoded pages and chunks of the file, but no second copy.
    assert!(peak < graphs + graphs * 3 / 4, "graphs have {graphs} bytes, the peak is {peak}");
}
