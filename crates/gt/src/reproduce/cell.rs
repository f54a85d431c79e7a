//! What is trained with several seeds: a published configuration on one draw of its data.

use gt_models::PublishedSet;

/// Seed of the CLUSTER and PATTERN that all cells are trained on, chosen before any of them was.
const DRAW: u64 = 41;
/// Seed of the second draw, which shows what redrawing changes.
const SECOND_DRAW: u64 = 42;
/// The cell that is trained on both.
const DRAWN_TWICE: &str = "cluster-sparse-lappe-bn";
/// What the name of a cell on the second draw ends with.
const SUFFIX: &str = "-draw2";

/// A published configuration on one draw of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub preset: String,
    pub second_draw: bool,
}

impl Cell {
    pub fn first_draw(preset: &str) -> Self {
        Self { preset: preset.to_owned(), second_draw: false }
    }

    /// The cell that measures what redrawing changes.
    pub fn second_draw() -> Self {
        Self { preset: DRAWN_TWICE.to_owned(), second_draw: true }
    }

    /// Its name in files and commands.
    pub fn name(&self) -> String {
        format!("{}{}", self.preset, if self.second_draw { SUFFIX } else { "" })
    }

    /// Whether `--cell TEXT` means it: its name, or the beginning of its name up to a hyphen.
    pub fn begins_with(&self, text: &str) -> bool {
        self.name().strip_prefix(text).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    /// The data, as the first word says.
    pub fn set(&self) -> PublishedSet {
        set_of(&self.preset)
    }

    /// Seed of its data, if that is drawn.
    pub fn data_seed(&self) -> Option<u64> {
        let seed = if self.second_draw { SECOND_DRAW } else { DRAW };
        (self.set() != PublishedSet::Zinc).then_some(seed)
    }
}

/// The data of a configuration, as the first word of its name says.
pub fn set_of(preset: &str) -> PublishedSet {
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
