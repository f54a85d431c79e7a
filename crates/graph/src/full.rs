//! The fully connected view of a batch: every ordered pair i ≠ j inside each graph, none of it
//! stored.

use std::ops::Range;

use crate::batch::GraphBatch;

/// All ordered pairs of distinct nodes of each graph of a batch.
///
/// Edges are numbered graph by graph, then by source, then by target, as the benchmark's loaders
/// list them. Neighbours and edge numbers are arithmetic on the graph offsets, so the view costs no
/// memory.
///
/// ```
/// use graph_transformer_graph::{Graph, GraphBatch, GraphParts};
///
/// let lonely = Graph::new(GraphParts { num_nodes: 3, ..Default::default() })?;
/// let mut batch = GraphBatch::new();
/// batch.assemble(lonely.as_store(), &[0])?;
/// let full = batch.full();
/// assert_eq!(full.num_edges(), 6);
/// let into_1: Vec<_> = full.in_edges(1).collect();
/// assert_eq!(into_1, [(0, 0), (5, 2)]); // (edge number, source): 0→1 is edge 0, 2→1 is edge 5
/// let out_of_1: Vec<_> = full.out_edges(1).collect();
/// assert_eq!(out_of_1, [(2, 0), (3, 2)]); // (edge number, target)
/// assert_eq!((full.edge(2, 1), full.edge(1, 1), full.edges_of(0)), (Some(5), None, 0..6));
/// # Ok::<(), graph_transformer_graph::GraphError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FullView<'a> {
    batch: &'a GraphBatch,
}

impl<'a> FullView<'a> {
    /// Edges of a fully connected graph: all pairs of different nodes, in both directions.
    pub fn count(nodes: usize) -> usize {
        nodes * nodes.saturating_sub(1)
    }

    pub(crate) fn new(batch: &'a GraphBatch) -> Self {
        Self { batch }
    }

    /// Number of edges of all graphs.
    pub fn num_edges(&self) -> usize {
        self.batch.full_edge_offsets()[self.batch.num_graphs()]
    }

    /// Edge numbers of one graph.
    pub fn edges_of(&self, graph: usize) -> Range<usize> {
        let offsets = self.batch.full_edge_offsets();
        offsets[graph]..offsets[graph + 1]
    }

    /// The number of edge `src` → `dst`, both in batch numbering; `None` for a pair of different
    /// graphs or a node with itself.
    pub fn edge(&self, src: usize, dst: usize) -> Option<usize> {
        let graph = self.batch.graph_of(src);
        let nodes = self.batch.nodes_of(graph);
        (src != dst && nodes.contains(&dst)).then(|| self.edge_in(graph, &nodes, src, dst))
    }

    fn edge_in(&self, graph: usize, nodes: &Range<usize>, src: usize, dst: usize) -> usize {
        let (s, d) = (src - nodes.start, dst - nodes.start);
        self.batch.full_edge_offsets()[graph] + s * (nodes.len() - 1) + d - usize::from(d > s)
    }

    /// Edges into a node: (edge number, source), sources ascending.
    pub fn in_edges(&self, dst: usize) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let view = *self;
        let graph = self.batch.graph_of(dst);
        let nodes = self.batch.nodes_of(graph);
        nodes.clone().filter(move |&s| s != dst).map(move |s| (view.edge_in(graph, &nodes, s, dst), s))
    }

    /// Edges out of a node: (edge number, target), targets ascending.
    pub fn out_edges(&self, src: usize) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let view = *self;
        let graph = self.batch.graph_of(src);
        let nodes = self.batch.nodes_of(graph);
        nodes.clone().filter(move |&d| d != src).map(move |d| (view.edge_in(graph, &nodes, src, d), d))
    }
}
