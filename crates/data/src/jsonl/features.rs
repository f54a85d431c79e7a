//! Features of all graphs, collected before the kinds of their columns are known.

use std::collections::BTreeMap;

use gt_graph::{FeatureLayout, FeatureRows, Ragged};

use super::fit::{FeatureRecord, Misfit, Names};
use super::numbers::{JsonRows, category};
use gt_graph::FeatureSchema;

/// The collector of an optional key, which all graphs must have or none. `earlier`: whether there were some before.
pub(super) fn expect_key<'a, T: Default>(
    own: &'a mut Option<T>,
    rows: &JsonRows,
    earlier: bool,
) -> Result<Option<&'a mut T>, String> {
    match (rows.present, own.is_some()) {
        (true, false) if earlier => Err("the key is here, but not in earlier graphs".into()),
        (false, true) => Err("the key is missing, but earlier graphs have it".into()),
        (false, false) => Ok(None),
        (true, _) => Ok(Some(own.get_or_insert_default())),
    }
}

/// Features of all graphs on one level, with the kinds of their columns still open.
#[derive(Default)]
pub(super) struct FeatureStaging {
    numbers: NumberStaging,
    floats: NumberStaging,
    words: Option<(Vec<usize>, Vec<u32>)>,
    /// Graphs' rows, to find the graph of a bad value.
    pub(super) ends: Vec<usize>,
}

#[derive(Default)]
struct NumberStaging {
    present: bool,
    /// Columns, known from the first graph with rows on.
    width: Option<usize>,
    values: Vec<f64>,
    real: Vec<bool>,
}

impl NumberStaging {
    /// Rows of a graph; one that has none may lack the key. `earlier`: whether some graph before had rows.
    fn push(&mut self, rows: &JsonRows, count: usize, earlier: bool) -> Result<(), String> {
        if count == 0 && !rows.present {
            return Ok(());
        }
        if count > 0 {
            if rows.present != self.present && earlier {
                let there = if rows.present { "here, but not in" } else { "missing, but present in" };
                return Err(format!("the key is {there} earlier graphs"));
            }
            self.present = rows.present;
        }
        if !rows.present {
            return Ok(());
        }
        if rows.lengths.len() != count {
            return Err(format!("{} rows, expected {count}", rows.lengths.len()));
        }
        let width = rows.width()?;
        if let Some(at) = rows.first_null {
            return Err(format!("row {}, value {} is null", at / width.max(1), at % width.max(1)));
        }
        if count > 0 {
            let known = *self.width.get_or_insert(width);
            if width != known {
                return Err(format!("rows of {width} values, earlier graphs have {known}"));
            }
        }
        if self.real.len() < rows.real.len() {
            self.real.resize(rows.real.len(), false);
        }
        self.real.iter_mut().zip(&rows.real).for_each(|(own, &real)| *own |= real);
        self.values.extend_from_slice(&rows.values);
        Ok(())
    }
}

impl FeatureStaging {
    /// Adds the rows of a graph.
    pub(super) fn push(&mut self, record: &FeatureRecord, count: usize, names: Names) -> Result<(), Misfit> {
        let rows = self.ends.last().copied().unwrap_or(0);
        let earlier = rows > 0;
        self.numbers.push(&record.numbers, count, earlier).map_err(|m| (names[0], m))?;
        self.floats.push(&record.floats, count, earlier).map_err(|m| (names[1], m))?;
        self.ends.push(rows + count);
        if count == 0 && !record.words.present {
            return Ok(());
        }
        let words = expect_key(&mut self.words, &record.words, earlier).map_err(|m| (names[2], m))?;
        let Some((offsets, indices)) = words else { return Ok(()) };
        if record.words.lengths.len() != count {
            return Err((names[2], format!("{} lists, expected {count}", record.words.lengths.len())));
        }
        if offsets.is_empty() {
            offsets.push(0);
        }
        for &value in &record.words.values {
            indices.push(category(value).ok_or_else(|| (names[2], format!("{value} is not an index")))?);
        }
        for &length in &record.words.lengths {
            offsets.push(offsets.last().copied().unwrap_or(0) + length);
        }
        Ok(())
    }

    /// Integer columns become categorical, the others continuous.
    pub(super) fn finish(
        self,
        declared: Option<&FeatureLayout>,
        column: &'static str,
        unusable: &mut Option<&mut BTreeMap<usize, String>>,
    ) -> Result<Features, (usize, &'static str, String)> {
        let NumberStaging { width, values, mut real, .. } = self.numbers;
        let (width, floats_width) = (width.unwrap_or(0), self.floats.width.unwrap_or(0));
        real.resize(width, false);
        // A stated layout wins: a continuous column may happen to hold integers only, and a real number among categories is the matter of its graph.
        if let Some(FeatureLayout { categorical, continuous, .. }) = declared {
            if *categorical == 0 && *continuous > 0 {
                real.fill(true);
            } else if *categorical > 0 && *continuous == floats_width {
                real.fill(false);
            }
        }
        let categorical_columns = real.iter().filter(|r| !**r).count();
        let mut features = Features {
            layout: FeatureLayout {
                categorical: categorical_columns,
                continuous: width - categorical_columns + floats_width,
                multi_hot: self.words.is_some(),
            },
            ..Default::default()
        };
        let rows = self.ends.last().copied().unwrap_or(0);
        // Without rows only the schema knows the columns.
        if let Some(declared) = declared
            && rows == 0
        {
            features.layout = declared.clone();
        }
        features.names = match rows {
            0 => FeatureSchema::unnamed(&features.layout, column),
            _ => FeatureSchema::by_position(
                real.iter().copied().chain(std::iter::repeat_n(true, floats_width)),
                features.layout.multi_hot,
                column,
            ),
        };
        for row in 0..rows {
            for (at, &real) in real.iter().enumerate() {
                let value = values[row * width + at];
                if real {
                    features.continuous.push(value as f32);
                } else {
                    let index = category(value);
                    if index.is_none() {
                        let graph = self.ends.partition_point(|&end| end <= row);
                        let message = format!("{value} is not a category (0, 1, 2, …)");
                        let Some(unusable) = unusable else {
                            let hint = "; write numbers with a decimal point to make them continuous";
                            return Err((graph, column, message + if declared.is_none() { hint } else { "" }));
                        };
                        unusable.entry(graph).or_insert(format!("column `{column}`: {message}"));
                    }
                    features.categorical.push(index.unwrap_or(0));
                }
            }
            let floats = &self.floats.values[row * floats_width..(row + 1) * floats_width];
            features.continuous.extend(floats.iter().map(|&v| v as f32));
        }
        (features.offsets, features.indices) = self.words.unwrap_or_default();
        if features.layout.multi_hot && features.offsets.is_empty() {
            features.offsets.push(0);
        }
        Ok(features)
    }
}

#[derive(Default)]
pub(super) struct Features {
    pub(super) layout: FeatureLayout,
    pub(super) names: FeatureSchema,
    categorical: Vec<u32>,
    continuous: Vec<f32>,
    offsets: Vec<usize>,
    indices: Vec<u32>,
}

impl Features {
    pub(super) fn rows(&self, first: usize, count: usize) -> FeatureRows<'_> {
        let FeatureLayout { categorical: a, continuous: b, multi_hot } = self.layout;
        FeatureRows {
            categorical: &self.categorical[first * a..(first + count) * a],
            continuous: &self.continuous[first * b..(first + count) * b],
            multi_hot: multi_hot.then(|| Ragged {
                offsets: &self.offsets[first..=first + count],
                indices: &self.indices[self.offsets[first]..self.offsets[first + count]],
            }),
        }
    }
}
