//! Which column of a table plays which role.

use super::table::Table;
use crate::error::{DataError, FileProblem, Result};

/// What the columns of foreign tables are. Empty fields fall back to the default names (see the module's table).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableMapping {
    /// Column with the graph of a row.
    pub graph: Option<String>,
    /// Column with the id of a node.
    pub node: Option<String>,
    /// Column with the source of an edge.
    pub src: Option<String>,
    /// Column with the target of an edge.
    pub dst: Option<String>,
    /// Columns with targets; all in one table, which decides their level.
    pub targets: Vec<String>,
    /// Column with the part of a split; its table decides the level.
    pub split: Option<String>,
    /// Columns that are categories whatever they look like.
    pub categorical: Vec<String>,
    /// Columns (also targets) that are real numbers even if all of them are integers.
    pub continuous: Vec<String>,
    /// The column that is a list of indices.
    pub multi_hot: Vec<String>,
    /// Columns to leave out.
    pub ignore: Vec<String>,
    /// Add the reverse of every edge (self loops excepted), for files that list each undirected edge once.
    pub undirected: bool,
}

impl TableMapping {
    /// True when all roles are defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Every column that is named must exist in one of the tables.
    pub(super) fn check(&self, tables: &[&Table]) -> Result<()> {
        let named = [&self.graph, &self.node, &self.src, &self.dst, &self.split].into_iter().flatten();
        let lists = [&self.targets, &self.categorical, &self.continuous, &self.multi_hot, &self.ignore];
        for name in named.chain(lists.into_iter().flatten()) {
            if !tables.iter().any(|t| t.position(name).is_some()) {
                let found = tables.iter().flat_map(|t| t.names()).map(str::to_owned).collect();
                let problem = FileProblem::MissingColumn { column: name.clone(), found, hint: "" };
                return Err(DataError::file(&tables[0].path, problem));
            }
        }
        Ok(())
    }

    /// The column of a role: the named one, or the first default that exists.
    pub(super) fn find(&self, named: Option<&String>, table: &Table, defaults: &[&str]) -> Option<usize> {
        match named {
            Some(name) => table.position(name),
            None => defaults.iter().find_map(|name| table.position(name)),
        }
    }
}
