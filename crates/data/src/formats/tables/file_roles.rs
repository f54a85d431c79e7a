//! Columns of a file that the user gives roles.

use super::Tables;
use super::table::Table;
use crate::choice::ColumnChoice;
use crate::error::{DataError, FileProblem, Result};

/// Columns that the user chooses, and roles of the columns of tables from other programs. Empty
/// fields mean the default names (see the table in the module documentation).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRoles {
    /// Column with the graph of a row.
    pub graph: Option<String>,
    /// Column with the id of a node.
    pub node: Option<String>,
    /// Column with the source of an edge.
    pub src: Option<String>,
    /// Column with the target of an edge.
    pub dst: Option<String>,
    /// Column that names the part of a split. Its table decides the level of the split.
    pub split: Option<String>,
    /// Columns that hold lists of indices.
    pub multi_hot: Vec<String>,
    /// Adds the reverse of every edge except self loops, for files that list each undirected edge
    /// once.
    pub undirected: bool,
    /// Targets, features and ignored columns, in every format. Targets of tables are in one table,
    /// whose level is the level of the targets.
    pub columns: ColumnChoice,
}

impl FileRoles {
    /// The first role that only tables have.
    pub(crate) fn of_tables(&self) -> Option<&'static str> {
        let named = |column: &Option<String>| column.is_some();
        let roles = [
            ("--graph-column", named(&self.graph)),
            ("--node-column", named(&self.node)),
            ("--src", named(&self.src)),
            ("--dst", named(&self.dst)),
            ("--split-column", named(&self.split)),
            ("--multi-hot", !self.multi_hot.is_empty()),
            ("--undirected", self.undirected),
        ];
        roles.into_iter().find_map(|(role, set)| set.then_some(role))
    }

    /// Checks that every named column exists in its table, or in one of the tables where the role
    /// does not say which.
    pub(super) fn check(&self, tables: &Tables) -> Result<()> {
        let all: Vec<&Table> = tables.leveled().map(|(_, table)| table).collect();
        let (nodes, edges) = (&[&tables.nodes][..], &[&tables.edges][..]);
        let roles =
            [(&self.node, nodes), (&self.src, edges), (&self.dst, edges), (&self.graph, &all), (&self.split, &all)];
        let named = roles.into_iter().flat_map(|(name, tables)| name.iter().map(move |name| (name, tables)));
        let others = self.multi_hot.iter().chain(self.columns.names());
        for (name, tables) in named.chain(others.map(|name| (name, &all[..]))) {
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
