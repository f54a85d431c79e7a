//! Feature rows of nodes or edges: categorical, continuous and multi-hot, row by row.

use std::ops::Range;

use crate::error::GraphError;
use crate::layout::{FeatureLayout, Level};

/// Lists of indices, one list per row.
///
/// `offsets` has one entry more than there are rows; row `i` is
/// `indices[offsets[i] - offsets[0] .. offsets[i + 1] - offsets[0]]`.
#[derive(Clone, Copy, Debug)]
pub struct Ragged<'a> {
    /// Where each row begins, relative to the first.
    pub offsets: &'a [usize],
    /// The rows, one after the other.
    pub indices: &'a [u32],
}

impl<'a> Ragged<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The indices of row `i`.
    pub fn row(&self, i: usize) -> &'a [u32] {
        let base = self.offsets[0];
        &self.indices[self.offsets[i] - base..self.offsets[i + 1] - base]
    }
}

/// Equal when the rows are, wherever the offsets begin.
impl PartialEq for Ragged<'_> {
    fn eq(&self, other: &Self) -> bool {
        let lengths = |r: &Self| r.offsets.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>();
        self.indices == other.indices && lengths(self) == lengths(other)
    }
}

/// Borrowed feature rows, in the layout of the set they belong to (or are about to).
///
/// `categorical` is `[rows, categorical columns]` and `continuous` `[rows, continuous columns]`,
/// both row-major.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FeatureRows<'a> {
    /// Vocabulary indices.
    pub categorical: &'a [u32],
    /// Finite numbers.
    pub continuous: &'a [f32],
    /// Lists of indices.
    pub multi_hot: Option<Ragged<'a>>,
}

impl FeatureRows<'_> {
    /// The layout that these values have if they are `rows` rows.
    pub fn layout(&self, rows: usize) -> FeatureLayout {
        FeatureLayout {
            categorical: self.categorical.len().checked_div(rows).unwrap_or(0),
            continuous: self.continuous.len().checked_div(rows).unwrap_or(0),
            multi_hot: self.multi_hot.is_some(),
        }
    }

    /// Checks that there are exactly `rows` rows of `layout`, all finite.
    pub(crate) fn check(&self, level: Level, layout: &FeatureLayout, rows: usize) -> Result<(), GraphError> {
        let length = |what, found: usize, columns: usize| {
            if Some(found) == rows.checked_mul(columns) {
                Ok(())
            } else {
                Err(GraphError::Length { level, what, found, rows, columns })
            }
        };
        length("categorical features", self.categorical.len(), layout.categorical)?;
        length("continuous features", self.continuous.len(), layout.continuous)?;
        if let Some(at) = self.continuous.iter().position(|v| !v.is_finite()) {
            let (row, column) = (at / layout.continuous, at % layout.continuous);
            let value = self.continuous[at];
            return Err(GraphError::NotFinite { level, what: "continuous", row, column, value });
        }
        match (&self.multi_hot, layout.multi_hot) {
            (None, false) => Ok(()),
            (Some(ragged), true) => check_ragged(level, ragged, rows),
            (_, expected) => Err(GraphError::MultiHotMismatch { level, expected }),
        }
    }
}

fn check_ragged(level: Level, ragged: &Ragged<'_>, rows: usize) -> Result<(), GraphError> {
    if ragged.offsets.len() != rows + 1 {
        return Err(GraphError::OffsetCount { level, found: ragged.offsets.len(), rows });
    }
    if let Some(row) = ragged.offsets.windows(2).position(|w| w[0] > w[1]) {
        return Err(GraphError::OffsetOrder { level, row });
    }
    let (spanned, found) = (ragged.offsets[rows] - ragged.offsets[0], ragged.indices.len());
    if spanned != found {
        return Err(GraphError::OffsetSpan { level, spanned, found });
    }
    Ok(())
}

/// Growable feature rows; cleared and refilled without giving memory back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FeatureTable {
    pub(crate) layout: FeatureLayout,
    categorical: Vec<u32>,
    continuous: Vec<f32>,
    hot_offsets: Vec<usize>,
    hot_indices: Vec<u32>,
}

impl FeatureTable {
    pub(crate) fn new(layout: FeatureLayout) -> Self {
        let hot_offsets = if layout.multi_hot { vec![0] } else { Vec::new() };
        Self { layout, categorical: Vec::new(), continuous: Vec::new(), hot_offsets, hot_indices: Vec::new() }
    }

    /// Empties the table and gives it the layout of `other`.
    pub(crate) fn reset_like(&mut self, other: &FeatureTable) {
        self.layout.clone_from(&other.layout);
        self.categorical.clear();
        self.continuous.clear();
        self.hot_offsets.clear();
        self.hot_indices.clear();
        if self.layout.multi_hot {
            self.hot_offsets.push(0);
        }
    }

