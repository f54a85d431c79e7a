//! Graphs as a file states them: raw columns before any check.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{Array, StringArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use gt_graph::Level;

use crate::carried::Carried;
use crate::reason::{Number, Problem, Reason};

/// Consecutive graphs of a file, in one form for all formats.
pub(crate) struct RawGraphs {
    /// Number of graphs.
    pub(crate) count: usize,
    /// Names of the columns that hold features of nodes, and of edges, next to all others of the
    /// file or the table, for messages.
    pub(crate) names: [Arc<[String]>; 2],
    /// Graphs that could not be decoded.
    pub(crate) broken: BTreeMap<usize, Reason>,
    pub(crate) num_nodes: RawColumn,
    /// Two lists per graph: sources and targets.
    pub(crate) edge_index: RawColumn,
    pub(crate) node: RawFeatures,
    pub(crate) edge: RawFeatures,
    pub(crate) targets: RawTargets,
    /// Splits of graphs, nodes and edges.
    pub(crate) splits: [RawTexts; 3],
    /// Laplacian and random-walk coordinates, and Weisfeiler–Lehman roles.
    pub(crate) encodings: [RawColumn; 3],
    /// Columns that no model reads.
    pub(crate) carried: Vec<Carried>,
    /// Table rows of the graphs, if the file is a set of tables.
    pub(crate) origin: Option<Arc<TableRows>>,
}

/// Features on nodes, or on edges.
pub(crate) enum RawFeatures {
    /// The three native columns: categorical numbers, continuous numbers, lists of indices.
    Native(Box<[RawColumn; 3]>),
    /// Columns with their own names, one value per row.
    Named(Vec<NamedColumn>),
}

impl RawFeatures {
    pub(crate) fn column(&self, at: usize) -> &RawColumn {
        match self {
            Self::Native(columns) => &columns[at],
            Self::Named(columns) => &columns[at].values,
        }
    }
}

impl RawFeatures {
    /// Whether a position in the rows of a column holds names.
    pub(crate) fn is_text(&self, column: usize, at: usize) -> bool {
        match self {
            Self::Native(columns) => columns[column].is_text(at),
            Self::Named(columns) => columns[column].kind == CellKind::Text,
        }
    }
}

/// A column of a table.
pub(crate) struct NamedColumn {
    pub(crate) values: RawColumn,
    /// Kind of the cells: inferred from the values, or stated by the user.
    pub(crate) kind: CellKind,
}

/// Kinds of cells in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    Integer,
    Real,
    List,
    Text,
}

/// Targets of the graphs.
pub(crate) enum RawTargets {
    /// The column `y`, or columns with their own names; their shapes decide the level.
    Native(Vec<RawColumn>),
    /// Columns in the table of a level.
    Named { level: Level, columns: Vec<NamedColumn> },
    /// No targets, or targets that are not read.
    Nothing,
}

/// Numbers of each graph: a single number, a list, or a list of lists.
///
/// Each inner list of a graph is a row. Without inner lists, each number is a row.
pub(crate) struct RawColumn {
    /// Name of the column, for messages.
    pub(crate) name: String,
    pub(crate) extent: Extent,
    /// Rows of each graph.
    pub(crate) graphs: Bounds,
    /// Values of each row.
    pub(crate) rows: Bounds,
    pub(crate) values: Values,
    /// Missing values.
    pub(crate) nulls: Option<NullBuffer>,
    /// Graphs that have a value in this column.
    pub(crate) present: Option<NullBuffer>,
    pub(crate) depth: Depth,
}

/// Graphs of the file that have a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The file does not have the column.
    Nowhere,
    /// The file has the column for all graphs. Single values may be missing.
    WholeFile,
    /// Each graph either has the column or lacks it.
    PerGraph,
}

/// Number of lists around a number.
pub(crate) enum Depth {
    Same(u8),
    PerGraph(Vec<u8>),
}

/// Bounds of the items of each list.
#[derive(Clone, Debug)]
pub(crate) enum Bounds {
    /// Each list is one item.
    Single,
    Arrow(OffsetBuffer<i32>),
    Owned(Vec<usize>),
}

impl Bounds {
    #[inline]
    pub(crate) fn range(&self, at: usize) -> Range<usize> {
        match self {
            Self::Single => at..at + 1,
            Self::Arrow(offsets) => offsets[at] as usize..offsets[at + 1] as usize,
            Self::Owned(offsets) => offsets[at]..offsets[at + 1],
        }
    }

