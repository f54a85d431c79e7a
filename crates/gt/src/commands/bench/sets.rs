//! Graphs to time steps on.

use anyhow::Result;
use gt_data::{SbmSet, SbmSizes};
use gt_graph::{
    FeatureLayout, FeatureRows, GraphParts, GraphStore, Layout, Level, TargetKind, TargetLayout, TargetRows,
};
use gt_models::PublishedSet;

/// Graphs of the published sizes.
pub fn synthetic(set: PublishedSet, count: usize) -> Result<GraphStore> {
    let sizes = SbmSizes { train: count, val: 0, test: 0 };
    Ok(match set {
        PublishedSet::Pattern => SbmSet::Pattern.generate(41, sizes)?.into_graphs(),
        PublishedSet::Cluster => SbmSet::Cluster.generate(41, sizes)?.into_graphs(),
        PublishedSet::Zinc => molecules(count)?,
    })
}

/// Graphs that the published models were trained on.
pub fn training_graphs(set: PublishedSet) -> usize {
    match set {
        PublishedSet::Pattern => SbmSet::Pattern.published_sizes().train,
        PublishedSet::Cluster => SbmSet::Cluster.published_sizes().train,
        PublishedSet::Zinc => 10_000,
    }
}

/// One graph with edges between random nodes.
pub fn random_graph(nodes: usize, edges: usize, edge_features: bool) -> Result<GraphStore> {
    let one = FeatureLayout { categorical: 1, ..Default::default() };
    let target = TargetLayout { level: Level::Node, kind: TargetKind::Class, columns: 1 };
    let edge = if edge_features { one.clone() } else { FeatureLayout::default() };
    let mut store = GraphStore::new(Layout { node: one, edge, target: Some(target) });
    let mut state = 41u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize % below) as u32
    };
    let ends: Vec<[u32; 2]> = (0..edges).map(|_| [random(nodes), random(nodes)]).collect();
    let (src, dst): (Vec<u32>, Vec<u32>) = ends.into_iter().map(|[s, d]| (s, d)).unzip();
    let types: Vec<u32> = (0..nodes).map(|_| random(8)).collect();
    let kinds: Vec<u32> = if edge_features { (0..edges).map(|_| random(4)).collect() } else { vec![] };
    let classes: Vec<u32> = (0..nodes).map(|_| random(4)).collect();
    store.push(GraphParts {
        num_nodes: nodes,
        src: &src,
        dst: &dst,
        node: FeatureRows { categorical: &types, ..Default::default() },
        edge: FeatureRows { categorical: &kinds, ..Default::default() },
        target: Some(TargetRows::Class(&classes)),
    })?;
    Ok(store)
}

/// Chains of 18 to 28 atoms with a ring bond every few atoms. Molecules of ZINC have as many atoms
/// and bonds on average.
fn molecules(count: usize) -> Result<GraphStore> {
    let one = FeatureLayout { categorical: 1, ..Default::default() };
    let target = TargetLayout { level: Level::Graph, kind: TargetKind::Float, columns: 1 };
    let mut store = GraphStore::new(Layout { node: one.clone(), edge: one, target: Some(target) });
    for molecule in 0..count {
        let n = 18 + molecule * 7 % 11;
        let mut bonds: Vec<(usize, usize)> = (1..n).map(|v| (v - 1, v)).collect();
        bonds.extend((0..n / 8).map(|ring| (ring * 8, ring * 8 + 5)));
        let mut edges: Vec<(u32, u32)> =
            bonds.iter().flat_map(|&(a, b)| [(a as u32, b as u32), (b as u32, a as u32)]).collect();
        edges.sort_unstable();
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.into_iter().unzip();
        let atoms: Vec<u32> = (0..n).map(|v| ((v * v + molecule) % 21) as u32).collect();
        let kinds: Vec<u32> = src.iter().zip(&dst).map(|(a, b)| 1 + (a + b) % 3).collect();
        store.push(GraphParts {
            num_nodes: n,
            src: &src,
            dst: &dst,
            node: FeatureRows { categorical: &atoms, ..Default::default() },
            edge: FeatureRows { categorical: &kinds, ..Default::default() },
            target: Some(TargetRows::Float(&[(molecule % 5) as f32 - 2.0])),
        })?;
    }
    Ok(store)
}
