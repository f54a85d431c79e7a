//! The block-diagonal union of some graphs, as the engines read it.

use std::ops::Range;

use crate::encoding::{Coordinates, Encodings};
use crate::error::GraphError;
use crate::features::{FeatureRows, FeatureTable};
use crate::full::FullView;
use crate::layout::{Layout, Level};
use crate::store::{GraphParts, GraphStore, MAX_INDEX};
use crate::targets::{TargetRows, TargetTable};

/// The block-diagonal union of some graphs.
///
/// Nodes are numbered through, graph by graph. Edges are kept in *in-order*: sorted by target,
/// edges of one target in the order of the graph's own list. All arrays of edges (features,
/// targets, a model's edge stream) are in in-order. Two indices lead through them:
///
/// * in-CSR: edges `in_offsets[i]..in_offsets[i + 1]` point to node i and come from `in_src`;
/// * out-CSR: `out_offsets[j]..out_offsets[j + 1]` leave node j and go to `out_dst`. `out_to_in` is
///   the in-order position of each of these edges.
///
/// `in_to_list` leads back to the order of the graphs' own edge lists, for results that a user
/// reads.
///
/// [`GraphBatch::assemble`] refills the same buffers: once they have grown to the largest batch, it
/// allocates nothing.
///
/// ```
/// use graph_transformer_graph::{GraphBatch, GraphParts, GraphStore, Layout};
///
/// let mut graphs = GraphStore::new(Layout::default());
/// graphs.push(GraphParts { num_nodes: 1, ..Default::default() })?;
/// let (src, dst) = (&[0, 0, 1], &[2, 1, 2]);
/// graphs.push(GraphParts { num_nodes: 3, src, dst, ..Default::default() })?;
///
/// let mut batch = GraphBatch::new();
/// batch.assemble(&graphs, &[1, 0])?;
/// assert_eq!((batch.num_graphs(), batch.node_offsets()), (2, &[0, 3, 4][..]));
/// assert_eq!((batch.nodes_of(1), batch.edges_of(1), batch.graph_of(3)), (3..4, 3..3, 1));
///
/// // In-order: 0→1, 0→2, 1→2. The graph's own list is 0→2, 0→1, 1→2.
/// assert_eq!(batch.in_offsets(), [0, 0, 1, 3, 3]);
/// assert_eq!((batch.in_src(), batch.in_dst()), (&[0, 0, 1][..], &[1, 2, 2][..]));
/// assert_eq!(batch.in_to_list(), [1, 0, 2]);
///
/// // By source: 0→2, 0→1, 1→2.
/// assert_eq!(batch.out_offsets(), [0, 2, 3, 3, 3]);
/// assert_eq!((batch.out_dst(), batch.out_to_in()), (&[2, 1, 2][..], &[1, 0, 2][..]));
/// assert_eq!(batch.split().graph(0), graphs.graph(1));
/// # Ok::<(), graph_transformer_graph::GraphError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphBatch {
    layout: Layout,
    graph_ids: Vec<usize>,
    node_offsets: Vec<usize>,
    edge_offsets: Vec<usize>,
    full_edge_offsets: Vec<usize>,
    node_graph: Vec<u32>,
    in_offsets: Vec<u32>,
    in_src: Vec<u32>,
    in_dst: Vec<u32>,
    in_to_list: Vec<u32>,
    out_offsets: Vec<u32>,
    out_dst: Vec<u32>,
    out_to_in: Vec<u32>,
    node: FeatureTable,
    edge: FeatureTable,
    target: Option<TargetTable>,
    encodings: Encodings,
    cursor: Vec<u32>,
    list_to_in: Vec<u32>,
}

impl Default for GraphBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl GraphBatch {
    /// An empty batch.
    pub fn new() -> Self {
        let layout = Layout::default();
        Self {
            graph_ids: Vec::new(),
            node_offsets: vec![0],
            edge_offsets: vec![0],
            full_edge_offsets: vec![0],
            node_graph: Vec::new(),
            in_offsets: vec![0],
            in_src: Vec::new(),
            in_dst: Vec::new(),
            in_to_list: Vec::new(),
            out_offsets: vec![0],
            out_dst: Vec::new(),
            out_to_in: Vec::new(),
            node: FeatureTable::new(layout.node.clone()),
            edge: FeatureTable::new(layout.edge.clone()),
            target: None,
            encodings: Encodings::default(),
            cursor: Vec::new(),
            list_to_in: Vec::new(),
            layout,
        }
    }

