//! The entry `other` of a vocabulary: rare categories share it, and unknown categories take it.

use gt_graph::{GraphBatch, GraphStore, Level, Schema, Vocabulary};
use gt_models::config::DataConfig;
use gt_nn::backend::PassPlan;

use crate::pass::hiding_stream;

/// One of so many values is hidden in a training pass.
const ONE_OF: u32 = 50;

/// Columns whose entry `other` no category of the training graphs has. Training hides some values
/// of these columns behind `other` in every epoch, so that the entry is trained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HiddenValues(Vec<HiddenColumn>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct HiddenColumn {
    level: Level,
    column: usize,
    /// Number of categorical columns of the level.
    columns: usize,
    other: u32,
}

impl HiddenValues {
    /// Whether no column is concerned.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Hides values of a batch of a training pass. Evaluation sees all values.
    pub(crate) fn hide(&self, plan: &PassPlan, number: usize, batch: &mut GraphBatch) {
        let Some(mut random) = hiding_stream(plan, number).filter(|_| !self.is_empty()) else { return };
        for HiddenColumn { level, column, columns, other } in &self.0 {
            for value in batch.categories_mut(*level).iter_mut().skip(*column).step_by(*columns) {
                if random.below(ONE_OF) == 0 {
                    *value = *other;
                }
            }
        }
    }
}

/// Gives categorical columns an entry `other`, the last one of the vocabulary.
///
/// With `data.rare`, the categories that fewer rows of the training graphs have are merged into the
/// entry. A column in which no category is rare has the entry with `data.other` alone, and is among
/// the hidden values then. New names are unknown to a model, and take the entry.
pub(crate) fn add_other(
    schema: &mut Schema,
    graphs: &mut GraphStore,
    training: &[usize],
    data: &DataConfig,
) -> HiddenValues {
    let mut hidden = HiddenValues::default();
    if data.rare == 0 && !data.other {
        return hidden;
    }
    for (level, columns) in [(Level::Node, &mut schema.node.categorical), (Level::Edge, &mut schema.edge.categorical)] {
        let count = columns.len();
        for (column, vocabulary) in columns.iter_mut().enumerate() {
            let mut rows = vec![0usize; vocabulary.size];
            for graph in training.iter().map(|&graph| graphs.graph(graph)) {
                let features = if level == Level::Node { graph.node() } else { graph.edge() };
                let values = features.categorical.iter().skip(column).step_by(count);
                values.for_each(|&value| rows[value as usize] += 1);
            }
            let has_rare = rows.iter().any(|rows| (1..data.rare).contains(rows));
            if !has_rare && !data.other {
                // Nothing would train the entry.
                continue;
            }
            let (merged, places) = merge(vocabulary, &rows, data.rare.max(1));
            graphs.map_categories(level, column, |value| places[value as usize]);
            if !has_rare {
                let other = merged.size as u32 - 1;
                hidden.0.push(HiddenColumn { level, column, columns: count, other });
            }
            *vocabulary = merged;
        }
    }
    hidden
}

/// The vocabulary in which the categories of fewer than `least` rows share the last entry, and the
/// new number of each category.
fn merge(vocabulary: &Vocabulary, rows: &[usize], least: usize) -> (Vocabulary, Vec<u32>) {
    let kept: Vec<usize> = (0..rows.len()).filter(|&value| rows[value] >= least).collect();
    let names: Vec<String> = kept.iter().map(|&value| vocabulary.value_name(value)).collect();
    let size = kept.len() + 1;
    let mut places = vec![kept.len() as u32; rows.len()];
    kept.iter().enumerate().for_each(|(place, &value)| places[value] = place as u32);
    (Vocabulary { name: vocabulary.name.clone(), size, names, other: true }, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_and_absent_categories_share_the_last_entry() {
        let (merged, places) = merge(&Vocabulary::new("atom", 5), &[7, 1, 0, 4, 2], 3);
        assert_eq!((&merged.names[..], merged.size, merged.other), (&["0".to_owned(), "3".to_owned()][..], 3, true));
        assert_eq!(places, [0, 2, 2, 1, 2]);
        assert_eq!(merged.value_name(2), "other");
    }
}
