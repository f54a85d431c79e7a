//! Predictions and embeddings for a file of any size: chunks of graphs are read, computed and
//! written one after the other.
//!
//! Rows line up with the graphs, nodes or edges of the file. A graph that the model cannot take has
//! rows too, with empty cells and the reason. If even its size is unknown, it has a single row.

use std::collections::BTreeSet;
use std::path::Path;

use gt_data::{
    Carried, Chunk, ChunkLimits, DataError, FileProblem, GraphReader, Keep, KeptColumns, Labels, Reason, RecordWriter,
    Records, Rejected,
};
use gt_graph::{GraphStore, Layout, Level};
use gt_models::config::OutputKind;
use gt_models::{EncodingError, Ensemble, Model, ModelError, Predictions, Softmax, add_encodings, sigmoid};
use gt_nn::backend::{BackendError, Device, GraphTooLarge};

use crate::class_names::{add_classes, probability_name};
use crate::error::{Result, TrainError};
use crate::expected::expected;

/// Why a graph or a pair of nodes has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoResult {
    /// The graph, or a cell of the row of pairs, cannot be used.
    #[error(transparent)]
    Unusable(#[from] Reason),
    /// The result of the model is infinite or NaN.
    #[error("the model's result is not a finite number")]
    NotFinite,
    /// The pair lies in a graph that cannot be used.
    #[error("graph {graph}: {reason}")]
    OfGraph {
        /// The graph.
        graph: usize,
        /// Why the graph cannot be used.
        reason: Reason,
    },
    /// The row names a graph that the data does not have.
    #[error("column \"graph\": there is no graph {graph}; the data has {graphs}")]
    NoGraph {
        /// The graph.
        graph: usize,
        /// Number of graphs of the data.
        graphs: usize,
    },
    /// The row names a node that its graph does not have.
    #[error("column \"{column}\": there is no node {node}; graph {graph} has {nodes} nodes")]
    NoNode {
        /// The column, `source` or `target`.
        column: &'static str,
        /// The node.
        node: usize,
        /// The graph.
        graph: usize,
        /// Number of nodes of the graph.
        nodes: usize,
    },
}

/// What to compute for every graph of a file.
#[derive(Clone, Debug)]
pub enum Query {
    /// Predictions, on a device:
    ///
    /// | targets | columns |
    /// |---|---|
    /// | real numbers | one per target, with its name |
    /// | one class | `NAME`, the most likely class; `NAME_p0`, `NAME_p1`, …, the probabilities |
    /// | one class with names | `NAME`, the name of the class; `NAME_p_CLASS`, the probabilities |
    /// | several yes/no labels | `NAME_p1`, or `NAME_p_CLASS`, the probability, for each |
    /// | links | `link_p1`, the probability that the ends of each edge are joined |
    ///
    /// For links all edges carry messages, the scored one too.
    ///
    /// The first column is `graph`. For nodes `node` follows, for edges `source` and `target`. The
    /// last column is `reason`. A target with one of these names becomes `predicted_NAME`.
    Predictions(Device),
    /// Embeddings of nodes or of graphs: `graph`, for nodes `node`, then `e0`, `e1`, …, and
    /// `reason`.
    Embeddings(Level),
}

impl Query {
    /// Level of the rows.
    fn level(&self, model: &Model) -> Result<Level> {
        match self {
            Self::Predictions(_) => Ok(model.target()?.level),
            Self::Embeddings(level) => Ok(*level),
        }
    }
}

/// What to do at a graph that the model cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Write empty cells and the reason, and continue.
    Note,
    /// Stop, and write nothing.
    Stop,
}

/// How a query reads its file and writes its rows.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// What to do at a graph that the model cannot take.
    pub on_error: OnError,
    /// The part of the file that is read.
    pub shard: Shard,
    /// Columns of the file that are copied to the rows. They follow the columns that number the
    /// rows. A copy with the name of another column of the output becomes `kept_NAME`.
    pub keep: KeptColumns,
}

