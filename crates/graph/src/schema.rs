//! The columns of a data set: names, kinds, vocabularies and targets. [`Layout`] is derived from
//! it.

use serde::{Deserialize, Serialize};

use crate::error::SchemaError;
use crate::layout::{FeatureLayout, Layout, Level, MISSING_CLASS, TargetKind, TargetLayout};
use crate::store::GraphStore;

/// Prefix of the default names of node columns.
const NODE_PREFIX: &str = "node_feat";
/// Prefix of the default names of edge columns.
const EDGE_PREFIX: &str = "edge_attr";

/// A categorical column, or the words of a multi-hot one: its name and its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vocabulary {
    /// Name of the column.
    pub name: String,
    /// Values are smaller than this.
    pub size: usize,
    /// Names of the values 0, 1, 2, …; empty if the values are numbers of the file. Files are
    /// matched by these names. A number of a file has its digits as its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether the last value stands for every value without a name of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other: bool,
}

impl Vocabulary {
    /// A column of `size` values without names.
    pub fn new(name: impl Into<String>, size: usize) -> Self {
        Self { name: name.into(), size, ..Self::default() }
    }

    /// The name of a value: its own, `other`, or its digits.
    pub fn value_name(&self, value: usize) -> String {
        match self.names.get(value) {
            Some(name) => name.clone(),
            None if self.other && value + 1 == self.size => "other".into(),
            None => value.to_string(),
        }
    }
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
    /// Names of columns of the file that are not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
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

    /// Default names for a number of columns, continuous ones last.
    pub fn unnamed(layout: &FeatureLayout, prefix: &str) -> Self {
        let columns = layout.categorical + layout.continuous;
        Self::by_position((0..columns).map(|at| at >= layout.categorical), layout.multi_hot, prefix)
    }

    /// Categorical columns of these vocabulary sizes, with default names.
    fn of_sizes(sizes: &[usize], prefix: &str) -> Self {
        let layout = FeatureLayout { categorical: sizes.len(), ..FeatureLayout::default() };
        let mut columns = Self::unnamed(&layout, prefix);
        columns.categorical.iter_mut().zip(sizes).for_each(|(column, &size)| column.size = size);
        columns
    }

    /// Default names for columns that are continuous or not: `prefix` for a single one, else
    /// `prefix0`, `prefix1`, …
    pub fn by_position(real: impl Iterator<Item = bool>, multi_hot: bool, prefix: &str) -> Self {
        let real: Vec<bool> = real.collect();
        let name = |at: usize| if real.len() == 1 { prefix.to_owned() } else { format!("{prefix}{at}") };
        let of_kind = |kind: bool| (0..real.len()).filter(|&at| real[at] == kind).map(name).collect::<Vec<_>>();
        let vocabulary = |name: String| Vocabulary::new(name, 0);
        Self {
            categorical: of_kind(false).into_iter().map(vocabulary).collect(),
            continuous: of_kind(true),
            multi_hot: multi_hot.then(|| vocabulary(format!("{prefix}_multi_hot"))),
            ignored: Vec::new(),
        }
    }

    /// Fills in each vocabulary of size 0 with the values that occur, and checks the others.
    fn cover(&mut self, graphs: &GraphStore, level: Level) -> Result<(), SchemaError> {
        let seen = graphs.vocabularies(level);
        let width = self.categorical.len();
        let columns = self.categorical.iter_mut().zip(seen.0).chain(self.multi_hot.iter_mut().map(|v| (v, seen.1)));
        for (column, (vocabulary, seen)) in columns.enumerate() {
            if vocabulary.size == 0 {
                vocabulary.size = seen.max(vocabulary.names.len()).max(1);
            } else if seen > vocabulary.size {
                let size = vocabulary.size;
                let beyond = |value: &&u32| **value as usize >= size;
                let found = graphs.iter().enumerate().find_map(|(number, graph)| {
                    let rows = if level == Level::Node { graph.node() } else { graph.edge() };
                    let value = match rows.multi_hot {
                        Some(words) if column == width => words.indices.iter().find(beyond),
                        _ => rows.categorical.iter().skip(column).step_by(width.max(1)).find(beyond),
                    };
                    value.map(|value| (number, *value as usize))
                });
                let (graph, value) = found.unwrap_or((0, seen - 1));
                return Err(SchemaError { graph, column: vocabulary.name.clone(), value, size });
            }
        }
        Ok(())
    }
}