    /// The first list in a range that does not have `width` items.
    fn first_odd(&self, mut lists: Range<usize>, width: usize) -> Option<usize> {
        let odd = match self {
            Self::Single => return lists.next().filter(|_| width != 1),
            Self::Arrow(ends) => {
                ends[lists.start..=lists.end].windows(2).position(|ends| (ends[1] - ends[0]) as usize != width)
            }
            Self::Owned(ends) => ends[lists.start..=lists.end].windows(2).position(|ends| ends[1] - ends[0] != width),
        };
        odd.map(|odd| lists.start + odd)
    }
}

/// The numbers of a column.
pub(crate) enum Values {
    Integers(ScalarBuffer<i64>),
    Reals(ScalarBuffer<f32>),
    Doubles(ScalarBuffer<f64>),
    /// Values of JSON; null and texts are NaN. `real` marks the positions in a row with a number
    /// that was written as a real number.
    Written {
        numbers: Vec<f64>,
        real: Vec<bool>,
        words: Words,
        wide: WideIntegers,
    },
    /// Cells of which at least one is not a number.
    Texts(StringArray),
}

/// A value as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Written<'a> {
    Text(&'a str),
    Number(Number),
}

/// From 2^53 on, a real number may stand for several whole numbers.
pub(crate) const FIRST_INEXACT: u64 = 1 << 53;

/// Whole numbers among the values of JSON that are not exact as real numbers, with the numbers of
/// their values.
#[derive(Debug, Default)]
pub(crate) struct WideIntegers(Vec<(usize, i128)>);

impl WideIntegers {
    /// Notes value number `at`.
    pub(crate) fn push(&mut self, at: usize, value: i128) {
        self.0.push((at, value));
    }

    /// Forgets all values from number `values` on.
    pub(crate) fn truncate(&mut self, values: usize) {
        self.0.truncate(self.0.partition_point(|(at, _)| *at < values));
    }

    /// Appends those of further values, of which `before` come first.
    pub(crate) fn append(&mut self, before: usize, other: Self) {
        self.0.extend(other.0.into_iter().map(|(at, value)| (before + at, value)));
    }

    pub(crate) fn get(&self, at: usize) -> Option<i128> {
        self.0.binary_search_by_key(&at, |(at, _)| *at).ok().map(|found| self.0[found].1)
    }
}

/// Texts among the values of JSON.
#[derive(Debug, Default)]
pub(crate) struct Words {
    known: HashMap<String, u32>,
    /// The different texts.
    texts: Vec<String>,
    /// For each value the number of its text, or `NUMBER`. Values after the last text are left out.
    codes: Vec<u32>,
    /// Positions in a row with a text.
    positions: Vec<bool>,
}

impl Words {
    const NUMBER: u32 = u32::MAX;

    /// Notes the text of value number `at`, which is at a position of its row.
    pub(crate) fn push(&mut self, at: usize, position: usize, text: &str) {
        let code = self.code(text);
        self.codes.resize(at, Self::NUMBER);
        self.codes.push(code);
        self.positions.resize(self.positions.len().max(position + 1), false);
        self.positions[position] = true;
    }

    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.known.get(text) {
            return *code;
        }
        let code = self.texts.len() as u32;
        self.known.insert(text.to_owned(), code);
        self.texts.push(text.to_owned());
        code
    }

    /// Forgets the texts of all values from number `values` on.
    pub(crate) fn truncate(&mut self, values: usize) {
        self.codes.truncate(values);
    }

    /// Appends the texts of further values, of which `before` come first.
    pub(crate) fn append(&mut self, before: usize, other: Self) {
        if other.codes.is_empty() {
            return;
        }
        let codes: Vec<u32> = other.texts.iter().map(|text| self.code(text)).collect();
        self.codes.resize(before, Self::NUMBER);
        self.codes.extend(other.codes.iter().map(|&code| codes.get(code as usize).copied().unwrap_or(Self::NUMBER)));
        self.positions.resize(self.positions.len().max(other.positions.len()), false);
        self.positions.iter_mut().zip(other.positions).for_each(|(own, text)| *own |= text);
    }

    fn text(&self, at: usize) -> Option<&str> {
        self.codes.get(at).and_then(|code| self.texts.get(*code as usize)).map(String::as_str)
    }
}

impl RawColumn {
    /// A column that the file does not have.
    pub(crate) fn missing(name: &str) -> Self {
        Self {
            name: name.into(),
            extent: Extent::Nowhere,
            graphs: Bounds::Single,
            rows: Bounds::Single,
            values: Values::Integers(ScalarBuffer::default()),
            nulls: None,
            present: None,
            depth: Depth::Same(0),
        }
    }

    pub(crate) fn is_present(&self, graph: usize) -> bool {
        self.extent != Extent::Nowhere && self.present.as_ref().is_none_or(|present| present.is_valid(graph))
    }

