//! What every graph of a set has in common: how many columns of which kind it carries.

use serde::{Deserialize, Serialize};

/// What a label, a split or a table row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// One row per graph.
    Graph,
    /// One row per node.
    Node,
    /// One row per directed edge.
    Edge,
}

impl Level {
    /// The word used in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Level::Graph => "graph",
            Level::Node => "node",
            Level::Edge => "edge",
        }
    }

    /// Number of rows that a graph of this size has on this level.
    pub fn rows(self, num_nodes: usize, num_edges: usize) -> usize {
        match self {
            Level::Graph => 1,
            Level::Node => num_nodes,
            Level::Edge => num_edges,
        }
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Columns of the features on nodes, or on edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureLayout {
    /// Number of categorical columns: each value is an index into a vocabulary.
    pub categorical: usize,
    /// Number of continuous columns: each value is a finite `f32`.
    pub continuous: usize,
    /// Whether each row also carries a list of indices (a multi-hot feature, such as the words of a
    /// document).
    pub multi_hot: bool,
}

impl FeatureLayout {
    /// True when rows carry nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a target is a real number or a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// A real number; NaN is a missing label.
    Float,
    /// A class index; [`MISSING_CLASS`] is a missing label.
    Class,
}

impl TargetKind {
    /// The word used in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            TargetKind::Float => "float",
            TargetKind::Class => "class",
        }
    }
}

/// The value that stands for a missing class label.
pub const MISSING_CLASS: u32 = u32::MAX;

/// Columns of the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetLayout {
    /// What a row of targets belongs to.
    pub level: Level,
    /// Real numbers or classes.
    pub kind: TargetKind,
    /// Number of targets per row.
    pub columns: usize,
}

/// Columns of a whole graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Features on nodes.
    pub node: FeatureLayout,
    /// Features on edges.
    pub edge: FeatureLayout,
    /// Targets, where the graphs are labelled.
    pub target: Option<TargetLayout>,
}