    /// The rows of `range`.
    pub(crate) fn rows(&self, range: Range<usize>) -> FeatureRows<'_> {
        let FeatureLayout { categorical: a, continuous: b, multi_hot } = self.layout;
        FeatureRows {
            categorical: &self.categorical[range.start * a..range.end * a],
            continuous: &self.continuous[range.start * b..range.end * b],
            multi_hot: multi_hot.then(|| Ragged {
                offsets: &self.hot_offsets[range.start..=range.end],
                indices: &self.hot_indices[self.hot_offsets[range.start]..self.hot_offsets[range.end]],
            }),
        }
    }

    /// Appends checked rows.
    pub(crate) fn extend(&mut self, rows: &FeatureRows<'_>) {
        self.categorical.extend_from_slice(rows.categorical);
        self.continuous.extend_from_slice(rows.continuous);
        if let Some(ragged) = &rows.multi_hot {
            let end = self.hot_indices.len();
            let base = ragged.offsets[0];
            self.hot_offsets.extend(ragged.offsets[1..].iter().map(|o| o - base + end));
            self.hot_indices.extend_from_slice(ragged.indices);
        }
    }

    /// Appends the rows of `rows` in the order that `order` lists them.
    pub(crate) fn extend_permuted(&mut self, rows: &FeatureRows<'_>, order: impl Iterator<Item = usize> + Clone) {
        let FeatureLayout { categorical: a, continuous: b, .. } = self.layout;
        match a {
            0 => {}
            1 => self.categorical.extend(order.clone().map(|row| rows.categorical[row])),
            _ => order
                .clone()
                .for_each(|row| self.categorical.extend_from_slice(&rows.categorical[row * a..(row + 1) * a])),
        }
        if b > 0 {
            order.clone().for_each(|row| self.continuous.extend_from_slice(&rows.continuous[row * b..(row + 1) * b]));
        }
        if let Some(ragged) = &rows.multi_hot {
            for row in order {
                self.hot_indices.extend_from_slice(ragged.row(row));
                self.hot_offsets.push(self.hot_indices.len());
            }
        }
    }

    /// Turns a categorical column into the continuous column `at`.
    pub(crate) fn make_continuous(&mut self, column: usize, at: usize) {
        let FeatureLayout { categorical: a, continuous: b, .. } = self.layout;
        let rows = self.categorical.len() / a;
        let mut continuous = Vec::with_capacity(rows * (b + 1));
        for row in 0..rows {
            let (before, after) = self.continuous[row * b..(row + 1) * b].split_at(at);
            continuous.extend_from_slice(before);
            continuous.push(self.categorical[row * a + column] as f32);
            continuous.extend_from_slice(after);
        }
        let mut position = 0;
        self.categorical.retain(|_| {
            position += 1;
            (position - 1) % a != column
        });
        self.continuous = continuous;
        self.layout.categorical -= 1;
        self.layout.continuous += 1;
    }

    /// Replaces every value of a categorical column.
    pub(crate) fn map_categories(&mut self, column: usize, to: impl Fn(u32) -> u32) {
        let columns = self.layout.categorical.max(1);
        self.categorical.iter_mut().skip(column).step_by(columns).for_each(|value| *value = to(*value));
    }

    /// The categories of all rows.
    pub(crate) fn categories_mut(&mut self) -> &mut [u32] {
        &mut self.categorical
    }

    /// Continuous values of all rows.
    pub(crate) fn continuous(&self) -> &[f32] {
        &self.continuous
    }

    /// Replaces each continuous value by `map(column, value)`.
    pub(crate) fn map_continuous(&mut self, map: impl Fn(usize, f32) -> f32) {
        let columns = self.layout.continuous.max(1);
        for (at, value) in self.continuous.iter_mut().enumerate() {
            *value = map(at % columns, *value);
        }
    }

    /// Largest value of each categorical column plus one, and of the multi-hot indices.
    pub(crate) fn vocabularies(&self) -> (Vec<usize>, usize) {
        let a = self.layout.categorical;
        let mut sizes = vec![0usize; a];
        for row in self.categorical.chunks_exact(a.max(1)) {
            for (size, &value) in sizes.iter_mut().zip(row) {
                *size = (*size).max(value as usize + 1);
            }
        }
        (sizes, self.hot_indices.iter().map(|&i| i as usize + 1).max().unwrap_or(0))
    }

    pub(crate) fn reserve(&mut self, rows: usize) {
        self.categorical.reserve_exact(rows * self.layout.categorical);
        self.continuous.reserve_exact(rows * self.layout.continuous);
        if self.layout.multi_hot {
            self.hot_offsets.reserve_exact(rows);
        }
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.categorical.shrink_to_fit();
        self.continuous.shrink_to_fit();
        self.hot_offsets.shrink_to_fit();
        self.hot_indices.shrink_to_fit();
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.categorical.capacity() + self.continuous.capacity() + self.hot_indices.capacity())
            + size_of::<usize>() * self.hot_offsets.capacity()
    }
}
