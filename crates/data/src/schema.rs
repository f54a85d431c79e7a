//! Names and vocabulary sizes of a data set's columns; what the graph layer's [`Layout`] does not know.

use gt_graph::{FeatureLayout, GraphStore, Layout, Level, TargetKind, TargetLayout};
use serde::{Deserialize, Serialize};

use crate::columns;

/// A categorical column, or the words of a multi-hot one: its name and the number of its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vocabulary {
    /// Name of the column.
    pub name: String,
    /// Values are smaller than this.
    pub size: usize,
}

/// Columns of the features on nodes, or on edges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FeatureSchema {
    /// Categorical columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categorical: Vec<Vocabulary>,
    /// Names of the continuous columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub continuous: Vec<String>,
    /// The list of indices that each row carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_hot: Option<Vocabulary>,
}

impl FeatureSchema {
    /// Numbers of columns.
    pub fn layout(&self) -> FeatureLayout {
        FeatureLayout {
            categorical: self.categorical.len(),
            continuous: self.continuous.len(),
            multi_hot: self.multi_hot.is_some(),
        }
    }

    /// Sizes of the categorical columns' vocabularies.
    pub fn vocabulary_sizes(&self) -> Vec<usize> {
        self.categorical.iter().map(|v| v.size).collect()
    }

    /// All column names, in the order categorical, continuous, multi-hot.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let categorical = self.categorical.iter().map(|v| v.name.as_str());
        let multi_hot = self.multi_hot.iter().map(|v| v.name.as_str());
        categorical.chain(self.continuous.iter().map(String::as_str)).chain(multi_hot)
    }

    /// Default names for a number of columns: `prefix` for a single one, else `prefix0`, `prefix1`, …
    pub(crate) fn unnamed(layout: &FeatureLayout, prefix: &str) -> Self {
        let alone = layout.categorical + layout.continuous == 1;
        let name = |i: usize| if alone { prefix.to_owned() } else { format!("{prefix}{i}") };
        Self {
            categorical: (0..layout.categorical).map(|i| Vocabulary { name: name(i), size: 0 }).collect(),
            continuous: (0..layout.continuous).map(|i| name(layout.categorical + i)).collect(),
            multi_hot: layout.multi_hot.then(|| Vocabulary { name: format!("{prefix}_multi_hot"), size: 0 }),
        }
    }

    /// Enlarges each vocabulary to the values that occur; says which column was declared too small.
    fn cover(&mut self, seen: (Vec<usize>, usize)) -> Result<(), String> {
        let columns = self.categorical.iter_mut().zip(seen.0).chain(self.multi_hot.iter_mut().map(|v| (v, seen.1)));
        for (vocabulary, seen) in columns {
            if vocabulary.size == 0 {
                vocabulary.size = seen.max(1);
            } else if seen > vocabulary.size {
                let Vocabulary { name, size } = vocabulary;
                return Err(format!(
                    "column `{name}` holds the value {}, but its vocabulary has {size} entries",
                    seen - 1
                ));
            }
        }
        Ok(())
    }
}

/// A column of targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetColumn {
    /// Name of the column.
    pub name: String,
    /// Number of classes; 0 for a real number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub classes: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Columns of the targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSchema {
    /// What a target belongs to.
    pub level: Level,
    /// Real numbers or classes.
    pub kind: TargetKind,
    /// The columns.
    pub columns: Vec<TargetColumn>,
}

impl TargetSchema {
    /// Numbers of columns.
    pub fn layout(&self) -> TargetLayout {
        TargetLayout { level: self.level, kind: self.kind, columns: self.columns.len() }
    }

    pub(crate) fn unnamed(layout: TargetLayout) -> Self {
        let name = |i: usize| if layout.columns == 1 { "y".to_owned() } else { format!("y{i}") };
        let columns = (0..layout.columns).map(|i| TargetColumn { name: name(i), classes: 0 }).collect();
        Self { level: layout.level, kind: layout.kind, columns }
    }
}

/// Columns of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Features on nodes.
    #[serde(default)]
    pub node: FeatureSchema,
    /// Features on edges.
    #[serde(default)]
    pub edge: FeatureSchema,
    /// Targets, where the graphs are labelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetSchema>,
}

impl Schema {
    /// Numbers of columns.
    pub fn layout(&self) -> Layout {
        Layout {
            node: self.node.layout(),
            edge: self.edge.layout(),
            target: self.target.as_ref().map(TargetSchema::layout),
        }
    }

    /// A schema with default names for a layout; vocabularies are still empty.
    pub fn unnamed(layout: &Layout) -> Self {
        Self {
            node: FeatureSchema::unnamed(&layout.node, columns::NODE_FEAT),
            edge: FeatureSchema::unnamed(&layout.edge, columns::EDGE_ATTR),
            target: layout.target.map(TargetSchema::unnamed),
        }
    }

    /// Fills in every vocabulary and class count that is still 0 with the smallest that holds the data,
    /// and checks the others.
    pub(crate) fn cover(&mut self, graphs: &GraphStore) -> Result<(), String> {
        self.node.cover(graphs.vocabularies(Level::Node))?;
        self.edge.cover(graphs.vocabularies(Level::Edge))?;
        let (Some(schema), Some(rows)) = (&mut self.target, graphs.target()) else { return Ok(()) };
        let Some(classes) = rows.classes() else { return Ok(()) };
        let columns = schema.columns.len();
        let mut seen = vec![0usize; columns];
        for row in classes.chunks_exact(columns.max(1)) {
            for (seen, &class) in seen.iter_mut().zip(row) {
                if class != gt_graph::MISSING_CLASS {
                    *seen = (*seen).max(class as usize + 1);
                }
            }
        }
        for (column, seen) in schema.columns.iter_mut().zip(seen) {
            let TargetColumn { name, classes } = column;
            if *classes == 0 {
                *classes = seen.max(1);
            } else if seen > *classes {
                return Err(format!("target `{name}` holds class {}, but has {classes} classes", seen - 1));
            }
        }
        Ok(())
    }
}
