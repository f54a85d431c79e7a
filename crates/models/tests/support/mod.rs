//! Fixtures: one model, one batch, and what must come out.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod comparison;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use graph_transformer_models::parameter_name;
use gt_graph::encoding::{Coordinates, Encodings};
use gt_graph::{
    FeatureLayout, FeatureRows, GraphBatch, GraphParts, GraphStore, Layout, Level, TargetKind, TargetLayout, TargetRows,
};
use gt_nn::cpu::{Engine, Isa};
use gt_nn::{Branch, Channels, HeadInput, Input, Loss, Network, Norm, Readout, Real, Weights};
use gt_testing::{Resource, skip};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// One model, one batch, and what must come out.
pub struct Fixture {
    pub name: String,
    pub config: Value,
    pub metadata: HashMap<String, String>,
    pub tensors: HashMap<String, Vec<f64>>,
}

impl Fixture {
    pub fn read(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let metadata = header.metadata().clone().unwrap_or_default();
        let config: Value = serde_json::from_str(metadata.get("config")?).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = file.tensors().into_iter().map(|(name, view)| {
            let data = view.data();
            let values = match view.dtype() {
                Dtype::F32 => data.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
                Dtype::F64 => data.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
                Dtype::I64 => data.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b) as f64).collect(),
                other => panic!("{name}: {other:?}"),
            };
            (name, values)
        });
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Some(Self { name, config, metadata, tensors: tensors.collect() })
    }

    pub fn int(&self, key: &str) -> usize {
        self.config[key].as_u64().unwrap() as usize
    }

    pub fn integers(&self, key: &str) -> Vec<u32> {
        self.tensors[key].iter().map(|&v| v as u32).collect()
    }

    pub fn edge_model(&self) -> bool {
        self.config["model"] == "gt_edge" || self.config["model"] == "gatedgcn"
    }

    pub fn branch(&self) -> Branch {
        match self.config["model"].as_str().unwrap() {
            "gt" | "gt_edge" => Branch::Attention,
            "gcn" => Branch::Gcn,
            "gat" => Branch::Gat,
            "gatedgcn" => Branch::GatedGcn,
            other => panic!("{}: {other}", self.name),
        }
    }

    pub fn graph_task(&self) -> bool {
        self.config["task"] == "graph_reg"
    }

    pub fn network(&self) -> Network {
        let d = self.int("hidden");
        let pe = self.config["pe"].as_str().unwrap();
        let edge_types = self.int("n_edge_types");
        Network {
            branches: vec![self.branch()],
            feed_forward: self.branch() == Branch::Attention,
            norm: if self.config["norm"] == "bn" { Norm::Batch } else { Norm::Layer },
            residual: self.config["residual"].as_bool().unwrap(),
            edge_stream: self.edge_model(),
            node: Input {
                categorical: vec![self.int("n_node_types")],
                laplacian: if pe == "lap" { self.int("pe_dim") } else { 0 },
                roles: (pe == "wl").then(|| self.int("wl_vocab")),
                ..Default::default()
            },
            edge: Input {
                categorical: if edge_types > 0 { vec![edge_types] } else { vec![] },
                constant: edge_types == 0,
                ..Default::default()
            },
            reads: if self.graph_task() { HeadInput::Graphs(Readout::Mean) } else { HeadInput::Nodes },
            head: vec![d / 2, d / 4, self.int("n_out")],
            ..Network::new(Channels::new(d, self.int("heads")), self.int("n_layers"))
        }
    }

    pub fn loss(&self) -> Loss {
        if self.graph_task() { Loss::L1 } else { Loss::CrossEntropy { weighted: true } }
    }

    /// Names of the network's parameters, in their order.
    pub fn names<T: Real>(&self, weights: &Weights<T>) -> Vec<String> {
        weights.parameters().list().iter().map(|p| parameter_name(weights.network(), p.role())).collect()
    }

    /// The weights of the file, all of which the network must know.
    pub fn weights<T: Real>(&self) -> Weights<T> {
        let mut weights = Weights::zeros(&self.network());
        let names = self.names(&weights);
        for (index, name) in names.iter().enumerate() {
            let values: Vec<T> = self.tensors[&format!("param.{name}")].iter().map(|&v| T::from_f64(v)).collect();
            weights.set_parameter(index, &values);
        }
        let stored = self.tensors.keys().filter(|key| key.starts_with("param.")).count();
        assert_eq!(stored, names.len(), "{}: parameters", self.name);
        weights
    }

    /// An engine with the weights of the file.
    pub fn engine<T: Real>(&self, isa: Isa) -> Engine<T> {
        let mut engine = Engine::<T>::new(self.network(), isa);
        engine.load(&self.weights());
        engine
    }

    /// The graphs.
    pub fn store(&self) -> GraphStore {
        let edge_types = self.edge_model() && self.int("n_edge_types") > 0;
        let target =
            if self.graph_task() { (Level::Graph, TargetKind::Float) } else { (Level::Node, TargetKind::Class) };
        let mut store = GraphStore::new(Layout {
            node: FeatureLayout { categorical: 1, ..Default::default() },
            edge: FeatureLayout { categorical: usize::from(edge_types), ..Default::default() },
            target: Some(TargetLayout { level: target.0, kind: target.1, columns: 1 }),
        });
        let (src, dst) = (self.integers("input.src"), self.integers("input.dst"));
        let types = self.integers("input.node_type");
        let bonds = if edge_types { self.integers("input.edge_type") } else { vec![] };
        let (mut node, mut edge) = (0usize, 0usize);
        for (graph, (n, e)) in
            self.integers("input.n_nodes").into_iter().zip(self.integers("input.n_edges")).enumerate()
        {
            let (n, e) = (n as usize, e as usize);
            let local = |ends: &[u32]| ends[edge..edge + e].iter().map(|v| v - node as u32).collect::<Vec<u32>>();
            let floats: Vec<f32>;
            let classes: Vec<u32>;
            let target = if self.graph_task() {
                floats = vec![self.tensors["input.target"][graph] as f32];
                TargetRows::Float(&floats)
            } else {
                classes = self.tensors["input.target"][node..node + n].iter().map(|&v| v as u32).collect();
                TargetRows::Class(&classes)
            };
            store
                .push(GraphParts {
                    num_nodes: n,
                    src: &local(&src),
                    dst: &local(&dst),
                    node: FeatureRows { categorical: &types[node..node + n], ..Default::default() },
                    edge: FeatureRows {
                        categorical: if edge_types { &bonds[edge..edge + e] } else { &[] },
                        ..Default::default()
                    },
                    target: Some(target),
                })
                .unwrap();
            node += n;
            edge += e;
        }
        let laplacian = self.tensors.get("input.lap_pe").map(|values| Coordinates {
            width: self.int("pe_dim"),
            values: values.iter().map(|&v| v as f32).collect(),
        });
        let roles = self.tensors.contains_key("input.wl_pe").then(|| self.integers("input.wl_pe"));
        store.set_encodings(Encodings { laplacian, weisfeiler_lehman: roles, ..Default::default() }).unwrap();
        store
    }

    /// The graphs as one batch.
    pub fn batch(&self) -> GraphBatch {
        let store = self.store();
        let mut batch = GraphBatch::new();
        batch.assemble(&store, &(0..store.len()).collect::<Vec<_>>()).unwrap();
        batch
    }

    pub fn listed(&self, key: &str) -> Vec<String> {
        self.metadata.get(key).map_or(vec![], |text| serde_json::from_str(text).unwrap())
    }

    /// Whether the batch is fully connected, so that the computed topology must give the same.
    pub fn is_full(&self) -> bool {
        let pairs: usize =
            self.integers("input.n_nodes").iter().map(|&n| n as usize * (n as usize).saturating_sub(1)).sum();
        pairs > 0
            && pairs == self.tensors["input.src"].len()
            && self.name.contains("full")
            && !self.name.contains("full_size")
    }
}

/// Where fixtures are: what `GT_FIXTURES` says, or the repository's own and those next to it.
fn folders() -> Vec<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match std::env::var_os("GT_FIXTURES") {
        // Cargo runs tests in their crate's folder; a relative path is one of the workspace, from
        // where they are started. By itself a test is run anywhere.
        Some(folder) => vec![if workspace.is_dir() { workspace.join(folder) } else { folder.into() }],
        None => vec![workspace.join("crates/models/tests/fixtures"), workspace.join("../shared/fixtures")],
    }
}

pub fn fixtures() -> Vec<Fixture> {
    let mut found = Vec::new();
    for folder in folders() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            skip(Resource::Shared, format_args!("{} is not here", folder.display()));
            continue;
        };
        let mut paths: Vec<PathBuf> =
            entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "safetensors")).collect();
        paths.sort();
        found.extend(paths.iter().filter_map(|path| Fixture::read(path)));
    }
    eprintln!("{} model fixtures", found.len());
    found
}
