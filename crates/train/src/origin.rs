//! Where a row of outputs lies in the data.

use gt_graph::{GraphBatch, Level, Split};

use crate::prepared::Prepared;

/// A place in the data. All numbers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Number of the graph.
    pub(crate) graph: usize,
    /// The part of the graph.
    pub(crate) part: Part,
}

/// A part of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The whole graph.
    Whole,
    /// A node.
    Node(usize),
    /// An edge, or a pair of nodes: source and target.
    Pair(u32, u32),
}

impl Prepared {
    /// The place of a row of the outputs that an evaluation of a split has, or `None` beyond the
    /// last row.
    pub(crate) fn origin(&self, split: Split, row: usize) -> Option<Origin> {
        let mut first = 0;
        for graph in self.graphs_of(split) {
            let rows = match &self.links {
                Some(links) => links.pairs(split, graph).map(<[_]>::len).iter().sum(),
                None => self.graphs.row_range(self.level(), graph).len(),
            };
            if row < first + rows {
                return Some(Origin { graph, part: self.part(split, graph, row - first)? });
            }
            first += rows;
        }
        None
    }

    /// The part that a row of a graph's outputs belongs to.
    fn part(&self, split: Split, graph: usize, row: usize) -> Option<Part> {
        if let Some(links) = &self.links {
            let [joined, apart] = links.pairs(split, graph);
            return joined.iter().chain(apart).nth(row).map(|&(source, target)| Part::Pair(source, target));
        }
        match self.level() {
            Level::Graph => Some(Part::Whole),
            Level::Node => Some(Part::Node(row)),
            Level::Edge => {
                // Outputs are in the order of a batch, which sorts edges by their targets.
                let mut batch = GraphBatch::new();
                batch.assemble(&self.graphs, &[graph]).ok()?;
                let edge = *batch.in_to_list().get(row)? as usize;
                let edges = self.graphs.graph(graph);
                Some(Part::Pair(edges.src()[edge], edges.dst()[edge]))
            }
        }
    }
}
