//! Roles of table columns: targets, split, features and carried columns.

use gt_graph::{Level, Schema, TargetSchema};

use super::Tables;
use super::file_roles::FileRoles;
use super::ids::Ids;
use super::table::{Column, Table};
use crate::carried::KeptColumns;
use crate::choice::ColumnChoice;
use crate::columns as c;
use crate::error::{DataError, FileProblem, Result};
use crate::raw::CellKind;
use crate::resolve::{Expected, Wanted};

/// Columns of one table: the level, and the positions with the kinds of their cells.
pub(super) struct RoleColumns {
    pub(super) level: Level,
    pub(super) columns: Vec<(usize, CellKind)>,
}

/// Roles of all columns except ids.
pub(super) struct Roles {
    pub(super) targets: Option<RoleColumns>,
    pub(super) split: Option<(Level, usize)>,
    pub(super) node: Vec<(usize, CellKind)>,
    pub(super) edge: Vec<(usize, CellKind)>,
    /// Carried columns, with the levels of their tables.
    pub(super) carried: Vec<(Level, usize)>,
}

impl Roles {
    pub(super) fn new(
        tables: &Tables,
        ids: &Ids,
        mapping: &FileRoles,
        expected: Option<&Expected<'_>>,
        stored: Option<&Schema>,
        wanted: &Wanted,
    ) -> Result<Self> {
        let choice = &mapping.columns;
        let chosen = stored.filter(|_| expected.is_none()).map(|stored| choice.apply(stored)).transpose();
        let chosen = chosen.map_err(|problem| DataError::file(&tables.nodes.path, problem))?;
        let schema = expected.map(|expected| &*expected.schema).or(chosen.as_ref());
        let split = tables.leveled().find_map(|(level, table)| {
            mapping.find(mapping.split.as_ref(), table, &[c::SPLIT]).map(|at| (level, at)).filter(|_| wanted.split)
        });
        let targets = match schema {
            _ if !wanted.targets => None,
            Some(Schema { target: Some(target), .. }) => Some(find_targets(tables, target, stored)?),
            _ if !choice.targets.is_empty() => Some(named_targets(tables, mapping)?),
            Some(_) => None,
            None => usual_targets(tables, mapping),
        };
        let roles = Self { targets, split, node: Vec::new(), edge: Vec::new(), carried: Vec::new() };
        let named = |level: Level, name: &str| {
            schema.into_iter().chain(stored).any(|schema| {
                let features = if level == Level::Node { &schema.node } else { &schema.edge };
                features.names().any(|known| known == name)
            })
        };
        let features = |level: Level, table: &Table, ids: &[usize]| {
            let feature = |at: &usize| {
                let name = &table.columns[*at].name;
                let taken = roles.taken(level, *at, name, mapping) || level == Level::Node && is_encoding(name);
                !ids.contains(at) && (named(level, name) || schema.is_none() && !taken)
            };
            let has_names = |name: &str| {
                schema.into_iter().chain(stored).any(|schema| {
                    let features = if level == Level::Node { &schema.node } else { &schema.edge };
                    features.categorical.iter().any(|column| column.name == name && !column.names.is_empty())
                })
            };
            let columns = (0..table.columns.len()).filter(feature).map(|at| (at, &table.columns[at]));
            columns.map(|(at, column)| (at, kind(column, mapping, has_names(&column.name)))).collect()
        };
        let node = features(Level::Node, &tables.nodes, &ids.node_columns);
        let edge = features(Level::Edge, &tables.edges, &ids.edge_columns);
        let roles = Self { node, edge, ..roles };
        let carried = match wanted.keep.columns {
            KeptColumns::Nothing => Vec::new(),
            KeptColumns::All => roles.all_carried(tables, mapping, wanted, expected.is_some()),
            KeptColumns::Named(ref names) => find_carried(tables, names, wanted.keep.level)?,
        };
        Ok(Self { carried, ..roles })
    }

    /// All columns that no model reads, in the table of graphs and in the one that predictions have
    /// rows for. A data set has its own ids of graphs, so it does not carry those.
    fn all_carried(&self, tables: &Tables, mapping: &FileRoles, wanted: &Wanted, ids: bool) -> Vec<(Level, usize)> {
        let (mut carried, mut names): (Vec<(Level, usize)>, Vec<&str>) = Default::default();
        for (level, table) in tables.carrying(wanted.keep.level) {
            let graph = mapping.find(mapping.graph.as_ref(), table, &["graph"]).filter(|_| !ids);
            let features = match level {
                Level::Graph => &[][..],
                Level::Node => &self.node,
                Level::Edge => &self.edge,
            };
            let is_carried = |at: &usize| {
                let name = &table.columns[*at].name;
                let is_read =
                    features.iter().any(|(feature, _)| feature == at) || self.taken(level, *at, name, mapping);
                Some(*at) != graph && !is_read && !(level == Level::Node && is_encoding(name))
            };
            for at in (0..table.columns.len()).filter(is_carried) {
                let name = table.columns[at].name.as_str();
                if !names.contains(&name) {
                    names.push(name);
                    carried.push((level, at));
                }
            }
        }
        carried
    }

