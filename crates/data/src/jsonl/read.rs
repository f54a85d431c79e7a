//! JSON lines to data sets.
//!
//! Whether a column is categorical or continuous is known only at the end, so numbers are collected first.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use gt_graph::encoding::{Coordinates, Encodings};
use gt_graph::{GraphParts, GraphStore, Layout, Level};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::features::{FeatureStaging, expect_key};
use super::fit::{Expected, FeatureRecord, Misfit, Owner};
use super::numbers::{JsonRows, category};
use crate::columns as c;
use crate::dataset::{Dataset, Extra, Splits};
use crate::error::{DataError, Result};
use crate::lenient::{self, Lenient, without_sizes};
use crate::node_count::{check_unbacked, node_count};
use crate::stored_schema::StoredSchema;
use crate::target_staging::TargetStaging;
use gt_graph::{Schema, TargetSchema};

/// Reads a data set from JSON lines.
pub(crate) fn read(path: &Path, mut lenient: Option<&mut Lenient>) -> Result<Dataset> {
    let mut staging = Staging::default();
    if let Some(lenient) = &lenient {
        staging.expected = Some(expected(&lenient.expected, Owner::Model));
    }
    stage(path, &mut staging, lenient.as_deref_mut())?;
    if let (Some(lenient), Some(levels)) = (lenient.as_deref_mut(), &staging.expected)
        && levels.iter().any(|level| level.missed && !level.met)
    {
        // No graph has the model's columns of nodes, or of edges: that is the matter of the file.
        lenient.unusable.clear();
        staging = Staging { unchecked: true, ..Default::default() };
        stage(path, &mut staging, Some(lenient))?;
    }
    staging.finish(path, lenient)
}

/// Columns of nodes and of edges.
fn expected(schema: &Schema, owner: Owner) -> [Expected; 2] {
    [Expected::new(&schema.node, c::NODE_FEATURES, owner), Expected::new(&schema.edge, c::EDGE_FEATURES, owner)]
}

/// Reads all lines.
fn stage(path: &Path, staging: &mut Staging, mut lenient: Option<&mut Lenient>) -> Result<()> {
    let file = File::open(path).map_err(|e| DataError::io(path, e))?;
    let mut lines = BufReader::with_capacity(1 << 18, file);
    let mut line = Vec::new();
    let mut record = Record { passes_over_labels: lenient.is_some(), ..Record::default() };
    let (mut number, mut readable) = (0, 0);
    loop {
        line.clear();
        number += 1;
        if lines.read_until(b'\n', &mut line).map_err(|e| DataError::io(path, e))? == 0 {
            break;
        }
        let text = line.trim_ascii_end();
        // Some editors begin a file with it.
        let text = if number == 1 { text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text) } else { text };
        if text.is_empty() {
            continue;
        }
        record.clear();
        let mut source = serde_json::Deserializer::from_slice(text);
        let parsed = (&mut record).deserialize(&mut source).and_then(|()| source.end());
        let parsed = parsed.map_err(|e| format!("line {number}: {}", json_message(&e, text)));
        readable += usize::from(parsed.is_ok() && (record.num_nodes.present || record.edge_index.present));
        if let Some(schema) = record.schema.take() {
            staging.take_schema(&schema, path)?;
        }
        match &mut lenient {
            None => {
                parsed.map_err(|message| DataError::file(path, message))?;
                let graph = staging.sizes.len();
                staging.check(&mut record).map_err(|(column, m)| DataError::value(path, graph, column, m))?;
            }
            Some(lenient) => {
                record.extras.clear();
                if let Err(reason) = parsed.and_then(|()| staging.usable(&mut record, path)) {
                    lenient.unusable.insert(staging.skip(), reason);
                    continue;
                }
                staging.forgo_encodings(&record);
            }
        }
        staging.push(&mut record, path)?;
    }
    match lenient.and_then(|lenient| lenient.unusable.first_key_value()) {
        Some((_, reason)) if readable == 0 => Err(DataError::file(path, format!("no line of it is a graph: {reason}"))),
        _ => Ok(()),
    }
}

/// The message without serde's "at line 1": every record is a line.
fn json_message(error: &serde_json::Error, line: &[u8]) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let not_json = if error.is_syntax() || error.is_eof() { "it is not JSON: " } else { "" };
    // What Python writes all the same.
    let rest = line.get(error.column().saturating_sub(2)..).unwrap_or_default();
    let begins = |word: &[u8]| rest.starts_with(word) || rest.get(1..).is_some_and(|rest| rest.starts_with(word));
    let hint =
        if begins(b"NaN") || begins(b"Infinity") { "; NaN and Infinity have no form in JSON, null has" } else { "" };
    format!("{not_json}{} (column {}){hint}", text.trim_end_matches(&place), error.column())
}

