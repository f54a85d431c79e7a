//! Data sets to tables.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, Int64Array, ListArray, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use gt_graph::{FeatureRows, GraphRef, Level, MISSING_CLASS, TargetRows};

use super::{TablePaths, schema_path};
use crate::atomic::{check_member, commit_set, prepare};
use crate::columns as c;
use crate::dataset::Dataset;
use crate::error::{DataError, FileProblem, Result};
use crate::records::Records;
use crate::stored_schema::StoredSchema;
use gt_graph::FeatureSchema;

/// Writes `NAME_nodes`, `NAME_edges` and `NAME_graphs`, and the schema next to them.
pub(crate) fn write(dataset: &Dataset, path: &Path) -> Result<()> {
    let paths = TablePaths::beside(path)?;
    check_names(dataset, path)?;
    let kind = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8 => "text",
        DataType::Boolean => "boolean",
        // Tables read numbers beyond i64 as texts.
        DataType::UInt64 => "text",
        kind if kind.is_integer() => "integer",
        _ => "real",
    };
    let extras = dataset.extras().iter().filter(|extra| extra.has_text());
    let mut stored = StoredSchema::new(dataset.schema());
    stored.extras = extras.map(|e| (e.name().to_owned(), kind(&e.values).to_owned())).collect();
    let graphs_path = paths.graphs.expect("named beside the nodes");
    let beside = schema_path(path);
    [&paths.nodes, &paths.edges, &graphs_path, &beside].into_iter().try_for_each(|path| check_member(path))?;
    let line = |text: String| prepare(&beside, |out| writeln!(out, "{text}").map_err(|e| DataError::io(&beside, e)));
    let files = vec![
        nodes_table(dataset).0.prepare(&paths.nodes)?,
        edges_table(dataset).0.prepare(&paths.edges)?,
        graphs_table(dataset).0.prepare(&graphs_path)?,
    ];
    let seal = line(stored.to_line())?;
    stored.unfinished = true;
    commit_set(files, seal, line(stored.to_line())?)
}

/// Checks that names collide neither with the tables' own columns nor with each other.
fn check_names(dataset: &Dataset, path: &Path) -> Result<()> {
    let schema = dataset.schema();
    let targets = |level| {
        let target = schema.target.as_ref().filter(move |t| t.level == level);
        target.into_iter().flat_map(|t| t.columns.iter().map(|c| c.name.as_str()))
    };
    let split = |level| dataset.split().filter(|s| s.level == level).map(|_| c::SPLIT);
    let node =
        ["graph", "node"].into_iter().chain(schema.node.names()).chain(targets(Level::Node)).chain(split(Level::Node));
    let edge = ["graph", "src", "dst"]
        .into_iter()
        .chain(schema.edge.names())
        .chain(targets(Level::Edge))
        .chain(split(Level::Edge));
    let extras = dataset.extras().iter().map(|extra| extra.name());
    let graph = ["graph"].into_iter().chain(targets(Level::Graph)).chain(split(Level::Graph)).chain(extras);
    for names in [node.collect::<Vec<_>>(), edge.collect(), graph.collect()] {
        if let Some(name) = names.iter().enumerate().find_map(|(at, name)| names[..at].contains(name).then_some(name)) {
            return Err(DataError::file(path, FileProblem::Collision((*name).to_owned())));
        }
    }
    Ok(())
}

/// Columns to be written.
#[derive(Default)]
struct Columns(Records);

impl Columns {
    fn push(&mut self, name: &str, values: impl Array + 'static) {
        self.0.push(name, Arc::new(values));
    }

    fn integers(&mut self, name: &str, values: impl Iterator<Item = usize>) {
        self.0.integers(name, values.map(Some));
    }

    fn features<'a>(
        &mut self,
        dataset: &'a Dataset,
        schema: &FeatureSchema,
        rows: impl Fn(&GraphRef<'a>) -> FeatureRows<'a> + Copy,
    ) {
        let all = || dataset.graphs().iter();
        let (a, b) = (schema.categorical.len(), schema.continuous.len());
        for (at, vocabulary) in schema.categorical.iter().enumerate() {
            let values = all().flat_map(|g| rows(&g).categorical.iter().skip(at).step_by(a));
            if vocabulary.names.is_empty() {
                self.push(&vocabulary.name, Int64Array::from_iter_values(values.map(|&v| i64::from(v))));
            } else {
                let names = values.map(|&v| vocabulary.value_name(v as usize));
                self.push(&vocabulary.name, StringArray::from_iter_values(names));
            }
        }
        for (at, name) in schema.continuous.iter().enumerate() {
            let values = all().flat_map(|g| rows(&g).continuous.iter().skip(at).step_by(b)).copied();
            self.push(name, Float32Array::from_iter_values(values));
        }
        if let Some(vocabulary) = &schema.multi_hot {
            let lists = || all().filter_map(|g| rows(&g).multi_hot);
            let values = Int64Array::from_iter_values(lists().flat_map(|l| l.indices).map(|&v| i64::from(v)));
            let lengths = lists().flat_map(|l| l.offsets.windows(2).map(|w| w[1] - w[0]));
            let element = Arc::new(Field::new("element", DataType::Int64, true));
            self.push(
                &vocabulary.name,
                ListArray::new(element, OffsetBuffer::from_lengths(lengths), Arc::new(values), None),
            );
        }
    }

