//! Cells: a published configuration on one draw of its data, trained with several seeds.

use gt_models::PublishedSet;

/// Seed of the CLUSTER and PATTERN graphs of all cells, fixed before the first training.
const DRAW: u64 = 41;
/// Seed of the second draw, which measures the effect of redrawing.
const SECOND_DRAW: u64 = 42;
/// The configuration that is trained on both draws.
const DRAWN_TWICE: &str = "cluster-sparse-lappe-bn";
/// End of the name of a cell on the second draw.
const SUFFIX: &str = "-draw2";

/// A published configuration on one draw of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Name of the configuration.
    pub preset: String,
    /// Whether its data is drawn with the second seed.
    pub second_draw: bool,
}

impl Cell {
    /// A configuration on the data that all cells share.
    pub fn first_draw(preset: &str) -> Self {
        Self { preset: preset.to_owned(), second_draw: false }
    }

    /// The cell that measures the effect of redrawing.
    pub fn second_draw() -> Self {
        Self { preset: DRAWN_TWICE.to_owned(), second_draw: true }
    }

    /// The cell's name in files and commands.
    pub fn name(&self) -> String {
        format!("{}{}", self.preset, if self.second_draw { SUFFIX } else { "" })
    }

    /// Whether `text` is this cell's name, or the beginning of the name up to a hyphen.
    pub(crate) fn begins_with(&self, text: &str) -> bool {
        self.name().strip_prefix(text).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    /// The data set, which is the first word of the name.
    pub(crate) fn set(&self) -> PublishedSet {
        published_set(&self.preset)
    }

    /// Seed of the cell's data, if it is drawn.
    pub(crate) fn data_seed(&self) -> Option<u64> {
        let seed = if self.second_draw { SECOND_DRAW } else { DRAW };
        (self.set() != PublishedSet::Zinc).then_some(seed)
    }
}

/// The data set of a configuration, which is the first word of its name.
pub(crate) fn published_set(preset: &str) -> PublishedSet {
    match preset.split('-').next() {
        Some("zinc") => PublishedSet::Zinc,
        Some("pattern") => PublishedSet::Pattern,
        _ => PublishedSet::Cluster,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_named_by_whole_words() {
        let cell = Cell::second_draw();
        assert_eq!(cell.name(), "cluster-sparse-lappe-bn-draw2");
        assert!(cell.begins_with("cluster") && cell.begins_with("cluster-sparse-lappe-bn-draw2"));
        assert!(!cell.begins_with("clu") && !cell.begins_with("cluster-sparse-lappe-bn-draw2-more"));
        assert_eq!((cell.data_seed(), Cell::first_draw("zinc-gcn").data_seed()), (Some(42), None));
    }
}
