//! What must hold for every graph, on random small ones with loops, multi-edges, directions and
//! components.

mod reference;

use graph_transformer_graph::Graph;
use graph_transformer_graph::encoding::{Encoding, Laplacian, RandomWalk, Spectrum, WeisfeilerLehman};
use proptest::prelude::*;
use reference::{directed, distance, jacobi_eigenvalues, laplacian, projector, worst_orthogonality, worst_residual};

/// Edges, and a new number for each node.
#[derive(Clone, Debug)]
struct Case {
    nodes: usize,
    edges: Vec<(u32, u32)>,
    permutation: Vec<u32>,
}

impl Case {
    fn graph(&self) -> Graph {
        directed(self.nodes, &self.edges)
    }

    fn renumbered(&self) -> Graph {
        let p = &self.permutation;
        let edges: Vec<(u32, u32)> = self.edges.iter().map(|&(a, b)| (p[a as usize], p[b as usize])).collect();
        directed(self.nodes, &edges)
    }

    /// Values of the renumbered graph's nodes in the order of the first graph's, `[nodes, width]`.
    fn back<T: Copy>(&self, values: &[T], width: usize) -> Vec<T> {
        self.permutation.iter().flat_map(|&p| values[p as usize * width..(p as usize + 1) * width].to_vec()).collect()
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (1usize..40, any::<bool>()).prop_flat_map(|(nodes, symmetric)| {
        let edges = prop::collection::vec((0..nodes as u32, 0..nodes as u32), 0..2 * nodes);
        let permutation = Just((0..nodes as u32).collect::<Vec<u32>>()).prop_shuffle();
        (edges, permutation).prop_map(move |(mut edges, permutation)| {
            if symmetric {
                edges.extend(edges.clone().into_iter().map(|(a, b)| (b, a)));
            }
            Case { nodes, edges, permutation }
        })
    })
}

fn full(graph: &Graph) -> Spectrum {
    Laplacian::new(graph.view().num_nodes()).spectrum(graph.view()).unwrap()
}

/// Ranges of pairs with equal eigenvalues, with some distance to the limit that counts as equal.
fn groups(values: &[f64]) -> Vec<std::ops::Range<usize>> {
    let mut start = 0;
    let mut ranges = Vec::new();
    for group in values.chunk_by(|a, b| b - a < 1e-7) {
        ranges.push(start..start + group.len());
        start += group.len();
    }
    ranges
}

fn encode<E: Encoding>(encoding: &E, graph: &Graph) -> Vec<E::Value> {
    let mut out = vec![E::Value::default(); graph.view().num_nodes() * encoding.width()];
    encoding.encode(graph.view(), &mut out).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laplacian_pairs_are_all_eigenpairs(case in cases()) {
        let graph = case.graph();
        let found = full(&graph);
        let expected = jacobi_eigenvalues(laplacian(graph.view()), case.nodes);
        prop_assert!(distance(&found.eigenvalues, &expected) < 1e-11);
        prop_assert!(worst_residual(graph.view(), &found) < 1e-11);
        prop_assert!(worst_orthogonality(&found) < 1e-11);
        for pair in 0..case.nodes {
            let v = found.vector(pair);
            let largest = v.iter().fold(0.0f64, |m, x| m.max(x.abs()));
            prop_assert!(*v.iter().find(|x| x.abs() >= (1.0 - 1e-6) * largest).unwrap() > 0.0);
        }
    }

    #[test]
    fn fewer_laplacian_pairs_are_the_first_of_more(case in cases(), k in 0usize..12) {
        let graph = case.graph();
        let (few, all) = (Laplacian::new(k).spectrum(graph.view()).unwrap(), full(&graph));
        let pairs = (k + 1).min(case.nodes);
        prop_assert!(distance(&few.eigenvalues, &all.eigenvalues[..pairs]) < 1e-11);
        prop_assert!(distance(&few.eigenvectors, &all.eigenvectors[..pairs * case.nodes]) < 1e-6);
    }

    #[test]
    fn laplacian_moves_with_the_nodes(case in cases()) {
        let (first, second) = (full(&case.graph()), full(&case.renumbered()));
        prop_assert!(distance(&first.eigenvalues, &second.eigenvalues) < 1e-11);
        for group in groups(&first.eigenvalues) {
            let moved: Vec<Vec<f64>> = group.clone().map(|p| case.back(second.vector(p), 1)).collect();
            let n = case.nodes;
            let own = projector(group.clone().map(|p| first.vector(p)), n);
            prop_assert!(distance(&own, &projector(moved.iter().map(Vec::as_slice), n)) < 1e-6);
            if let [single] = moved.as_slice() {
                let sizes = |v: &[f64]| v.iter().map(|x| x.abs()).collect::<Vec<f64>>();
                prop_assert!(distance(&sizes(first.vector(group.start)), &sizes(single)) < 1e-6);
            }
        }
    }

    #[test]
    fn weisfeiler_lehman_roles_move_with_the_nodes(case in cases(), rounds in 0usize..4) {
        let encoding = WeisfeilerLehman { rounds };
        let moved = encode(&encoding, &case.renumbered());
        prop_assert_eq!(encode(&encoding, &case.graph()), case.back(&moved, 1));
    }

    #[test]
    fn random_walk_is_the_diagonal_of_matrix_powers_and_moves_with_the_nodes(case in cases(), steps in 1usize..7) {
        let n = case.nodes;
        let mut step = vec![0.0f64; n * n];
        for &(a, b) in &case.edges {
            step[a as usize * n + b as usize] += 1.0;
        }
        for row in step.chunks_exact_mut(n) {
            let degree: f64 = row.iter().sum();
            row.iter_mut().for_each(|v| *v /= degree.max(1.0));
        }
        let own = encode(&RandomWalk { steps }, &case.graph());
        let mut power = step.clone();
        for t in 0..steps {
            for i in 0..n {
                prop_assert!((f64::from(own[i * steps + t]) - power[i * n + i]).abs() < 1e-7);
            }
            let next = |i: usize, j: usize| (0..n).map(|m| power[i * n + m] * step[m * n + j]).sum::<f64>();
            power = (0..n * n).map(|at| next(at / n, at % n)).collect();
        }
        let moved = encode(&RandomWalk { steps }, &case.renumbered());
        for (a, b) in own.iter().zip(case.back(&moved, steps)) {
            prop_assert!((a - b).abs() < 1e-6);
        }
    }
}