/// A column of targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetColumn {
    /// Name of the column.
    pub name: String,
    /// Number of classes; 0 for a real number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub classes: usize,
    /// Names of the classes 0, 1, 2, …; empty if the classes are numbers of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl TargetColumn {
    /// A column whose classes have no names.
    pub fn new(name: impl Into<String>, classes: usize) -> Self {
        Self { name: name.into(), classes, names: Vec::new() }
    }

    /// The name of a class: its own, or its digits.
    pub fn class_name(&self, class: usize) -> String {
        self.names.get(class).cloned().unwrap_or_else(|| class.to_string())
    }
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
    /// Targets with default names. `classes` has the number of classes of each column, 0 for real
    /// numbers.
    pub fn new(level: Level, kind: TargetKind, classes: &[usize]) -> Self {
        let mut target = Self::unnamed(TargetLayout { level, kind, columns: classes.len() });
        target.columns.iter_mut().zip(classes).for_each(|(column, &classes)| column.classes = classes);
        target
    }

    /// Whether a pair of nodes is joined: what link prediction learns.
    pub fn link() -> Self {
        let columns = vec![TargetColumn::new("link", 2)];
        Self { level: Level::Edge, kind: TargetKind::Class, columns }
    }

    /// Number of classes of each column; 0 for real numbers.
    pub fn classes(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.classes).collect()
    }

    /// Numbers of columns.
    pub fn layout(&self) -> TargetLayout {
        TargetLayout { level: self.level, kind: self.kind, columns: self.columns.len() }
    }

    /// Default names for a number of columns: `y` for a single one, else `y0`, `y1`, …
    pub fn unnamed(layout: TargetLayout) -> Self {
        let name = |i: usize| if layout.columns == 1 { "y".to_owned() } else { format!("y{i}") };
        let columns = (0..layout.columns).map(|i| TargetColumn::new(name(i), 0)).collect();
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
    /// Categorical columns of these vocabulary sizes, with default names.
    ///
    /// ```
    /// use graph_transformer_graph::{Level, Schema, TargetKind, TargetSchema};
    ///
    /// let target = TargetSchema::new(Level::Graph, TargetKind::Float, &[0]);
    /// let molecules = Schema::categorical(&[28], &[4], target);
    /// assert_eq!(molecules.node.vocabulary_sizes(), [28]);
    /// ```
    pub fn categorical(node: &[usize], edge: &[usize], target: TargetSchema) -> Self {
        Self {
            node: FeatureSchema::of_sizes(node, NODE_PREFIX),
            edge: FeatureSchema::of_sizes(edge, EDGE_PREFIX),
            target: Some(target),
        }
    }

    /// A schema without the names of columns that are not read.
    #[must_use]
    pub fn without_ignored(mut self) -> Self {
        self.node.ignored.clear();
        self.edge.ignored.clear();
        self
    }

    /// A schema whose edge columns take any value: their vocabulary sizes are 0.
    pub fn with_any_edge_value(mut self) -> Self {
        self.edge.categorical.iter_mut().chain(&mut self.edge.multi_hot).for_each(|column| column.size = 0);
        self
    }

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
            node: FeatureSchema::unnamed(&layout.node, NODE_PREFIX),
            edge: FeatureSchema::unnamed(&layout.edge, EDGE_PREFIX),
            target: layout.target.map(TargetSchema::unnamed),
        }
    }

    /// Fills in every vocabulary and class count that is still 0 with the smallest that holds the
    /// data, and checks the others.
    ///
    /// ```
    /// use graph_transformer_graph::{FeatureRows, Graph, GraphParts, Schema};
    ///
    /// let node = FeatureRows { categorical: &[0, 4], ..Default::default() };
    /// let graph = Graph::new(GraphParts { num_nodes: 2, node, ..Default::default() })?;
    /// let mut schema = Schema::unnamed(graph.as_store().layout());
    /// assert_eq!(schema.node.vocabulary_sizes(), [0]);
    /// schema.cover(graph.as_store())?;
    /// assert_eq!(schema.node.vocabulary_sizes(), [5]);
    ///
    /// schema.node.categorical[0].size = 4;
    /// let error = schema.cover(graph.as_store()).unwrap_err();
    /// assert_eq!((error.graph, error.value, error.size), (0, 4, 4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The first value beyond its vocabulary, with its graph and column.
    pub fn cover(&mut self, graphs: &GraphStore) -> Result<(), SchemaError> {
        self.node.cover(graphs, Level::Node)?;
        self.edge.cover(graphs, Level::Edge)?;
        let (Some(schema), Some(rows)) = (&mut self.target, graphs.target()) else { return Ok(()) };
        let Some(classes) = rows.classes() else { return Ok(()) };
        let columns = schema.columns.len();
        let mut seen = vec![0usize; columns];
        for row in classes.chunks_exact(columns.max(1)) {
            for (seen, &class) in seen.iter_mut().zip(row) {
                if class != MISSING_CLASS {
                    *seen = (*seen).max(class as usize + 1);
                }
            }
        }
        for (at, (column, seen)) in schema.columns.iter_mut().zip(seen).enumerate() {
            let TargetColumn { name, classes: known, names } = column;
            if *known == 0 {
                *known = seen.max(names.len()).max(1);
            } else if seen > *known {
                let class = (seen - 1) as u32;
                let row = classes.iter().skip(at).step_by(columns).position(|found| *found == class).unwrap_or(0);
                let graph = (0..graphs.len()).find(|&graph| graphs.row_range(schema.level, graph).contains(&row));
                let (graph, value) = (graph.unwrap_or(0), class as usize);
                return Err(SchemaError { graph, column: name.clone(), value, size: *known });
            }
        }
        Ok(())
    }
}
