//! Graphs that a trained model is asked about: nothing but their features is needed, and some of them may be unusable.

use std::collections::BTreeMap;
use std::path::Path;

use gt_data::{Readable, Records};
use gt_graph::{FeatureLayout, FeatureRows, GraphBatch, GraphRef, GraphStore, Layout, Level};
use gt_graph::{FeatureSchema, Schema};
use gt_models::ModelHeader;
use gt_models::config::{Columns, Graph};
use gt_nn::cpu::Edges;

use crate::encodings::ensure_encodings;
use crate::error::{Result, TrainError};
use crate::task::{check_features, edges_of};

/// Why there is no result where the model gives an infinite one or NaN.
pub(crate) const NOT_FINITE: &str = "the model's result is not a finite number";

/// Graphs made ready for a model.
#[derive(Clone, Debug)]
pub struct Inputs {
    graphs: GraphStore,
    edges: Edges,
    batch: usize,
    unusable: BTreeMap<usize, String>,
}

/// Names and vocabularies of the data that a model was trained on; default names where its file has none.
pub fn schema_of(header: &ModelHeader) -> Schema {
    serde_json::from_value(header.schema.clone()).unwrap_or_else(|_| {
        let layout = |columns: &Columns| FeatureLayout {
            categorical: columns.categorical.len(),
            continuous: columns.continuous,
            multi_hot: columns.multi_hot.is_some(),
        };
        let target = &header.data.target;
        Schema::unnamed(&Layout {
            node: layout(&header.data.node),
            edge: layout(&header.data.edge),
            target: Some(gt_graph::TargetLayout {
                level: target.level,
                kind: target.kind,
                columns: target.columns.len(),
            }),
        })
    })
}

impl Inputs {
    /// Makes graphs ready for a model. Encodings are looked up in, and added to, a file beside `cache`, if one is given.
    ///
    /// # Errors
    /// If the columns are not those that the model was trained on.
    pub fn new(readable: Readable, header: &ModelHeader, cache: Option<&Path>) -> Result<Self> {
        let Readable { dataset, mut unusable } = readable;
        check_features(dataset.schema(), dataset.graphs(), header)?;
        let schema = schema_of(header);
        let mut graphs = dataset.graphs().clone();
        for (number, graph) in graphs.iter().enumerate() {
            if let Some(reason) = beyond_vocabulary(graph, header, &schema) {
                unusable.entry(number).or_insert(reason);
            }
        }
        ensure_encodings(&mut graphs, &header.config, cache)?;
        let edges = edges_of(&header.config);
        Ok(Self { graphs, edges, batch: header.config.train.batch.max(1), unusable })
    }

    /// The graphs, with their encodings.
    pub fn graphs(&self) -> &GraphStore {
        &self.graphs
    }

    /// Which edges attention follows.
    pub fn edges(&self) -> Edges {
        self.edges
    }

    /// Why a graph gets no result: a sentence that names column and value.
    pub fn unusable(&self) -> &BTreeMap<usize, String> {
        &self.unusable
    }

    /// Where the results of rows are, as [`Inputs::rows`] lists them; none for graphs that get no result.
    pub(crate) fn places(&self, rows: &[(usize, Option<usize>)]) -> Vec<Option<usize>> {
        rows.iter().map(|(graph, row)| row.filter(|_| !self.unusable.contains_key(graph))).collect()
    }

    /// Graphs per batch.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// Numbers of the graphs that the model can take.
    pub(crate) fn usable(&self) -> impl Iterator<Item = usize> {
        (0..self.graphs.len()).filter(|graph| !self.unusable.contains_key(graph))
    }

    /// Calls with every batch of usable graphs, in order.
    pub(crate) fn for_each(&self, mut call: impl FnMut(&GraphBatch)) -> Result<()> {
        let usable: Vec<usize> = self.usable().collect();
        let mut batch = GraphBatch::new();
        for graphs in usable.chunks(self.batch) {
            batch.assemble(&self.graphs, graphs).map_err(|e| TrainError::Data(e.to_string()))?;
            call(&batch);
        }
        Ok(())
    }

