//! Graphs as a file has them: columns with whatever was written, before anything is judged.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{Array, StringArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use gt_graph::Level;

use crate::reason::{Number, Problem, Reason};

/// Some consecutive graphs of a file, in the same form for every format.
pub(crate) struct RawGraphs {
    /// Number of graphs.
    pub(crate) count: usize,
    /// Names of the columns of the file, for messages.
    pub(crate) names: Vec<String>,
    /// Graphs that could not be decoded.
    pub(crate) broken: BTreeMap<usize, Reason>,
    pub(crate) num_nodes: RawColumn,
    /// Per graph two lists: sources and targets.
    pub(crate) edge_index: RawColumn,
    pub(crate) node: RawFeatures,
    pub(crate) edge: RawFeatures,
    pub(crate) targets: RawTargets,
    /// Splits of graphs, nodes and edges.
    pub(crate) splits: [RawTexts; 3],
    /// Laplacian and random-walk coordinates, Weisfeiler–Lehman roles.
    pub(crate) encodings: [RawColumn; 3],
    /// Where the rows of tables stand.
    pub(crate) origin: Option<Arc<TableRows>>,
}

/// Features on nodes, or on edges.
pub(crate) enum RawFeatures {
    /// Under the three keys of the native layout: numbers, continuous ones, lists of indices.
    Native(Box<[RawColumn; 3]>),
    /// Columns with names of their own, one value per row.
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

/// A column of a table.
pub(crate) struct NamedColumn {
    pub(crate) values: RawColumn,
    /// What its cells look like, or what the user says that they are.
    pub(crate) kind: CellKind,
}

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    Integer,
    Real,
    List,
    Text,
}

/// Targets.
pub(crate) enum RawTargets {
    /// The column `y`; its shape says what it belongs to.
    Native(Box<RawColumn>),
    /// Columns of the table of a level.
    Named { level: Level, columns: Vec<NamedColumn> },
    /// None, or none that anybody reads.
    Nothing,
}

/// Numbers of each graph: a single one, a list, or a list of lists.
///
/// Each list inside of a graph is a row; where there are no lists inside, each number is a row.
pub(crate) struct RawColumn {
    /// Name, for messages.
    pub(crate) name: String,
    pub(crate) extent: Extent,
    /// Rows of each graph.
    pub(crate) graphs: Bounds,
    /// Values of each row.
    pub(crate) rows: Bounds,
    pub(crate) values: Values,
    /// Values that are missing.
    pub(crate) nulls: Option<NullBuffer>,
    /// Graphs that have something here.
    pub(crate) present: Option<NullBuffer>,
    pub(crate) depth: Depth,
}

/// Which graphs of the file have a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The file does not have the column.
    Nowhere,
    /// The file has the column for all graphs, though values may be missing.
    WholeFile,
    /// Each graph has the column or not.
    PerGraph,
}

/// How many lists are around a number.
pub(crate) enum Depth {
    Same(u8),
    PerGraph(Vec<u8>),
}

/// Where the items of each list begin and end.
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

    /// The first of some lists that has not `width` items.
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
    /// Numbers of JSON, NaN for null. `real`: the positions in a row where one was written as a real number.
    Written {
        numbers: Vec<f64>,
        real: Vec<bool>,
    },
    /// Cells of which some are no numbers.
    Texts(StringArray),
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

    /// Rows of a graph; none where it has nothing here.
    pub(crate) fn rows(&self, graph: usize) -> Range<usize> {
        if self.is_present(graph) { self.graphs.range(graph) } else { 0..0 }
    }

    /// How many lists are around the numbers of a graph.
    pub(crate) fn depth(&self, graph: usize) -> u8 {
        match &self.depth {
            Depth::Same(depth) => *depth,
            Depth::PerGraph(depths) => depths[graph],
        }
    }

    /// Values of the first row of a graph, if it has one.
    pub(crate) fn width(&self, graph: usize) -> Option<usize> {
        self.rows(graph).next().map(|row| self.rows.range(row).len())
    }

    /// Whether numbers at a position of the rows were written as real ones.
    pub(crate) fn is_real(&self, at: usize) -> bool {
        match &self.values {
            Values::Integers(_) | Values::Texts(_) => false,
            Values::Reals(_) | Values::Doubles(_) => true,
            Values::Written { real, .. } => real.get(at) == Some(&true),
        }
    }

    /// Whether some number was written as a real one.
    pub(crate) fn any_real(&self) -> bool {
        match &self.values {
            Values::Written { real, .. } => real.contains(&true),
            _ => self.is_real(0),
        }
    }

    fn is_null(&self, at: usize) -> bool {
        match &self.values {
            Values::Written { numbers, .. } => numbers[at].is_nan(),
            _ => self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)),
        }
    }

    /// Whether some value of a range may be missing.
    pub(crate) fn has_null(&self, mut range: Range<usize>) -> bool {
        match &self.values {
            Values::Written { .. } => range.any(|at| self.is_null(at)),
            _ => self.nulls.is_some() && range.any(|at| self.is_null(at)),
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
            Values::Written { numbers, .. } => Ok(numbers[at]),
            Values::Texts(texts) => {
                let text = texts.value(at);
                text.parse().map_err(|_| Problem::NotANumber(text.into()))
            }
        }
    }

    /// The number at a position if it is whole and at least 0; `wrong` says what another one is not.
    pub(crate) fn index(&self, at: usize, wrong: impl FnOnce(Number) -> Problem) -> Result<u32, Problem> {
        let value = self.number(at)?;
        is_index(value).then_some(value as u32).ok_or_else(|| wrong(Number(value)))
    }

    /// The number at a position if it is finite in single precision.
    pub(crate) fn real(&self, at: usize) -> Result<f32, Problem> {
        let value = self.number(at)?;
        Some(value as f32).filter(|value| value.is_finite()).ok_or(Problem::NotFinite(Number(value)))
    }

    /// Appends the values of a range as indices.
    ///
    /// # Errors
    /// The position of the first that is none, and what is wrong with it.
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
            // A branch-free scan first: values are almost never wrong, and the copy then vectorises.
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
    /// The position of the first that is none, and what is wrong with it.
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

    /// Positions of a graph's values, which should be `rows` rows of `width`.
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
        // Lists are contiguous unless one of them is null with content, which no writer makes.
        if values.len() != rows * width {
            return Err(Reason::column(&self.name, Problem::Overlap));
        }
        Ok(values)
    }
}

/// Whether a number is whole, at least 0 and below the reserved last index.
fn is_index(value: f64) -> bool {
    let index = value as u32;
    f64::from(index) == value && index != u32::MAX
}

/// Words of each graph: one, or a list.
pub(crate) struct RawTexts {
    /// Name, for messages.
    pub(crate) name: &'static str,
    pub(crate) graphs: Bounds,
    pub(crate) values: StringArray,
    /// Graphs that have something here; `None` where no graph has.
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

/// Which rows of the tables belong to which graph.
pub(crate) struct TableRows {
    /// Tables of graphs, nodes and edges.
    pub(crate) paths: [PathBuf; 3],
    /// For each level the rows of the table, sorted by graph.
    pub(crate) rows: [Vec<usize>; 3],
    /// For each level where the rows of each graph begin.
    pub(crate) offsets: [Vec<usize>; 3],
}
