//! Targets as they come out of a file, before it is known what they belong to.
//!
//! A file may state the level of its targets; if it does not, the shapes of all graphs decide together: one row per
//! node in every graph is a node target, and so on. So they are collected first and set at the end.

use std::path::Path;

use gt_graph::{GraphStore, Level, MISSING_CLASS, TargetKind, TargetLayout, TargetRows};

use crate::columns;
use crate::error::{DataError, Result};
use gt_graph::TargetSchema;

/// Collected values of `y`.
#[derive(Debug, Default)]
pub(crate) struct TargetStaging {
    /// Per graph: (rows, values), or `None` where `y` is missing as a whole.
    shapes: Vec<Option<(usize, usize)>>,
    /// All values; NaN where missing.
    values: Vec<f64>,
    /// Whether rows are lists themselves.
    nested: bool,
    /// Whether any value was written as a real number.
    real: bool,
}

impl TargetStaging {
    /// `y` of the next graph is missing.
    pub(crate) fn push_missing(&mut self) {
        self.shapes.push(None);
    }

    /// `y` of the next graph: `rows` rows (numbers, or lists of numbers if `nested`).
    pub(crate) fn push(&mut self, values: impl IntoIterator<Item = f64>, rows: usize, nested: bool) {
        let before = self.values.len();
        self.values.extend(values);
        self.shapes.push(Some((rows, self.values.len() - before)));
        self.nested |= nested;
    }

    /// Some value was written as a real number, so all of them are.
    pub(crate) fn mark_real(&mut self) {
        self.real = true;
    }

    /// Decides what the targets belong to and gives them to the graphs. Does nothing if no graph has any.
    pub(crate) fn finish(self, store: &mut GraphStore, declared: Option<&TargetSchema>, path: &Path) -> Result<()> {
        let layout = match declared {
            Some(schema) => schema.layout(),
            None if self.shapes.iter().all(Option::is_none) => return Ok(()),
            None => self.infer(store, path)?,
        };
        let mut floats = Vec::new();
        let mut classes = Vec::new();
        let mut at = 0;
        for (graph, shape) in self.shapes.iter().enumerate() {
            let rows = store.row_range(layout.level, graph).len();
            let expected = rows * layout.columns;
            let count = match shape {
                Some((_, count)) if *count == expected => expected,
                Some((_, count)) => {
                    let per = if layout.level == Level::Graph { "" } else { &format!(" for {rows} {}s", layout.level) };
                    let message = format!("{count} values{per}, expected {expected}");
                    return Err(DataError::value(path, graph, columns::Y, message));
                }
                None => 0,
            };
            let values =
                self.values[at..at + count].iter().copied().chain(std::iter::repeat_n(f64::NAN, expected - count));
            at += count;
            for value in values {
                let converted = match layout.kind {
                    TargetKind::Float => finite(value).map(|v| floats.push(v)),
                    TargetKind::Class => class(value).map(|v| classes.push(v)),
                };
                converted.map_err(|message| DataError::value(path, graph, columns::Y, message))?;
            }
        }
        let rows = match layout.kind {
            TargetKind::Float => TargetRows::Float(&floats),
            TargetKind::Class => TargetRows::Class(&classes),
        };
        store.set_target(layout, rows).map_err(|e| DataError::file(path, e.to_string()))
    }

    fn infer(&self, store: &GraphStore, path: &Path) -> Result<TargetLayout> {
        let kind = if self.real { TargetKind::Float } else { TargetKind::Class };
        let shapes = || self.shapes.iter().enumerate().filter_map(|(graph, shape)| shape.map(|s| (graph, s)));
        let (first, (first_rows, first_count)) = shapes().next().expect("some graph has targets");
        let one_row_each = |level| shapes().all(|(g, (rows, _))| rows == store.row_range(level, g).len());
        let level = if shapes().all(|(_, (rows, _))| rows == 1) {
            Level::Graph
        } else if one_row_each(Level::Node) {
            Level::Node
        } else if one_row_each(Level::Edge) {
            Level::Edge
        } else if !self.nested && shapes().all(|(_, (_, count))| count == first_count) {
            Level::Graph
        } else {
            // Name a graph that contradicts the first one.
            let (graph, (rows, _)) =
                shapes().find(|(_, (rows, _))| *rows != first_rows).unwrap_or((first, (first_rows, first_count)));
            let (n, e) = (store.node_range(graph).len(), store.edge_range(graph).len());
            let message =
                format!("{rows} rows are neither one per graph nor one per node ({n}) or edge ({e}) in every graph");
            return Err(DataError::value(path, graph, columns::Y, message));
        };
        let columns = match level {
            Level::Graph => first_count,
            _ => shapes().find(|(_, (rows, _))| *rows > 0).map_or(1, |(_, (rows, count))| count / rows),
        };
        if columns == 0 {
            return Err(DataError::value(path, first, columns::Y, "there is no value in it"));
        }
        Ok(TargetLayout { level, kind, columns })
    }
}

/// A float target: NaN is a missing label, infinity an error.
fn finite(value: f64) -> Result<f32, String> {
    let single = value as f32;
    if single.is_infinite() { Err(format!("{value} is not a finite 32-bit number")) } else { Ok(single) }
}

/// A class: NaN and -1 are missing labels.
fn class(value: f64) -> Result<u32, String> {
    if value.is_nan() || value == -1.0 {
        Ok(MISSING_CLASS)
    } else if value.fract() != 0.0 || value < 0.0 || value >= f64::from(MISSING_CLASS) {
        Err(format!(
            "{value} is not a class (0, 1, 2, … or -1 for a missing label; write numbers with a decimal point)"
        ))
    } else {
        Ok(value as u32)
    }
}
