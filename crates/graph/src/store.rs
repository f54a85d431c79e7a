//! Many graphs in one set of arrays.
//!
//! A quarter of a million molecules as separate objects would spend more memory on headers and
//! allocator slack than on atoms. In a [`GraphStore`] one array holds each kind of value of all
//! graphs, and [`GraphRef`] is a view of one graph. Graphs enter through [`GraphStore::push`],
//! which checks everything, so every graph of a store is valid.

use std::ops::Range;

use crate::encoding::Encodings;
use crate::error::GraphError;
use crate::features::{FeatureRows, FeatureTable};
use crate::layout::{FeatureLayout, Layout, Level, TargetLayout};
use crate::targets::{TargetRows, TargetTable};

/// Most nodes, or edges, of one graph and of one batch: indices are 32-bit, the last value is
/// reserved.
pub const MAX_INDEX: usize = u32::MAX as usize - 1;

/// A graph that has not been checked yet.
///
/// Edge `i` carries a message from node `src[i]` to node `dst[i]`; an undirected bond is two edges.
#[derive(Clone, Copy, Debug, Default)]
pub struct GraphParts<'a> {
    /// Number of nodes; zero is legal.
    pub num_nodes: usize,
    /// Source node of each edge.
    pub src: &'a [u32],
    /// Target node of each edge.
    pub dst: &'a [u32],
    /// Features of the nodes, one row per node.
    pub node: FeatureRows<'a>,
    /// Features of the edges, one row per edge.
    pub edge: FeatureRows<'a>,
    /// Targets, on the level that the set's layout names.
    pub target: Option<TargetRows<'a>>,
}

impl GraphParts<'_> {
    /// Checks everything that can be wrong with a graph of this layout.
    pub fn check(&self, layout: &Layout) -> Result<(), GraphError> {
        let (nodes, edges) = (self.num_nodes, self.src.len());
        if edges != self.dst.len() {
            return Err(GraphError::EdgeListLengths { sources: edges, targets: self.dst.len() });
        }
        for (what, count) in [("nodes", nodes), ("edges", edges)] {
            if count > MAX_INDEX {
                return Err(GraphError::TooLarge { what, count, limit: MAX_INDEX });
            }
        }
        for (is_source, ends) in [(true, self.src), (false, self.dst)] {
            // Almost always every end is a node, and a maximum is found faster than a position.
            let beyond = ends.iter().copied().max().filter(|&most| most as usize >= nodes);
            if let Some(edge) = beyond.and_then(|_| ends.iter().position(|&v| v as usize >= nodes)) {
                return Err(GraphError::EdgeOutOfRange { edge, node: ends[edge], num_nodes: nodes, is_source });
            }
        }
        self.node.check(Level::Node, &layout.node, nodes)?;
        self.edge.check(Level::Edge, &layout.edge, edges)?;
        match (&self.target, &layout.target) {
            (None, None) => Ok(()),
            (Some(target), Some(expected)) => target.check(expected, expected.level.rows(nodes, edges)),
            (found, expected) => Err(GraphError::TargetMismatch {
                found: found.as_ref().map(TargetRows::kind),
                expected: expected.as_ref().map(|expected| expected.kind),
            }),
        }
    }
}

/// A checked graph inside a [`GraphStore`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphRef<'a> {
    num_nodes: usize,
    src: &'a [u32],
    dst: &'a [u32],
    node: FeatureRows<'a>,
    edge: FeatureRows<'a>,
    target: Option<TargetRows<'a>>,
}

impl<'a> GraphRef<'a> {
    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    /// Number of directed edges.
    pub fn num_edges(&self) -> usize {
        self.src.len()
    }

    /// Source node of each edge, `[edges]`.
    pub fn src(&self) -> &'a [u32] {
        self.src
    }

    /// Target node of each edge, `[edges]`.
    pub fn dst(&self) -> &'a [u32] {
        self.dst
    }

    /// Features of the nodes.
    pub fn node(&self) -> FeatureRows<'a> {
        self.node
    }

    /// Features of the edges, in the order of the edge list.
    pub fn edge(&self) -> FeatureRows<'a> {
        self.edge
    }

    /// Targets, if the set has any.
    pub fn target(&self) -> Option<TargetRows<'a>> {
        self.target
    }

    /// The graph as unchecked parts, to be changed and checked again.
    pub fn parts(&self) -> GraphParts<'a> {
        let GraphRef { num_nodes, src, dst, node, edge, target } = *self;
        GraphParts { num_nodes, src, dst, node, edge, target }
    }
}

