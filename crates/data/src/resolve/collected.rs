//! Targets that no schema states: collected from all graphs, then judged together.

use std::ops::Range;

use gt_graph::{GraphStore, Level, TargetColumn, TargetKind, TargetSchema};

use super::lookup::{Lookup, sort_names};
use super::targets::{FoundTargets, Labelled, class_by_name};
use crate::budget::MOST_COLUMNS;
use crate::choice::{ColumnChoice, Task};
use crate::columns as c;
use crate::error::FileProblem;
use crate::raw::{CellKind, FIRST_INEXACT, RawColumn, RawTargets, WideIntegers};
use crate::reason::{Number, Problem, Reason};

/// Real numbers are classes only if there are at most so many.
const MOST_CLASSES: usize = 20;
/// Real numbers are classes only if each has at least so many rows on average.
const LEAST_ROWS: usize = 5;

/// The shape of a graph's targets.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    rows: usize,
    /// Values of all columns.
    values: usize,
}

/// Targets of all graphs while their level and kind are unknown.
#[derive(Default)]
pub(super) struct Collected {
    /// The level, if the file states it.
    level: Option<Level>,
    columns: Vec<Column>,
    /// Shape of each graph's targets, or `None` if the graph has none.
    shapes: Vec<Option<Shape>>,
    /// Whether the rows are lists.
    nested: bool,
}

/// A column of the file, which has one or several targets per row.
#[derive(Default)]
struct Column {
    name: String,
    /// Whether any value was written as a real number.
    real: bool,
    /// The names of the classes, if any value is a text. Values are then numbers of names.
    names: Option<Lookup>,
    values: Vec<f64>,
    /// Whole numbers among the values that are not exact as real numbers.
    wide: WideIntegers,
    /// End of each graph's values.
    ends: Vec<usize>,
}

impl Column {
    /// Appends values of a graph. An error names the position.
    fn push(&mut self, raw: &RawColumn, range: Range<usize>) -> Result<(), (usize, Problem)> {
        let start = range.start;
        for at in range {
            let value = match &mut self.names {
                Some(names) => class_by_name(names, raw, at),
                None => match raw.number(at) {
                    Err(Problem::Null) => Ok(f64::NAN),
                    Err(Problem::NotANumber(text)) => Err(Problem::TextAmongNumbers(text)),
                    number => number,
                },
            };
            let value = value.map_err(|problem| (at - start, problem))?;
            if value.abs() >= FIRST_INEXACT as f64
                && let Some(digits) = raw.exact(at).digits()
            {
                self.wide.push(self.values.len(), digits);
            }
            self.values.push(value);
        }
        Ok(())
    }

    /// Names the classes, which were numbers so far.
    fn name_classes(&mut self) {
        let mut names = Lookup::open();
        for (at, value) in self.values.iter_mut().enumerate().filter(|(_, value)| !value.is_nan()) {
            let name = match self.wide.get(at) {
                Some(digits) => digits.to_string(),
                None => format!("{value}"),
            };
            *value = match *value {
                // -1 is a missing label.
                -1.0 => f64::NAN,
                _ => f64::from(names.number_of(&name).expect("the names are open")),
            };
        }
        self.names = Some(names);
    }

    /// The problem of a value with the digits of the file.
    fn exactly(&self, graph: usize, at: usize, problem: Problem) -> Problem {
        let first = if graph == 0 { 0 } else { self.ends[graph - 1] };
        match (problem, self.wide.get(first + at)) {
            (Problem::NotAClass(_), Some(digits)) => Problem::NotAClass(Number::whole(digits)),
            (problem, _) => problem,
        }
    }

    fn of_graph(&self, graph: usize) -> &[f64] {
        let start = if graph == 0 { 0 } else { self.ends[graph - 1] };
        &self.values[start..self.ends[graph]]
    }
}

/// One target: a column of the file, and a position in its rows.
struct Target {
    name: String,
    column: usize,
    at: usize,
    width: usize,
}

