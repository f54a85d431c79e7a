//! A data set: checked graphs, the names of their columns, their split and whatever else the file said of each graph.

use std::path::Path;

use arrow_array::ArrayRef;
use gt_graph::encoding::Encodings;
use gt_graph::{FeatureLayout, GraphStore, Level};

use crate::error::{DataError, Result};
use crate::known;
use gt_graph::Schema;

/// Which part of the data each graph, node or edge belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    /// What is split: whole graphs, or the nodes or edges of (usually one large) graph.
    pub level: Level,
    /// The parts' names, in order of first appearance.
    pub names: Vec<String>,
    /// For each row of that level, over all graphs, its part.
    pub codes: Vec<u16>,
}

impl Splits {
    /// An empty split of a level.
    pub fn new(level: Level) -> Self {
        Self { level, names: Vec::new(), codes: Vec::new() }
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

/// A column of the file that no model reads (a name, a SMILES string): one value per graph, carried along.
#[derive(Clone, Debug)]
pub struct Extra {
    /// Name of the column.
    pub name: String,
    /// The values, nulls included.
    pub values: ArrayRef,
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && *self.values == *other.values
    }
}

/// Checked graphs with everything that a file says of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    schema: Schema,
    graphs: GraphStore,
    split: Option<Splits>,
    extras: Vec<Extra>,
}

impl Dataset {
    /// Joins graphs and the names of their columns; vocabularies and class counts of size 0 are filled in from the data.
    ///
    /// # Errors
    /// If the schema's columns are not those of the graphs, or a value is beyond its vocabulary.
    pub fn new(mut schema: Schema, graphs: GraphStore) -> Result<Self> {
        let (stated, found) = (schema.layout(), graphs.layout());
        for (level, stated, found) in
            [(Level::Node, &stated.node, &found.node), (Level::Edge, &stated.edge, &found.edge)]
        {
            let list = |layout: &FeatureLayout| {
                let words = if layout.multi_hot { " and lists of indices" } else { "" };
                format!("{} categorical and {} continuous columns{words}", layout.categorical, layout.continuous)
            };
            if stated != found {
                let (stated, found) = (list(stated), list(found));
                return Err(DataError::Request(format!(
                    "of {level}s the schema names {stated}, the graphs have {found}"
                )));
            }
        }
        if stated.target != found.target {
            return Err(DataError::Request("the schema names other targets than the graphs have".into()));
        }
        schema.cover(&graphs).map_err(DataError::Request)?;
        Ok(Self { schema, graphs, split: None, extras: Vec::new() })
    }

    /// As [`Dataset::new`], for a reader, with the schema that is stated or else default names: errors name the file, and data sets known by their content get their
    /// published vocabularies where the file does not state any.
    pub(crate) fn from_file(
        path: &Path,
        schema: Result<Schema, Schema>,
        mut graphs: GraphStore,
        split: Option<Splits>,
        extras: Vec<Extra>,
    ) -> Result<Self> {
        if graphs.is_empty() {
            return Err(DataError::file(path, "there is no graph in it"));
        }
        graphs.shrink_to_fit();
        let schema = schema.unwrap_or_else(|mut unnamed| {
            known::complete(&mut unnamed, &graphs);
            unnamed
        });
        let mut dataset = Self::new(schema, graphs).map_err(|e| DataError::file(path, e.to_string()))?;
        if let Some(split) = split {
            dataset.set_split(split).map_err(|e| DataError::file(path, e.to_string()))?;
        }
        dataset.extras = extras;
        Ok(dataset)
    }

    /// Names and sizes of the columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The graphs.
    pub fn graphs(&self) -> &GraphStore {
        &self.graphs
    }

    /// The graphs alone.
    pub fn into_graphs(self) -> GraphStore {
        self.graphs
    }

    /// Which part each graph, node or edge belongs to, if the file says so.
    pub fn split(&self) -> Option<&Splits> {
        self.split.as_ref()
    }

    /// Columns carried along.
    pub fn extras(&self) -> &[Extra] {
        &self.extras
    }

    /// A column carried along.
    pub fn extra(&self, name: &str) -> Option<&Extra> {
        self.extras.iter().find(|e| e.name == name)
    }

    /// Replaces the split.
    ///
    /// # Errors
    /// If there is not one part for every row.
    pub fn set_split(&mut self, split: Splits) -> Result<()> {
        let (found, rows) = (split.codes.len(), self.graphs.rows(split.level));
        if found != rows {
            return Err(DataError::Request(format!("the split names {found} {}s, but there are {rows}", split.level)));
        }
        self.split = Some(split);
        Ok(())
    }

    /// Replaces the encodings.
    ///
    /// # Errors
    /// If one of them does not have a row for every node.
    pub fn set_encodings(&mut self, encodings: Encodings) -> Result<()> {
        self.graphs.set_encodings(encodings).map_err(|e| DataError::Request(e.to_string()))
    }
}
