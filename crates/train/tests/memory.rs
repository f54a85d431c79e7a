//! Memory: queries need that of a chunk, and a training has one copy of its graphs.

use std::path::Path;

use graph_transformer_train::{
    OnError, Prepared, Purpose, Query, QueryOptions, Resident, RunDirectory, Trainer, query,
};
use gt_data::{Dataset, SbmSet, SbmSizes, read, write};
use gt_graph::Level;
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
fn a_query_of_four_times_the_graphs_needs_the_same_memory() {
    let _alone = MEMORY.alone();
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let once = folder.path().join("once.jsonl");
    write(&cluster(446), &once).unwrap();
    let text = std::fs::read_to_string(&once).unwrap();
    // The first line has the schema.
    let (first, others) = text.split_once('\n').unwrap();
    // A chunk has about 220 of these graphs. Even the small file has several chunks.
    let files = [2, 8].map(|copies| {
        let path = folder.path().join(format!("{copies}.jsonl"));
        std::fs::write(&path, format!("{first}\n{}", others.repeat(copies))).unwrap();
        path
    });
    for queried in [Query::Predictions(Device::Cpu), Query::Embeddings(Level::Node)] {
        let models = model.clone().into();
        let options = QueryOptions { on_error: OnError::Stop, ..Default::default() };
        let [small, large] = files.each_ref().map(|data| {
            let out = folder.path().join("out.jsonl");
            let run = || query(&models, data, &out, &queried, &options).unwrap();
            let (report, peak) = MEMORY.measure(run);
            (report.graphs, peak)
        });
        assert!(small.0 > 800 && large.0 > 3500, "{small:?} {large:?}");
        assert!(large.1 < small.1 + small.1 / 10, "graphs and bytes: {small:?} {large:?}");
    }
}

#[test]
fn reading_and_preparing_a_training_hold_the_graphs_once() {
    let _alone = MEMORY.alone();
    let folder = tempfile::tempdir().unwrap();
    let config = config();
    // Parquet states how many nodes and edges there are. For JSON lines, memory grows by doubling.
    for (name, most) in [("data.parquet", 1.5), ("data.jsonl", 2.2)] {
        let path = folder.path().join(name);
        let [small, large] = [500, 1500].map(|graphs| {
            write(&cluster(graphs), &path).unwrap();
            let prepare = || Prepared::for_training(read(&path).unwrap(), &config, None).unwrap();
            let (prepared, peak) = MEMORY.measure(prepare);
            (prepared.graphs.bytes(), peak)
        });
        // A chunk of the file takes as much for both. A second copy of the graphs would add 1.
        let growth = (large.1 as f64 - small.1 as f64) / (large.0 - small.0) as f64;
        assert!(growth < most, "{name}: the peak grows by {growth} bytes per byte of graphs");
    }
}
