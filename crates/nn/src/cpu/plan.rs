//! How a batch is cut up: blocks that stay in cache, parts that run in parallel.
//!
//! A part is some consecutive graphs, divided so that all parts cost nearly the same. A block is
//! some whole graphs of a part with about a hundred nodes in total. Both depend on the batch alone,
//! never on the number of threads. Sums are taken per part and added in the order of the parts, so
//! results do not depend on the number of threads.
//!
//! A batch with a large graph is cut *open*: blocks are then ranges of about a hundred nodes,
//! wherever a graph ends. What an edge reads at its other end may belong to another block, so
//! stages that follow edges wait for each other.
//!
//! Stages that follow no edge have a plan of their own: equal numbers of rows, wherever a graph
//! ends, in as many parts.

use std::ops::Range;

use gt_graph::{FullView, GraphBatch};

use super::edges::Edges;

/// The edges of a batch in both directions, either as stored or with every ordered pair of nodes
/// joined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    pub(crate) node_offsets: Vec<usize>,
    pub(crate) edge_offsets: Vec<usize>,
    pub(crate) in_offsets: Vec<u32>,
    pub(crate) in_src: Vec<u32>,
    pub(crate) out_offsets: Vec<u32>,
    pub(crate) out_dst: Vec<u32>,
    pub(crate) out_to_in: Vec<u32>,
    /// The reverse of each edge in in-order, or the edge itself where there is none; filled on
    /// demand.
    pub(crate) mirror: Vec<u32>,
    keys: Vec<(u32, u32, bool, u32)>,
}

impl Topology {
    /// Copies the edges of a batch; memory is reused.
    pub(crate) fn set_sparse(&mut self, batch: &GraphBatch) {
        self.node_offsets.clear();
        self.node_offsets.extend_from_slice(batch.node_offsets());
        self.edge_offsets.clear();
        self.edge_offsets.extend_from_slice(batch.edge_offsets());
        for (own, from) in [
            (&mut self.in_offsets, batch.in_offsets()),
            (&mut self.in_src, batch.in_src()),
            (&mut self.out_offsets, batch.out_offsets()),
            (&mut self.out_dst, batch.out_dst()),
            (&mut self.out_to_in, batch.out_to_in()),
        ] {
            own.clear();
            own.extend_from_slice(from);
        }
    }

    /// Joins every ordered pair of nodes of each graph.
    pub(crate) fn set_full(&mut self, batch: &GraphBatch) {
        self.node_offsets.clear();
        self.node_offsets.extend_from_slice(batch.node_offsets());
        self.edge_offsets.clear();
        self.edge_offsets.push(0);
        for list in
            [&mut self.in_offsets, &mut self.in_src, &mut self.out_offsets, &mut self.out_dst, &mut self.out_to_in]
        {
            list.clear();
        }
        let edges = (0..batch.num_graphs()).map(|graph| FullView::count(batch.nodes_of(graph).len())).sum();
        for list in [&mut self.in_src, &mut self.out_dst, &mut self.out_to_in] {
            list.reserve(edges);
        }
        self.in_offsets.push(0);
        self.out_offsets.push(0);
        for graph in 0..batch.num_graphs() {
            let nodes = batch.nodes_of(graph);
            let (first, base) = (nodes.start, self.in_src.len());
            for node in nodes.clone() {
                // Both directions list the same partners; edge s → d is number s (or s − 1 beyond
                // d) among those into d.
                for other in nodes.clone().filter(|&other| other != node) {
                    self.in_src.push(other as u32);
                    self.out_dst.push(other as u32);
                    let among = node - first - usize::from(node > other);
                    self.out_to_in.push((base + (other - first) * (nodes.len() - 1) + among) as u32);
                }
                self.in_offsets.push(self.in_src.len() as u32);
                self.out_offsets.push(self.in_src.len() as u32);
            }
            self.edge_offsets.push(self.in_src.len());
        }
    }

