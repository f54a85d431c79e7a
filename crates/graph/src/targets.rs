//! Targets of graphs, nodes or edges: numbers or classes, several columns, any of them missing.

use std::ops::Range;

use crate::error::GraphError;
use crate::layout::{Level, MISSING_CLASS, TargetKind, TargetLayout};

/// Borrowed target rows, `[rows, columns]`, row-major.
///
/// ```
/// use graph_transformer_graph::{MISSING_CLASS, TargetKind, TargetRows};
///
/// let rows = TargetRows::Class(&[2, MISSING_CLASS]);
/// assert_eq!((rows.kind(), rows.len()), (TargetKind::Class, 2));
/// assert_eq!((rows.get(0), rows.get(1)), (Some(2.0), None));
/// assert!(rows.classes().is_some() && rows.floats().is_none());
/// assert_eq!(TargetRows::Float(&[f32::NAN]), TargetRows::Float(&[f32::NAN]));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum TargetRows<'a> {
    /// Real numbers; NaN is missing.
    Float(&'a [f32]),
    /// Class indices; [`MISSING_CLASS`] is missing.
    Class(&'a [u32]),
}

impl<'a> TargetRows<'a> {
    /// Number of values, rows times columns.
    pub fn len(&self) -> usize {
        match self {
            TargetRows::Float(values) => values.len(),
            TargetRows::Class(values) => values.len(),
        }
    }

    /// True when there is no value, not even a missing one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers or classes.
    pub fn kind(&self) -> TargetKind {
        match self {
            TargetRows::Float(_) => TargetKind::Float,
            TargetRows::Class(_) => TargetKind::Class,
        }
    }

    /// The value at a flat position as a number, or `None` where the label is missing.
    pub fn get(&self, at: usize) -> Option<f64> {
        match self {
            TargetRows::Float(values) => Some(values[at]).filter(|v| !v.is_nan()).map(f64::from),
            TargetRows::Class(values) => Some(values[at]).filter(|&v| v != MISSING_CLASS).map(f64::from),
        }
    }

    /// The values, if they are numbers.
    pub fn floats(&self) -> Option<&'a [f32]> {
        match *self {
            TargetRows::Float(values) => Some(values),
            TargetRows::Class(_) => None,
        }
    }

    /// The values, if they are classes.
    pub fn classes(&self) -> Option<&'a [u32]> {
        match *self {
            TargetRows::Class(values) => Some(values),
            TargetRows::Float(_) => None,
        }
    }

    pub(crate) fn check(&self, layout: &TargetLayout, rows: usize) -> Result<(), GraphError> {
        let TargetLayout { level, kind, columns } = *layout;
        if self.kind() != kind {
            return Err(GraphError::TargetMismatch { found: Some(self.kind()), expected: Some(kind) });
        }
        if Some(self.len()) != rows.checked_mul(columns) {
            return Err(GraphError::Length { level, what: "targets", found: self.len(), rows, columns });
        }
        if let TargetRows::Float(values) = self
            && let Some(at) = values.iter().position(|v| v.is_infinite())
        {
            let (row, column) = (at / columns, at % columns);
            return Err(GraphError::NotFinite { level, what: "target", row, column, value: values[at] });
        }
        Ok(())
    }
}

/// Equality in which a missing label equals a missing label.
impl PartialEq for TargetRows<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (TargetRows::Float(a), TargetRows::Float(b)) => {
                a.len() == b.len() && a.iter().zip(*b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()))
            }
            (TargetRows::Class(a), TargetRows::Class(b)) => a == b,
            _ => false,
        }
    }
}

/// Growable target rows.
#[derive(Clone, Debug)]
pub(crate) struct TargetTable {
    pub(crate) layout: TargetLayout,
    floats: Vec<f32>,
    classes: Vec<u32>,
}

impl TargetTable {
    pub(crate) fn new(layout: TargetLayout) -> Self {
        Self { layout, floats: Vec::new(), classes: Vec::new() }
    }

    pub(crate) fn reset(&mut self, layout: TargetLayout) {
        self.layout = layout;
        self.floats.clear();
        self.classes.clear();
    }

    pub(crate) fn rows(&self, range: Range<usize>) -> TargetRows<'_> {
        let c = self.layout.columns;
        match self.layout.kind {
            TargetKind::Float => TargetRows::Float(&self.floats[range.start * c..range.end * c]),
            TargetKind::Class => TargetRows::Class(&self.classes[range.start * c..range.end * c]),
        }
    }

    pub(crate) fn extend(&mut self, rows: &TargetRows<'_>) {
        match rows {
            TargetRows::Float(values) => self.floats.extend_from_slice(values),
            TargetRows::Class(values) => self.classes.extend_from_slice(values),
        }
    }

    pub(crate) fn extend_permuted(&mut self, rows: &TargetRows<'_>, order: impl Iterator<Item = usize>) {
        let c = self.layout.columns;
        for row in order {
            match rows {
                TargetRows::Float(values) => self.floats.extend_from_slice(&values[row * c..(row + 1) * c]),
                TargetRows::Class(values) => self.classes.extend_from_slice(&values[row * c..(row + 1) * c]),
            }
        }
    }

    /// The rows' range of a graph, given where its nodes and edges lie.
    pub(crate) fn range(&self, graph: usize, nodes: Range<usize>, edges: Range<usize>) -> Range<usize> {
        match self.layout.level {
            Level::Graph => graph..graph + 1,
            Level::Node => nodes,
            Level::Edge => edges,
        }
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.floats.shrink_to_fit();
        self.classes.shrink_to_fit();
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.floats.capacity() + self.classes.capacity())
    }
}
