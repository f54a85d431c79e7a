//! Targets: numbers or classes of graphs, nodes or edges.
//!
//! A file may state the level of its targets. Otherwise the shapes of all graphs decide: for
//! example, one row per node in every graph makes node targets. Such targets are collected first
//! and assigned to the graphs at the end.

use gt_graph::{GraphStore, Level, MISSING_CLASS, TargetColumn, TargetKind, TargetLayout, TargetRows, TargetSchema};

use crate::columns as c;
use crate::error::FileProblem;
use crate::raw::{CellKind, NamedColumn, RawColumn, RawTargets};
use crate::reason::{Number, Problem, Reason};

/// Checks targets.
pub(super) struct Targets {
    read: bool,
    /// The targets that a schema or the table of their level states.
    declared: Option<TargetSchema>,
    /// Position of each target among the targets of the file.
    order: Vec<usize>,
    /// Values of one graph; missing values are NaN.
    values: Vec<f64>,
    labels: Labelled,
    collected: Collected,
}

/// Values of several rows, of the kind of the targets.
#[derive(Default)]
struct Labelled {
    floats: Vec<f32>,
    classes: Vec<u32>,
}

impl Labelled {
    fn rows(&self, kind: TargetKind) -> TargetRows<'_> {
        match kind {
            TargetKind::Float => TargetRows::Float(&self.floats),
            TargetKind::Class => TargetRows::Class(&self.classes),
        }
    }
}

/// The shape of a graph's targets.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    rows: usize,
    values: usize,
}

/// Targets of all graphs while their level is unknown.
#[derive(Default)]
struct Collected {
    /// Shape of each graph's targets, or `None` if the graph has none, with its numbers of nodes
    /// and edges.
    shapes: Vec<Option<Shape>>,
    values: Vec<f64>,
    /// Whether the rows are lists.
    nested: bool,
    /// Whether any value was written as a real number.
    real: bool,
}

impl Targets {
    pub(super) fn new(read: bool) -> Self {
        Self {
            read,
            declared: None,
            order: Vec::new(),
            values: Vec::new(),
            labels: Labelled::default(),
            collected: Collected::default(),
        }
    }

    /// Sets the expected targets. `stored` holds the target names that the file states.
    pub(super) fn begin(
        &mut self,
        raw: &RawTargets,
        expected: Option<&TargetSchema>,
        stored: Option<&TargetSchema>,
    ) -> Result<(), FileProblem> {
        if !self.read {
            return Ok(());
        }
        self.declared = match (raw, expected) {
            (RawTargets::Named { level, columns }, None) => Some(infer_named(*level, columns)),
            (_, expected) => expected.cloned(),
        };
        let Some(declared) = &self.declared else { return Ok(()) };
        let found: Vec<&str> = match (raw, stored) {
            (RawTargets::Named { columns, .. }, _) => columns.iter().map(|column| &*column.values.name).collect(),
            (_, Some(stored)) => {
                let (found, expected) = (stored.layout(), declared.layout());
                if (found.level, found.columns) != (expected.level, expected.columns) {
                    return Err(FileProblem::OtherTargets { found, expected });
                }
                stored.columns.iter().map(|column| &*column.name).collect()
            }
            _ => Vec::new(),
        };
        // Equal names match by name, otherwise targets match by position.
        let place = |column: &TargetColumn| found.iter().position(|name| *name == column.name);
        let by_name: Option<Vec<usize>> = declared.columns.iter().map(place).collect();
        self.order = by_name.unwrap_or_else(|| (0..declared.columns.len()).collect());
        Ok(())
    }

    /// Columns of the targets, if they are known before the first graph.
    pub(super) fn layout(&self) -> Option<TargetLayout> {
        self.declared.as_ref().map(TargetSchema::layout)
    }