    /// Replaces the contents by the graphs `ids` of `store`, in that order (a graph may occur
    /// twice).
    ///
    /// # Errors
    /// If the batch would have more nodes or edges than [`MAX_INDEX`]; it is then empty.
    ///
    /// # Panics
    /// If an id is not smaller than `store.len()`.
    pub fn assemble(&mut self, store: &GraphStore, ids: &[usize]) -> Result<(), GraphError> {
        self.clear_like(store);
        let nodes: usize = ids.iter().map(|&id| store.node_range(id).len()).sum();
        let edges: usize = ids.iter().map(|&id| store.edge_range(id).len()).sum();
        for (what, count) in [("nodes", nodes), ("edges", edges)] {
            if count > MAX_INDEX {
                return Err(GraphError::TooLarge { what, count, limit: MAX_INDEX });
            }
        }
        self.graph_ids.extend_from_slice(ids);
        self.index_edges(store, nodes, edges);
        self.gather_rows(store);
        Ok(())
    }

    fn clear_like(&mut self, store: &GraphStore) {
        self.layout.clone_from(store.layout());
        self.graph_ids.clear();
        for offsets in [&mut self.node_offsets, &mut self.edge_offsets, &mut self.full_edge_offsets] {
            offsets.clear();
            offsets.push(0);
        }
        for offsets in [&mut self.in_offsets, &mut self.out_offsets] {
            offsets.clear();
            offsets.push(0);
        }
        for list in [&mut self.node_graph, &mut self.in_src, &mut self.in_dst, &mut self.in_to_list] {
            list.clear();
        }
        for list in [&mut self.out_dst, &mut self.out_to_in, &mut self.list_to_in] {
            list.clear();
        }
        self.node.reset_like(&store.node);
        self.edge.reset_like(&store.edge);
        match (&mut self.target, &store.target) {
            (Some(table), Some(source)) => table.reset(source.layout),
            (own, source) => *own = source.as_ref().map(|s| TargetTable::new(s.layout)),
        }
        fn reset(own: &mut Option<Coordinates>, source: &Option<Coordinates>) {
            match (own.as_mut(), source) {
                (Some(own), Some(source)) => {
                    own.width = source.width;
                    own.values.clear();
                }
                (_, source) => *own = source.as_ref().map(|s| Coordinates { width: s.width, values: Vec::new() }),
            }
        }
        reset(&mut self.encodings.laplacian, &store.encodings().laplacian);
        reset(&mut self.encodings.random_walk, &store.encodings().random_walk);
        match (&mut self.encodings.weisfeiler_lehman, &store.encodings().weisfeiler_lehman) {
            (Some(own), Some(_)) => own.clear(),
            (own, source) => *own = source.as_ref().map(|_| Vec::new()),
        }
    }