    /// Rows of a graph; empty if the graph has no value in this column.
    pub(crate) fn rows(&self, graph: usize) -> Range<usize> {
        if self.is_present(graph) { self.graphs.range(graph) } else { 0..0 }
    }

    /// Number of lists around the numbers of a graph.
    pub(crate) fn depth(&self, graph: usize) -> u8 {
        match &self.depth {
            Depth::Same(depth) => *depth,
            Depth::PerGraph(depths) => depths[graph],
        }
    }

    /// Number of values in the first row of a graph, if there is one.
    pub(crate) fn width(&self, graph: usize) -> Option<usize> {
        self.rows(graph).next().map(|row| self.rows.range(row).len())
    }

    /// Whether a number at this position of the rows was written as a real number.
    pub(crate) fn is_real(&self, at: usize) -> bool {
        match &self.values {
            Values::Integers(_) | Values::Texts(_) => false,
            Values::Reals(_) | Values::Doubles(_) => true,
            Values::Written { real, .. } => real.get(at) == Some(&true),
        }
    }

    /// Whether a value at this position of the rows is a text.
    pub(crate) fn is_text(&self, at: usize) -> bool {
        match &self.values {
            Values::Texts(_) => true,
            Values::Written { words, .. } => words.positions.get(at) == Some(&true),
            _ => false,
        }
    }

    /// Whether any value is a text.
    pub(crate) fn any_text(&self) -> bool {
        match &self.values {
            Values::Written { words, .. } => words.positions.contains(&true),
            _ => self.is_text(0),
        }
    }

    /// Whether any number was written as a real number.
    pub(crate) fn any_real(&self) -> bool {
        match &self.values {
            Values::Written { real, .. } => real.contains(&true),
            _ => self.is_real(0),
        }
    }

    fn is_null(&self, at: usize) -> bool {
        match &self.values {
            Values::Written { numbers, words, .. } => numbers[at].is_nan() && words.text(at).is_none(),
            _ => self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)),
        }
    }

    /// Whether a value in a range may be missing.
    pub(crate) fn has_null(&self, mut range: Range<usize>) -> bool {
        match &self.values {
            Values::Written { .. } => range.any(|at| self.is_null(at)),
            _ => self.nulls.is_some() && range.any(|at| self.is_null(at)),
        }
    }

    /// The value at a position as it is written, NaN included.
    pub(crate) fn written(&self, at: usize) -> Result<Written<'_>, Problem> {
        match &self.values {
            _ if self.is_null(at) => Err(Problem::Null),
            Values::Texts(texts) => Ok(Written::Text(texts.value(at))),
            Values::Written { words, .. } if words.text(at).is_some() => {
                Ok(Written::Text(words.text(at).unwrap_or_default()))
            }
            _ => Ok(Written::Number(self.exact(at))),
        }
    }

    /// The number at a position, NaN included.
    pub(crate) fn number(&self, at: usize) -> Result<f64, Problem> {
        if self.is_null(at) {
            return Err(Problem::Null);
        }
        match &self.values {
            Values::Integers(values) => Ok(values[at] as f64),
            Values::Reals(values) => Ok(f64::from(values[at])),
            Values::Doubles(values) => Ok(values[at]),
            Values::Written { numbers, words, .. } => words.text(at).map_or(Ok(numbers[at]), parse),
            Values::Texts(texts) => parse(texts.value(at)),
        }
    }

    /// The number at a position without loss. It is not null.
    pub(crate) fn exact(&self, at: usize) -> Number {
        let parsed = |text: &str| match text.trim().parse() {
            Ok(digits) => Number::whole(digits),
            Err(_) => Number::Real(parse(text).unwrap_or(f64::NAN)),
        };
        match &self.values {
            Values::Integers(values) => Number::Integer(values[at]),
            Values::Reals(values) => Number::Real(values[at].into()),
            Values::Doubles(values) => Number::Real(values[at]),
            Values::Written { numbers, words, wide, .. } => match wide.get(at) {
                Some(digits) => Number::whole(digits),
                None => words.text(at).map_or(Number::Real(numbers[at]), parsed),
            },
            Values::Texts(texts) => parsed(texts.value(at)),
        }
    }

    /// The number at a position if it is whole and at least 0. Otherwise `wrong` makes the problem
    /// from the number.
    pub(crate) fn index(&self, at: usize, wrong: impl FnOnce(Number) -> Problem) -> Result<u32, Problem> {
        let value = self.number(at)?;
        is_index(value).then_some(value as u32).ok_or_else(|| wrong(self.exact(at)))
    }

    /// The number at a position if it is finite in single precision.
    pub(crate) fn real(&self, at: usize) -> Result<f32, Problem> {
        let value = self.number(at)?;
        Some(value as f32).filter(|value| value.is_finite()).ok_or(Problem::NotFinite(Number::Real(value)))
    }

    /// Appends the values of a range as indices.
    ///
    /// # Errors
    /// The position of the first value that is not an index, and its problem.
    pub(crate) fn append_indices(
        &self,
        mut range: Range<usize>,
        out: &mut Vec<u32>,
        wrong: fn(Number) -> Problem,
    ) -> Result<(), (usize, Problem)> {
        if let Values::Integers(values) = &self.values
            && !self.has_null(range.clone())
        {
            let values = &values[range.clone()];
            let limit = i64::from(u32::MAX - 1);
            // A branch-free check comes first. Wrong values are rare, and the copy then vectorises.
            if !values.iter().fold(false, |bad, &v| bad | (v < 0) | (v > limit)) {
                out.extend(values.iter().map(|&v| v as u32));
                return Ok(());
            }
        }
        if let Values::Written { numbers, .. } = &self.values {
            let values = &numbers[range.clone()];
            if values.iter().fold(true, |good, &v| good & is_index(v)) {
                out.extend(values.iter().map(|&v| v as u32));
                return Ok(());
            }
        }
        let start = range.start;
        range.try_for_each(|at| {
            out.push(self.index(at, wrong).map_err(|problem| (at - start, problem))?);
            Ok(())
        })
    }

    /// Appends the values of a range as finite numbers.
    ///
    /// # Errors
    /// The position of the first value that is not a finite number, and its problem.
    pub(crate) fn append_reals(&self, mut range: Range<usize>, out: &mut Vec<f32>) -> Result<(), (usize, Problem)> {
        if let Values::Reals(values) = &self.values
            && !self.has_null(range.clone())
        {
            let values = &values[range.clone()];
            if values.iter().fold(true, |good, v| good & v.is_finite()) {
                out.extend_from_slice(values);
                return Ok(());
            }
        }
        let start = range.start;
        range.try_for_each(|at| {
            out.push(self.real(at).map_err(|problem| (at - start, problem))?);
            Ok(())
        })
    }

    /// Positions of a graph's values, which must be `rows` rows of `width` values.
    pub(crate) fn block(&self, level: Level, graph: usize, rows: usize, width: usize) -> Result<Range<usize>, Reason> {
        let lists = self.rows(graph);
        if lists.len() != rows {
            return Err(Reason::column(&self.name, Problem::RowCount { found: lists.len(), expected: rows }));
        }
        if lists.is_empty() {
            return Ok(0..0);
        }
        if let Some(odd) = self.rows.first_odd(lists.clone(), width) {
            let problem = Problem::Width { found: self.rows.range(odd).len(), expected: width };
            return Err(Reason::cell(level, odd - lists.start, &self.name, problem));
        }
        let values = self.rows.range(lists.start).start..self.rows.range(lists.end - 1).end;
        // Lists are contiguous unless a null list has content, which no known writer produces.
        if values.len() != rows * width {
            return Err(Reason::column(&self.name, Problem::Overlap));
        }
        Ok(values)
    }
}