/// Many checked graphs of one [`Layout`], stored together.
///
/// ```
/// use graph_transformer_graph::encoding::{Coordinates, Encodings, Laplacian, encode_all};
/// use graph_transformer_graph::{
///     GraphParts, GraphStore, Layout, Level, TargetKind, TargetLayout, TargetRows,
/// };
///
/// // A bond, then a path of three nodes; every edge in both directions.
/// let mut graphs = GraphStore::new(Layout::default());
/// graphs.push(GraphParts { num_nodes: 2, src: &[0, 1], dst: &[1, 0], ..Default::default() })?;
/// let mut more = GraphStore::new(Layout::default());
/// let (src, dst) = (&[0, 1, 1, 2], &[1, 0, 2, 1]);
/// more.push(GraphParts { num_nodes: 3, src, dst, ..Default::default() })?;
/// graphs.append(&more)?;
/// assert_eq!((graphs.len(), graphs.node_range(1), graphs.edge_range(1)), (2, 2..5, 2..6));
///
/// // One number per graph to learn, and an encoding with a row per node.
/// let target = TargetLayout { level: Level::Graph, kind: TargetKind::Float, columns: 1 };
/// graphs.set_target(target, TargetRows::Float(&[0.5, -1.0]))?;
/// assert_eq!(graphs.graph(1).target().and_then(|rows| rows.get(0)), Some(-1.0));
/// let values = encode_all(&Laplacian::new(1), &graphs).map_err(|(_, error)| error)?;
/// let laplacian = Some(Coordinates { width: 1, values });
/// graphs.set_encodings(Encodings { laplacian, ..Default::default() })?;
///
/// // Copies in another order, without the first edge of each graph: targets go, encodings stay.
/// let fewer = graphs.with_edges(&[1, 0], |_, edge| edge > 0);
/// assert_eq!((fewer.graph(0).src(), fewer.graph(1).src()), (&[1, 1, 2][..], &[1][..]));
/// assert!(fewer.target().is_none());
/// let path = fewer.encodings().laplacian.as_ref().map(|found| found.rows(fewer.node_range(0)));
/// let half = 0.5f32.sqrt();
/// for (found, expected) in path.unwrap().iter().zip([half, 0.0, -half]) {
///     assert!((found - expected).abs() < 1e-6);
/// }
/// # Ok::<(), graph_transformer_graph::GraphError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphStore {
    layout: Layout,
    node_offsets: Vec<usize>,
    edge_offsets: Vec<usize>,
    src: Vec<u32>,
    dst: Vec<u32>,
    pub(crate) node: FeatureTable,
    pub(crate) edge: FeatureTable,
    pub(crate) target: Option<TargetTable>,
    encodings: Encodings,
}

impl GraphStore {
    /// An empty set of graphs with these columns.
    pub fn new(layout: Layout) -> Self {
        Self {
            node_offsets: vec![0],
            edge_offsets: vec![0],
            src: Vec::new(),
            dst: Vec::new(),
            node: FeatureTable::new(layout.node.clone()),
            edge: FeatureTable::new(layout.edge.clone()),
            target: layout.target.map(TargetTable::new),
            encodings: Encodings::default(),
            layout,
        }
    }

    /// Checks a graph and appends it. On error the store is unchanged.
    ///
    /// Encodings of the graphs so far are dropped: they would not cover the new one.
    pub fn push(&mut self, graph: GraphParts<'_>) -> Result<(), GraphError> {
        graph.check(&self.layout)?;
        self.src.extend_from_slice(graph.src);
        self.dst.extend_from_slice(graph.dst);
        self.node_offsets.push(self.num_nodes() + graph.num_nodes);
        self.edge_offsets.push(self.src.len());
        self.node.extend(&graph.node);
        self.edge.extend(&graph.edge);
        if let (Some(table), Some(rows)) = (&mut self.target, &graph.target) {
            table.extend(rows);
        }
        self.encodings = Encodings::default();
        Ok(())
    }

    /// Appends all graphs of another set of the same layout, with their encodings.
    ///
    /// # Errors
    /// If the layouts differ.
    pub fn append(&mut self, more: &GraphStore) -> Result<(), GraphError> {
        let before = std::mem::take(&mut self.encodings);
        for graph in more.iter() {
            self.push(graph.parts())?;
        }
        let mut encodings = if self.len() == more.len() { more.encodings.emptied() } else { before };
        encodings.extend(&more.encodings, 0..more.num_nodes());
        self.set_encodings(encodings)
    }