    /// Counting sort of the edges by target and by source; both are stable.
    fn index_edges(&mut self, store: &GraphStore, nodes: usize, edges: usize) {
        self.in_offsets.resize(nodes + 1, 0);
        self.out_offsets.resize(nodes + 1, 0);
        self.node_graph.resize(nodes, 0);
        for list in [&mut self.in_src, &mut self.in_dst, &mut self.in_to_list, &mut self.out_dst, &mut self.out_to_in] {
            list.resize(edges, 0);
        }
        self.list_to_in.resize(edges, 0);
        let (mut first_node, mut first_edge, mut full_edges) = (0usize, 0usize, 0usize);
        for (position, &id) in self.graph_ids.iter().enumerate() {
            let graph = store.graph(id);
            let n = graph.num_nodes();
            self.node_graph[first_node..first_node + n].fill(position as u32);

            let in_ends = &mut self.in_offsets[first_node + 1..first_node + n + 1];
            graph.dst().iter().for_each(|&d| in_ends[d as usize] += 1);
            let out_ends = &mut self.out_offsets[first_node + 1..first_node + n + 1];
            graph.src().iter().for_each(|&s| out_ends[s as usize] += 1);

            let base = first_node as u32;
            place(in_ends, first_edge as u32, &mut self.cursor);
            for (i, (&s, &d)) in graph.src().iter().zip(graph.dst()).enumerate() {
                let at = take(&mut self.cursor, d);
                self.in_src[at] = base + s;
                self.in_dst[at] = base + d;
                self.in_to_list[at] = (first_edge + i) as u32;
                self.list_to_in[first_edge + i] = at as u32;
            }
            place(out_ends, first_edge as u32, &mut self.cursor);
            for (i, (&s, &d)) in graph.src().iter().zip(graph.dst()).enumerate() {
                let at = take(&mut self.cursor, s);
                self.out_dst[at] = base + d;
                self.out_to_in[at] = self.list_to_in[first_edge + i];
            }
            first_node += n;
            first_edge += graph.num_edges();
            full_edges += FullView::count(n);
            self.node_offsets.push(first_node);
            self.edge_offsets.push(first_edge);
            self.full_edge_offsets.push(full_edges);
        }
    }

    fn gather_rows(&mut self, store: &GraphStore) {
        for (position, &id) in self.graph_ids.iter().enumerate() {
            let graph = store.graph(id);
            let first = self.edge_offsets[position];
            let order = self.in_to_list[first..self.edge_offsets[position + 1]].iter().map(|&e| e as usize - first);
            self.node.extend(&graph.node());
            self.edge.extend_permuted(&graph.edge(), order.clone());
            if let (Some(table), Some(rows)) = (&mut self.target, graph.target()) {
                match table.layout.level {
                    Level::Edge => table.extend_permuted(&rows, order),
                    Level::Graph | Level::Node => table.extend(&rows),
                }
            }
            self.encodings.extend(store.encodings(), store.node_range(id));
        }
    }

    /// Columns of the graphs.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Number of graphs.
    pub fn num_graphs(&self) -> usize {
        self.graph_ids.len()
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.node_graph.len()
    }

    /// Number of directed edges.
    pub fn num_edges(&self) -> usize {
        self.in_src.len()
    }

    /// Where the nodes of each graph begin, `[graphs + 1]`.
    pub fn node_offsets(&self) -> &[usize] {
        &self.node_offsets
    }

    /// Where the edges of each graph begin, `[graphs + 1]`, in in-order as well as in list order.
    pub fn edge_offsets(&self) -> &[usize] {
        &self.edge_offsets
    }

    pub(crate) fn full_edge_offsets(&self) -> &[usize] {
        &self.full_edge_offsets
    }

    /// Nodes of a graph.
    pub fn nodes_of(&self, graph: usize) -> Range<usize> {
        self.node_offsets[graph]..self.node_offsets[graph + 1]
    }

    /// Edges of a graph.
    pub fn edges_of(&self, graph: usize) -> Range<usize> {
        self.edge_offsets[graph]..self.edge_offsets[graph + 1]
    }

    /// The graph of each node, `[nodes]`, ascending.
    pub fn node_graph(&self) -> &[u32] {
        &self.node_graph
    }

    /// The graph of a node.
    pub fn graph_of(&self, node: usize) -> usize {
        self.node_graph[node] as usize
    }

    /// Where the edges into each node begin, `[nodes + 1]`.
    pub fn in_offsets(&self) -> &[u32] {
        &self.in_offsets
    }

    /// Source of each edge in in-order, `[edges]`.
    pub fn in_src(&self) -> &[u32] {
        &self.in_src
    }

    /// Target of each edge in in-order, `[edges]`, ascending.
    pub fn in_dst(&self) -> &[u32] {
        &self.in_dst
    }

    /// For each edge in in-order its position in the concatenated edge lists of the graphs,
    /// `[edges]`.
    pub fn in_to_list(&self) -> &[u32] {
        &self.in_to_list
    }

    /// Where the edges out of each node begin, `[nodes + 1]`.
    pub fn out_offsets(&self) -> &[u32] {
        &self.out_offsets
    }

