//! GINE against a plain reference: one layer of random graphs, without normalisation.

use gt_graph::{FeatureLayout, FeatureRows, GraphBatch, GraphParts, GraphStore, Layout, TargetRows};

use crate::cpu::{Engine, Isa};
use crate::{AttentionScope, Branch, Channels, HeadInput, Input, Loss, Network, Norm, Role, Stream};

const WIDTH: usize = 5;

/// Numbers between −1 and 1.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn parameter(engine: &Engine<f64>, role: Role) -> Vec<f64> {
    let list = engine.parameters().list();
    engine.parameter(list.iter().position(|parameter| parameter.role() == role).expect("a parameter"))
}

/// W·x + b with W `[out, in]`.
fn linear(engine: &Engine<f64>, names: [&'static str; 2], x: &[f64]) -> Vec<f64> {
    let [weight, bias] = names.map(|name| parameter(engine, Role::Branch(0, name)));
    let row = |at: usize| x.iter().enumerate().map(|(i, x)| weight[at * WIDTH + i] * x).sum::<f64>() + bias[at];
    (0..WIDTH).map(row).collect()
}

/// Source, target and category of each edge: loops, repeated edges, a node without any.
const EDGES: [(u32, u32, u32); 7] = [(0, 1, 0), (1, 0, 1), (2, 2, 2), (0, 2, 1), (0, 2, 2), (3, 1, 0), (1, 1, 2)];
const NODES: [u32; 5] = [0, 3, 1, 2, 3];

#[test]
fn a_layer_computes_the_formula() {
    let network = Network {
        norm: Norm::None,
        node: Input { categorical: vec![4], ..Default::default() },
        edge: Input { categorical: vec![3], ..Default::default() },
        reads: HeadInput::Nodes,
        ..Network::new(Channels::new(WIDTH, 1), 1)
    };
    let network = network.with_branches(&[Branch::Gine], false);
    let features = FeatureLayout { categorical: 1, ..Default::default() };
    let mut store = GraphStore::new(Layout { node: features.clone(), edge: features, ..Default::default() });
    let (src, dst): (Vec<u32>, Vec<u32>) = EDGES.iter().map(|&(source, target, _)| (source, target)).unzip();
    let kinds: Vec<u32> = EDGES.iter().map(|&(.., kind)| kind).collect();
    let node = FeatureRows { categorical: &NODES, ..Default::default() };
    let edge = FeatureRows { categorical: &kinds, ..Default::default() };
    store.push(GraphParts { num_nodes: 5, src: &src, dst: &dst, node, edge, target: None }).unwrap();
    let mut batch = GraphBatch::new();
    batch.assemble(&store, &[0]).unwrap();
    let mut engine = Engine::<f64>::new(network, Isa::Portable);
    for index in 0..engine.parameters().list().len() {
        let values = numbers(engine.parameters().list()[index].len(), 3 + index as u64);
        engine.set_parameter(index, &values);
    }
    engine.refresh();
    engine.train(&batch, AttentionScope::Sparse, Loss::Mse, TargetRows::Float(&[0.5; 5]));
    let row = |stream, kind: u32| {
        let table = parameter(&engine, Role::Embedding(stream, 0));
        table[kind as usize * WIDTH..][..WIDTH].to_vec()
    };
    let h: Vec<Vec<f64>> = NODES.iter().map(|&kind| row(Stream::Node, kind)).collect();
    let relu = |v: f64| v.max(0.0);
    let expected: Vec<f64> = (0..NODES.len())
        .flat_map(|node| {
            let mut m = h[node].clone();
            for &(source, _, kind) in EDGES.iter().filter(|edge| edge.1 as usize == node) {
                let e = row(Stream::Edge, kind);
                (0..WIDTH).for_each(|c| m[c] += relu(h[source as usize][c] + e[c]));
            }
            let hidden = linear(&engine, ["gine.linear1.weight", "gine.linear1.bias"], &m);
            let hidden: Vec<f64> = hidden.into_iter().map(relu).collect();
            let x = linear(&engine, ["gine.linear2.weight", "gine.linear2.bias"], &hidden);
            x.into_iter().zip(&h[node]).map(|(x, h)| x + h).collect::<Vec<f64>>()
        })
        .collect();
    for (found, expected) in engine.hidden_nodes(1).iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
}