    fn targets(&mut self, dataset: &Dataset, level: Level) {
        let schema = dataset.schema().target.as_ref().filter(|t| t.level == level);
        let (Some(schema), Some(rows)) = (schema, dataset.graphs().target()) else { return };
        let columns = schema.columns.len();
        for (at, column) in schema.columns.iter().enumerate() {
            match rows {
                TargetRows::Float(values) => {
                    let values = values.iter().skip(at).step_by(columns).map(|&v| Some(v).filter(|v| !v.is_nan()));
                    self.push(&column.name, values.collect::<Float32Array>());
                }
                TargetRows::Class(values) if !column.names.is_empty() => {
                    let values = values.iter().skip(at).step_by(columns);
                    let names = values.map(|&v| (v != MISSING_CLASS).then(|| column.class_name(v as usize)));
                    self.push(&column.name, names.collect::<StringArray>());
                }
                TargetRows::Class(values) => {
                    let values =
                        values.iter().skip(at).step_by(columns).map(|&v| (v != MISSING_CLASS).then_some(i64::from(v)));
                    self.push(&column.name, values.collect::<Int64Array>());
                }
            }
        }
    }

    fn split(&mut self, dataset: &Dataset, level: Level) {
        if let Some(split) = dataset.split().filter(|s| s.level == level) {
            self.push(c::SPLIT, StringArray::from_iter_values((0..split.codes.len()).map(|row| split.name(row))));
        }
    }
}

fn nodes_table(dataset: &Dataset) -> Columns {
    let store = dataset.graphs();
    let mut columns = Columns::default();
    let per_graph = || (0..store.len()).flat_map(|g| std::iter::repeat_n(g, store.node_range(g).len()));
    if store.len() > 1 {
        columns.integers("graph", per_graph());
    }
    columns.integers("node", (0..store.len()).flat_map(|g| 0..store.node_range(g).len()));
    columns.features(dataset, &dataset.schema().node, |g| g.node());
    columns.targets(dataset, Level::Node);
    columns.split(dataset, Level::Node);
    let encodings = store.encodings();
    for (prefix, coordinates) in [(c::LAP_PE, &encodings.laplacian), (c::RW_PE, &encodings.random_walk)] {
        let Some(coordinates) = coordinates else { continue };
        for at in 0..coordinates.width {
            let values = coordinates.values.iter().skip(at).step_by(coordinates.width).copied();
            columns.push(&format!("{prefix}{at}"), Float32Array::from_iter_values(values));
        }
    }
    if let Some(roles) = &encodings.weisfeiler_lehman {
        columns.integers(c::WL_PE, roles.iter().map(|&r| r as usize));
    }
    columns
}

fn edges_table(dataset: &Dataset) -> Columns {
    let store = dataset.graphs();
    let mut columns = Columns::default();
    if store.len() > 1 {
        columns.integers("graph", (0..store.len()).flat_map(|g| std::iter::repeat_n(g, store.edge_range(g).len())));
    }
    columns.integers("src", store.iter().flat_map(|g| g.src()).map(|&v| v as usize));
    columns.integers("dst", store.iter().flat_map(|g| g.dst()).map(|&v| v as usize));
    columns.features(dataset, &dataset.schema().edge, |g| g.edge());
    columns.targets(dataset, Level::Edge);
    columns.split(dataset, Level::Edge);
    columns
}

fn graphs_table(dataset: &Dataset) -> Columns {
    let mut columns = Columns::default();
    columns.integers("graph", 0..dataset.graphs().len());
    columns.split(dataset, Level::Graph);
    columns.targets(dataset, Level::Graph);
    for extra in dataset.extras().iter().filter(|extra| extra.has_text()) {
        columns.0.push(extra.name(), extra.values.clone());
    }
    columns
}