impl Collected {
    /// Collects the values of a graph; missing values are NaN.
    pub(super) fn push(&mut self, raw: &RawTargets, graph: usize) -> Result<(), Reason> {
        match raw {
            RawTargets::Nothing => {}
            RawTargets::Native(columns) => {
                self.begin(columns.iter().map(|column| (column, column.any_text() && !column.any_real())));
                if columns.iter().any(|column| column.is_present(graph)) {
                    let shape = self.push_native(columns, graph)?;
                    self.shapes.push(Some(shape));
                    return Ok(());
                }
            }
            RawTargets::Named { level, columns } => {
                self.level = Some(*level);
                self.begin(columns.iter().map(|column| (&column.values, column.kind == CellKind::Text)));
                for (own, column) in self.columns.iter_mut().zip(columns) {
                    own.real |= column.kind == CellKind::Real;
                    let rows = column.values.rows(graph);
                    own.push(&column.values, rows)
                        .map_err(|(row, problem)| Reason::cell(*level, row, &column.values.name, problem))?;
                    own.ends.push(own.values.len());
                }
                let rows = columns.first().map_or(0, |column| column.values.rows(graph).len());
                self.shapes.push(Some(Shape { rows, values: rows * columns.len() }));
                return Ok(());
            }
        }
        self.columns.iter_mut().for_each(|column| column.ends.push(column.values.len()));
        self.shapes.push(None);
        Ok(())
    }