/// One line, in buffers that are reused.
#[derive(Default)]
struct Record {
    /// Targets and split are not read.
    passes_over_labels: bool,
    num_nodes: JsonRows,
    edge_index: JsonRows,
    node: FeatureRecord,
    edge: FeatureRecord,
    y: JsonRows,
    lap_pe: JsonRows,
    rw_pe: JsonRows,
    wl_pe: JsonRows,
    splits: [Option<Vec<String>>; 3],
    schema: Option<Value>,
    extras: Vec<(String, Value)>,
}

impl Record {
    fn clear(&mut self) {
        for rows in
            [&mut self.num_nodes, &mut self.edge_index, &mut self.y, &mut self.lap_pe, &mut self.rw_pe, &mut self.wl_pe]
        {
            rows.clear();
        }
        self.node.clear();
        self.edge.clear();
        self.splits = Default::default();
        self.schema = None;
        self.extras.clear();
    }

    /// Whether a graph has the columns that there should be.
    fn check(&mut self, levels: &mut [Expected; 2]) -> Result<(), Misfit> {
        let nodes = self.node_count().map_err(|message| (c::NUM_NODES, message))?;
        let edges = self.edge_index.first_width();
        let [node, edge] = levels;
        // Both are looked at in any case.
        let nodes = node.check(&mut self.node, nodes);
        edge.check(&mut self.edge, edges).and(nodes)
    }

    /// Stated, or else the number of feature rows.
    fn node_count(&self) -> Result<usize, String> {
        let stated = &self.num_nodes;
        if stated.present {
            return match stated.values[..] {
                [value] if stated.depth == 0 && value.fract() == 0.0 || value.is_nan() => node_count(value),
                _ => Err("it should be one integer".into()),
            };
        }
        let FeatureRecord { numbers, floats, words } = &self.node;
        let rows = [numbers, floats, words].into_iter().find(|rows| rows.present);
        rows.map(|rows| rows.lengths.len())
            .ok_or_else(|| "the key is missing, and so are features of nodes to count".into())
    }

    fn rows(&mut self, key: &str) -> Option<&mut JsonRows> {
        Some(match key {
            c::NUM_NODES => &mut self.num_nodes,
            c::EDGE_INDEX => &mut self.edge_index,
            c::NODE_FEAT => &mut self.node.numbers,
            c::NODE_FEAT_FLOAT => &mut self.node.floats,
            c::NODE_MULTI_HOT => &mut self.node.words,
            c::EDGE_ATTR => &mut self.edge.numbers,
            c::EDGE_ATTR_FLOAT => &mut self.edge.floats,
            c::EDGE_MULTI_HOT => &mut self.edge.words,
            c::Y => &mut self.y,
            c::LAP_PE => &mut self.lap_pe,
            c::RW_PE => &mut self.rw_pe,
            c::WL_PE => &mut self.wl_pe,
            _ => return None,
        })
    }
}

impl<'de> DeserializeSeed<'de> for &mut Record {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Record {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the keys `num_nodes`, `edge_index`, …")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if self.passes_over_labels && [c::Y, c::SPLIT, c::NODE_SPLIT, c::EDGE_SPLIT].contains(&&*key) {
                map.next_value::<de::IgnoredAny>()?;
                continue;
            }
            if let Some(rows) = self.rows(&key) {
                if rows.present {
                    return Err(de::Error::custom(format!("key `{key}` occurs twice")));
                }
                map.next_value_seed(&mut *rows).map_err(|e| de::Error::custom(format!("key `{key}`: {e}")))?;
                // Of labels only, null says something.
                if rows.depth == 0 && rows.first_null.is_some() && key != c::Y {
                    rows.clear();
                }
                continue;
            }
            match key.as_str() {
                c::SPLIT => self.splits[0] = map.next_value::<Option<String>>()?.map(|name| vec![name]),
                c::NODE_SPLIT => self.splits[1] = map.next_value()?,
                c::EDGE_SPLIT => self.splits[2] = map.next_value()?,
                c::SCHEMA_KEY => self.schema = Some(map.next_value()?),
                _ => {
                    let value = map.next_value()?;
                    self.extras.push((key, value));
                }
            }
        }
        Ok(())
    }
}

