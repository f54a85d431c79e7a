//! Positional encodings: numbers for the position of a node in its graph.
//!
//! | encoding | values | model input |
//! |---|---|---|
//! | [`Laplacian`] | `f32`, k per node | linear layer (the paper's λ, eq. 6–7) |
//! | [`WeisfeilerLehman`] | `u32`, one role per node | embedding |
//! | [`RandomWalk`] | `f32`, T per node | linear layer |
//!
//! Each is an [`Encoding`]; [`encode_all`] runs one over a whole set of graphs on all threads,
//! with the same bytes for any number of them.

pub mod laplacian;
pub mod random_walk;
pub mod weisfeiler_lehman;

use rayon::prelude::*;

pub use laplacian::{Laplacian, Solver, Spectrum};
pub use random_walk::RandomWalk;
pub use weisfeiler_lehman::WeisfeilerLehman;

use crate::error::GraphError;
use crate::layout::Level;
use crate::store::{GraphRef, GraphStore};

/// A function from the structure of a graph to a row of values per node.
pub trait Encoding: Sync {
    /// `f32` for coordinates, `u32` for roles.
    type Value: Copy + Default + Send + Sync;

    /// Number of values per node.
    fn width(&self) -> usize;

    /// Fills `out`, `[nodes, width]` row-major, for one graph.
    ///
    /// # Errors
    /// If an iterative solver does not converge.
    fn encode(&self, graph: GraphRef<'_>, out: &mut [Self::Value]) -> Result<(), GraphError>;
}

/// Which of the three encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncodingKind {
    /// Laplacian eigenvectors.
    Laplacian,
    /// Return probabilities of a random walk.
    RandomWalk,
    /// Weisfeiler–Lehman roles.
    WeisfeilerLehman,
}

/// Encodes every graph of a set, in parallel; the result is `[all nodes, width]`.
///
/// # Errors
/// The position of the first graph that failed, and why.
///
/// ```
/// use graph_transformer_graph::{Graph, GraphParts, encoding::{WeisfeilerLehman, encode_all}};
///
/// let (src, dst) = (&[0, 1, 1, 2], &[1, 0, 2, 1]);
/// let path = Graph::new(GraphParts { num_nodes: 3, src, dst, ..Default::default() })?;
/// let roles = encode_all(&WeisfeilerLehman::default(), path.as_store()).unwrap();
/// assert_eq!(roles[0], roles[2]);
/// assert_ne!(roles[0], roles[1]);
/// # Ok::<(), graph_transformer_graph::GraphError>(())
/// ```
pub fn encode_all<E: Encoding>(encoding: &E, graphs: &GraphStore) -> Result<Vec<E::Value>, (usize, GraphError)> {
    let width = encoding.width();
    let mut values = vec![E::Value::default(); graphs.num_nodes() * width];
    let mut rest = values.as_mut_slice();
    let mut jobs = Vec::with_capacity(graphs.len());
    for (index, graph) in graphs.iter().enumerate() {
        let (out, tail) = rest.split_at_mut(graph.num_nodes() * width);
        rest = tail;
        jobs.push((index, graph, out));
    }
    jobs.into_par_iter()
        .filter_map(|(index, graph, out)| encoding.encode(graph, out).err().map(|error| (index, error)))
        .min_by_key(|(index, _)| *index)
        .map_or(Ok(()), Err)?;
    Ok(values)
}

/// Real-valued encodings of all nodes of a set, `[nodes, width]` row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coordinates {
    /// Values per node.
    pub width: usize,
    /// The values.
    pub values: Vec<f32>,
}

impl Coordinates {
    /// Rows of the nodes in `range`.
    pub fn rows(&self, range: std::ops::Range<usize>) -> &[f32] {
        &self.values[range.start * self.width..range.end * self.width]
    }
}

/// The encodings that a set of graphs carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encodings {
    /// Laplacian eigenvectors.
    pub laplacian: Option<Coordinates>,
    /// Return probabilities of a random walk.
    pub random_walk: Option<Coordinates>,
    /// Weisfeiler–Lehman roles, `[nodes]`.
    pub weisfeiler_lehman: Option<Vec<u32>>,
}

impl Encodings {
    /// True when nothing has been encoded.
    pub fn is_empty(&self) -> bool {
        self.laplacian.is_none() && self.random_walk.is_none() && self.weisfeiler_lehman.is_none()
    }

    /// Empty encodings of the kinds and widths of `self`.
    pub(crate) fn emptied(&self) -> Self {
        let coordinates =
            |of: &Option<Coordinates>| of.as_ref().map(|c| Coordinates { width: c.width, values: vec![] });
        Self {
            laplacian: coordinates(&self.laplacian),
            random_walk: coordinates(&self.random_walk),
            weisfeiler_lehman: self.weisfeiler_lehman.as_ref().map(|_| Vec::new()),
        }
    }

    /// Appends the rows of some nodes of encodings of the same kinds.
    pub(crate) fn extend(&mut self, all: &Encodings, nodes: std::ops::Range<usize>) {
        for (own, all) in [(&mut self.laplacian, &all.laplacian), (&mut self.random_walk, &all.random_walk)] {
            if let (Some(own), Some(all)) = (own, all) {
                own.values.extend_from_slice(all.rows(nodes.clone()));
            }
        }
        if let (Some(own), Some(all)) = (&mut self.weisfeiler_lehman, &all.weisfeiler_lehman) {
            own.extend_from_slice(&all[nodes]);
        }
    }

    pub(crate) fn check(&self, nodes: usize) -> Result<(), GraphError> {
        let level = Level::Node;
        for (what, found) in [("laplacian encoding", &self.laplacian), ("random-walk encoding", &self.random_walk)] {
            let Some(found) = found else { continue };
            if Some(found.values.len()) != nodes.checked_mul(found.width) {
                return Err(GraphError::Length {
                    level,
                    what,
                    found: found.values.len(),
                    rows: nodes,
                    columns: found.width,
                });
            }
            if let Some(at) = found.values.iter().position(|v| !v.is_finite()) {
                let (row, column) = (at / found.width, at % found.width);
                return Err(GraphError::NotFinite { level, what, row, column, value: found.values[at] });
            }
        }
        match &self.weisfeiler_lehman {
            Some(roles) if roles.len() != nodes => Err(GraphError::Length {
                level,
                what: "Weisfeiler-Lehman encoding",
                found: roles.len(),
                rows: nodes,
                columns: 1,
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let coordinates = |c: &Option<Coordinates>| c.as_ref().map_or(0, |c| 4 * c.values.capacity());
        coordinates(&self.laplacian)
            + coordinates(&self.random_walk)
            + self.weisfeiler_lehman.as_ref().map_or(0, |w| 4 * w.capacity())
    }
}