    /// Passes over graphs for which not all of `values` (`width` per row of `level`) are finite.
    pub(crate) fn check_results(&mut self, level: Level, values: &[f32], width: usize) {
        for graph in 0..self.graphs.len() {
            let rows = self.graphs.row_range(level, graph);
            let finite = values[rows.start * width..rows.end * width].iter().all(|value| value.is_finite());
            if !finite && !self.unusable.contains_key(&graph) {
                self.unusable.insert(graph, NOT_FINITE.into());
            }
        }
    }

    /// Rows of a result: numbers of their graphs, and their places among all rows of `level`. An unusable graph of which no rows are known has one without a place.
    pub(crate) fn rows(&self, level: Level) -> Vec<(usize, Option<usize>)> {
        let graphs = (0..self.graphs.len()).flat_map(|graph| {
            let rows = self.graphs.row_range(level, graph);
            let none = rows.is_empty() && self.unusable.contains_key(&graph);
            rows.map(Some).chain(none.then_some(None)).map(move |row| (graph, row))
        });
        graphs.collect()
    }

    /// Columns that say what each row is about.
    pub(crate) fn index(&self, level: Level, rows: &[(usize, Option<usize>)]) -> Records {
        let mut records = Records::default();
        records.integers("graph", rows.iter().map(|(graph, _)| Some(*graph)));
        let within = |graph: usize, row: usize| row - self.graphs.row_range(level, graph).start;
        match level {
            Level::Graph => {}
            Level::Node => records.integers("node", rows.iter().map(|(graph, row)| row.map(|row| within(*graph, row)))),
            Level::Edge => {
                let ends = |(graph, row): &(usize, Option<usize>)| {
                    let (graph, at) = (self.graphs.graph(*graph), within(*graph, (*row)?));
                    Some([graph.src()[at] as usize, graph.dst()[at] as usize])
                };
                for (at, name) in ["source", "target"].into_iter().enumerate() {
                    records.integers(name, rows.iter().map(|row| ends(row).map(|ends| ends[at])));
                }
            }
        }
        records
    }

    /// The column of reasons.
    pub(crate) fn reasons<'a>(&'a self, rows: &'a [(usize, Option<usize>)]) -> impl Iterator<Item = Option<&'a str>> {
        rows.iter().map(|(graph, _)| self.unusable.get(graph).map(String::as_str))
    }
}

/// The first value of a graph that a model has no parameters for.
fn beyond_vocabulary(graph: GraphRef<'_>, header: &ModelHeader, schema: &Schema) -> Option<String> {
    let level = |what: &str, rows: FeatureRows<'_>, model: &Columns, names: &FeatureSchema| {
        let width = model.categorical.len();
        let sizes = model.categorical.iter().cycle();
        let category = rows.categorical.iter().zip(sizes).position(|(value, size)| *value as usize >= *size);
        if let Some(at) = category {
            let (value, size, name) =
                (rows.categorical[at], model.categorical[at % width], &names.categorical[at % width].name);
            return Some(beyond(what, at / width, name, value, size));
        }
        let (words, size) = (rows.multi_hot?, model.multi_hot?);
        let name = names.multi_hot.as_ref().map_or("multi_hot", |words| &words.name);
        (0..words.rows()).find_map(|row| {
            let value = words.row(row).iter().find(|value| **value as usize >= size)?;
            Some(beyond(what, row, name, *value, size))
        })
    };
    let config = &header.config.model;
    let edges_read = config.graph == Graph::Sparse && config.edges != Some(false);
    level("node", graph.node(), &header.data.node, &schema.node)
        .or_else(|| edges_read.then(|| level("edge", graph.edge(), &header.data.edge, &schema.edge)).flatten())
}

fn beyond(what: &str, row: usize, name: &str, value: u32, size: usize) -> String {
    format!("{what} {row}, column `{name}`: the model knows the values 0 to {}, not {value}", size - 1)
}