/// Everything read so far, with numbers still undecided.
#[derive(Default)]
struct Staging {
    sizes: Vec<(usize, usize)>,
    /// How many of them were passed over.
    skipped: usize,
    /// Columns of nodes and of edges, where a schema or a model tells them.
    expected: Option<[Expected; 2]>,
    /// Columns are not compared while graphs are read: no graph has those that were expected.
    unchecked: bool,
    /// Which encodings are not read any more: Laplacian, random walk, Weisfeiler-Lehman.
    forgone: [bool; 3],
    src: Vec<u32>,
    dst: Vec<u32>,
    node: FeatureStaging,
    edge: FeatureStaging,
    targets: TargetStaging,
    splits: Option<Splits>,
    lap_pe: Option<Coordinates>,
    rw_pe: Option<Coordinates>,
    wl_pe: Option<Vec<u32>>,
    schema: Option<Schema>,
    extras: Vec<(String, Vec<Value>)>,
}

impl Staging {
    /// Takes the schema of the first record; others may say it once more.
    fn take_schema(&mut self, stored: &Value, path: &Path) -> Result<()> {
        let schema = StoredSchema::parse(&stored.to_string(), path)?.schema;
        let graph = self.sizes.len();
        if graph == 0 {
            if !self.unchecked {
                self.expected = Some(expected(&schema, Owner::Schema));
            }
            self.schema = Some(schema);
        } else if self.schema.as_ref() != Some(&schema) {
            let message = "the schema belongs into the first record, and this is another one";
            return Err(DataError::value(path, graph, c::SCHEMA_KEY, message));
        }
        Ok(())
    }

    /// Leaves encodings aside that not all graphs have whole: they can be computed.
    fn forgo_encodings(&mut self, record: &Record) {
        let Ok(nodes) = record.node_count() else { return };
        let earlier = self.sizes.len() > self.skipped;
        let [laplacian, walk, roles] = &mut self.forgone;
        for (own, rows, forgone) in
            [(&mut self.lap_pe, &record.lap_pe, laplacian), (&mut self.rw_pe, &record.rw_pe, walk)]
        {
            let whole = push_coordinates(&mut None, rows, false, nodes).is_ok();
            let width = own.as_ref().map_or(0, |own| own.width);
            let other_width = nodes > 0 && width > 0 && width != rows.first_width();
            *forgone |= !whole || other_width || earlier && own.is_some() != rows.present;
            if *forgone {
                *own = None;
            }
        }
        let whole = push_roles(&mut None, &record.wl_pe, false, nodes).is_ok();
        *roles |= !whole || earlier && self.wl_pe.is_some() != record.wl_pe.present;
        if *roles {
            self.wl_pe = None;
        }
    }

    fn push_encodings(&mut self, record: &Record, earlier: bool, nodes: usize) -> Result<(), Misfit> {
        let [laplacian, walk, roles] = self.forgone;
        if !laplacian {
            push_coordinates(&mut self.lap_pe, &record.lap_pe, earlier, nodes).map_err(|m| (c::LAP_PE, m))?;
        }
        if !walk {
            push_coordinates(&mut self.rw_pe, &record.rw_pe, earlier, nodes).map_err(|m| (c::RW_PE, m))?;
        }
        if !roles {
            push_roles(&mut self.wl_pe, &record.wl_pe, earlier, nodes).map_err(|m| (c::WL_PE, m))?;
        }
        Ok(())
    }

    /// Whether a line is, for itself and without encodings, a graph, and has the columns that there should be.
    fn usable(&mut self, record: &mut Record, path: &Path) -> Result<(), String> {
        let alone = Staging { forgone: [true; 3], ..Default::default() }.push(record, path);
        alone.map_err(|e| e.of_graph().unwrap_or_else(|| e.to_string()))?;
        self.check(record).map_err(|(column, message)| format!("column `{column}`: {message}"))
    }

    /// Compares a graph's columns with those that there should be, and brings them into their order.
    fn check(&mut self, record: &mut Record) -> Result<(), Misfit> {
        self.expected.as_mut().map_or(Ok(()), |levels| record.check(levels))
    }

