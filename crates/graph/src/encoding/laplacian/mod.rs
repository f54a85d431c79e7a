//! Laplacian eigenvectors: the coordinates in which neighbours lie close together.
//!
//! L = I − D^-1/2 A D^-1/2 = U Λ Uᵀ (the paper's eq. 5); node i gets row i of the k eigenvectors
//! that follow the first. A is the adjacency matrix made symmetric, (A + Aᵀ) / 2, and D holds its
//! column sums, each at least 1. Everything is computed in f64.
//!
//! An eigenvector is known up to its sign, and several of one eigenvalue only up to a rotation.
//! What is stored is fixed by two rules, so that it does not depend on the solver:
//!
//! * Eigenvalues that follow each other by at most [`Laplacian::GROUP_TOLERANCE`] form a group. Its
//!   basis comes from projecting the unit vectors e_0, e_1, … on the group's whole eigenspace, in
//!   node order, and Gram–Schmidt. If only a part of the group is among the pairs asked for, the
//!   first vectors of this basis are stored.
//! * The first node, in index order, whose |value| is at least (1 − 1e-6) times the largest is
//!   positive.
//!
//! | input | result |
//! |---|---|
//! | several components | eigenvalue 0 once per component; all vectors but the first are stored |
//! | repeated eigenvalue | the basis above |
//! | isolated node | its degree 0 counts as 1: eigenvalue 1 with the node's unit vector |
//! | no edges | eigenvalue 1 for every node: node i ≥ 1 has the value 1 in column i − 1 |
//! | one node | all k values are zero |
//! | n ≤ k nodes | the last k − n + 1 columns are zero |
//! | no node | no value |
//! | self loop | adds 1 to A_ii and to the degree |
//! | multi-edges | add up in A and in the degrees |
//! | directed edge | half an edge each way |
//!
//! A degree below 1, as a directed edge may give, counts as 1. Its component then has no eigenvalue
//! 0.
//!
//! The components are solved one by one and their spectra merged, so that a null space of any size,
//! D^1/2 · 1 per component, is exact. [`Solver::Dense`] works on a dense matrix,
//! [`Solver::Iterative`] with sparse products only.

mod aligned;
mod basis;
mod canonical;
mod dense;
mod filter;
mod householder;
mod iterative;
mod matrix;
mod tridiagonal;

use rayon::prelude::*;

use self::matrix::{Component, Components};
use super::Encoding;
use crate::error::GraphError;
use crate::store::GraphRef;

const GROUP_TOLERANCE: f64 = Laplacian::GROUP_TOLERANCE;

/// From this many nodes on, the components of one graph are solved in parallel; below, graphs are.
const PARALLEL_COMPONENTS: usize = 4096;

/// How the eigenpairs of a component are found. All give the same pairs, as far as rounding
/// permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Solver {
    /// Dense up to [`Laplacian::DENSE_LIMIT`] nodes, iterative beyond.
    #[default]
    Auto,
    /// Tridiagonalisation: 8 n² bytes, 4/3 n³ operations, exact to rounding, always succeeds.
    Dense,
    /// Chebyshev-filtered block Krylov method, memory O(edges + n k); components too small for it
    /// are solved densely.
    ///
    /// Groups of equal eigenvalues are completed up to 32 vectors beyond those requested. Larger
    /// groups are cut: a star with a hundred thousand leaves has eigenvalue 1 almost as often. The
    /// vectors of a cut group are correct eigenvectors, but in another basis than that of the dense
    /// solver. The time grows with the square root of 1 / (distance of the wanted eigenvalues to
    /// the next). With 100,000 nodes, a random graph or a grid takes seconds, a path takes a
    /// minute.
    Iterative,
}

/// Laplacian positional encoding.
///
/// ```
/// use graph_transformer_graph::{Graph, GraphParts, encoding::{Encoding, Laplacian}};
///
/// // Two nodes and a bond: eigenvalues 0 and 2; the second vector is (1, −1) / √2.
/// let parts = GraphParts { num_nodes: 2, src: &[0, 1], dst: &[1, 0], ..Default::default() };
/// let pair = Graph::new(parts)?;
/// let spectrum = Laplacian::new(3).spectrum(pair.view())?;
/// assert!((spectrum.eigenvalues[1] - 2.0).abs() < 1e-12);
///
/// let mut values = [0.0; 6];
/// Laplacian::new(3).encode(pair.view(), &mut values)?;
/// let half = 0.5f32.sqrt();
/// assert_eq!(values, [half, 0.0, 0.0, -half, 0.0, 0.0]);
/// # Ok::<(), graph_transformer_graph::GraphError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Laplacian {
    /// Number of eigenvectors per node, not counting the first.
    pub k: usize,
    /// The solver that finds the eigenpairs.
    pub solver: Solver,
}