    /// Finds the reverse of every edge: the k-th of several edges from a to b belongs to the k-th
    /// from b to a.
    pub(crate) fn find_mirrors(&mut self) {
        self.keys.clear();
        self.mirror.clear();
        for node in 0..self.nodes() {
            for edge in self.in_offsets[node]..self.in_offsets[node + 1] {
                let (source, target) = (self.in_src[edge as usize], node as u32);
                self.keys.push((source.min(target), source.max(target), source > target, edge));
                self.mirror.push(edge);
            }
        }
        self.keys.sort_unstable();
        for pair in self.keys.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (up, down) = pair.split_at(pair.partition_point(|key| !key.2));
            for (a, b) in up.iter().zip(down) {
                self.mirror[a.3 as usize] = b.3;
                self.mirror[b.3 as usize] = a.3;
            }
        }
    }

    /// The edges of a block: shared arrays are the block's own where it consists of whole graphs,
    /// else the batch's.
    pub(crate) fn edges_of(&self, block: &Span, open: bool) -> Edges<'_> {
        let shared = if open { &self.all() } else { block };
        Edges {
            in_offsets: &self.in_offsets[block.nodes.start..=block.nodes.end],
            in_src: &self.in_src,
            out_offsets: &self.out_offsets[block.nodes.start..=block.nodes.end],
            out_dst: &self.out_dst,
            out_to_in: &self.out_to_in,
            own_node: block.nodes.start,
            first_node: shared.nodes.start,
            first_edge: shared.edges.start,
            shared_nodes: shared.nodes.len(),
            shared_edges: shared.edges.len(),
        }
    }

    /// Numbers of the edges into a node.
    pub(crate) fn into(&self, node: usize) -> Range<usize> {
        self.in_offsets[node] as usize..self.in_offsets[node + 1] as usize
    }

    /// Number of the first edge into some consecutive nodes, of which there may be none.
    pub(crate) fn first_into(&self, nodes: &Range<usize>) -> usize {
        self.in_offsets[nodes.start] as usize
    }

    /// Places of the edges out of a node.
    pub(crate) fn out_of(&self, node: usize) -> Range<usize> {
        self.out_offsets[node] as usize..self.out_offsets[node + 1] as usize
    }

    /// All nodes and edges of the batch.
    pub(crate) fn all(&self) -> Span {
        Span { nodes: 0..self.nodes(), edges: 0..self.edges() }
    }

    pub(crate) fn graphs(&self) -> usize {
        self.node_offsets.len() - 1
    }

    pub(crate) fn nodes(&self) -> usize {
        self.node_offsets[self.graphs()]
    }

    pub(crate) fn edges(&self) -> usize {
        self.edge_offsets[self.graphs()]
    }
}

/// Numbers of nodes and edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) nodes: usize,
    pub(crate) edges: usize,
}

/// Consecutive nodes, and the edges into them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) nodes: Range<usize>,
    pub(crate) edges: Range<usize>,
}

impl Span {
    fn new(topology: &Topology, nodes: Range<usize>) -> Self {
        let edges = topology.in_offsets[nodes.start] as usize..topology.in_offsets[nodes.end] as usize;
        Self { nodes, edges }
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent { nodes: self.nodes.len(), edges: self.edges.len() }
    }

    /// Where the rows of `self` lie in an array that begins with the rows of `outer`.
    pub(crate) fn node_rows(&self, outer: &Span, width: usize) -> Range<usize> {
        (self.nodes.start - outer.nodes.start) * width..(self.nodes.end - outer.nodes.start) * width
    }

    /// Positions of the edges of a block in an array that begins with the first edge of `outer` and
    /// has rows of `width` values.
    pub(crate) fn edge_rows(&self, outer: &Span, width: usize) -> Range<usize> {
        (self.edges.start - outer.edges.start) * width..(self.edges.end - outer.edges.start) * width
    }
}

/// Nodes of a block: its activations then fit into the second cache level.
pub(crate) const BLOCK_NODES: usize = 96;
/// Edges of a block of an open plan whose edges carry a stream; a node's edges stay together.
pub(crate) const BLOCK_EDGES: usize = 256;
/// Rows of a part, edges weighted by their cost. Smaller parts balance better, but each has
/// gradients of its own to add up.
const PART_ROWS: usize = 2_200;
/// Rows of a part of a small batch: enough work to pay for a thread.
const SMALL_PART_ROWS: usize = 256;
/// Parts of a small batch. A batch has more of them only if they have [`PART_ROWS`] rows.
const SMALL_BATCH_PARTS: usize = 4;
const MOST_PARTS: usize = 64;
/// A graph of more rows than this is cut.
pub(crate) const LARGE: usize = 2 * PART_ROWS;