impl Default for QueryOptions {
    /// All graphs, with a reason for those that the model cannot take.
    fn default() -> Self {
        Self { on_error: OnError::Note, shard: Shard::WHOLE, keep: KeptColumns::Nothing }
    }
}

/// Every `of`-th chunk of a file, from number `index` on: the work of one job of a job array.
///
/// Joined chunk by chunk, the outputs of all shards are the output of the whole file, whichever
/// device computes each shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: usize,
    /// Number of shards.
    pub of: usize,
}

impl Shard {
    /// The whole file.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    fn takes(self, chunk: usize) -> bool {
        chunk % self.of == self.index
    }

    /// The chunks of a file that a query reads. Larger chunks suit a GPU, but shards of a file must
    /// have the same chunks on every device.
    fn chunk_limits(self, on_gpu: bool) -> ChunkLimits {
        if on_gpu && self == Self::WHOLE { ChunkLimits::GPU } else { ChunkLimits::default() }
    }
}

/// Counts and reasons of a query over a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryReport {
    /// Rows written.
    pub rows: u64,
    /// Graphs of the file, or of the shard.
    pub graphs: usize,
    /// Graphs without a result.
    pub unusable: usize,
    /// Number and reason of the first few graphs without a result.
    pub reasons: Vec<(usize, NoResult)>,
    /// Nodes whose Weisfeiler–Lehman role the model does not know. They share the last role that it
    /// knows.
    pub roles_beyond: usize,
}

impl QueryReport {
    /// Reasons that are kept; the file has all.
    const KEPT: usize = 10;

    fn note(&mut self, graph: usize, reason: NoResult) {
        self.unusable += 1;
        if self.reasons.len() < Self::KEPT {
            self.reasons.push((graph, reason));
        }
    }
}

/// Computes a result for every graph of a file, with one model or several models together. Rows are
/// written one by one, in the order of the file.
///
/// Memory is bounded by a chunk and by the largest graph. The output is complete or not there.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use graph_transformer_train::{Query, QueryOptions, query};
/// use gt_models::Model;
/// use gt_nn::backend::Device;
///
/// let model = Model::open("runs/mine/model.safetensors")?;
/// let query_all = Query::Predictions(Device::Cpu);
/// let (data, out) = ("new.jsonl".as_ref(), "out.csv".as_ref());
/// let report = query(&model.into(), data, out, &query_all, &QueryOptions::default())?;
/// println!("{} rows", report.rows);
/// # Ok(())
/// # }
/// ```
///
/// Embeddings are those of the first model.
///
/// # Errors
/// If the file as a whole cannot be read for the model, none of its graphs can be used, the device
/// fails, or the output cannot be written. With [`OnError::Stop`] also if one graph cannot be used.
pub fn query(models: &Ensemble, data: &Path, out: &Path, query: &Query, options: &QueryOptions) -> Result<QueryReport> {
    let QueryOptions { on_error, shard, ref keep } = *options;
    let model = models.first();
    let mut writer = RecordWriter::create(out)?;
    let mut report = QueryReport::default();
    let mut usable = 0;
    let limits = shard.chunk_limits(matches!(query, Query::Predictions(device) if device.is_gpu()));
    let keep = Keep { columns: keep.clone(), level: query.level(model)? };
    let mut chunks = GraphReader::open_with(data, &expected(model, Labels::Ignore), limits, &keep)?;
    let mut columns = Vec::new();
    for number in 0.. {
        let Some(chunk) = chunks.next().transpose()? else { break };
        if number == 0 {
            columns.clone_from(&chunk.kept);
        }
        if !shard.takes(number) {
            continue;
        }
        let answer = Answer::new(models, chunk, query).map_err(|error| error.in_file(Some(data)))?;
        for graph in 0..answer.graphs() {
            let Some(reason) = answer.reason(graph) else { continue };
            let number = answer.first + graph;
            if on_error == OnError::Stop {
                if let NoResult::Unusable(reason) = reason {
                    return Err(chunks.error(number, reason).into());
                }
                return Err(TrainError::Unusable { path: data.into(), what: "graph", number, reason: reason.into() });
            }
            report.note(number, reason);
        }
        usable += answer.store.len();
        report.graphs += answer.graphs();
        report.roles_beyond += answer.roles_beyond;
        writer.write(&answer.records(model, query)?)?;
    }
    // One shard without usable graphs is no error: the others may have some.
    if let Some((first, reason)) = report.reasons.first().filter(|_| shard == Shard::WHOLE && usable == 0) {
        let (first, reason) = (*first, reason.clone().into());
        return Err(TrainError::NothingUsable { path: data.into(), graphs: report.graphs, first, reason });
    }
    if report.graphs == 0 {
        writer.write(&Answer::empty(models, columns, query)?.records(model, query)?)?;
    }
    report.rows = writer.commit()?;
    Ok(report)
}