    /// Makes room for the columns. Each comes with whether it holds names.
    fn begin<'a>(&mut self, columns: impl Iterator<Item = (&'a RawColumn, bool)>) {
        for (at, (raw, text)) in columns.enumerate() {
            if self.columns.len() == at {
                let ends = vec![0; self.shapes.len()];
                self.columns.push(Column { name: raw.name.clone(), ends, ..Column::default() });
            }
            let column = &mut self.columns[at];
            if text && column.names.is_none() && !column.real {
                column.name_classes();
            }
        }
    }

    fn push_native(&mut self, columns: &[RawColumn], graph: usize) -> Result<Shape, Reason> {
        let present = columns.iter().find(|column| column.is_present(graph)).expect("the graph has targets");
        let rows = present.rows(graph).len();
        let mut values = 0;
        for (own, column) in self.columns.iter_mut().zip(columns) {
            if !column.is_present(graph) {
                return Err(Reason::column(&column.name, Problem::Missing));
            }
            let width = column.width(graph).unwrap_or(0);
            // The level of the rows is not known yet.
            let range = column.block(Level::Graph, graph, rows, width)?;
            own.real |= column.any_real();
            values += range.len();
            own.push(column, range).map_err(|(_, problem)| Reason::cell(Level::Graph, 0, &column.name, problem))?;
            own.ends.push(own.values.len());
            self.nested |= column.depth(graph) == 2;
        }
        Ok(Shape { rows, values })
    }

    /// Decides the level and the kind of the targets and assigns them to the graphs.
    pub(super) fn finish(
        self,
        choice: &ColumnChoice,
        store: &mut GraphStore,
    ) -> Result<Result<FoundTargets, (usize, Reason)>, FileProblem> {
        if self.shapes.iter().all(Option::is_none) {
            return Ok(Ok(FoundTargets::default()));
        }
        let level = match self.level.map_or_else(|| self.infer_level(store), Ok) {
            Ok(level) => level,
            Err(reason) => return Ok(Err(reason)),
        };
        let targets = match self.targets(level) {
            Ok(targets) => targets,
            Err(reason) => return Ok(Err(reason)),
        };
        if targets.len() > MOST_COLUMNS {
            return Err(FileProblem::TooManyColumns);
        }
        let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
        let chosen: Vec<&Target> = match choice.targets.is_empty() {
            true => targets.iter().filter(|target| !choice.ignore.contains(&target.name)).collect(),
            false => {
                let find = |name: &String| targets.iter().find(|target| target.name == *name);
                choice.targets.iter().filter_map(find).collect()
            }
        };
        if chosen.is_empty() {
            return Ok(Ok(FoundTargets { names, ..FoundTargets::default() }));
        }
        let kind = self.kind(&chosen, choice)?;
        let from_numbers =
            |target: &&Target| self.columns[target.column].real && choice.target_kind(&target.name).is_none();
        let classes_from_numbers = kind == TargetKind::Class && chosen.iter().any(from_numbers);
        let schema = self.assign(level, kind, &targets, &chosen, store);
        Ok(schema.map(|schema| FoundTargets { schema: Some(schema), names, classes_from_numbers }))
    }

    fn infer_level(&self, store: &GraphStore) -> Result<Level, (usize, Reason)> {
        let shapes = || self.shapes.iter().enumerate().filter_map(|(graph, shape)| shape.map(|s| (graph, s)));
        let (first, first_shape) = shapes().next().expect("some graph has targets");
        let one_row_each = |level| shapes().all(|(graph, shape)| shape.rows == store.row_range(level, graph).len());
        if shapes().all(|(_, shape)| shape.rows == 1) {
            Ok(Level::Graph)
        } else if one_row_each(Level::Node) {
            Ok(Level::Node)
        } else if one_row_each(Level::Edge) {
            Ok(Level::Edge)
        } else if !self.nested && shapes().all(|(_, shape)| shape.values == first_shape.values) {
            Ok(Level::Graph)
        } else {
            // The error names a graph that contradicts the first one.
            let other = shapes().find(|(_, shape)| shape.rows != first_shape.rows);
            let (graph, Shape { rows, .. }) = other.unwrap_or((first, first_shape));
            let (nodes, edges) = (store.node_range(graph).len(), store.edge_range(graph).len());
            let name = self.columns.first().map_or(c::Y, |column| &column.name);
            Err((graph, Reason::column(name, Problem::NoTargetLevel { rows, nodes, edges })))
        }
    }

    /// The targets of the file, by the first graph with rows.
    fn targets(&self, level: Level) -> Result<Vec<Target>, (usize, Reason)> {
        let with_rows = |shape: &Option<Shape>| shape.is_some_and(|shape| shape.rows > 0 || level == Level::Graph);
        let graph = self.shapes.iter().position(with_rows);
        let rows = match graph.and_then(|graph| self.shapes[graph]) {
            _ if level == Level::Graph => 1,
            shape => shape.map_or(1, |shape| shape.rows),
        };
        let mut targets = Vec::new();
        for (column, raw) in self.columns.iter().enumerate() {
            let width = graph.map_or(1, |graph| raw.of_graph(graph).len() / rows.max(1));
            let name = |at: usize| if width == 1 { raw.name.clone() } else { format!("{}{at}", raw.name) };
            targets.extend((0..width).map(|at| Target { name: name(at), column, at, width }));
        }
        if targets.is_empty() {
            let name = self.columns.first().map_or(c::Y, |column| &column.name);
            return Err((graph.unwrap_or(0), Reason::column(name, Problem::NoTarget)));
        }
        Ok(targets)
    }

    /// The values of a target, if every graph has whole rows of its column.
    fn values<'a>(&'a self, target: &Target) -> impl Iterator<Item = f64> + 'a {
        let values = &self.columns[target.column].values;
        values.iter().skip(target.at).step_by(target.width.max(1)).copied().filter(|value| !value.is_nan())
    }

    /// The kind of the targets, which is one for all.
    fn kind(&self, targets: &[&Target], choice: &ColumnChoice) -> Result<TargetKind, FileProblem> {
        let real = |target: &Target| self.columns[target.column].real;
        let text = |target: &&&Target| self.columns[target.column].names.is_some();
        let stated = |target: &Target| choice.target_kind(&target.name);
        let written_as_classes = || match targets {
            [one] => are_classes(self.values(one)),
            several => are_labels(several.iter().map(|target| self.values(target))),
        };
        let undecided: Vec<&&Target> =
            targets.iter().filter(|target| stated(target).is_none() && real(target)).collect();
        let classes = undecided.is_empty() || written_as_classes();
        let is_float = |target: &&&Target| match stated(target) {
            Some(kind) => kind == TargetKind::Float,
            None => real(target) && !classes,
        };
        let Some(number) = targets.iter().find(is_float) else { return Ok(TargetKind::Class) };
        match targets.iter().find(text) {
            Some(named) if named.name == number.name => Err(FileProblem::TextTarget(named.name.clone())),
            Some(named) if choice.task == Task::Regression => Err(FileProblem::TextTarget(named.name.clone())),
            Some(named) => Err(FileProblem::MixedTargets { classes: named.name.clone(), numbers: number.name.clone() }),
            None => Ok(TargetKind::Float),
        }
    }

    fn assign(
        &self,
        level: Level,
        kind: TargetKind,
        all: &[Target],
        chosen: &[&Target],
        store: &mut GraphStore,
    ) -> Result<TargetSchema, (usize, Reason)> {
        let names: Vec<(Vec<String>, Vec<u32>)> = chosen.iter().map(|target| self.names_of(target)).collect();
        let column = |(target, (names, _)): (&&Target, &(Vec<String>, Vec<u32>))| TargetColumn {
            names: names.clone(),
            ..TargetColumn::new(&target.name, 0)
        };
        let columns = chosen.iter().zip(&names).map(column).collect();
        let schema = TargetSchema { level, kind, columns };
        let mut labels = Labelled::default();
        for (graph, shape) in self.shapes.iter().enumerate() {
            let rows = store.row_range(level, graph).len();
            let Some(shape) = shape else {
                labels.push_missing(kind, rows * chosen.len());
                continue;
            };
            if shape.values != rows * all.len() || chosen.iter().any(|t| !self.has_rows(t, graph, rows)) {
                let name = if all.len() == 1 { &all[0].name } else { c::Y };
                let problem = Problem::TargetCount { level, found: shape.values, rows, columns: all.len() };
                return Err((graph, Reason::column(name, problem)));
            }
            for row in 0..rows {
                for (target, (_, places)) in chosen.iter().zip(&names) {
                    let value = self.columns[target.column].of_graph(graph)[row * target.width + target.at];
                    let value =
                        if places.is_empty() || value.is_nan() { value } else { f64::from(places[value as usize]) };
                    labels.push(kind, value, 0).map_err(|problem| {
                        let problem =
                            self.columns[target.column].exactly(graph, row * target.width + target.at, problem);
                        (graph, Reason::cell(level, row, &target.name, problem))
                    })?;
                }
            }
        }
        store.set_target(schema.layout(), labels.rows(kind)).map_err(|error| (0, Reason::Graph(error)))?;
        Ok(schema)
    }

    fn has_rows(&self, target: &Target, graph: usize, rows: usize) -> bool {
        self.columns[target.column].of_graph(graph).len() == rows * target.width
    }

    /// The names that occur in a target, in order, and the number of each name of its column among
    /// them.
    fn names_of(&self, target: &Target) -> (Vec<String>, Vec<u32>) {
        let Some(lookup) = &self.columns[target.column].names else { return (Vec::new(), Vec::new()) };
        let known = lookup.names();
        let mut occurs = vec![false; known.len()];
        self.values(target).for_each(|value| occurs[value as usize] = true);
        let own: Vec<usize> = (0..known.len()).filter(|&at| occurs[at]).collect();
        let (names, order) = sort_names(&own.iter().map(|&at| known[at].clone()).collect::<Vec<_>>());
        let mut places = vec![0; known.len()];
        own.iter().zip(order).for_each(|(&at, place)| places[at] = place);
        (names, places)
    }
}

