//! A data set: checked graphs, the names of their columns, their split and the carried columns.

use std::path::Path;

use gt_graph::encoding::Encodings;
use gt_graph::{GraphStore, Level, Schema};

use crate::error::{DataError, RequestProblem, Result};
use crate::extra::Extra;
use crate::known;
use crate::resolve::Resolved;

/// The part (such as `train`) of each graph, node or edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    /// Level of the split: whole graphs, or the nodes or edges of graphs (usually of one large
    /// graph).
    pub level: Level,
    /// Names of the parts, in order of first appearance.
    pub names: Vec<String>,
    /// The part of each row of the split's level, over all graphs.
    pub codes: Vec<u16>,
}

impl Splits {
    /// An empty split of a level.
    pub fn new(level: Level) -> Self {
        Self { level, names: Vec::new(), codes: Vec::new() }
    }

    /// A split of graphs into one part.
    pub fn whole(graphs: usize, name: &str) -> Self {
        Self { level: Level::Graph, names: vec![name.to_owned()], codes: vec![0; graphs] }
    }

    /// Appends a row; `None` if there would be more than 65,536 parts.
    pub fn push(&mut self, name: &str) -> Option<()> {
        let code = match self.names.iter().position(|n| n == name) {
            Some(code) => code,
            None => {
                self.names.push(name.to_owned());
                self.names.len() - 1
            }
        };
        self.codes.push(u16::try_from(code).ok()?);
        Some(())
    }

    /// The part of a row.
    pub fn name(&self, row: usize) -> &str {
        &self.names[self.codes[row] as usize]
    }

    /// Rows that belong to a part.
    pub fn rows(&self, name: &str) -> Vec<usize> {
        let Some(code) = self.names.iter().position(|n| n == name) else { return Vec::new() };
        self.codes.iter().enumerate().filter(|(_, c)| **c as usize == code).map(|(row, _)| row).collect()
    }
}

/// Checked graphs with their column names, split and carried columns.
///
/// ```
/// use graph_transformer_data::{Dataset, PartInfo, Splits, content_hash};
/// use gt_graph::encoding::{Encodings, WeisfeilerLehman, encode_all};
/// use gt_graph::{GraphParts, GraphStore, Layout, Level, Schema};
/// use gt_graph::{TargetKind, TargetLayout, TargetRows};
///
/// // Two paths of 2 and 3 nodes, with a number to predict for each.
/// let target = TargetLayout { level: Level::Graph, kind: TargetKind::Float, columns: 1 };
/// let layout = Layout { target: Some(target), ..Default::default() };
/// let mut graphs = GraphStore::new(layout.clone());
/// for (last, y) in [(1, 0.5), (2, 1.5)] {
///     let (src, dst): (Vec<u32>, Vec<u32>) = (0..last).map(|node| (node, node + 1)).unzip();
///     let target = Some(TargetRows::Float(&[y]));
///     let num_nodes = src.len() + 1;
///     graphs.push(GraphParts { num_nodes, src: &src, dst: &dst, target, ..Default::default() })?;
/// }
/// let mut data = Dataset::new(Schema::unnamed(&layout), graphs)?;
///
/// let mut split = Splits::new(Level::Graph);
/// for name in ["train", "test"] {
///     split.push(name).unwrap();
/// }
/// data.set_split(split)?;
/// let parts = PartInfo::of_all(data.graphs(), data.schema(), data.split());
/// let sizes: Vec<_> = parts.iter().map(|(name, part)| (&name[..], part.nodes)).collect();
/// assert_eq!(sizes, [("train", 2), ("test", 3)]);
///
/// // Encodings are no part of the content.
/// let content = content_hash(data.graphs());
/// let roles = encode_all(&WeisfeilerLehman::default(), data.graphs()).map_err(|(_, e)| e)?;
/// data.set_encodings(Encodings { weisfeiler_lehman: Some(roles), ..Default::default() })?;
/// assert_eq!(content_hash(&data.into_graphs()), content);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    schema: Schema,
    graphs: GraphStore,
    split: Option<Splits>,
    extras: Vec<Extra>,
    classes_from_numbers: bool,
}

impl Dataset {
    /// Joins graphs and the names of their columns. Vocabularies and class counts of size 0 are
    /// computed from the data.
    ///
    /// # Errors
    /// If the schema's columns are not those of the graphs, or a value is beyond its vocabulary.
    pub fn new(mut schema: Schema, graphs: GraphStore) -> Result<Self> {
        let (stated, found) = (schema.layout(), graphs.layout());
        for (level, stated, found) in
            [(Level::Node, &stated.node, &found.node), (Level::Edge, &stated.edge, &found.edge)]
        {
            if stated != found {
                let (stated, found) = (stated.clone(), found.clone());
                return Err(RequestProblem::OtherFeatures { level, stated, found }.into());
            }
        }
        if stated.target != found.target {
            return Err(RequestProblem::OtherTargets.into());
        }
        schema.cover(&graphs).map_err(RequestProblem::Schema)?;
        Ok(Self { schema, graphs, split: None, extras: Vec::new(), classes_from_numbers: false })
    }

    /// Builds the data set that a reader found. A data set known by its content gets its published
    /// vocabularies if the file states no schema.
    pub(crate) fn from_file(path: &Path, resolved: Resolved, extras: Vec<Extra>) -> Result<Self> {
        let Resolved { mut schema, inferred, classes_from_numbers, choice, mut graphs, split } = resolved;
        graphs.shrink_to_fit();
        if inferred {
            known::complete(&mut schema, &graphs);
        }
        schema.cover(&graphs).map_err(|error| DataError::file(path, error.into()))?;
        choice.enlarge(&mut schema).map_err(|problem| DataError::file(path, problem))?;
        Ok(Self { schema, graphs, split, extras, classes_from_numbers })
    }

    /// Names and sizes of the columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The graphs.
    pub fn graphs(&self) -> &GraphStore {
        &self.graphs
    }

    /// Returns the graphs without schema, split and carried columns.
    pub fn into_graphs(self) -> GraphStore {
        self.graphs
    }

    /// The part of each graph, node or edge, if the file states a split.
    pub fn split(&self) -> Option<&Splits> {
        self.split.as_ref()
    }

    /// Whether the file has its classes as real numbers, 0.0, 1.0, …, and does not state that they
    /// are classes.
    pub fn has_classes_from_numbers(&self) -> bool {
        self.classes_from_numbers
    }

    /// Carried columns, which no model reads.
    pub fn extras(&self) -> &[Extra] {
        &self.extras
    }

    /// The carried column of a name.
    pub fn extra(&self, name: &str) -> Option<&Extra> {
        self.extras.iter().find(|e| e.name() == name)
    }

    /// Replaces the split.
    ///
    /// # Errors
    /// If the split does not have exactly one part for every row.
    pub fn set_split(&mut self, split: Splits) -> Result<()> {
        let (found, rows) = (split.codes.len(), self.graphs.rows(split.level));
        if found != rows {
            return Err(RequestProblem::SplitLength { level: split.level, found, rows }.into());
        }
        self.split = Some(split);
        Ok(())
    }

    /// Replaces the encodings.
    ///
    /// # Errors
    /// If an encoding does not have a row for every node.
    pub fn set_encodings(&mut self, encodings: Encodings) -> Result<()> {
        Ok(self.graphs.set_encodings(encodings).map_err(RequestProblem::Graph)?)
    }
}
