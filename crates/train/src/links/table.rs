//! Pairs that a table names: checked against the graphs, scored, and lined up with its rows.

use std::collections::BTreeMap;

use gt_data::{PairTable, Problem, Reason, Records};
use gt_models::{Model, PairGroup, sigmoid};

use super::pairs::Pair;
use crate::error::{Result, TrainError};
use crate::query::{NoResult, QueryGraphs};

/// The least number of pairs of a graph that one pass scores; a graph with more rows has larger
/// passes. So neither does the memory for pairs outgrow that for the graph, nor do the passes over
/// the graph outweigh its pairs.
const LEAST_AT_ONCE: usize = 1 << 16;

/// Rows of a table of pairs, some of which may have no score.
#[derive(Debug)]
pub struct PairRows {
    table: PairTable,
    /// Graph, row and nodes of the pairs that can be scored, by graph.
    found: Vec<(usize, usize, Pair)>,
    unusable: BTreeMap<usize, NoResult>,
}

impl PairRows {
    /// Finds the nodes that a table names.
    ///
    /// # Errors
    /// If the table does not say which of several graphs its pairs lie in.
    pub fn new(table: PairTable, graphs: &QueryGraphs) -> Result<Self> {
        if !table.names_graphs() && graphs.len() != 1 {
            return Err(TrainError::PairsWithoutGraphs { path: table.path().into(), graphs: graphs.len() });
        }
        let (mut found, mut unusable) = (Vec::new(), BTreeMap::new());
        for row in 0..table.rows() {
            match find(table.row(row), graphs) {
                Ok((graph, pair)) => found.push((graph, row, pair)),
                Err(reason) => drop(unusable.insert(row + 1, reason)),
            }
        }
        found.sort_unstable();
        Ok(Self { table, found, unusable })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.table.rows()
    }

    /// True when there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Why a row, counted from 1, gets no score; the reason names column and value.
    pub fn unusable(&self) -> &BTreeMap<usize, NoResult> {
        &self.unusable
    }
}

/// The graph and the nodes that a row names, or what is wrong with it.
fn find([graph, source, target]: [Result<usize, Problem>; 3], graphs: &QueryGraphs) -> Result<(usize, Pair), NoResult> {
    let [of_graph, of_source, of_target] = PairTable::COLUMNS;
    let cell = |column: &str, problem| Reason::Column { column: column.into(), problem };
    let graph = graph.map_err(|problem| cell(of_graph, problem))?;
    if graph >= graphs.len() {
        return Err(NoResult::NoGraph { graph, graphs: graphs.len() });
    }
    // Before its nodes, which may not be known.
    let stored = graphs.position(graph);
    let stored = stored.map_err(|rejected| NoResult::OfGraph { graph, reason: rejected.reason.clone() })?;
    let nodes = graphs.store().node_range(stored).len();
    let node = |column, node: Result<usize, Problem>| match node.map_err(|problem| cell(column, problem))? {
        node if node < nodes => Ok(node as u32),
        node => Err(NoResult::NoNode { column, node, graph, nodes }),
    };
    Ok((stored, (node(of_source, source)?, node(of_target, target)?)))
}

/// Scores the pairs of a table with a link model. The columns are `graph`, `source`, `target`,
/// `link_p1` (the probability that the pair is joined) and `reason`, in the order of the table.
///
/// Messages follow all edges of the data. A pair gets the score of the edge that would join it; for
/// undirected links the order of its nodes has no effect. Rows that turn out to have no score are
/// noted in `rows`.
///
/// # Errors
/// If the model predicts something else, or a batch cannot be assembled.
pub fn predict_pairs(model: &Model, graphs: &QueryGraphs, rows: &mut PairRows) -> Result<Records> {
    let PairRows { table, found, unusable } = rows;
    let store = graphs.store();
    let mut groups = Vec::new();
    for of_graph in found.chunk_by(|a, b| a.0 == b.0) {
        let graph = of_graph[0].0;
        let own_rows = store.node_range(graph).len() + store.edge_range(graph).len();
        for some in of_graph.chunks(own_rows.max(LEAST_AT_ONCE)) {
            groups.push(PairGroup { graph, pairs: some.iter().map(|(.., pair)| *pair).collect() });
        }
    }
    let logits = model.score_pairs(store, &groups)?;
    let mut scores = vec![f32::NAN; table.rows()];
    for ((_, row, _), logit) in found.iter().zip(logits) {
        match logit.is_finite() {
            true => scores[*row] = sigmoid(logit),
            false => drop(unusable.insert(row + 1, NoResult::NotFinite)),
        }
    }
    let mut records = Records::default();
    for (at, name) in PairTable::COLUMNS.into_iter().enumerate() {
        records.integers(name, (0..table.rows()).map(|row| table.cell(row, at).ok()));
    }
    records.reals("link_p1", scores);
    let reasons: Vec<_> = (1..=table.rows()).map(|row| unusable.get(&row).map(NoResult::to_string)).collect();
    records.texts("reason", reasons.iter().map(Option::as_deref));
    Ok(records)
}