/// The results of a chunk.
struct Answer {
    first: usize,
    store: GraphStore,
    results: Vec<Result<usize, Rejected>>,
    /// Graphs of the chunk whose result is infinite or NaN.
    not_finite: BTreeSet<usize>,
    values: Predictions,
    /// Nodes whose role the model does not know.
    roles_beyond: usize,
    kept: Vec<Carried>,
}

/// A row of the output: the graph it belongs to, counted in the chunk, and its position within the
/// graph, if that is known.
type Row = (usize, Option<usize>);

impl Answer {
    fn new(models: &Ensemble, chunk: Chunk, query: &Query) -> Result<Self> {
        let model = models.first();
        let Chunk { first, graphs: mut store, results, kept } = chunk;
        add_encodings(&mut store, &model.config.model).map_err(|error| match error {
            // The solver counts the usable graphs of the chunk.
            EncodingError::Solver { graph, source } => {
                let graph = first + results.iter().position(|result| *result == Ok(graph)).unwrap_or(graph);
                EncodingError::Solver { graph, source }
            }
            width => width,
        })?;
        let values = match query {
            Query::Predictions(device) => models.predict_on(device, &store),
            Query::Embeddings(level) => model.embed(&store, *level),
        };
        let values = values.map_err(|error| match error {
            // The backend counts the usable graphs of the chunk.
            ModelError::Backend(BackendError::Memory(error)) => {
                let graph = results.iter().position(|result| *result == Ok(error.graph));
                GraphTooLarge { graph: first + graph.unwrap_or(error.graph), ..error }.into()
            }
            error => TrainError::from(error),
        })?;
        let finite = |stored: usize| values.are_finite(store.row_range(values.level, stored));
        let not_finite = results.iter().enumerate().filter(|(_, result)| result.as_ref().is_ok_and(|at| !finite(*at)));
        let not_finite = not_finite.map(|(graph, _)| graph).collect();
        let roles_beyond = store.roles_beyond(model.network().node.roles);
        Ok(Self { first, store, results, not_finite, values, roles_beyond, kept })
    }

    /// The answer for no graph: columns without rows.
    fn empty(models: &Ensemble, kept: Vec<Carried>, query: &Query) -> Result<Self> {
        let store = GraphStore::new(Layout { target: None, ..models.first().schema.layout() });
        Self::new(models, Chunk { first: 0, graphs: store, results: Vec::new(), kept }, query)
    }

    fn graphs(&self) -> usize {
        self.results.len()
    }

    /// Why a graph has no result.
    fn reason(&self, graph: usize) -> Option<NoResult> {
        match &self.results[graph] {
            Err(rejected) => Some(rejected.reason.clone().into()),
            Ok(_) => self.not_finite.contains(&graph).then_some(NoResult::NotFinite),
        }
    }

    /// Rows of a graph.
    fn rows_of(&self, graph: usize) -> Vec<Row> {
        let level = self.values.level;
        let count = match &self.results[graph] {
            Ok(stored) => self.store.row_range(level, *stored).len(),
            // A graph of unknown size has one row, for its reason.
            Err(Rejected { nodes, edges, .. }) => match level.rows(*nodes, edges.len()) {
                0 => return vec![(graph, None)],
                count => count,
            },
        };
        (0..count).map(|row| (graph, Some(row))).collect()
    }