    fn push(&mut self, record: &mut Record, path: &Path) -> Result<()> {
        let graph = self.sizes.len();
        let wrong = |column: &str, message: String| DataError::value(path, graph, column, message);
        let nodes = record.node_count().map_err(|m| wrong(c::NUM_NODES, m))?;
        let edges = self.push_edges(&record.edge_index).map_err(|m| wrong(c::EDGE_INDEX, m))?;
        if !record.node.numbers.present && !record.node.floats.present && !record.node.words.present {
            check_unbacked(nodes, edges).map_err(|m| wrong(c::NUM_NODES, m))?;
        }
        self.sizes.push((nodes, edges));
        let earlier = graph > self.skipped;
        self.node.push(&record.node, nodes, c::NODE_FEATURES).map_err(|(column, m)| wrong(column, m))?;
        self.edge.push(&record.edge, edges, c::EDGE_FEATURES).map_err(|(column, m)| wrong(column, m))?;
        self.push_targets(&record.y).map_err(|m| wrong(c::Y, m))?;
        self.push_splits(record, graph, nodes, edges).map_err(|(column, m)| wrong(column, m))?;
        self.push_encodings(record, earlier, nodes).map_err(|(column, m)| wrong(column, m))?;
        for (name, value) in record.extras.drain(..) {
            let column = match self.extras.iter_mut().position(|(n, _)| *n == name) {
                Some(at) => &mut self.extras[at].1,
                None => {
                    self.extras.push((name, Vec::new()));
                    &mut self.extras.last_mut().expect("just pushed").1
                }
            };
            column.resize(graph, Value::Null);
            column.push(value);
        }
        Ok(())
    }

    /// Takes a graph without nodes for the next one; returns its number.
    fn skip(&mut self) -> usize {
        self.sizes.push((0, 0));
        for features in [&mut self.node, &mut self.edge] {
            features.ends.push(features.ends.last().copied().unwrap_or(0));
        }
        self.targets.push_missing();
        self.skipped += 1;
        self.sizes.len() - 1
    }

    fn push_edges(&mut self, rows: &JsonRows) -> Result<usize, String> {
        if !rows.present {
            return Err("the key is missing (a graph without edges has [[], []])".into());
        }
        let edges = match rows.lengths[..] {
            [] => 0,
            [sources, targets] if sources == targets && rows.depth == 2 => sources,
            [sources, targets] if rows.depth == 2 => return Err(format!("{sources} sources but {targets} targets")),
            _ => return Err("it should be two lists: sources and targets".into()),
        };
        for (at, &value) in rows.values.iter().enumerate() {
            let node = category(value).ok_or_else(|| format!("{value} is not a node"))?;
            if at < edges { self.src.push(node) } else { self.dst.push(node) }
        }
        Ok(edges)
    }

    fn push_targets(&mut self, rows: &JsonRows) -> Result<(), String> {
        let missing = rows.depth == 0 && rows.first_null.is_some();
        if !rows.present || missing {
            self.targets.push_missing();
            return Ok(());
        }
        rows.width()?;
        self.targets.push(rows.values.iter().copied(), rows.lengths.len(), rows.depth == 2);
        if rows.real.contains(&true) {
            self.targets.mark_real();
        }
        Ok(())
    }

    fn push_splits(&mut self, record: &mut Record, graph: usize, nodes: usize, edges: usize) -> Result<(), Misfit> {
        let levels = [(Level::Graph, c::SPLIT), (Level::Node, c::NODE_SPLIT), (Level::Edge, c::EDGE_SPLIT)];
        for ((level, key), names) in levels.into_iter().zip(&mut record.splits) {
            let expected = self.splits.as_ref().is_some_and(|s| s.level == level);
            let Some(names) = names.take() else {
                if expected {
                    return Err((key, "the key is missing, but earlier graphs have it".into()));
                }
                continue;
            };
            if let Some(other) = self.splits.as_ref().filter(|_| !expected) {
                return Err((key, format!("there is a split of {}s already, and a file has one", other.level)));
            }
            if !expected && graph > 0 {
                return Err((key, "the key is here, but earlier graphs have no such split".into()));
            }
            if names.len() != level.rows(nodes, edges) {
                return Err((key, format!("{} entries for {} {level}s", names.len(), level.rows(nodes, edges))));
            }
            let splits = self.splits.get_or_insert_with(|| Splits::new(level));
            for name in &names {
                splits.push(name).ok_or_else(|| (key, "more than 65,536 different parts".to_owned()))?;
            }
        }
        Ok(())
    }

