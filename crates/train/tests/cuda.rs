//! Trained models and runs on a GPU, against the same on the CPU. `GT_CACHE=DIR` keeps compiled
//! kernels.

mod support;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use graph_transformer_train::{
    Prepared, Purpose, Query, QueryOptions, Resident, RunDirectory, Trainer, evaluate, query,
};
use gt_data::{Dataset, RandomStream};
use gt_graph::Split;
use gt_models::{Config, Model};
use gt_nn::backend::Device;
use gt_nn::cuda::{CudaDevice, Precision};
use gt_testing::{Resource, skip};
use serde_json::{Value, json};
use support::{Interrupter, last_model, prepare, sit};

/// A GPU, if there is one.
fn gpu() -> Option<Device> {
    let device = CudaDevice::open(0).map_err(|error| skip(Resource::Cuda, error)).ok()?;
    let cache = std::env::var_os("GT_CACHE").map(|folder| PathBuf::from(folder).join("kernels"));
    Some(Device::Cuda { device, precision: Precision::F32, cache })
}

/// A tree with some more edges, listed in no order that a device would choose; targets on a level.
fn graph(number: u64, level: &str) -> Value {
    let mut random = RandomStream::new(3, 201, number);
    let nodes = 2 + random.below(9) as usize;
    let kinds: Vec<u32> = (0..nodes).map(|_| random.below(4)).collect();
    let mut ends: Vec<[usize; 2]> = (1..nodes).map(|node| [random.below(node as u32) as usize, node]).collect();
    ends.push([0, nodes - 1]);
    ends.extend(ends.clone().iter().map(|[a, b]| [*b, *a]));
    random.shuffle(&mut ends);
    let bonds: Vec<u32> = ends.iter().map(|[a, b]| (kinds[*a] + kinds[*b]) % 3).collect();
    let y = match level {
        "graph" => json!([[100.0 + 7.5 * f64::from(kinds.iter().sum::<u32>()), -0.001 * nodes as f64]]),
        "node" => json!(kinds.iter().map(|kind| kind / 2).collect::<Vec<_>>()),
        _ => json!(bonds),
    };
    let column = |values: &[u32]| values.iter().map(|value| [*value]).collect::<Vec<_>>();
    let (src, dst): (Vec<usize>, Vec<usize>) = ends.iter().map(|[a, b]| (*a, *b)).unzip();
    let split = ["train", "train", "val", "test"][number as usize % 4];
    json!({"num_nodes": nodes, "node_feat": column(&kinds), "edge_index": [src, dst], "edge_attr": column(&bonds), "y": y, "split": split})
}

/// Forty graphs in a file.
fn written(folder: &Path, level: &str) -> PathBuf {
    let text: String = (0..40).map(|number| format!("{}\n", graph(number, level))).collect();
    let path = folder.join("data.jsonl");
    std::fs::write(&path, text).unwrap();
    path
}

fn config(settings: &[&str]) -> Config {
    let small = "[model]\nlayers = 2\nwidth = 16\nheads = 4\nencoding = \"laplacian\"\nencoding_size = 3\n\
                 [optimizer]\nlr = 1e-2\n[train]\nbatch = 7\nepochs = 3\n";
    Config::from_toml_with(small, &settings.iter().map(|s| s.to_string()).collect::<Vec<_>>()).unwrap()
}

/// A model trained on the CPU.
fn trained(dataset: &Dataset, config: &Config) -> Model {
    let folder = tempfile::tempdir().unwrap();
    sit(dataset, config, folder.path(), 0);
    last_model(folder.path())
}

