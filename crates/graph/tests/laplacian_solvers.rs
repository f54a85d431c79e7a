//! The two Laplacian solvers against each other, and against the number of threads.

mod reference;

use graph_transformer_graph::encoding::{Laplacian, Solver, Spectrum, encode_all};
use graph_transformer_graph::{Graph, GraphParts, GraphStore, Layout};
use reference::{complete, distance, grid, path, random, star, undirected, union, worst_orthogonality, worst_residual};

const K: usize = 16;

fn spectrum(graph: &Graph, solver: Solver) -> Spectrum {
    let spectrum = Laplacian { k: K, solver }.spectrum(graph.view()).unwrap();
    assert_eq!(spectrum.eigenvalues.len(), (K + 1).min(graph.view().num_nodes()));
    assert!(spectrum.eigenvalues.is_sorted());
    let (residual, orthogonality) = (worst_residual(graph.view(), &spectrum), worst_orthogonality(&spectrum));
    assert!(residual < 1e-8, "{solver:?}: residual {residual:e}");
    assert!(orthogonality < 1e-10, "{solver:?}: orthogonality {orthogonality:e}");
    spectrum
}

/// Values agree, and so do the vectors: both solvers store the same basis of every group.
fn assert_same(graph: &Graph, vector_tolerance: f64) {
    let (dense, iterative) = (spectrum(graph, Solver::Dense), spectrum(graph, Solver::Iterative));
    let values = distance(&dense.eigenvalues, &iterative.eigenvalues);
    assert!(values < 1e-9, "eigenvalues differ by {values:e}");
    let vectors = distance(&dense.eigenvectors, &iterative.eigenvectors);
    assert!(vectors < vector_tolerance, "eigenvectors differ by {vectors:e}");
}

#[test]
fn random_graphs_agree() {
    assert_same(&undirected(2000, &random(2000, 20_000, 1)), 1e-6);
    // Sparse enough for isolated nodes and small components next to the large one.
    assert_same(&undirected(1500, &random(1500, 2200, 2)), 1e-6);
}

#[test]
fn directed_random_graphs_agree() {
    assert_same(&reference::directed(1200, &random(1200, 9000, 3)), 1e-6);
}

#[test]
fn grids_agree_also_with_degenerate_pairs() {
    assert_same(&undirected(2000, &grid(40, 50)), 1e-6);
    assert_same(&undirected(44 * 44, &grid(44, 44)), 1e-6);
}

#[test]
fn a_torus_with_groups_of_four_and_eight_agrees() {
    let mut edges = grid(30, 30);
    edges.extend((0..30).flat_map(|i| [(i * 30, i * 30 + 29), (i, 29 * 30 + i)]));
    assert_same(&undirected(900, &edges), 1e-6);
}

#[test]
fn components_agree_also_identical_ones() {
    let different: Vec<_> = (0..5).map(|c| (400, random(400, 3000 + 200 * c, 10 + c as u64))).collect();
    let (nodes, edges) = union(&different);
    assert_same(&undirected(nodes, &edges), 1e-6);
    let (nodes, edges) = union(&vec![(400, grid(16, 25)); 5]);
    assert_same(&undirected(nodes, &edges), 1e-6);
}

#[test]
fn a_path_agrees() {
    assert_same(&undirected(1000, &path(1000)), 1e-6);
}

#[test]
fn groups_too_large_to_complete_still_give_eigenvectors() {
    for graph in [undirected(1500, &star(1500)), undirected(500, &complete(500))] {
        let (dense, iterative) = (spectrum(&graph, Solver::Dense), spectrum(&graph, Solver::Iterative));
        assert!(distance(&dense.eigenvalues, &iterative.eigenvalues) < 1e-9);
    }
}

#[test]
fn fifty_thousand_components_are_fast_and_exact() {
    let edges: Vec<(u32, u32)> = (0..50_000).map(|i| (2 * i, 2 * i + 1)).collect();
    let graph = undirected(100_000, &edges);
    let found = Laplacian::new(4).spectrum(graph.view()).unwrap();
    assert_eq!(found.eigenvalues, [0.0; 5]);
    for pair in 0..5 {
        let half = 0.5f64.sqrt();
        let expected: Vec<f64> = (0..100_000).map(|i| if i / 2 == pair { half } else { 0.0 }).collect();
        assert!(distance(found.vector(pair), &expected) < 1e-15);
    }
}

#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    let large = undirected(6000, &random(6000, 40_000, 4));
    let mut many = GraphStore::new(Layout::default());
    for size in 0..60u32 {
        let edges = random(size.max(1), 3 * size as usize, u64::from(size));
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.into_iter().unzip();
        many.push(GraphParts { num_nodes: size.max(1) as usize, src: &src, dst: &dst, ..Default::default() }).unwrap();
    }
    let results: Vec<_> = [1, 2, 3, 8]
        .map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let spectrum = Laplacian::new(6).spectrum(large.view()).unwrap();
                let encodings = encode_all(&Laplacian { k: 8, solver: Solver::Dense }, &many).unwrap();
                let bits: Vec<u64> =
                    spectrum.eigenvalues.iter().chain(&spectrum.eigenvectors).map(|v| v.to_bits()).collect();
                (bits, encodings.iter().map(|v| v.to_bits()).collect::<Vec<u32>>())
            })
        })
        .into();
    assert!(results.iter().all(|r| *r == results[0]));
}