    /// Target of each edge in out-order, `[edges]`.
    pub fn out_dst(&self) -> &[u32] {
        &self.out_dst
    }

    /// For each edge in out-order its position in in-order, `[edges]`.
    pub fn out_to_in(&self) -> &[u32] {
        &self.out_to_in
    }

    /// Features of the nodes.
    pub fn node(&self) -> FeatureRows<'_> {
        self.node.rows(0..self.num_nodes())
    }

    /// Features of the edges, in in-order.
    pub fn edge(&self) -> FeatureRows<'_> {
        self.edge.rows(0..self.num_edges())
    }

    /// Targets: a row per graph, per node, or per edge in in-order.
    pub fn target(&self) -> Option<TargetRows<'_>> {
        let table = self.target.as_ref()?;
        let rows = match table.layout.level {
            Level::Graph => self.num_graphs(),
            Level::Node => self.num_nodes(),
            Level::Edge => self.num_edges(),
        };
        Some(table.rows(0..rows))
    }

    /// Encodings of the nodes, as far as the store had them.
    pub fn encodings(&self) -> &Encodings {
        &self.encodings
    }

    /// The encodings, to flip signs in; rows stay as many.
    pub fn encodings_mut(&mut self) -> &mut Encodings {
        &mut self.encodings
    }

    /// The categories of the nodes, or of the edges ordered by their targets, row by row. Every
    /// column must stay within its vocabulary.
    ///
    /// # Panics
    /// If the level is that of graphs, which have no features.
    pub fn categories_mut(&mut self, level: Level) -> &mut [u32] {
        match level {
            Level::Node => self.node.categories_mut(),
            Level::Edge => self.edge.categories_mut(),
            Level::Graph => panic!("graphs have no features"),
        }
    }

    /// The fully connected view of the batch: every ordered pair i ≠ j of a graph joined.
    pub fn full(&self) -> FullView<'_> {
        FullView::new(self)
    }

    /// The graphs of the batch, each with its edges in their own order: the inverse of
    /// [`GraphBatch::assemble`].
    pub fn split(&self) -> GraphStore {
        let mut store = GraphStore::new(self.layout.clone());
        let mut edge = self.edge.clone();
        let mut target = self.target.clone();
        for graph in 0..self.num_graphs() {
            let (nodes, edges) = (self.nodes_of(graph), self.edges_of(graph));
            let local = |v: u32| v - nodes.start as u32;
            let order = edges.clone().map(|e| self.list_to_in[e] as usize);
            let src: Vec<u32> = order.clone().map(|at| local(self.in_src[at])).collect();
            let dst: Vec<u32> = order.clone().map(|at| local(self.in_dst[at])).collect();
            edge.reset_like(&self.edge);
            edge.extend_permuted(&self.edge(), order.clone());
            if let (Some(own), Some(all)) = (&mut target, &self.target) {
                own.reset(all.layout);
                match all.layout.level {
                    Level::Edge => own.extend_permuted(&all.rows(0..self.num_edges()), order),
                    _ => own.extend(&all.rows(all.range(graph, nodes.clone(), edges.clone()))),
                }
            }
            store
                .push(GraphParts {
                    num_nodes: nodes.len(),
                    src: &src,
                    dst: &dst,
                    node: self.node.rows(nodes.clone()),
                    edge: edge.rows(0..edges.len()),
                    target: target.as_ref().map(|t| t.rows(0..t.layout.level.rows(nodes.len(), edges.len()))),
                })
                .expect("a batch holds checked graphs only");
        }
        store.set_encodings(self.encodings.clone()).expect("encodings cover the batch's nodes");
        store
    }
}

/// Turns counts into end offsets, in place, and leaves the start offsets in `cursor`.
fn place(counts: &mut [u32], first: u32, cursor: &mut Vec<u32>) {
    cursor.clear();
    let mut end = first;
    for count in counts {
        cursor.push(end);
        end += *count;
        *count = end;
    }
}

/// The next free place of a node.
fn take(cursor: &mut [u32], node: u32) -> usize {
    let next = &mut cursor[node as usize];
    let at = *next as usize;
    *next += 1;
    at
}