/// The blocks and parts of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) blocks: Vec<Span>,
    /// Each part: its extent, and which blocks it consists of.
    pub(crate) parts: Vec<(Span, Range<usize>)>,
    /// Whether blocks cut through graphs.
    pub(crate) open: bool,
    /// Costs of the blocks or graphs that are divided among parts.
    costs: Vec<usize>,
    /// The blocks or graphs of each part.
    ranges: Vec<Range<usize>>,
}

impl Plan {
    /// Cuts a batch up; `whole` keeps graphs in one piece, however large.
    pub(crate) fn set(&mut self, topology: &Topology, edge_stream: bool, whole: bool) {
        self.blocks.clear();
        self.parts.clear();
        self.costs.clear();
        // What the rows of a span cost where edges are followed, measured in nodes: projections and
        // elementwise work of an edge with a stream, and of one without.
        let cost = |span: &Span| {
            span.nodes.len() + if edge_stream { span.edges.len() * 5 / 9 } else { span.edges.len() / 55 } + 1
        };
        let rows = |span: &Span| rows(span.nodes.len(), span.edges.len(), edge_stream);
        let graph = |graph: usize| Span::new(topology, topology.node_offsets[graph]..topology.node_offsets[graph + 1]);
        let parts = parts_of_rows(rows(&topology.all()));
        self.open = !whole && (0..topology.graphs()).any(|index| rows(&graph(index)) > LARGE);
        if self.open {
            let most_edges = if edge_stream { BLOCK_EDGES } else { usize::MAX };
            let mut first = 0;
            while first < topology.nodes() {
                let mut end = first + 1;
                while end < topology.nodes()
                    && end - first < BLOCK_NODES
                    && (topology.in_offsets[end + 1] - topology.in_offsets[first]) as usize <= most_edges
                {
                    end += 1;
                }
                self.blocks.push(Span::new(topology, first..end));
                first = end;
            }
            self.costs.extend(self.blocks.iter().map(cost));
            balance(&self.costs, parts, &mut self.ranges);
            for blocks in self.ranges.drain(..) {
                let nodes = self.blocks[blocks.start].nodes.start..self.blocks[blocks.end - 1].nodes.end;
                self.parts.push((Span::new(topology, nodes), blocks));
            }
        } else {
            let offsets = &topology.node_offsets;
            self.costs.extend((0..topology.graphs()).map(|index| cost(&graph(index))));
            balance(&self.costs, parts, &mut self.ranges);
            for graphs in self.ranges.drain(..) {
                let before = self.blocks.len();
                let mut first = graphs.start;
                while first < graphs.end {
                    let mut end = first + 1;
                    while end < graphs.end && offsets[end + 1] - offsets[first] <= BLOCK_NODES {
                        end += 1;
                    }
                    self.blocks.push(Span::new(topology, offsets[first]..offsets[end]));
                    first = end;
                }
                let nodes = offsets[graphs.start]..offsets[graphs.end];
                self.parts.push((Span::new(topology, nodes), before..self.blocks.len()));
            }
        }
    }
}

/// Rows of some nodes and edges, edges weighted by their cost.
pub(crate) fn rows(nodes: usize, edges: usize, edge_stream: bool) -> usize {
    nodes + if edge_stream { edges.saturating_mul(3) / 4 } else { edges / 25 } + 1
}

/// The number of parts of a batch. A power of two: halves of halves are then equal, however many
/// threads there are.
pub(crate) fn parts_of_rows(rows: usize) -> usize {
    let power = |parts: f64| parts.max(1.0).log2().round().exp2() as usize;
    let small = power(rows as f64 / SMALL_PART_ROWS as f64).min(SMALL_BATCH_PARTS);
    power(rows as f64 / PART_ROWS as f64).clamp(small, MOST_PARTS)
}