    /// The position of a row among the values, where it has a result.
    fn place(&self, (graph, row): Row) -> Option<usize> {
        let stored = *self.results[graph].as_ref().ok()?;
        let place = self.store.row_range(self.values.level, stored).start + row?;
        (!self.not_finite.contains(&graph)).then_some(place)
    }

    /// Source and target of an edge.
    fn ends(&self, (graph, row): Row) -> Option<(u32, u32)> {
        match &self.results[graph] {
            Ok(stored) => {
                let (view, at) = (self.store.graph(*stored), row?);
                Some((view.src()[at], view.dst()[at]))
            }
            Err(Rejected { edges, .. }) => edges.get(row?).copied(),
        }
    }

    fn records(&self, model: &Model, query: &Query) -> Result<Records> {
        let rows: Vec<Row> = (0..self.graphs()).flat_map(|graph| self.rows_of(graph)).collect();
        let (mut records, mut results) = (Records::default(), Records::default());
        records.integers("graph", rows.iter().map(|(graph, _)| Some(self.first + graph)));
        match self.values.level {
            Level::Graph => {}
            Level::Node => records.integers("node", rows.iter().map(|(_, row)| *row)),
            Level::Edge => {
                records.integers("source", rows.iter().map(|&row| Some(self.ends(row)?.0 as usize)));
                records.integers("target", rows.iter().map(|&row| Some(self.ends(row)?.1 as usize)));
            }
        }
        let places: Vec<Option<usize>> = rows.iter().map(|&row| self.place(row)).collect();
        match query {
            Query::Predictions(_) => self.add_predictions(model, &places, &mut results)?,
            Query::Embeddings(_) => {
                for channel in 0..self.values.width {
                    results.reals(&format!("e{channel}"), self.numbers(&places, |row| row[channel]));
                }
            }
        }
        let reasons: Vec<_> = (0..self.graphs()).map(|graph| Some(self.reason(graph)?.to_string())).collect();
        results.texts("reason", rows.iter().map(|(graph, _)| reasons[*graph].as_deref()));
        let of_graphs = self.values.level == Level::Graph;
        let cells: Vec<Row> = rows.iter().map(|(graph, row)| (*graph, row.filter(|_| !of_graphs))).collect();
        for column in &self.kept {
            let taken = records.has(column.name()) || results.has(column.name());
            let name = if taken { format!("kept_{}", column.name()) } else { column.name().to_owned() };
            records.kept(&name, column, &cells);
        }
        records.append(results);
        Ok(records)
    }

    /// A number of every row; NaN where there is no result.
    fn numbers<'a>(
        &'a self,
        places: &'a [Option<usize>],
        of: impl Fn(&[f32]) -> f32 + 'a,
    ) -> impl Iterator<Item = f32> + 'a {
        places.iter().map(move |place| place.map_or(f32::NAN, |row| of(self.values.row(row))))
    }

    fn add_predictions(&self, model: &Model, places: &[Option<usize>], records: &mut Records) -> Result<()> {
        let target = model.target()?;
        let names: Vec<String> = target.columns.iter().map(|column| free_name(&column.name)).collect();
        match model.config.outputs(&model.schema)? {
            OutputKind::Classes | OutputKind::TwoClasses => {
                let (name, column) = (&names[0], &target.columns[0]);
                let classes = places.iter().map(|place| place.map(|row| self.values.class(row)));
                add_classes(records, name, column, classes);
                let rows: Vec<Option<Softmax<'_>>> =
                    places.iter().map(|place| place.map(|row| self.values.softmax(row))).collect();
                for class in 0..self.values.width {
                    let probabilities = rows.iter().map(|row| row.map_or(f32::NAN, |row| row.probability(class)));
                    records.reals(&probability_name(name, column, class), probabilities);
                }
            }
            OutputKind::Labels => {
                for (at, name) in names.iter().enumerate() {
                    let name = probability_name(name, &target.columns[at], 1);
                    records.reals(&name, self.numbers(places, move |row| sigmoid(row[at])));
                }
            }
            OutputKind::Numbers => {
                for (at, name) in names.iter().enumerate() {
                    records.reals(name, self.numbers(places, move |row| row[at]));
                }
            }
        }
        Ok(())
    }
}