    /// Whether a column is a target or a split, or a column that is ignored and would be carried.
    fn taken(&self, level: Level, at: usize, name: &String, mapping: &FileRoles) -> bool {
        let target = self.targets.as_ref().filter(|targets| targets.level == level);
        let target = target.is_some_and(|targets| targets.columns.iter().any(|(column, _)| *column == at));
        let ignored = level == Level::Graph && mapping.columns.ignore.contains(name);
        target || self.split == Some((level, at)) || ignored
    }
}

/// Finds columns by name: first in the table that predictions have rows for, then in the table of
/// graphs.
fn find_carried(tables: &Tables, names: &[String], level: Level) -> Result<Vec<(Level, usize)>> {
    let find = |name: &String| {
        let mut places = tables.carrying(level);
        let found = places.find_map(|(level, table)| table.position(name).map(|at| (level, at)));
        found.ok_or_else(|| {
            let found = tables.carrying(level).flat_map(|(_, table)| table.names().map(str::to_owned)).collect();
            let problem = FileProblem::MissingColumn { column: name.clone(), found, hint: "" };
            DataError::file(&tables.of(level).unwrap_or(&tables.nodes).path, problem)
        })
    };
    names.iter().map(find).collect()
}

/// The kind of a column's cells: names if a schema has names, as the user states, otherwise
/// inferred from the values.
fn kind(column: &Column, mapping: &FileRoles, has_names: bool) -> CellKind {
    let FileRoles { columns: ColumnChoice { categorical, continuous, .. }, multi_hot, .. } = mapping;
    if has_names || categorical.contains(&column.name) && column.has_text() {
        CellKind::Text
    } else if categorical.contains(&column.name) {
        CellKind::Integer
    } else if continuous.contains(&column.name) {
        CellKind::Real
    } else if multi_hot.contains(&column.name) {
        CellKind::List
    } else {
        column.kind()
    }
}

fn columns(table: &Table, level: Level, names: &[(String, bool)], mapping: &FileRoles) -> Option<RoleColumns> {
    let column = |(name, has_names): &(String, bool)| {
        let at = table.position(name)?;
        Some((at, kind(&table.columns[at], mapping, *has_names)))
    };
    let columns: Option<Vec<(usize, CellKind)>> = names.iter().map(column).collect();
    Some(RoleColumns { level, columns: columns? })
}

/// Finds the targets of a schema in the table of their level. Missing names are replaced by the
/// names that the file states.
fn find_targets(tables: &Tables, target: &TargetSchema, stored: Option<&Schema>) -> Result<RoleColumns> {
    let has_names = |name: &str| {
        let stored = stored.and_then(|schema| schema.target.as_ref());
        let mut columns = stored.into_iter().chain([target]).flat_map(|target| &target.columns);
        columns.any(|column| column.name == name && !column.names.is_empty())
    };
    let names = |target: &TargetSchema| {
        let columns = target.columns.iter().map(|column| (column.name.clone(), has_names(&column.name)));
        columns.collect::<Vec<_>>()
    };
    let find = |names: &[(String, bool)]| {
        let mut leveled = tables.leveled().filter(|(level, _)| *level == target.level);
        leveled.find_map(|(level, table)| columns(table, level, names, &FileRoles::default()))
    };
    let stored = stored.and_then(|schema| schema.target.as_ref());
    let same = |stored: &&TargetSchema| stored.columns.len() == target.columns.len();
    let found = find(&names(target)).or_else(|| stored.filter(same).and_then(|stored| find(&names(stored))));
    let scattered = || target.columns.iter().map(|column| column.name.clone()).collect();
    found.ok_or_else(|| DataError::file(&tables.nodes.path, FileProblem::ScatteredTargets(scattered())))
}

/// The target columns that the user names; all must be in one table.
fn named_targets(tables: &Tables, mapping: &FileRoles) -> Result<RoleColumns> {
    let targets = &mapping.columns.targets;
    let names: Vec<(String, bool)> = targets.iter().map(|name| (name.clone(), false)).collect();
    let found = tables.leveled().find_map(|(level, table)| columns(table, level, &names, mapping));
    let scattered = || FileProblem::ScatteredTargets(targets.clone());
    found.ok_or_else(|| DataError::file(&tables.nodes.path, scattered()))
}

/// The target column with the default name.
fn usual_targets(tables: &Tables, mapping: &FileRoles) -> Option<RoleColumns> {
    let ColumnChoice { features, ignore, .. } = &mapping.columns;
    let free = |name: &&&str| !features.iter().chain(ignore).any(|taken| taken == **name);
    tables.leveled().find_map(|(level, table)| {
        let at = ["y", "label"].iter().filter(free).find_map(|name| table.position(name))?;
        Some(RoleColumns { level, columns: vec![(at, kind(&table.columns[at], mapping, false))] })
    })
}

/// Whether a name is that of an encoding column, such as `lap_pe3` for column 3 of the Laplacian
/// encoding.
fn is_encoding(name: &str) -> bool {
    let numbered = |prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<usize>().is_ok());
    name == c::WL_PE || numbered(c::LAP_PE) || numbered(c::RW_PE)
}