/// Whether real numbers are the classes 0.0, 1.0, …: all of them occur, and often enough.
fn are_classes(values: impl Iterator<Item = f64>) -> bool {
    let mut rows = [0usize; MOST_CLASSES];
    let mut all = 0;
    for value in values {
        if value.fract() != 0.0 || !(0.0..MOST_CLASSES as f64).contains(&value) {
            return false;
        }
        rows[value as usize] += 1;
        all += 1;
    }
    let classes = rows.iter().take_while(|rows| **rows > 0).count();
    classes >= 2 && rows[classes..].iter().all(|rows| *rows == 0) && all >= LEAST_ROWS * classes
}

/// Whether several columns of real numbers are labels: every value is 0.0 or 1.0, and some column
/// has both, often enough.
fn are_labels<I: Iterator<Item = f64>>(mut columns: impl Iterator<Item = I>) -> bool {
    let mut both = false;
    let labels = columns.all(|values| {
        let mut rows = [0usize; 2];
        for value in values {
            match value {
                0.0 => rows[0] += 1,
                1.0 => rows[1] += 1,
                _ => return false,
            }
        }
        both |= rows[0] > 0 && rows[1] > 0 && rows[0] + rows[1] >= 2 * LEAST_ROWS;
        true
    });
    labels && both
}