/// A target's name, unless a column of the index has it.
fn free_name(name: &str) -> String {
    match name {
        "graph" | "node" | "source" | "target" | "reason" => format!("predicted_{name}"),
        _ => name.to_owned(),
    }
}

/// All graphs of a file in memory, for queries that name single graphs.
///
/// ```
/// use graph_transformer_train::{PairRows, QueryGraphs, predict_pairs};
/// use gt_data::PairTable;
/// use gt_graph::Schema;
/// use gt_models::{Config, Model};
///
/// let text = "[data]\ntask = \"links\"\n[model]\nlayers = 1\nwidth = 8\nheads = 2";
/// let model = Model::new(Config::from_toml(text)?, Schema::default())?;
/// # let folder = tempfile::tempdir()?;
/// # let (file, table) = (folder.path().join("path.jsonl"), folder.path().join("pairs.csv"));
/// std::fs::write(&file, r#"{"num_nodes": 3, "edge_index": [[0, 1, 1, 2], [1, 0, 2, 1]]}"#)?;
/// std::fs::write(&table, "source,target\n0,2\n0,9\n")?;
///
/// let graphs = QueryGraphs::read(&file, &model)?;
/// assert_eq!((graphs.len(), graphs.position(0)), (1, Ok(0)));
/// let mut rows = PairRows::new(PairTable::read(&table)?, &graphs)?;
/// let records = predict_pairs(&model, &graphs, &mut rows)?;
/// assert_eq!(records.rows(), 2);
/// // The second row names a node that is not there; rows count from 1.
/// assert_eq!(rows.unusable().keys().collect::<Vec<_>>(), [&2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct QueryGraphs {
    store: GraphStore,
    results: Vec<Result<usize, Rejected>>,
}

impl QueryGraphs {
    /// Reads a file for a model, and adds the encoding that the model reads.
    ///
    /// # Errors
    /// If the file as a whole cannot be read for the model.
    pub fn read(path: &Path, model: &Model) -> Result<Self> {
        let expected = expected(model, Labels::Ignore);
        let mut chunks = GraphReader::open(path, &expected)?;
        let Some(first) = chunks.next().transpose()? else {
            return Err(DataError::File { path: path.into(), problem: FileProblem::NoGraph }.into());
        };
        let Chunk { graphs: mut store, mut results, .. } = first;
        for chunk in chunks {
            let chunk = chunk?;
            let before = store.len();
            store.append(&chunk.graphs)?;
            results.extend(chunk.results.into_iter().map(|result| result.map(|at| before + at)));
        }
        add_encodings(&mut store, &model.config.model).map_err(|error| TrainError::from(error).in_file(Some(path)))?;
        Ok(Self { store, results })
    }

    /// The usable graphs, with their encodings.
    pub fn store(&self) -> &GraphStore {
        &self.store
    }

    /// Number of graphs of the file.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// True when the file has no graph.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Position of a graph of the file among the usable graphs.
    ///
    /// # Errors
    /// If the graph cannot be used, with the reason.
    ///
    /// # Panics
    /// If the file has no such graph.
    pub fn position(&self, graph: usize) -> Result<usize, &Rejected> {
        self.results[graph].as_ref().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_a_file_have_the_same_chunks_on_every_device() {
        let shard = Shard { index: 1, of: 3 };
        assert_eq!(shard.chunk_limits(true), shard.chunk_limits(false));
        assert_eq!(Shard::WHOLE.chunk_limits(true), ChunkLimits::GPU);
    }
}
