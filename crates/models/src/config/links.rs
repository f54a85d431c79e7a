//! `[links]`: link prediction, where `data.task = "links"`.

use serde::{Deserialize, Serialize};

use super::Problems;

/// How links are predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinksConfig {
    /// Pairs without an edge that are drawn for each edge.
    pub negatives: usize,
    /// Share of the training edges that each step removes from the graph and predicts; 0: every
    /// step predicts all training edges and removes none.
    pub hidden: f64,
    /// Whether u→v and v→u are different links. Left out: `true` if the data has edges without
    /// their reverse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directed: Option<bool>,
}

impl Default for LinksConfig {
    fn default() -> Self {
        Self { negatives: 1, hidden: 0.5, directed: None }
    }
}

impl LinksConfig {
    /// With every optional key filled in.
    pub(super) fn complete(self) -> Self {
        Self { directed: Some(self.directed.unwrap_or(false)), ..self }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        problems.unless_within(1.0..=1_000.0, "links.negatives", self.negatives as f64);
        problems.unless_within(0.0..1.0, "links.hidden", self.hidden);
    }
}
