//! Splits of graphs, nodes or edges.

use gt_graph::Level;

use crate::dataset::Splits;
use crate::raw::RawTexts;
use crate::reason::{Problem, Reason};

const LEVELS: [Level; 3] = [Level::Graph, Level::Node, Level::Edge];

/// The split, at the level that the first graph states.
pub(super) struct SplitRows {
    read: bool,
    splits: Option<Splits>,
}

impl SplitRows {
    pub(super) fn new(read: bool) -> Self {
        Self { read, splits: None }
    }

    /// Reads the parts of a graph. `rows` holds its sizes by level, `number` is its position in the
    /// file.
    pub(super) fn judge(
        &mut self,
        raw: &[RawTexts; 3],
        graph: usize,
        rows: [usize; 3],
        number: usize,
    ) -> Result<(), Reason> {
        if !self.read {
            return Ok(());
        }
        for ((level, column), rows) in LEVELS.into_iter().zip(raw).zip(rows) {
            let wrong = |problem| Reason::column(column.name, problem);
            let expected = self.splits.as_ref().is_some_and(|splits| splits.level == level);
            let Some(words) = column.words(graph) else {
                if expected {
                    return Err(wrong(Problem::Missing));
                }
                continue;
            };
            if let Some(other) = self.splits.as_ref().filter(|_| !expected) {
                return Err(wrong(Problem::SecondSplit(other.level)));
            }
            if !expected && number > 0 {
                return Err(wrong(Problem::Unknown));
            }
            if words.len() != rows {
                return Err(wrong(Problem::RowCount { found: words.len(), expected: rows }));
            }
            let splits = self.splits.get_or_insert_with(|| Splits::new(level));
            for (row, at) in words.enumerate() {
                let problem = match column.word(at).map(|word| splits.push(word)) {
                    Some(Some(())) => continue,
                    Some(None) => Problem::TooManyParts,
                    None => Problem::Null,
                };
                return Err(Reason::cell(level, row, column.name, problem));
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Option<Splits> {
        self.splits
    }
}
