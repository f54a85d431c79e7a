//! Plain references, graph families and checks for the tests of the encodings.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use graph_transformer_graph::encoding::Spectrum;
use graph_transformer_graph::{Graph, GraphParts, GraphRef};
use gt_testing::{Resource, skip};

/// A graph from its edges, as given.
pub fn directed(num_nodes: usize, edges: &[(u32, u32)]) -> Graph {
    let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
    Graph::new(GraphParts { num_nodes, src: &src, dst: &dst, ..Default::default() }).unwrap()
}

/// A graph with every edge in both directions.
pub fn undirected(num_nodes: usize, edges: &[(u32, u32)]) -> Graph {
    let both: Vec<(u32, u32)> = edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    directed(num_nodes, &both)
}

/// Edges of a path through `nodes` nodes.
pub fn path(nodes: u32) -> Vec<(u32, u32)> {
    (1..nodes).map(|i| (i - 1, i)).collect()
}

/// Edges of a rectangular grid.
pub fn grid(rows: u32, columns: u32) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for i in 0..rows {
        for j in 0..columns {
            let v = i * columns + j;
            if j + 1 < columns {
                edges.push((v, v + 1));
            }
            if i + 1 < rows {
                edges.push((v, v + columns));
            }
        }
    }
    edges
}

/// Edges of a star around node 0.
pub fn star(nodes: u32) -> Vec<(u32, u32)> {
    (1..nodes).map(|i| (0, i)).collect()
}

/// All pairs.
pub fn complete(nodes: u32) -> Vec<(u32, u32)> {
    (0..nodes).flat_map(|i| (0..i).map(move |j| (j, i))).collect()
}

/// Edges between random nodes; double ones and loops may occur.
pub fn random(nodes: u32, edges: usize, seed: u64) -> Vec<(u32, u32)> {
    let mut state = seed;
    let mut node = || {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % u64::from(nodes)) as u32
    };
    (0..edges).map(|_| (node(), node())).collect()
}

/// The union of graphs, one after the other.
pub fn union(parts: &[(u32, Vec<(u32, u32)>)]) -> (usize, Vec<(u32, u32)>) {
    let mut first = 0;
    let mut edges = Vec::new();
    for (nodes, own) in parts {
        edges.extend(own.iter().map(|&(a, b)| (a + first, b + first)));
        first += nodes;
    }
    (first as usize, edges)
}

/// D^-1/2 of (A + Aᵀ) / 2 with degrees of at least 1.
fn inverse_roots(graph: GraphRef<'_>) -> Vec<f64> {
    let mut degree = vec![0.0f64; graph.num_nodes()];
    graph.src().iter().chain(graph.dst()).for_each(|&i| degree[i as usize] += 0.5);
    degree.iter().map(|d| 1.0 / d.max(1.0).sqrt()).collect()
}

/// L v, edge by edge.
pub fn product(graph: GraphRef<'_>, v: &[f64]) -> Vec<f64> {
    let r = inverse_roots(graph);
    let mut out = v.to_vec();
    for (&s, &d) in graph.src().iter().zip(graph.dst()) {
        let (s, d) = (s as usize, d as usize);
        out[d] -= 0.5 * r[s] * r[d] * v[s];
        out[s] -= 0.5 * r[s] * r[d] * v[d];
    }
    out
}

/// L as a dense matrix, row-major.
pub fn laplacian(graph: GraphRef<'_>) -> Vec<f64> {
    let n = graph.num_nodes();
    let mut matrix = vec![0.0; n * n];
    for j in 0..n {
        let mut unit = vec![0.0; n];
        unit[j] = 1.0;
        for (i, value) in product(graph, &unit).into_iter().enumerate() {
            matrix[i * n + j] = value;
        }
    }
    matrix
}

/// Ascending eigenvalues of a symmetric matrix by Jacobi rotations: slow, and hard to get wrong.
pub fn jacobi_eigenvalues(mut a: Vec<f64>, n: usize) -> Vec<f64> {
    for _ in 0..60 {
        let off: f64 = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i * n + j].powi(2)).sum();
        if off < 1e-28 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                if a[p * n + q].abs() < 1e-300 {
                    continue;
                }
                let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let t = if theta == 0.0 { 1.0 } else { t };
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for k in 0..n {
                    let (x, y) = (a[k * n + p], a[k * n + q]);
                    (a[k * n + p], a[k * n + q]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| a[i * n + i]).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The largest |L v − λ v|.
pub fn worst_residual(graph: GraphRef<'_>, spectrum: &Spectrum) -> f64 {
    let residual = |pair: usize| {
        let (v, value) = (spectrum.vector(pair), spectrum.eigenvalues[pair]);
        product(graph, v).iter().zip(v).map(|(y, v)| (y - value * v).powi(2)).sum::<f64>().sqrt()
    };
    (0..spectrum.eigenvalues.len()).map(residual).fold(0.0, f64::max)
}

/// The largest deviation of UᵀU from the identity.
pub fn worst_orthogonality(spectrum: &Spectrum) -> f64 {
    let mut worst = 0.0f64;
    for p in 0..spectrum.eigenvalues.len() {
        for q in 0..=p {
            let expected = if p == q { 1.0 } else { 0.0 };
            worst = worst.max((dot(spectrum.vector(p), spectrum.vector(q)) - expected).abs());
        }
    }
    worst
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Largest |a − b|, or NaN where lengths differ.
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::NAN;
    }
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

/// Σ u uᵀ over some vectors, row-major.
pub fn projector<'a>(vectors: impl Iterator<Item = &'a [f64]>, n: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; n * n];
    for v in vectors {
        for i in 0..n {
            for j in 0..n {
                matrix[i * n + j] += v[i] * v[j];
            }
        }
    }
    matrix
}

/// Where fixtures lie: `GT_FIXTURES` alone if set, else this crate's copy and the one shared
/// between checkouts. Those without `file` are left out with a message.
pub fn fixture_files(file: &str) -> Vec<PathBuf> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures");
    let folders = match std::env::var_os("GT_FIXTURES") {
        // Tests run in their crate's folder; a relative path is one of the workspace, from where
        // they are started.
        Some(folder) => vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)],
        None => vec![own.into(), shared.into()],
    };
    let files = folders.into_iter().map(|folder| folder.join(file));
    files
        .filter(|path| {
            let found = path.is_file();
            if !found {
                skip(Resource::Shared, format_args!("{} does not exist", path.display()));
            }
            found
        })
        .collect()
}