    /// Reads and checks the targets of a graph. `rows` holds its sizes by level.
    pub(super) fn judge(&mut self, raw: &RawTargets, graph: usize, rows: [usize; 3]) -> Result<(), Reason> {
        if !self.read {
            return Ok(());
        }
        let shape = self.gather(raw, graph)?;
        match &self.declared {
            None => {
                self.collected.shapes.push(shape);
                self.collected.values.append(&mut self.values);
                if let RawTargets::Native(column) = raw {
                    self.collected.nested |= shape.is_some() && column.depth(graph) == 2;
                    self.collected.real |= column.any_real();
                }
                Ok(())
            }
            Some(declared) => {
                self.labels.floats.clear();
                self.labels.classes.clear();
                let rows = rows[declared.level as usize];
                append(declared, &self.order, rows, shape.map(|_| &*self.values), &mut self.labels)
            }
        }
    }

    /// Collects the values of a graph; missing values are NaN.
    fn gather(&mut self, raw: &RawTargets, graph: usize) -> Result<Option<Shape>, Reason> {
        self.values.clear();
        let values = &mut self.values;
        let number = |column: &RawColumn, level: Level, row: usize, at: usize| match column.number(at) {
            Err(Problem::Null) => Ok(f64::NAN),
            number => number.map_err(|problem| Reason::cell(level, row, &column.name, problem)),
        };
        let rows = match raw {
            RawTargets::Nothing => return Ok(None),
            RawTargets::Native(column) => {
                if !column.is_present(graph) {
                    return Ok(None);
                }
                let (rows, width) = (column.rows(graph), column.width(graph).unwrap_or(0));
                // The level of the rows is not known yet.
                let range = column.block(Level::Graph, graph, rows.len(), width)?;
                for at in range {
                    values.push(number(column, Level::Graph, 0, at)?);
                }
                rows.len()
            }
            RawTargets::Named { level, columns } => {
                let rows = columns.first().map_or(0..0, |column| column.values.rows(graph));
                for (row, at) in rows.clone().enumerate() {
                    for column in columns {
                        values.push(number(&column.values, *level, row, at)?);
                    }
                }
                rows.len()
            }
        };
        Ok(Some(Shape { rows, values: values.len() }))
    }

    /// The targets of the last call, if they are stored together with their graph.
    pub(super) fn rows(&self) -> Option<TargetRows<'_>> {
        self.declared.as_ref().map(|declared| self.labels.rows(declared.kind))
    }

    /// Decides the level of the collected targets and assigns them to the graphs.
    pub(super) fn finish(self, store: &mut GraphStore) -> Result<Option<TargetSchema>, (usize, Reason)> {
        if self.declared.is_some() || !self.read {
            return Ok(self.declared);
        }
        let Collected { shapes, values, .. } = &self.collected;
        if shapes.iter().all(Option::is_none) {
            return Ok(None);
        }
        let layout = self.collected.infer(store)?;
        let schema = TargetSchema::unnamed(layout);
        let order: Vec<usize> = (0..layout.columns).collect();
        let mut labels = Labelled::default();
        let mut at = 0;
        for (graph, shape) in shapes.iter().enumerate() {
            let rows = store.row_range(layout.level, graph).len();
            let count = shape.map_or(0, |shape| shape.values);
            append(&schema, &order, rows, shape.map(|_| &values[at..at + count]), &mut labels)
                .map_err(|reason| (graph, reason))?;
            at += count;
        }
        let rows = labels.rows(layout.kind);
        store.set_target(layout, rows).map_err(|error| (0, Reason::Graph(error)))?;
        Ok(Some(schema))
    }
}

/// Infers the targets of a table. A real number in any column makes all targets numbers.
fn infer_named(level: Level, columns: &[NamedColumn]) -> TargetSchema {
    let real = columns.iter().any(|column| column.kind == CellKind::Real);
    let kind = if real { TargetKind::Float } else { TargetKind::Class };
    let column = |column: &NamedColumn| TargetColumn { name: column.values.name.clone(), classes: 0 };
    TargetSchema { level, kind, columns: columns.iter().map(column).collect() }
}

