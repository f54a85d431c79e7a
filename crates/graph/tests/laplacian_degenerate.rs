//! What the Laplacian encoding gives for inputs at the edge, each with its exact result.

mod reference;

use graph_transformer_graph::Graph;
use graph_transformer_graph::encoding::{Encoding, Laplacian, Spectrum};
use reference::{complete, directed, distance, path, star, undirected, union};

/// Eigenvalues and vectors (one per row), of all pairs.
fn assert_spectrum(graph: &Graph, values: &[f64], vectors: &[&[f64]]) {
    let found = full(graph);
    assert!(distance(&found.eigenvalues, values) < 1e-12, "{:?}", found.eigenvalues);
    for (pair, expected) in vectors.iter().enumerate() {
        assert!(distance(found.vector(pair), expected) < 1e-12, "vector {pair}: {:?}", found.vector(pair));
    }
}

fn full(graph: &Graph) -> Spectrum {
    Laplacian::new(graph.view().num_nodes()).spectrum(graph.view()).unwrap()
}

fn encoding(graph: &Graph, k: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; graph.view().num_nodes() * k];
    Laplacian::new(k).encode(graph.view(), &mut out).unwrap();
    out
}

fn root(x: f64) -> f64 {
    x.sqrt()
}

#[test]
fn no_node_gives_nothing() {
    let graph = directed(0, &[]);
    assert_eq!(full(&graph), Spectrum::default());
    assert!(encoding(&graph, 3).is_empty());
}

#[test]
fn one_node_gives_zeros() {
    let graph = directed(1, &[]);
    assert_spectrum(&graph, &[1.0], &[&[1.0]]);
    assert_eq!(encoding(&graph, 3), [0.0; 3]);
    assert!(encoding(&graph, 0).is_empty());
}

#[test]
fn no_edges_give_unit_vectors() {
    let graph = directed(3, &[]);
    assert_spectrum(&graph, &[1.0; 3], &[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]]);
    assert_eq!(encoding(&graph, 2), [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn fewer_nodes_than_columns_are_padded() {
    let h = 0.5f32.sqrt();
    assert_eq!(encoding(&undirected(2, &path(2)), 3), [h, 0.0, 0.0, -h, 0.0, 0.0]);
    // Exactly n = k.
    assert_eq!(encoding(&undirected(2, &path(2)), 2), [h, 0.0, -h, 0.0]);
}

#[test]
fn a_path_of_three_is_known() {
    let (h, q) = (root(0.5), 0.5);
    assert_spectrum(&undirected(3, &path(3)), &[0.0, 1.0, 2.0], &[&[q, h, q], &[h, 0.0, -h], &[-q, h, -q]]);
}

#[test]
fn repeated_eigenvalues_get_the_basis_of_projected_unit_vectors() {
    // A triangle: P = I − 1/3 on the group of 3/2; P e_0 = (2, −1, −1) / 3, then what is left of P
    // e_1 = (0, 1, −1) / 2.
    let (a, b, h) = (root(2.0 / 3.0), root(1.0 / 6.0), root(0.5));
    let triangle = undirected(3, &complete(3));
    assert_spectrum(&triangle, &[0.0, 1.5, 1.5], &[&[root(1.0 / 3.0); 3], &[a, -b, -b], &[0.0, h, -h]]);
    // Only a part of the group: its first vector.
    assert_eq!(encoding(&triangle, 1), [a as f32, -b as f32, -b as f32]);
    // A star with three leaves: the group of 1 lives on the leaves, so node 0 contributes nothing.
    let star = full(&undirected(4, &star(4)));
    assert!(distance(&star.eigenvalues, &[0.0, 1.0, 1.0, 2.0]) < 1e-12);
    assert!(distance(star.vector(1), &[0.0, a, -b, -b]) < 1e-12);
    assert!(distance(star.vector(2), &[0.0, 0.0, h, -h]) < 1e-12);
}

#[test]
fn several_components_share_the_null_space() {
    // 0–1 and 2–3–4.
    let (nodes, edges) = union(&[(2, path(2)), (3, path(3))]);
    let (h, q) = (root(0.5), 0.5);
    assert_spectrum(
        &undirected(nodes, &edges),
        &[0.0, 0.0, 1.0, 2.0, 2.0],
        &[
            &[h, h, 0.0, 0.0, 0.0],
            &[0.0, 0.0, q, h, q],
            &[0.0, 0.0, h, 0.0, -h],
            &[h, -h, 0.0, 0.0, 0.0],
            &[0.0, 0.0, -q, h, -q],
        ],
    );
    // Interleaved numbers: the component of node 0 still comes first.
    let crossed = full(&undirected(4, &[(0, 2), (1, 3)]));
    assert!(distance(crossed.vector(0), &[h, 0.0, h, 0.0]) < 1e-12);
    assert!(distance(crossed.vector(1), &[0.0, h, 0.0, h]) < 1e-12);
}

#[test]
fn an_isolated_node_has_eigenvalue_one() {
    let h = root(0.5);
    assert_spectrum(&undirected(3, &[(0, 2)]), &[0.0, 1.0, 2.0], &[&[h, 0.0, h], &[0.0, 1.0, 0.0], &[h, 0.0, -h]]);
}

#[test]
fn self_loops_count_in_matrix_and_degree() {
    // A loop alone: 1 − 1 = 0.
    assert_spectrum(&directed(1, &[(0, 0)]), &[0.0], &[&[1.0]]);
    // 0–1 with a loop at 0: A = [[1, 1], [1, 0]], D = (2, 1), L = [[½, −1/√2], [−1/√2, 1]].
    let (a, b) = (root(2.0 / 3.0), root(1.0 / 3.0));
    assert_spectrum(&directed(2, &[(0, 1), (1, 0), (0, 0)]), &[0.0, 1.5], &[&[a, b], &[-b, a]]);
}

#[test]
fn multi_edges_add_up() {
    // 0=1–2, the first bond double: D = (2, 3, 1), null vector √D / √6; the others have eigenvalues
    // 1 and 2.
    let graph = undirected(3, &[(0, 1), (0, 1), (1, 2)]);
    let (x, y, z) = (root(1.0 / 3.0), root(0.5), root(1.0 / 6.0));
    assert_spectrum(&graph, &[0.0, 1.0, 2.0], &[&[x, y, z], &[-z * root(2.0), 0.0, x * root(2.0)], &[-x, y, -z]]);
}

#[test]
fn a_directed_edge_is_half_an_edge() {
    // Degrees ½ count as 1: L = [[1, −½], [−½, 1]], no eigenvalue 0.
    let h = root(0.5);
    assert_spectrum(&directed(2, &[(0, 1)]), &[0.5, 1.5], &[&[h, h], &[h, -h]]);
    // A directed triangle: A = ½ between all pairs, D = 1.
    let found = full(&directed(3, &[(0, 1), (1, 2), (2, 0)]));
    assert!(distance(&found.eigenvalues, &[0.0, 1.5, 1.5]) < 1e-12);
    // Listed in both directions it is the undirected graph.
    assert_eq!(full(&directed(2, &[(0, 1), (1, 0)])), full(&undirected(2, &path(2))));
}