    /// Reserves memory for this many more nodes and edges in all.
    pub fn reserve(&mut self, nodes: usize, edges: usize) {
        self.src.reserve_exact(edges);
        self.dst.reserve_exact(edges);
        self.node.reserve(nodes);
        self.edge.reserve(edges);
    }

    /// Decides the feature columns of a level on which no graph has rows yet.
    ///
    /// # Panics
    /// If there are rows already, or the level is that of graphs.
    pub fn set_columns(&mut self, level: Level, columns: FeatureLayout) {
        assert_eq!(self.rows(level), 0, "columns are decided before the first row");
        let (table, own) = match level {
            Level::Node => (&mut self.node, &mut self.layout.node),
            Level::Edge => (&mut self.edge, &mut self.layout.edge),
            Level::Graph => panic!("graphs as a whole have no features"),
        };
        own.clone_from(&columns);
        *table = FeatureTable::new(columns);
    }

    /// Turns a categorical feature into the continuous one at position `at`: a reader may learn
    /// late that a column holds real numbers.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn make_continuous(&mut self, level: Level, column: usize, at: usize) {
        let (table, own) = match level {
            Level::Node => (&mut self.node, &mut self.layout.node),
            Level::Edge => (&mut self.edge, &mut self.layout.edge),
            Level::Graph => panic!("graphs as a whole have no features"),
        };
        table.make_continuous(column, at);
        own.clone_from(&table.layout);
    }

    /// Replaces every value of a categorical feature column.
    ///
    /// ```
    /// use graph_transformer_graph::{FeatureRows, Graph, GraphParts, GraphStore, Level};
    ///
    /// let node = FeatureRows { categorical: &[0, 4], ..Default::default() };
    /// let graph = Graph::new(GraphParts { num_nodes: 2, node, ..Default::default() })?;
    /// let mut graphs = GraphStore::from(graph);
    /// graphs.map_categories(Level::Node, 0, |value| value / 2);
    /// assert_eq!(graphs.graph(0).node().categorical, [0, 2]);
    /// # Ok::<(), graph_transformer_graph::GraphError>(())
    /// ```
    ///
    /// # Panics
    /// If the level is that of graphs.
    pub fn map_categories(&mut self, level: Level, column: usize, to: impl Fn(u32) -> u32) {
        match level {
            Level::Node => self.node.map_categories(column, to),
            Level::Edge => self.edge.map_categories(column, to),
            Level::Graph => panic!("graphs as a whole have no features"),
        }
    }

    /// Continuous features of a level, `[rows, continuous columns]`.
    ///
    /// # Panics
    /// If the level is that of graphs.
    pub fn continuous(&self, level: Level) -> &[f32] {
        match level {
            Level::Node => self.node.continuous(),
            Level::Edge => self.edge.continuous(),
            Level::Graph => panic!("graphs as a whole have no features"),
        }
    }

    /// Replaces each continuous feature of a level by `map(column, value)`.
    ///
    /// # Panics
    /// If the level is that of graphs.
    pub fn map_continuous(&mut self, level: Level, map: impl Fn(usize, f32) -> f32) {
        match level {
            Level::Node => self.node.map_continuous(map),
            Level::Edge => self.edge.map_continuous(map),
            Level::Graph => panic!("graphs as a whole have no features"),
        }
    }

    /// Replaces the targets of all graphs, given one after the other.
    ///
    /// # Errors
    /// If there is not one row for every graph, node or edge, or a value is infinite.
    pub fn set_target(&mut self, layout: TargetLayout, rows: TargetRows<'_>) -> Result<(), GraphError> {
        rows.check(&layout, self.rows(layout.level))?;
        let mut table = TargetTable::new(layout);
        table.extend(&rows);
        self.layout.target = Some(layout);
        self.target = Some(table);
        Ok(())
    }

    /// Columns of the graphs.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Number of graphs.
    pub fn len(&self) -> usize {
        self.node_offsets.len() - 1
    }

    /// True when there is no graph.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of nodes of all graphs.
    pub fn num_nodes(&self) -> usize {
        self.node_offsets[self.len()]
    }

    /// Number of directed edges of all graphs.
    pub fn num_edges(&self) -> usize {
        self.src.len()
    }

    /// Where the nodes of each graph begin among all nodes, `[graphs + 1]`.
    pub fn node_offsets(&self) -> &[usize] {
        &self.node_offsets
    }

    /// Where the edges of each graph begin among all edges, `[graphs + 1]`.
    pub fn edge_offsets(&self) -> &[usize] {
        &self.edge_offsets
    }

    /// Positions of a graph's nodes among all nodes.
    pub fn node_range(&self, graph: usize) -> Range<usize> {
        self.node_offsets[graph]..self.node_offsets[graph + 1]
    }

    /// Positions of a graph's edges among all edges.
    pub fn edge_range(&self, graph: usize) -> Range<usize> {
        self.edge_offsets[graph]..self.edge_offsets[graph + 1]
    }

    /// The graph at a position.
    ///
    /// # Panics
    /// If there is no such graph.
    pub fn graph(&self, index: usize) -> GraphRef<'_> {
        let (nodes, edges) = (self.node_range(index), self.edge_range(index));
        GraphRef {
            num_nodes: nodes.len(),
            src: &self.src[edges.clone()],
            dst: &self.dst[edges.clone()],
            node: self.node.rows(nodes.clone()),
            edge: self.edge.rows(edges.clone()),
            target: self.target.as_ref().map(|t| t.rows(t.range(index, nodes, edges))),
        }
    }

    /// All graphs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = GraphRef<'_>> + Clone {
        (0..self.len()).map(|i| self.graph(i))
    }

    /// Positional encodings of all nodes, as far as they have been computed or read.
    pub fn encodings(&self) -> &Encodings {
        &self.encodings
    }

    /// Replaces the encodings.
    ///
    /// # Errors
    /// If one of them does not have a row for every node.
    pub fn set_encodings(&mut self, encodings: Encodings) -> Result<(), GraphError> {
        encodings.check(self.num_nodes())?;
        self.encodings = encodings;
        Ok(())
    }

    /// Keeps the edges for which `keep` is true, and removes all targets. The arguments of `keep`:
    /// the number of a graph, the position of an edge in the graph's list, and the edge's source
    /// and target.
    ///
    /// Encodings stay as they are: they still describe the graphs with all edges.
    ///
    /// ```
    /// use graph_transformer_graph::{GraphParts, GraphStore, Layout};
    ///
    /// let mut graphs = GraphStore::new(Layout::default());
    /// let (src, dst) = (&[0, 1, 2], &[1, 2, 0]);
    /// graphs.push(GraphParts { num_nodes: 3, src, dst, ..Default::default() })?;
    /// graphs.retain_edges(|_, _, (source, _)| source != 1);
    /// assert_eq!((graphs.graph(0).src(), graphs.graph(0).dst()), (&[0, 2][..], &[1, 0][..]));
    /// # Ok::<(), graph_transformer_graph::GraphError>(())
    /// ```
    pub fn retain_edges(&mut self, keep: impl Fn(usize, usize, (u32, u32)) -> bool) {
        let (mut kept, mut offsets) = (Vec::new(), vec![0]);
        for graph in 0..self.len() {
            let range = self.edge_range(graph);
            let is_kept = |&edge: &usize| keep(graph, edge - range.start, (self.src[edge], self.dst[edge]));
            kept.extend(range.clone().filter(is_kept));
            offsets.push(kept.len());
        }
        let mut features = FeatureTable::new(self.layout.edge.clone());
        features.extend_permuted(&self.edge.rows(0..self.num_edges()), kept.iter().copied());
        for ends in [&mut self.src, &mut self.dst] {
            kept.iter().enumerate().for_each(|(to, &from)| ends[to] = ends[from]);
            ends.truncate(kept.len());
        }
        self.edge = features;
        self.edge_offsets = offsets;
        self.layout.target = None;
        self.target = None;
    }

    /// Copies of the graphs `ids` without targets, with the edges for which `keep` is true. The
    /// arguments of `keep`: a position in `ids`, and the position of an edge in the graph's list.
    ///
    /// Encodings stay as they are: they still describe the graphs with all edges.
    ///
    /// # Panics
    /// If an id is not smaller than `len()`.
    pub fn with_edges(&self, ids: &[usize], keep: impl Fn(usize, usize) -> bool) -> GraphStore {
        let mut store = GraphStore::new(Layout { target: None, ..self.layout.clone() });
        let mut encodings = self.encodings.emptied();
        for (place, &id) in ids.iter().enumerate() {
            let graph = self.graph(id);
            let kept: Vec<usize> = (0..graph.num_edges()).filter(|&edge| keep(place, edge)).collect();
            store.src.extend(kept.iter().map(|&edge| graph.src[edge]));
            store.dst.extend(kept.iter().map(|&edge| graph.dst[edge]));
            store.node_offsets.push(store.num_nodes() + graph.num_nodes);
            store.edge_offsets.push(store.src.len());
            store.node.extend(&graph.node);
            store.edge.extend_permuted(&graph.edge, kept.iter().copied());
            encodings.extend(&self.encodings, self.node_range(id));
        }
        store.encodings = encodings;
        store
    }

    /// Nodes whose Weisfeiler–Lehman role is not below `size`; none without roles or without a
    /// size.
    pub fn roles_beyond(&self, size: Option<usize>) -> usize {
        let roles = self.encodings.weisfeiler_lehman.as_deref().unwrap_or_default();
        size.map_or(0, |size| roles.iter().filter(|&&role| role as usize >= size).count())
    }

    /// Targets of all graphs, one after the other.
    pub fn target(&self) -> Option<TargetRows<'_>> {
        let table = self.target.as_ref()?;
        Some(table.rows(0..self.rows(table.layout.level)))
    }

    /// Number of graphs, of nodes, or of edges.
    pub fn rows(&self, level: Level) -> usize {
        match level {
            Level::Graph => self.len(),
            Level::Node => self.num_nodes(),
            Level::Edge => self.num_edges(),
        }
    }

    /// Positions of a graph's rows on a level.
    pub fn row_range(&self, level: Level, graph: usize) -> Range<usize> {
        match level {
            Level::Graph => graph..graph + 1,
            Level::Node => self.node_range(graph),
            Level::Edge => self.edge_range(graph),
        }
    }

    /// Smallest vocabularies that hold the values seen: per categorical column, and of the
    /// multi-hot feature.
    pub fn vocabularies(&self, level: Level) -> (Vec<usize>, usize) {
        match level {
            Level::Graph => (Vec::new(), 0),
            Level::Node => self.node.vocabularies(),
            Level::Edge => self.edge.vocabularies(),
        }
    }

    /// Gives back memory that growth left unused.
    pub fn shrink_to_fit(&mut self) {
        self.node_offsets.shrink_to_fit();
        self.edge_offsets.shrink_to_fit();
        self.src.shrink_to_fit();
        self.dst.shrink_to_fit();
        self.node.shrink_to_fit();
        self.edge.shrink_to_fit();
        if let Some(target) = &mut self.target {
            target.shrink_to_fit();
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        size_of::<usize>() * (self.node_offsets.capacity() + self.edge_offsets.capacity())
            + 4 * (self.src.capacity() + self.dst.capacity())
            + self.node.bytes()
            + self.edge.bytes()
            + self.target.as_ref().map_or(0, TargetTable::bytes)
            + self.encodings.bytes()
    }
}

