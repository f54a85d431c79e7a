//! Roles of the columns of tables.

use super::Tables;
use super::table::Table;
use crate::error::{DataError, FileProblem, Result};

/// Roles of the columns of tables from other programs. Empty fields mean the default names (see the
/// table in the module documentation).
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
    /// Target columns. All of them are in one table, whose level is the level of the targets.
    pub targets: Vec<String>,
    /// Column that names the part of a split. Its table decides the level of the split.
    pub split: Option<String>,
    /// Columns that are categorical, whatever their values look like.
    pub categorical: Vec<String>,
    /// Columns (including targets) that are real numbers even if all values are integers.
    pub continuous: Vec<String>,
    /// Columns that hold lists of indices.
    pub multi_hot: Vec<String>,
    /// Columns to leave out.
    pub ignore: Vec<String>,
    /// Adds the reverse of every edge except self loops, for files that list each undirected edge
    /// once.
    pub undirected: bool,
}

impl TableMapping {
    /// True when all roles have default values.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that every named column exists in its table, or in one of the tables where the role
    /// does not say which.
    pub(super) fn check(&self, tables: &Tables) -> Result<()> {
        let all: Vec<&Table> = tables.leveled().map(|(_, table)| table).collect();
        let (nodes, edges) = (&[&tables.nodes][..], &[&tables.edges][..]);
        let roles =
            [(&self.node, nodes), (&self.src, edges), (&self.dst, edges), (&self.graph, &all), (&self.split, &all)];
        let named = roles.into_iter().flat_map(|(name, tables)| name.iter().map(move |name| (name, tables)));
        let lists = [&self.targets, &self.categorical, &self.continuous, &self.multi_hot, &self.ignore];
        for (name, tables) in named.chain(lists.into_iter().flatten().map(|name| (name, &all[..]))) {
            if !tables.iter().any(|table| table.position(name).is_some()) {
                let found = tables.iter().flat_map(|table| table.names()).map(str::to_owned).collect();
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