/// Appends the labels of a graph. Without values, all labels are missing.
fn append(
    schema: &TargetSchema,
    order: &[usize],
    rows: usize,
    values: Option<&[f64]>,
    out: &mut Labelled,
) -> Result<(), Reason> {
    let columns = schema.columns.len();
    let Some(values) = values else {
        match schema.kind {
            TargetKind::Float => out.floats.extend(std::iter::repeat_n(f32::NAN, rows * columns)),
            TargetKind::Class => out.classes.extend(std::iter::repeat_n(MISSING_CLASS, rows * columns)),
        }
        return Ok(());
    };
    if values.len() != rows * columns {
        let name = if columns == 1 { &schema.columns[0].name } else { c::Y };
        let (level, found) = (schema.level, values.len());
        return Err(Reason::column(name, Problem::TargetCount { level, found, rows, columns }));
    }
    for row in 0..rows {
        for (column, &at) in schema.columns.iter().zip(order) {
            let value = values[row * columns + at];
            let label = match schema.kind {
                TargetKind::Float => finite(value).map(|value| out.floats.push(value)),
                TargetKind::Class => class(value, column.classes).map(|class| out.classes.push(class)),
            };
            label.map_err(|problem| Reason::cell(schema.level, row, &column.name, problem))?;
        }
    }
    Ok(())
}

/// Converts to a finite number. NaN is a missing label; infinity is an error.
fn finite(value: f64) -> Result<f32, Problem> {
    let single = value as f32;
    if single.is_infinite() { Err(Problem::NotFinite(Number(value))) } else { Ok(single) }
}

/// Converts to a class below `classes`; 0 means any class. NaN and -1 are missing labels.
fn class(value: f64, classes: usize) -> Result<u32, Problem> {
    if value.is_nan() || value == -1.0 {
        Ok(MISSING_CLASS)
    } else if value.fract() != 0.0 || value < 0.0 || value >= f64::from(MISSING_CLASS) {
        Err(Problem::NotAClass(Number(value)))
    } else if classes > 0 && value as usize >= classes {
        Err(Problem::BeyondVocabulary { value: value as usize, size: classes })
    } else {
        Ok(value as u32)
    }
}

impl Collected {
    fn infer(&self, store: &GraphStore) -> Result<TargetLayout, (usize, Reason)> {
        let kind = if self.real { TargetKind::Float } else { TargetKind::Class };
        let shapes = || self.shapes.iter().enumerate().filter_map(|(graph, shape)| shape.map(|s| (graph, s)));
        let wrong = |graph, problem| (graph, Reason::column(c::Y, problem));
        let (first, first_shape) = shapes().next().expect("some graph has targets");
        let one_row_each = |level| shapes().all(|(graph, shape)| shape.rows == store.row_range(level, graph).len());
        let level = if shapes().all(|(_, shape)| shape.rows == 1) {
            Level::Graph
        } else if one_row_each(Level::Node) {
            Level::Node
        } else if one_row_each(Level::Edge) {
            Level::Edge
        } else if !self.nested && shapes().all(|(_, shape)| shape.values == first_shape.values) {
            Level::Graph
        } else {
            // The error names a graph that contradicts the first one.
            let other = shapes().find(|(_, shape)| shape.rows != first_shape.rows);
            let (graph, Shape { rows, .. }) = other.unwrap_or((first, first_shape));
            let (nodes, edges) = (store.node_range(graph).len(), store.edge_range(graph).len());
            return Err(wrong(graph, Problem::NoTargetLevel { rows, nodes, edges }));
        };
        let columns = match level {
            Level::Graph => first_shape.values,
            _ => shapes().find(|(_, shape)| shape.rows > 0).map_or(1, |(_, shape)| shape.values / shape.rows),
        };
        if columns == 0 {
            return Err(wrong(first, Problem::NoTarget));
        }
        Ok(TargetLayout { level, kind, columns })
    }
}