/// Divides items into at most `count` consecutive ranges of nearly equal cost. No range is empty.
fn balance(costs: &[usize], count: usize, ranges: &mut Vec<Range<usize>>) {
    let total: usize = costs.iter().sum();
    let (mut first, mut spent, mut range) = (0, 0, 0);
    for (index, cost) in costs.iter().enumerate() {
        // An item belongs to the range that holds its middle.
        let own = (2 * spent + cost) * count / (2 * total);
        if own > range && index > first {
            ranges.push(first..index);
            first = index;
        }
        (spent, range) = (spent + cost, own);
    }
    if first < costs.len() {
        ranges.push(first..costs.len());
    }
}

impl Plan {
    /// Cuts rows evenly, for stages that follow no edge.
    pub(crate) fn set_rows(&mut self, nodes: usize, edges: usize, parts: usize) {
        self.blocks.clear();
        self.parts.clear();
        self.open = false;
        let piece = |range: &Range<usize>, index: usize, count: usize| {
            range.start + index * range.len() / count..range.start + (index + 1) * range.len() / count
        };
        let cut = |span: &Span, index: usize, count: usize| Span {
            nodes: piece(&span.nodes, index, count),
            edges: piece(&span.edges, index, count),
        };
        let all = Span { nodes: 0..nodes, edges: 0..edges };
        for part in 0..parts {
            let part = cut(&all, part, parts);
            let count = part.nodes.len().div_ceil(BLOCK_NODES).max(part.edges.len().div_ceil(BLOCK_EDGES)).max(1);
            let first = self.blocks.len();
            self.blocks.extend((0..count).map(|index| cut(&part, index, count)));
            self.parts.push((part, first..first + count));
        }
    }
}

/// Arrays that can be cut at a number of nodes and edges.
pub(crate) trait Divide: Sized {
    /// Cuts arrays that cover `whole` after the rows of `first`.
    fn divide(self, first: Extent, whole: Extent) -> (Self, Self);
}

impl<A: Divide, B: Divide> Divide for (A, B) {
    fn divide(self, first: Extent, whole: Extent) -> (Self, Self) {
        let (a, b) = (self.0.divide(first, whole), self.1.divide(first, whole));
        ((a.0, b.0), (a.1, b.1))
    }
}

impl<A: Divide, const N: usize> Divide for [A; N] {
    fn divide(self, first: Extent, whole: Extent) -> (Self, Self) {
        let mut behind = [const { None }; N];
        let mut places = behind.iter_mut();
        let before = self.map(|array| {
            let (before, after) = array.divide(first, whole);
            *places.next().expect("as many places as arrays") = Some(after);
            before
        });
        (before, behind.map(|array| array.expect("every array is divided")))
    }
}

