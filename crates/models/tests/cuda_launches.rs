//! Driver calls of every preset in training and inference, recorded without a GPU.
//!
//! `golden/cuda_launches/presets.txt` has a digest for each preset, precision and part of a run.
//! For some presets the captured launches are on file line by line. `GT_RECORD=1` writes the files.
//! `GT_RECORDINGS=DIR` keeps complete recordings, to compare them with those of another commit.
#![cfg(target_os = "linux")]

use gt_nn::AttentionScope;
use std::path::Path;

use graph_transformer_models::{Config, Preset};
use gt_cuda_recorder::{Recorder, Recording, compare};
use gt_graph::encoding::{Coordinates, Encodings};
use gt_graph::{
    FeatureLayout, FeatureRows, GraphBatch, GraphParts, GraphStore, Layout, Level, TargetKind, TargetLayout, TargetRows,
};

use gt_nn::cpu::Adam;
use gt_nn::cuda::{CudaDevice, CudaEngine, CudaLabels, CudaTask, Pass, Precision, ResidentData};
use gt_nn::{Loss, Network, Weights};

/// Presets whose captured launches are on file line by line.
///
/// They cover each kind of layer, edge streams, sparse and full graphs, norms and precisions.
const IN_FULL: [&str; 5] = [
    "zinc-sparse-lappe-bn-tf32",
    "cluster-full-lappe-ln-f32",
    "zinc-gcn-f32",
    "zinc-gat-f32",
    "cluster-gatedgcn-lappe-bf16",
];

/// Graphs per batch.
const BATCH: usize = 4;

/// Nodes of each graph. The four largest make a batch that needs the capture for the largest batch.
fn sizes() -> Vec<usize> {
    (0..36).map(|number| 6 + number * 7 % 9).chain([37, 38, 39, 40]).collect()
}

/// What a preset trains, and on which edges.
fn network(preset: &Preset) -> (Network, Loss, AttentionScope) {
    let (config, schema): (Config, _) = (preset.config(), preset.set.schema());
    (config.network(&schema).unwrap(), config.loss(&schema).unwrap(), preset.graph)
}

/// Rings with chords, and everything that a network reads.
fn graphs(network: &Network, loss: Loss) -> GraphStore {
    let level = network.reads.level();
    let kind = if loss == Loss::L1 { TargetKind::Float } else { TargetKind::Class };
    let mut store = GraphStore::new(Layout {
        node: FeatureLayout { categorical: network.node.categorical.len(), ..Default::default() },
        edge: FeatureLayout { categorical: network.edge.categorical.len(), ..Default::default() },
        target: Some(TargetLayout { level, kind, columns: 1 }),
    });
    let types = |vocabularies: &[usize], rows: usize| -> Vec<u32> {
        (0..rows).flat_map(|row| vocabularies.iter().map(move |&size| (row * 5 % size) as u32)).collect()
    };
    for nodes in sizes() {
        let ends = (0..nodes).flat_map(|node| [(node, (node + 1) % nodes), (node, (node * 3 + 2) % nodes)]);
        let (src, dst): (Vec<u32>, Vec<u32>) = ends.map(|(from, to)| (from as u32, to as u32)).unzip();
        let rows = if level == Level::Graph { 1 } else { nodes };
        let floats: Vec<f32> = (0..rows).map(|row| (nodes + row) as f32 / 8.0).collect();
        let classes: Vec<u32> = (0..rows).map(|row| (row % network.outputs()) as u32).collect();
        let parts = GraphParts {
            num_nodes: nodes,
            src: &src,
            dst: &dst,
            node: FeatureRows { categorical: &types(&network.node.categorical, nodes), ..Default::default() },
            edge: FeatureRows { categorical: &types(&network.edge.categorical, src.len()), ..Default::default() },
            target: Some(match kind {
                TargetKind::Float => TargetRows::Float(&floats),
                TargetKind::Class => TargetRows::Class(&classes),
            }),
        };
        store.push(parts).unwrap();
    }
    let (nodes, width) = (store.num_nodes(), network.node.laplacian);
    let laplacian = Coordinates { width, values: (0..nodes * width).map(|at| (at % 17) as f32 / 16.0 - 0.5).collect() };
    let encodings = Encodings {
        laplacian: (width > 0).then_some(laplacian),
        weisfeiler_lehman: network.node.roles.map(|size| (0..nodes).map(|node| (node % size) as u32).collect()),
        ..Default::default()
    };
    store.set_encodings(encodings).unwrap();
    store
}

/// The recorded parts of a run.
struct Life {
    data: Recording,
    engine: Recording,
    captured: Recording,
    passes: Recording,
}

fn live(preset: &Preset, precision: Precision) -> Life {
    let (network, loss, edges) = network(preset);
    let graphs = graphs(&network, loss);
    let recorder = Recorder::start();
    let device = CudaDevice::open(0).unwrap();
    let data = ResidentData::new(&device, &graphs, &network, edges).unwrap();
    let mut all = GraphBatch::new();
    all.assemble(&graphs, &(0..graphs.len()).collect::<Vec<_>>()).unwrap();
    let rows = graphs.rows(network.reads.level());
    let labels = CudaLabels::new(&device, rows, all.target().unwrap()).unwrap();
    let of_data = recorder.take();
    let task = CudaTask {
        network: network.clone(),
        loss,
        batch: BATCH,
        rows,
        listed: graphs.len(),
        signs_per_graph: false,
        precision,
    };
    let mut engine = CudaEngine::new(&device, &data, task, None).unwrap();
    let of_engine = recorder.take();
    engine.prepare().unwrap();
    let captured = recorder.take();
    engine.load(&Weights::zeros(&network), None).unwrap();
    let order: Vec<u32> = (0..graphs.len() as u32).collect();
    let batches = graphs.len() / BATCH;
    let signs = vec![1.0; network.node.laplacian * batches];
    let adam = Adam { lr: 1e-3, ..Default::default() };
    for (train, signs) in [(Some((adam, 41)), &signs[..]), (None, &[])] {
        engine.begin(Pass { order: &order, from: 0, signs, labels: &labels, train }).unwrap();
        engine.launch(batches).unwrap();
        engine.finish().unwrap();
    }
    engine.gradients().unwrap();
    engine.optimizer().unwrap();
    engine.weights().unwrap();
    drop((engine, labels, data, device));
    let passes = recorder.take();
    assert_eq!(recorder.held(), "", "{}", preset.name());
    Life { data: of_data, engine: of_engine, captured, passes }
}

#[test]
fn launches_of_every_preset_are_those_on_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cuda_launches");
    let mut lines = String::new();
    for preset in Preset::all() {
        for precision in Precision::ALL {
            let name = format!("{}-{}", preset.name(), precision.name());
            let Life { data, engine, captured, passes } = live(&preset, precision);
            lines += &name;
            lines.push('\n');
            for (part, recording) in [("data", data), ("engine", engine), ("captured", captured), ("passes", passes)] {
                recording.keep(&format!("{name}-{part}"));
                assert_eq!(recording.lines_of("misuse").next(), None, "{name} {part}");
                lines += &format!("    {part:8} {}\n", recording.digest());
                if part == "captured" && IN_FULL.contains(&name.as_str()) {
                    compare(&folder.join(format!("{name}.txt")), &recording.brief());
                }
            }
        }
    }
    compare(&folder.join("presets.txt"), &lines);
}