    fn finish(mut self, path: &Path, mut lenient: Option<&mut Lenient>) -> Result<Dataset> {
        if lenient.is_some() {
            self.schema = self.schema.as_ref().map(without_sizes);
        }
        let wrong = |(graph, column, message): (usize, &str, String)| DataError::value(path, graph, column, message);
        let expected = lenient.as_ref().map(|lenient| &lenient.expected);
        let declared = self.schema.as_ref().or(expected).map(Schema::layout);
        let unusable = &mut lenient.as_mut().map(|lenient| &mut lenient.unusable);
        let node = self.node.finish(declared.as_ref().map(|l| &l.node), c::NODE_FEAT, unusable).map_err(wrong)?;
        let edge = self.edge.finish(declared.as_ref().map(|l| &l.edge), c::EDGE_ATTR, unusable).map_err(wrong)?;
        let mut store = GraphStore::new(Layout { node: node.layout.clone(), edge: edge.layout.clone(), target: None });
        let (mut first_node, mut first_edge) = (0, 0);
        for (nodes, edges) in self.sizes {
            let parts = GraphParts {
                num_nodes: nodes,
                src: &self.src[first_edge..first_edge + edges],
                dst: &self.dst[first_edge..first_edge + edges],
                node: node.rows(first_node, nodes),
                edge: edge.rows(first_edge, edges),
                target: None,
            };
            lenient::push(&mut store, parts, path, lenient.as_deref_mut())?;
            first_node += nodes;
            first_edge += edges;
        }
        self.targets.finish(&mut store, self.schema.as_ref().and_then(|s| s.target.as_ref()), path)?;
        let encodings = Encodings { laplacian: self.lap_pe, random_walk: self.rw_pe, weisfeiler_lehman: self.wl_pe };
        store.set_encodings(encodings).map_err(|e| DataError::file(path, e.to_string()))?;
        let rows = store.len();
        let extras = self.extras.into_iter().map(|(name, mut values)| {
            values.resize(rows, Value::Null);
            Extra { name, values: extra_column(values) }
        });
        let extras = extras.collect();
        // What a model takes it is called by the model's names.
        let same = |expected: &&mut Lenient| expected.expected.layout() == *store.layout();
        let schema = self.schema.or_else(|| lenient.filter(same).map(|lenient| lenient.expected.clone()));
        let unnamed =
            Schema { node: node.names, edge: edge.names, target: store.layout().target.map(TargetSchema::unnamed) };
        Dataset::from_file(path, schema.ok_or(unnamed), store, self.splits, extras)
    }
}

fn push_coordinates(own: &mut Option<Coordinates>, rows: &JsonRows, earlier: bool, nodes: usize) -> Result<(), String> {
    let Some(own) = expect_key(own, rows, earlier)? else { return Ok(()) };
    let width = rows.width()?;
    if rows.lengths.len() != nodes {
        return Err(format!("{} rows for {nodes} nodes", rows.lengths.len()));
    }
    if own.width == 0 {
        own.width = width;
    }
    if nodes > 0 && width != own.width {
        return Err(format!("rows of {width} values, earlier graphs have {}", own.width));
    }
    for &value in &rows.values {
        own.values.push(
            Some(value as f32).filter(|v| v.is_finite()).ok_or_else(|| format!("{value} is not a finite number"))?,
        );
    }
    Ok(())
}

fn push_roles(own: &mut Option<Vec<u32>>, rows: &JsonRows, earlier: bool, nodes: usize) -> Result<(), String> {
    let Some(roles) = expect_key(own, rows, earlier)? else { return Ok(()) };
    if rows.values.len() != nodes {
        return Err(format!("{} roles for {nodes} nodes", rows.values.len()));
    }
    for &value in &rows.values {
        roles.push(category(value).ok_or_else(|| format!("{value} is not a role"))?);
    }
    Ok(())
}

/// The narrowest column type that holds all values; what fits none is kept as its JSON text.
fn extra_column(values: Vec<Value>) -> ArrayRef {
    let all = |fits: fn(&Value) -> bool| values.iter().all(|v| v.is_null() || fits(v));
    if all(Value::is_string) {
        Arc::new(values.iter().map(Value::as_str).collect::<StringArray>())
    } else if all(Value::is_boolean) {
        Arc::new(values.iter().map(Value::as_bool).collect::<BooleanArray>())
    } else if all(Value::is_i64) {
        Arc::new(values.iter().map(Value::as_i64).collect::<Int64Array>())
    } else if all(Value::is_number) {
        Arc::new(values.iter().map(Value::as_f64).collect::<Float64Array>())
    } else {
        let text = |v: &Value| match v {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        Arc::new(values.iter().map(text).collect::<StringArray>())
    }
}
