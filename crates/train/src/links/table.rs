//! Pairs that a table asks about: checked against the graphs, scored, and lined up with its rows.

use std::collections::BTreeMap;

use gt_data::{DataError, PairTable, Records};
use gt_models::ModelHeader;
use gt_nn::cpu::Engine;

use super::pairs::Pair;
use super::score_pairs;
use crate::error::Result;
use crate::inputs::{Inputs, NOT_FINITE};
use crate::predict::sigmoid;

/// Pairs of a graph that are scored in one pass, at least; more where the graph itself has more rows than these, so that neither the memory for pairs outgrows that for
/// the graph nor the passes over the graph outweigh its pairs.
const LEAST_AT_ONCE: usize = 1 << 16;

/// Rows of a table of pairs, some of which may have no answer.
#[derive(Debug)]
pub struct PairInputs {
    table: PairTable,
    /// Graph, row and nodes of those that can be asked about, by graph.
    asked: Vec<(usize, usize, Pair)>,
    unanswered: BTreeMap<usize, String>,
}

impl PairInputs {
    /// Finds the nodes that a table names.
    ///
    /// # Errors
    /// If the table does not say which of several graphs its pairs lie in.
    pub fn new(table: PairTable, inputs: &Inputs) -> Result<Self> {
        let graphs = inputs.graphs().len();
        if !table.names_graphs() && graphs != 1 {
            let message = format!("there is no column `graph`, and the data has {graphs} graphs");
            return Err(DataError::File { path: table.path().into(), message }.into());
        }
        let (mut asked, mut unanswered) = (Vec::new(), BTreeMap::new());
        for row in 0..table.rows() {
            match find(table.row(row), inputs) {
                Ok((graph, pair)) => asked.push((graph, row, pair)),
                Err(reason) => drop(unanswered.insert(row + 1, reason)),
            }
        }
        asked.sort_unstable();
        Ok(Self { table, asked, unanswered })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.table.rows()
    }

    /// Why a row, counted from 1, gets no answer: a sentence that names column and value.
    pub fn unanswered(&self) -> &BTreeMap<usize, String> {
        &self.unanswered
    }
}

/// The graph and the nodes that a row names, or what is wrong with it.
fn find([graph, source, target]: [Result<usize, String>; 3], inputs: &Inputs) -> Result<(usize, Pair), String> {
    let [of_graph, of_source, of_target] = PairTable::COLUMNS;
    let graph = graph.map_err(|problem| format!("column `{of_graph}`: {problem}"))?;
    let graphs = inputs.graphs();
    if graph >= graphs.len() {
        return Err(format!("column `{of_graph}`: there is no graph {graph}; the data has {}", graphs.len()));
    }
    // Before its nodes, which may not be known.
    if let Some(reason) = inputs.unusable().get(&graph) {
        return Err(format!("graph {graph}: {reason}"));
    }
    let nodes = graphs.node_range(graph).len();
    let node = |column: &str, cell: Result<usize, String>| match cell {
        Ok(node) if node < nodes => Ok(node as u32),
        Ok(node) => Err(format!("column `{column}`: there is no node {node}; graph {graph} has {nodes} nodes")),
        Err(problem) => Err(format!("column `{column}`: {problem}")),
    };
    Ok((graph, (node(of_source, source)?, node(of_target, target)?)))
}

/// How likely a link model finds the pairs of a table to be joined: `graph`, `source`, `target`, `link_p1` and `reason`, in the order of its rows.
///
/// As in [`crate::predict`], messages follow all edges of the data. A pair gets the number that its edge would get, in whatever order of its nodes if links are undirected;
/// a node and itself get one too, though training never asks about such. Rows that turn out to have no answer are noted in `pairs`.
///
/// # Errors
/// If the model predicts something else, or a batch cannot be assembled.
pub fn predict_pairs(
    engine: &mut Engine<f32>,
    header: &ModelHeader,
    inputs: &Inputs,
    pairs: &mut PairInputs,
) -> Result<Records> {
    let graphs = inputs.graphs();
    let PairInputs { table, asked, unanswered } = pairs;
    let mut scores = vec![f32::NAN; table.rows()];
    for of_graph in asked.chunk_by(|a, b| a.0 == b.0) {
        let graph = of_graph[0].0;
        let own_rows = graphs.node_range(graph).len() + graphs.edge_range(graph).len();
        for some in of_graph.chunks(own_rows.max(LEAST_AT_ONCE)) {
            let nodes: Vec<Pair> = some.iter().map(|(.., pair)| *pair).collect();
            let logits = score_pairs(engine, &header.config, graphs, graph, &nodes)?;
            for ((_, row, _), logit) in some.iter().zip(logits) {
                match logit.is_finite() {
                    true => scores[*row] = sigmoid(logit),
                    false => drop(unanswered.insert(row + 1, NOT_FINITE.into())),
                }
            }
        }
    }
    let mut records = Records::default();
    for (at, name) in PairTable::COLUMNS.into_iter().enumerate() {
        records.integers(name, (0..table.rows()).map(|row| table.cell(row, at).ok()));
    }
    records.reals("link_p1", scores);
    records.texts("reason", (1..=table.rows()).map(|row| unanswered.get(&row).map(String::as_str)));
    Ok(records)
}