/// The rows that a model predicts for a file.
fn rows(model: &Model, data: &Path, device: &Device) -> Vec<serde_json::Map<String, Value>> {
    let out = data.with_file_name("predicted.jsonl");
    query(&model.clone().into(), data, &out, &Query::Predictions(device.clone()), &QueryOptions::default()).unwrap();
    std::fs::read_to_string(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn predictions_on_a_gpu_line_up_with_those_of_the_cpu() {
    let Some(device) = gpu() else { return };
    for level in ["graph", "node", "edge"] {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), level);
        let model = trained(&gt_data::read(&path).unwrap(), &config(&["train.batch=6"]));
        // A graph that the model cannot take, in the middle.
        let mut text = std::fs::read_to_string(&path).unwrap();
        let mut strange = graph(7, level);
        strange["node_feat"][1] = json!([99]);
        let place = text.match_indices('\n').nth(9).unwrap().0 + 1;
        text.insert_str(place, &format!("{strange}\n"));
        std::fs::write(&path, text).unwrap();
        let expected = rows(&model, &path, &Device::Cpu);
        let found = rows(&model, &path, &device);
        assert_eq!(found.len(), expected.len());
        assert!(expected.iter().any(|row| row["reason"] != Value::Null), "the strange graph has a reason");
        for (at, (f, e)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(f.keys().collect::<Vec<_>>(), e.keys().collect::<Vec<_>>());
            for (key, value) in e {
                match (value.as_f64(), f[key].as_f64()) {
                    (Some(e), Some(f)) => {
                        assert!((f - e).abs() <= 1e-4 * e.abs().max(1.0), "{level} {at} {key}: {f}, {e}")
                    }
                    _ => assert_eq!(&f[key], value, "{level} {at} {key}"),
                }
            }
        }
    }
}

#[test]
fn scores_on_a_gpu_are_those_of_the_cpu() {
    let Some(device) = gpu() else { return };
    for level in ["graph", "node", "edge"] {
        let folder = tempfile::tempdir().unwrap();
        let dataset = gt_data::read(&written(folder.path(), level)).unwrap();
        // What only training cannot do on GPUs is no hindrance.
        let model = trained(&dataset, &config(&["train.accumulate=2"]));
        let data = Prepared::for_model(dataset, &model, None).unwrap();
        let [mut cpu, mut gpu] = [Device::Cpu, device.clone()].map(|device| {
            let resident = data.place(&device).unwrap();
            let mut backend = resident.backend(&data, &model.config, Purpose::Evaluation).unwrap();
            backend.load(&model.weights, None).unwrap();
            backend
        });
        for split in Split::ALL {
            let expected = evaluate(&data, cpu.as_mut(), split, 7).unwrap();
            let found = evaluate(&data, gpu.as_mut(), split, 7).unwrap();
            for (f, e) in [
                (found.loss.exact, expected.loss.exact),
                (found.loss.paper, expected.loss.paper),
                (found.metric.exact, expected.metric.exact),
                (found.metric.paper, expected.metric.paper),
            ] {
                assert!((f - e).abs() <= 1e-4 * e.abs().max(1e-2), "{level} {split:?}: {f}, {e}");
            }
        }
    }
}

#[test]
fn runs_that_share_data_on_a_gpu_end_as_runs_alone() {
    let Some(device) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let dataset = gt_data::read(&written(folder.path(), "graph")).unwrap();
    let data = prepare(&dataset, &config(&[]));
    let weights = |resident: &Resident, seed: u64| {
        let config = config(&[&format!("train.seed={seed}"), "model.dropout=0.1"]);
        let folder = tempfile::tempdir().unwrap();
        let run = RunDirectory::open(folder.path()).unwrap();
        let flag = AtomicBool::new(false);
        let mut observer = Interrupter { flag: &flag, after: usize::MAX, notes: vec![], epochs: vec![] };
        let backend = resident.backend(&data, &config, Purpose::Training).unwrap();
        let trainer = Trainer::new(&data, &config, &run, backend, &mut observer).unwrap();
        trainer.run(&flag, &mut observer).unwrap().weights_sha256
    };
    let seeds = [41, 95, 22, 35];
    let alone = seeds.map(|seed| weights(&data.place(&device).unwrap(), seed));
    let shared = data.place(&device).unwrap();
    let together = std::thread::scope(|scope| {
        seeds
            .map(|seed| {
                scope.spawn({
                    let (weights, shared) = (&weights, &shared);
                    move || weights(shared, seed)
                })
            })
            .map(|run| run.join().unwrap())
    });
    assert_eq!(together, alone);
    assert_ne!(alone[0], alone[1]);
}