/// Declares a structure of rows per node or edge that divides with them.
macro_rules! divisible {
    ($(#[$about:meta])* $name:ident { nodes: [$($node:ident),*], edges: [$($edge:ident),*] }) => {
        $(#[$about])*
        pub(crate) struct $name<'a, T> {
            $(pub(crate) $node: &'a mut [T],)*
            $(pub(crate) $edge: &'a mut [T],)*
        }

        impl<T> Divide for $name<'_, T> {
            fn divide(self, first: Extent, whole: Extent) -> (Self, Self) {
                let _ = (first.nodes, whole.nodes);
                $(let $node = crate::cpu::plan::cut(self.$node, first.nodes, whole.nodes);)*
                $(let $edge = crate::cpu::plan::cut(self.$edge, first.edges, whole.edges);)*
                (
                    Self { $($node: $node.0,)* $($edge: $edge.0,)* },
                    Self { $($node: $node.1,)* $($edge: $edge.1,)* },
                )
            }
        }
    };
}
pub(crate) use divisible;

/// Cuts an array of `whole` rows after `first`.
pub(crate) fn cut<T>(rows: &mut [T], first: usize, whole: usize) -> (&mut [T], &mut [T]) {
    let width = rows.len().checked_div(whole).unwrap_or(0);
    rows.split_at_mut(first * width)
}

/// Runs `job` on all parts in parallel, each with its own state and its own piece of the arrays.
pub(crate) fn for_parts<A: Divide + Send, S: Send>(
    plan: &Plan,
    states: &mut [S],
    arrays: A,
    job: &(impl Fn(&[Span], &Span, &mut S, A) + Sync),
) {
    fn descend<A: Divide + Send, S: Send>(
        blocks: &[Span],
        parts: &[(Span, Range<usize>)],
        states: &mut [S],
        arrays: A,
        job: &(impl Fn(&[Span], &Span, &mut S, A) + Sync),
    ) {
        match parts {
            [] => {}
            [(span, range)] => job(&blocks[range.clone()], span, &mut states[0], arrays),
            _ => {
                let (left, right) = parts.split_at(parts.len() / 2);
                let (left_states, right_states) = states.split_at_mut(left.len());
                let extent = |parts: &[(Span, Range<usize>)]| {
                    parts
                        .iter()
                        .map(|(span, _)| span.extent())
                        .fold(Extent::default(), |a, b| Extent { nodes: a.nodes + b.nodes, edges: a.edges + b.edges })
                };
                let (a, b) = arrays.divide(extent(left), extent(parts));
                rayon::join(
                    || descend(blocks, left, left_states, a, job),
                    || descend(blocks, right, right_states, b, job),
                );
            }
        }
    }
    descend(&plan.blocks, &plan.parts, &mut states[..plan.parts.len()], arrays, job);
}

#[cfg(test)]
mod tests {
    use gt_graph::{GraphParts, GraphStore, Layout};

    use super::*;

    /// A graph's nodes, and its edges.
    type Shape = (usize, Vec<(u32, u32)>);

    fn topology(graphs: &[Shape]) -> Topology {
        let mut store = GraphStore::new(Layout::default());
        for (nodes, edges) in graphs {
            let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
            store.push(GraphParts { num_nodes: *nodes, src: &src, dst: &dst, ..Default::default() }).unwrap();
        }
        let mut batch = GraphBatch::new();
        batch.assemble(&store, &(0..store.len()).collect::<Vec<_>>()).unwrap();
        let mut topology = Topology::default();
        topology.set_sparse(&batch);
        topology
    }

    /// A ring with two edges into every node.
    fn ring(nodes: usize) -> Shape {
        let node = |i: usize| (i % nodes) as u32;
        (nodes, (0..nodes).flat_map(|i| [(node(i), node(i + 1)), (node(i + 7), node(i))]).collect())
    }

    fn hub(nodes: usize) -> Shape {
        (nodes, (0..nodes as u32).map(|s| (s, 0)).collect())
    }

    fn plan(topology: &Topology, edge_stream: bool, whole: bool) -> Plan {
        let mut plan = Plan::default();
        // Leftovers of an earlier batch must have no effect.
        plan.set(&self::topology(&[ring(10), ring(200)]), edge_stream, whole);
        plan.set(topology, edge_stream, whole);
        plan
    }

    /// Blocks and parts cover all nodes and edges once, in order.
    fn assert_covers(topology: &Topology, plan: &Plan) {
        let (mut node, mut edge) = (0, 0);
        for block in &plan.blocks {
            assert_eq!((block.nodes.start, block.edges.start), (node, edge));
            assert_eq!(block.edges.end, topology.in_offsets[block.nodes.end] as usize);
            (node, edge) = (block.nodes.end, block.edges.end);
            topology.edges_of(block, plan.open).check();
        }
        assert_eq!((node, edge), (topology.nodes(), topology.edges()));
        let mut next = 0;
        for (span, blocks) in &plan.parts {
            assert_eq!(blocks.start, next);
            assert!(!blocks.is_empty());
            let (first, last) = (&plan.blocks[blocks.start], &plan.blocks[blocks.end - 1]);
            assert_eq!(span.nodes, first.nodes.start..last.nodes.end);
            assert_eq!(span.edges, first.edges.start..last.edges.end);
            next = blocks.end;
        }
        assert_eq!(next, plan.blocks.len());
        assert!(plan.parts.len() <= MOST_PARTS);
    }

    #[test]
    fn plans_of_small_graphs_are_closed_and_cover_everything_once() {
        let several: Vec<Shape> = (0..300).map(|i| ring(1 + i * 7 % 40)).collect();
        let batches = [
            vec![],
            vec![(0, vec![])],
            vec![(0, vec![]), ring(3), (0, vec![]), (5, vec![]), (0, vec![])],
            vec![ring(500)],
            several,
            (0..2_000).map(|_| ring(90)).collect(),
        ];
        for graphs in &batches {
            for edge_stream in [true, false] {
                let topology = topology(graphs);
                let plan = plan(&topology, edge_stream, false);
                assert!(!plan.open);
                assert_covers(&topology, &plan);
                for block in &plan.blocks {
                    let ends = [block.nodes.start, block.nodes.end];
                    assert!(ends.iter().all(|end| topology.node_offsets.contains(end)), "{block:?} cuts a graph");
                }
            }
        }
    }

    #[test]
    fn a_small_batch_has_four_parts_of_nearly_equal_cost() {
        // 32 molecules of about 13 nodes.
        let molecules: Vec<Shape> = (0..32).map(|i| ring(8 + i * 5 % 11)).collect();
        let topology = topology(&molecules);
        let plan = plan(&topology, true, false);
        assert_eq!(plan.parts.len(), SMALL_BATCH_PARTS);
        let sizes: Vec<usize> = plan.parts.iter().map(|(part, _)| part.nodes.len()).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(most - least <= 20, "{sizes:?}");
        // A batch too small for two threads stays in one piece.
        assert_eq!(self::plan(&self::topology(&molecules[..4]), true, false).parts.len(), 1);
    }

    #[test]
    fn ranges_are_balanced_and_never_empty() {
        let ranges = |costs: &[usize], count: usize| {
            let mut ranges = Vec::new();
            balance(costs, count, &mut ranges);
            ranges
        };
        assert_eq!(ranges(&[], 4), []);
        assert_eq!(ranges(&[1; 8], 4), [0..2, 2..4, 4..6, 6..8]);
        // One item that costs more than all others together has a range of its own.
        assert_eq!(ranges(&[1, 1, 20, 1, 1], 4), [0..2, 2..3, 3..5]);
        for costs in [vec![3, 1, 4, 1, 5, 9, 2, 6], vec![100, 1, 1, 1], vec![1, 1, 1, 100], vec![7]] {
            for count in 1..=8 {
                let ranges = ranges(&costs, count);
                assert!(ranges.len() <= count && ranges.iter().all(|range| !range.is_empty()), "{ranges:?}");
                assert!(ranges.iter().cloned().flatten().eq(0..costs.len()), "{ranges:?}");
            }
        }
    }

    #[test]
    fn a_large_graph_opens_the_plan_unless_graphs_are_to_stay_whole() {
        for (graphs, edge_stream) in [
            (vec![ring(20), ring(6_000), (0, vec![]), ring(3)], true),
            (vec![ring(20), ring(6_000), (0, vec![]), ring(3)], false),
            (vec![hub(9_000), ring(9)], true),
            (vec![hub(9_000), ring(9)], false),
        ] {
            let topology = topology(&graphs);
            let open = plan(&topology, edge_stream, false);
            assert!(open.open);
            assert_covers(&topology, &open);
            assert!(open.parts.len() > 1);
            for block in &open.blocks {
                assert!(block.nodes.len() <= BLOCK_NODES);
                // A node's edges stay together, however many.
                let limit = if edge_stream { BLOCK_EDGES } else { usize::MAX };
                assert!(block.edges.len() <= limit || block.nodes.len() == 1, "{block:?}");
            }
            let whole = plan(&topology, edge_stream, true);
            assert!(!whole.open);
            assert_covers(&topology, &whole);
        }
    }

    #[test]
    fn the_limit_counts_the_rows_of_one_graph() {
        let open = |graphs: &[Shape], edge_stream: bool| plan(&topology(graphs), edge_stream, false).open;
        // Nodes, and one more for every graph.
        assert!(!open(&[(LARGE - 1, vec![])], false));
        assert!(open(&[(LARGE, vec![])], false));
        assert!(!open(&[(LARGE - 1, vec![]), (LARGE - 1, vec![])], false));
        // Edges count where they carry a stream.
        let dense = [(100, vec![(0, 1); 6_000])];
        assert!(open(&dense, true));
        assert!(!open(&dense, false));
    }

    #[test]
    fn parts_get_their_own_rows_and_states() {
        divisible! {
            /// One array of each kind.
            Arrays { nodes: [node], edges: [edge] }
        }
        for graphs in [vec![ring(6_000)], (0..100).map(|i| ring(i % 50 + 1)).collect(), vec![(5, vec![])], vec![]] {
            let topology = topology(&graphs);
            let plan = plan(&topology, true, false);
            let mut node: Vec<usize> = (0..2 * topology.nodes()).collect();
            let mut edge: Vec<usize> = (0..3 * topology.edges()).collect();
            let mut states = vec![0; plan.parts.len() + 2];
            let arrays = Arrays { node: &mut node, edge: &mut edge };
            for_parts(&plan, &mut states, arrays, &|blocks, part, state, arrays| {
                assert_eq!(blocks[0].nodes.start, part.nodes.start);
                assert!(arrays.node.iter().copied().eq(2 * part.nodes.start..2 * part.nodes.end));
                assert!(arrays.edge.iter().copied().eq(3 * part.edges.start..3 * part.edges.end));
                *state += 1;
            });
            assert_eq!(states[..plan.parts.len()], vec![1; plan.parts.len()]);
            assert_eq!(states[plan.parts.len()..], [0, 0]);
        }
    }

    /// Source and target of every edge in in-order.
    fn ends(topology: &Topology) -> Vec<(u32, u32)> {
        let of = |node: usize| topology.in_src[topology.into(node)].iter().map(move |&source| (source, node as u32));
        (0..topology.nodes()).flat_map(of).collect()
    }

    #[test]
    fn mirrors_pair_the_kth_edge_with_the_kth_edge_back() {
        // Three edges 0 → 1 but two back, loops, a one-way edge; then a graph of the same numbers
        // behind it.
        let first = vec![(1, 0), (0, 1), (2, 2), (0, 1), (1, 0), (2, 0), (0, 1), (2, 2)];
        let graphs = [(3, first), (2, vec![(0, 1)]), (2, vec![(1, 0), (0, 1)])];
        let mut topology = topology(&graphs);
        topology.find_mirrors();
        let ends = ends(&topology);
        assert_eq!(topology.mirror.len(), ends.len());
        let all = |edge: (u32, u32)| (0..ends.len()).filter(|&e| ends[e] == edge).collect::<Vec<_>>();
        for (edge, &(s, t)) in ends.iter().enumerate() {
            let mirror = topology.mirror[edge] as usize;
            assert_eq!(topology.mirror[mirror] as usize, edge, "an involution");
            let number = all((s, t)).iter().position(|&e| e == edge).unwrap();
            let expected = if s == t { edge } else { all((t, s)).get(number).copied().unwrap_or(edge) };
            assert_eq!(mirror, expected, "edge {edge}, {s} to {t}");
        }
        assert_eq!(topology.mirror.iter().enumerate().filter(|(e, m)| *e != **m as usize).count(), 6);
        // A second batch replaces the first.
        let mut again = self::topology(&graphs[2..]);
        std::mem::swap(&mut again.mirror, &mut topology.mirror);
        again.find_mirrors();
        assert_eq!(again.mirror, [1, 0]);
    }

    #[test]
    fn full_graphs_join_every_ordered_pair_once() {
        let mut store = GraphStore::new(Layout::default());
        for nodes in [3, 0, 1, 5] {
            store.push(GraphParts { num_nodes: nodes, ..Default::default() }).unwrap();
        }
        let mut batch = GraphBatch::new();
        batch.assemble(&store, &[0, 1, 2, 3]).unwrap();
        let mut topology = Topology::default();
        topology.set_full(&batch);
        let expected: Vec<(u32, u32)> = (0..9u32)
            .flat_map(|t| (0..9).map(move |s| (s, t)))
            .filter(|&(s, t)| s != t && batch.graph_of(s as usize) == batch.graph_of(t as usize))
            .collect();
        let ends = ends(&topology);
        assert_eq!(ends, expected);
        for node in 0..9 {
            for out in topology.out_offsets[node] as usize..topology.out_offsets[node + 1] as usize {
                let edge = topology.out_to_in[out] as usize;
                assert_eq!(ends[edge], (node as u32, topology.out_dst[out]));
            }
        }
        topology.find_mirrors();
        assert!(ends.iter().enumerate().all(|(e, &(s, t))| ends[topology.mirror[e] as usize] == (t, s)));
    }
}