/// The smallest eigenpairs of a graph's Laplacian.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spectrum {
    /// Ascending, `[pairs]`.
    pub eigenvalues: Vec<f64>,
    /// Orthonormal, column-major `[nodes, pairs]`, with the basis and signs of the module's rules.
    pub eigenvectors: Vec<f64>,
}

impl Spectrum {
    /// The eigenvector of a pair, `[nodes]`.
    ///
    /// # Panics
    /// If there is no such pair.
    pub fn vector(&self, pair: usize) -> &[f64] {
        let nodes = self.eigenvectors.len() / self.eigenvalues.len();
        &self.eigenvectors[pair * nodes..(pair + 1) * nodes]
    }
}

/// Some of the smallest eigenpairs of one component, ascending: `[pairs]` and column-major
/// `[nodes, pairs]`.
struct Pairs {
    values: Vec<f64>,
    vectors: Vec<f64>,
}

/// A connected component has eigenvalue 0 once; its vector is known, so rounding in it would be a
/// waste.
fn use_exact_null_vector(found: &mut Pairs, null: &[f64]) {
    found.values[0] = 0.0;
    let (first, others) = found.vectors.split_at_mut(null.len());
    first.copy_from_slice(null);
    for vector in others.chunks_exact_mut(null.len()) {
        let along: f64 = vector.iter().zip(null).map(|(v, u)| v * u).sum();
        vector.iter_mut().zip(null).for_each(|(v, u)| *v -= along * u);
    }
}

impl Laplacian {
    /// Neighbouring eigenvalues that differ by no more than this are taken for one repeated
    /// eigenvalue.
    pub const GROUP_TOLERANCE: f64 = 1e-8;

    /// Largest component that [`Solver::Auto`] solves densely.
    ///
    /// With k = 16 on random graphs of degree 20, both solvers take a twentieth of a second at this
    /// size (measured). At 2,000 nodes the iterative solver is seven times faster. The dense solver
    /// knows every group of equal eigenvalues completely.
    pub const DENSE_LIMIT: usize = 1000;

    /// `k` eigenvectors by the solver that fits the graph's size.
    pub fn new(k: usize) -> Self {
        Self { k, solver: Solver::Auto }
    }

    /// The min(k + 1, n) smallest eigenpairs, the first one included.
    ///
    /// # Errors
    /// [`GraphError::NotConverged`] if the iterative solver gives up; request the dense one
    /// instead.
    pub fn spectrum(&self, graph: GraphRef<'_>) -> Result<Spectrum, GraphError> {
        let pairs = self.k.saturating_add(1).min(graph.num_nodes());
        let components = Components::of(&graph);
        let solve = |c: usize| self.solve(&components.component(c), pairs);
        // Large components use the threads themselves, one after the other.
        let solved: Result<Vec<Pairs>, GraphError> = if graph.num_nodes() < PARALLEL_COMPONENTS || components.len() == 1
        {
            (0..components.len()).map(solve).collect()
        } else {
            (0..components.len()).into_par_iter().map(solve).collect()
        };
        Ok(canonical::merge(&components, &solved?, pairs))
    }

    /// The `pairs` smallest pairs of a component, and those that complete the last one's group.
    fn solve(&self, component: &Component<'_>, pairs: usize) -> Result<Pairs, GraphError> {
        let nodes = component.num_nodes;
        let dense = match self.solver {
            Solver::Auto => nodes <= Self::DENSE_LIMIT,
            Solver::Dense => true,
            Solver::Iterative => false,
        };
        if dense || nodes < iterative::smallest_component(pairs) {
            dense::solve(component, pairs.min(nodes))
        } else {
            iterative::solve(component, pairs)
        }
    }
}

impl Encoding for Laplacian {
    type Value = f32;

    fn width(&self) -> usize {
        self.k
    }

    fn encode(&self, graph: GraphRef<'_>, out: &mut [f32]) -> Result<(), GraphError> {
        out.fill(0.0);
        if self.k == 0 {
            return Ok(());
        }
        let nodes = graph.num_nodes();
        let spectrum = self.spectrum(graph)?;
        for (column, vector) in spectrum.eigenvectors.chunks_exact(nodes.max(1)).skip(1).enumerate() {
            for (row, &value) in out.chunks_exact_mut(self.k).zip(vector) {
                row[column] = value as f32;
            }
        }
        Ok(())
    }
}