impl PartialEq for GraphStore {
    fn eq(&self, other: &Self) -> bool {
        self.layout == other.layout
            && self.len() == other.len()
            && self.encodings == other.encodings
            && self.iter().zip(other.iter()).all(|(a, b)| a == b)
    }
}

/// One checked graph that owns its values.
///
/// ```
/// use graph_transformer_graph::{FeatureRows, Graph, GraphParts};
///
/// // Water: an oxygen with two hydrogens, every bond in both directions.
/// let water = Graph::new(GraphParts {
///     num_nodes: 3,
///     src: &[0, 1, 0, 2],
///     dst: &[1, 0, 2, 0],
///     node: FeatureRows { categorical: &[8, 1, 1], ..Default::default() },
///     ..Default::default()
/// })?;
/// assert_eq!(water.view().num_edges(), 4);
///
/// let parts = GraphParts { num_nodes: 3, src: &[0], dst: &[7], ..Default::default() };
/// let error = Graph::new(parts).unwrap_err().to_string();
/// assert_eq!(error, "edge 0 points to node 7, but the graph has 3 nodes");
/// # Ok::<(), graph_transformer_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Graph(GraphStore);

impl Graph {
    /// Checks the parts; the number of feature columns follows from the number of values.
    ///
    /// Targets given this way are one row on the graph level. For targets of nodes or edges, push
    /// the graph to a [`GraphStore`] with their layout.
    ///
    /// # Errors
    /// The first part that does not fit the others.
    pub fn new(parts: GraphParts<'_>) -> Result<Self, GraphError> {
        let target = parts.target.map(|t| TargetLayout { level: Level::Graph, kind: t.kind(), columns: t.len() });
        let layout =
            Layout { node: parts.node.layout(parts.num_nodes), edge: parts.edge.layout(parts.src.len()), target };
        let mut store = GraphStore::new(layout);
        store.push(parts)?;
        Ok(Self(store))
    }

    /// The graph's contents.
    pub fn view(&self) -> GraphRef<'_> {
        self.0.graph(0)
    }

    /// The graph as a set of one.
    pub fn as_store(&self) -> &GraphStore {
        &self.0
    }
}

impl From<Graph> for GraphStore {
    fn from(graph: Graph) -> Self {
        graph.0
    }
}