fn parse(text: &str) -> Result<f64, Problem> {
    text.trim().parse().map_err(|_| Problem::NotANumber(text.into()))
}

/// Whether a number is whole, at least 0 and below the reserved largest index.
fn is_index(value: f64) -> bool {
    let index = value as u32;
    f64::from(index) == value && index != u32::MAX
}

/// Words of each graph: a single word, or a list.
pub(crate) struct RawTexts {
    /// Name of the column, for messages.
    pub(crate) name: &'static str,
    pub(crate) graphs: Bounds,
    pub(crate) values: StringArray,
    /// Graphs that have words; `None` if no graph has any.
    pub(crate) present: Option<NullBuffer>,
}

impl RawTexts {
    /// A column that the file does not have.
    pub(crate) fn missing(name: &'static str) -> Self {
        Self { name, graphs: Bounds::Single, values: StringArray::new_null(0), present: None }
    }

    /// Positions of a graph's words, if it has any.
    pub(crate) fn words(&self, graph: usize) -> Option<Range<usize>> {
        self.present.as_ref().filter(|present| present.is_valid(graph)).map(|_| self.graphs.range(graph))
    }

    /// The word at a position.
    pub(crate) fn word(&self, at: usize) -> Option<&str> {
        self.values.is_valid(at).then(|| self.values.value(at))
    }
}

/// Table rows of each graph.
pub(crate) struct TableRows {
    /// Paths of the tables of graphs, nodes and edges.
    pub(crate) paths: [PathBuf; 3],
    /// Rows of the table of each level, sorted by graph.
    pub(crate) rows: [Vec<usize>; 3],
    /// Start of each graph's rows, for each level.
    pub(crate) offsets: [Vec<usize>; 3],
}
