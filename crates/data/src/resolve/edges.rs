//! Nodes and edges of a graph.

use gt_graph::{Level, MAX_INDEX};

use crate::budget::Budget;
use crate::columns as c;
use crate::error::FileProblem;
use crate::raw::{Extent, RawFeatures, RawGraphs};
use crate::reason::{Problem, Reason};

/// The edge list of one graph, in reusable buffers.
#[derive(Default)]
pub(super) struct Edges {
    pub(super) nodes: usize,
    pub(super) src: Vec<u32>,
    pub(super) dst: Vec<u32>,
}

impl Edges {
    pub(super) fn clear(&mut self) {
        self.nodes = 0;
        self.src.clear();
        self.dst.clear();
    }

    /// Checks that a file has edges.
    pub(super) fn check_columns(raw: &RawGraphs) -> Result<(), FileProblem> {
        if raw.edge_index.extent == Extent::Nowhere {
            let hint = "; for tables of nodes and edges use gt data convert --nodes --edges";
            return Err(FileProblem::MissingColumn {
                column: c::EDGE_INDEX.into(),
                found: raw.names[1].to_vec(),
                hint,
            });
        }
        Ok(())
    }

    /// Number of edges in a graph that has not been checked.
    pub(super) fn count(raw: &RawGraphs, graph: usize) -> usize {
        raw.edge_index.width(graph).unwrap_or(0)
    }

    /// Number of nodes: the stated number, otherwise the number of feature rows.
    pub(super) fn count_nodes(raw: &RawGraphs, graph: usize) -> Result<usize, Reason> {
        let stated = &raw.num_nodes;
        let wrong = |problem| Reason::column(c::NUM_NODES, problem);
        if !stated.is_present(graph) {
            let RawFeatures::Native(columns) = &raw.node else { return Err(wrong(Problem::NoNodeCount)) };
            let counted = columns.iter().find(|column| column.is_present(graph));
            return counted.map(|column| column.rows(graph).len()).ok_or_else(|| wrong(Problem::NoNodeCount));
        }
        if stated.depth(graph) != 0 {
            return Err(wrong(Problem::NotSingle));
        }
        let at = stated.rows.range(stated.rows(graph).start).start;
        let value = stated.number(at).map_err(wrong)?;
        let count = (value >= 0.0 && value <= MAX_INDEX as f64 && value.fract() == 0.0).then_some(value as usize);
        count.ok_or_else(|| wrong(Problem::NotANodeCount(stated.exact(at))))
    }

    /// Reads and checks the edges of a graph. Nodes that neither features nor edges back are
    /// charged to the budget of the file.
    pub(super) fn read(&mut self, raw: &RawGraphs, graph: usize, budget: &Budget) -> Result<(), Reason> {
        let nodes = Self::count_nodes(raw, graph)?;
        let column = &raw.edge_index;
        if !column.is_present(graph) {
            return Err(Reason::column(c::EDGE_INDEX, Problem::Missing));
        }
        let lists = column.rows(graph);
        // A graph without edges may have an empty edge list.
        if !lists.is_empty() {
            if lists.len() != 2 || column.depth(graph) != 2 {
                return Err(Reason::column(c::EDGE_INDEX, Problem::NotTwoLists { found: lists.len() }));
            }
            for (list, out) in lists.zip([&mut self.src, &mut self.dst]) {
                column
                    .append_indices(column.rows.range(list), out, Problem::NotANode)
                    .map_err(|(edge, problem)| Reason::cell(Level::Edge, edge, c::EDGE_INDEX, problem))?;
            }
        }
        let edges = self.src.len();
        let backed = match &raw.node {
            RawFeatures::Native(columns) => columns.iter().any(|column| column.is_present(graph)),
            RawFeatures::Named(_) => true,
        };
        if !backed {
            let claimed = nodes.saturating_sub(2 * edges) as u64;
            budget
                .charge_nodes(claimed)
                .map_err(|left| Reason::column(c::NUM_NODES, Problem::Unbacked { nodes, edges, left }))?;
        }
        self.nodes = nodes;
        Ok(())
    }

    /// Both ends of each edge.
    pub(super) fn pairs(&self) -> Vec<(u32, u32)> {
        self.src.iter().copied().zip(self.dst.iter().copied()).collect()
    }
}
