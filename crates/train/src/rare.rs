//! Rare categories, which share one entry of a vocabulary.

use gt_graph::{GraphStore, Level, Schema, Vocabulary};

/// Merges the categories that fewer than `least` rows of the training graphs have into the last
/// entry of their vocabulary. New names are unknown to a model, and take the merged entry too. A
/// column in which no category is rare keeps its vocabulary: nothing would train a merged entry.
pub(crate) fn merge_rare(schema: &mut Schema, graphs: &mut GraphStore, training: &[usize], least: usize) {
    if least == 0 {
        return;
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
            if let Some((merged, places)) = merge(vocabulary, &rows, least) {
                graphs.map_categories(level, column, |value| places[value as usize]);
                *vocabulary = merged;
            }
        }
    }
}

/// The vocabulary with merged categories, and the new number of each category.
fn merge(vocabulary: &Vocabulary, rows: &[usize], least: usize) -> Option<(Vocabulary, Vec<u32>)> {
    let is_rare = |rows: &usize| (1..least).contains(rows);
    if !rows.iter().any(is_rare) {
        return None;
    }
    let kept: Vec<usize> = (0..rows.len()).filter(|&value| rows[value] >= least).collect();
    let names: Vec<String> = kept.iter().map(|&value| vocabulary.value_name(value)).collect();
    let size = kept.len() + 1;
    let mut places = vec![kept.len() as u32; rows.len()];
    kept.iter().enumerate().for_each(|(place, &value)| places[value] = place as u32);
    Some((Vocabulary { name: vocabulary.name.clone(), size, names, other: true }, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_and_absent_categories_share_the_last_entry() {
        let (merged, places) = merge(&Vocabulary::new("atom", 5), &[7, 1, 0, 4, 2], 3).unwrap();
        assert_eq!((&merged.names[..], merged.size, merged.other), (&["0".to_owned(), "3".to_owned()][..], 3, true));
        assert_eq!(places, [0, 2, 2, 1, 2]);
        assert_eq!(merged.value_name(2), "other");
        assert_eq!(merge(&Vocabulary::new("atom", 3), &[7, 0, 4], 3), None, "nothing would train the entry");
    }
}
