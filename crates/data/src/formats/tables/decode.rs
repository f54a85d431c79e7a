//! Decodes tables into raw graphs. Tables are read as a whole, and their graphs are returned in
//! chunks.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow_buffer::NullBuffer;
use gt_graph::{FileId, Level, Schema};

use super::file_roles::FileRoles;
use super::ids::Ids;
use super::roles::{RoleColumns, Roles};
use super::table::Table;
use super::{TablePaths, Tables, schema_path};
use crate::budget::{Budget, LONGEST_LINE};
use crate::carried::{Carried, Cells};
use crate::columns as c;
use crate::error::{DataError, FileProblem, Result};
use crate::formats::ChunkLimits;
use crate::raw::{
    Bounds, CellKind, Depth, Extent, NamedColumn, RawColumn, RawFeatures, RawGraphs, RawTargets, RawTexts, TableRows,
    Values,
};
use crate::reason::Problem;
use crate::resolve::{Expected, Wanted};
use crate::stored_schema::StoredSchema;

/// Checks that the columns of an encoding count from 0 without a gap. A column behind a gap would
/// be ignored silently.
fn check_numbers(table: &Table, prefix: &str) -> Result<()> {
    let is_numbered = |name: &str| name.strip_prefix(prefix).is_some_and(|number| number.parse::<usize>().is_ok());
    let count = table.columns.iter().filter(|column| is_numbered(&column.name)).count();
    match (0..count).map(|at| format!("{prefix}{at}")).find(|name| table.position(name).is_none()) {
        Some(column) => {
            let found = table.columns.iter().map(|column| column.name.clone()).collect();
            let hint = "; the columns of an encoding count from 0";
            Err(DataError::file(&table.path, FileProblem::MissingColumn { column, found, hint }))
        }
        None => Ok(()),
    }
}

/// Reads tables.
pub(crate) struct Decoder {
    tables: Tables,
    ids: Ids,
    roles: Roles,
    stored: Option<StoredSchema>,
    /// Level, name and values of the carried columns, a value per row of their table.
    carried: Vec<(Level, String, ArrayRef)>,
    origin: Arc<TableRows>,
    limits: ChunkLimits,
    /// Position of the next graph.
    next: usize,
}

impl Decoder {
    pub(crate) fn open(
        paths: &TablePaths,
        mapping: &FileRoles,
        expected: Option<&Expected<'_>>,
        limits: ChunkLimits,
        wanted: &Wanted,
    ) -> Result<Self> {
        let beside = schema_path(&paths.nodes);
        let seal = (FileId::of(&beside), find_schema(&beside)?);
        let tables = Tables {
            nodes: Table::read(&paths.nodes)?,
            edges: Table::read(&paths.edges)?,
            graphs: paths.graphs.as_deref().map(Table::read).transpose()?,
        };
        if FileId::of(&beside) != seal.0 {
            return Err(DataError::file(&beside, FileProblem::OpenSet));
        }
        let all: Vec<&Table> = tables.leveled().map(|(_, table)| table).collect();
        if let Some(table) = all.iter().find(|table| table.columns.is_empty()) {
            return Err(DataError::file(&table.path, FileProblem::NoColumns));
        }
        mapping.check(&tables)?;
        let encodings = [c::LAP_PE, c::RW_PE].into_iter().filter(|name| wanted.has_column(name));
        encodings.into_iter().try_for_each(|prefix| check_numbers(&tables.nodes, prefix))?;
        let stored = seal.1.filter(|_| mapping.of_tables().is_none());
        let ids = Ids::new(&tables.nodes, &tables.edges, tables.graphs.as_ref(), mapping)?;
        let roles = Roles::new(&tables, &ids, mapping, expected, stored.as_ref().map(|stored| &stored.schema), wanted)?;
        let carry = |&(level, at): &(Level, usize)| {
            let table = tables.of(level)?;
            let values = read_carried(table, at, stored.as_ref());
            Some(values.map(|values| (level, table.columns[at].name.clone(), values)))
        };
        let carried = roles.carried.iter().filter_map(carry).collect::<Result<_>>()?;
        let graphs = (0..ids.graphs).collect();
        let graph_path = paths.graphs.clone().unwrap_or_else(|| paths.nodes.clone());
        let origin = TableRows {
            paths: [graph_path, paths.nodes.clone(), paths.edges.clone()],
            rows: [graphs, ids.nodes.rows.clone(), ids.edges.rows.clone()],
            offsets: [(0..=ids.graphs).collect(), ids.nodes.offsets.clone(), ids.edges.offsets.clone()],
        };
        Ok(Self { tables, ids, roles, stored, carried, origin: Arc::new(origin), limits, next: 0 })
    }

    /// The budget of the table of nodes.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.tables.nodes.budget)
    }

    /// The schema in the file next to the tables.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.stored.as_ref().map(|stored| &stored.schema)
    }

    /// Returns the next graphs.
    pub(crate) fn next(&mut self) -> Option<RawGraphs> {
        let graphs = self.next_range();
        self.next = graphs.end;
        if graphs.is_empty() {
            return None;
        }
        let broken =
            self.ids.broken.range(graphs.clone()).map(|(graph, reason)| (graph - graphs.start, reason.clone()));
        let sizes = graphs.clone().map(|graph| self.ids.nodes.range(graph).len() as i64);
        let targets = match &self.roles.targets {
            None => RawTargets::Nothing,
            Some(RoleColumns { level, columns }) => {
                RawTargets::Named { level: *level, columns: self.gather(*level, columns, &graphs) }
            }
        };
        Some(RawGraphs {
            count: graphs.len(),
            names: [&self.tables.nodes, &self.tables.edges].map(|table| table.names().map(str::to_owned).collect()),
            broken: broken.collect(),
            num_nodes: RawColumn {
                extent: Extent::WholeFile,
                values: Values::Integers(sizes.collect()),
                ..RawColumn::missing(c::NUM_NODES)
            },
            edge_index: self.edge_index(&graphs),
            node: RawFeatures::Named(self.gather(Level::Node, &self.roles.node, &graphs)),
            edge: RawFeatures::Named(self.gather(Level::Edge, &self.roles.edge, &graphs)),
            targets,
            splits: [Level::Graph, Level::Node, Level::Edge].map(|level| self.split(level, &graphs)),
            encodings: [
                self.coordinates(c::LAP_PE, &graphs),
                self.coordinates(c::RW_PE, &graphs),
                self.roles_of_nodes(&graphs),
            ],
            carried: self.carried(&graphs),
            origin: Some(self.origin.clone()),
        })
    }

    /// The next graphs within the limits, at least one if any is left.
    fn next_range(&self) -> Range<usize> {
        let size = |graph| self.ids.nodes.range(graph).len() + self.ids.edges.range(graph).len();
        let mut content = 0;
        let fits = |graph: &usize| {
            content += size(*graph);
            *graph == self.next || content <= self.limits.content
        };
        let count = (self.next..self.ids.graphs).take(self.limits.graphs).take_while(fits).count();
        self.next..self.next + count
    }

    /// Rows of a table that belong to a range of graphs, and the bounds of each graph's rows.
    fn rows(&self, level: Level, graphs: &Range<usize>) -> (&[usize], Bounds) {
        let TableRows { rows, offsets, .. } = &*self.origin;
        let (rows, offsets) = (&rows[level as usize], &offsets[level as usize][graphs.start..=graphs.end]);
        let bounds = match level {
            Level::Graph => Bounds::Single,
            _ => Bounds::Owned(offsets.iter().map(|offset| offset - offsets[0]).collect()),
        };
        (&rows[offsets[0]..offsets[graphs.len()]], bounds)
    }

    fn gather(&self, level: Level, columns: &[(usize, CellKind)], graphs: &Range<usize>) -> Vec<NamedColumn> {
        let Some(table) = self.tables.of(level) else { return Vec::new() };
        let column = |&(at, kind): &(usize, CellKind)| {
            let (rows, bounds) = self.rows(level, graphs);
            NamedColumn { values: table.columns[at].gather(rows, bounds, kind), kind }
        };
        columns.iter().map(column).collect()
    }

    fn edge_index(&self, graphs: &Range<usize>) -> RawColumn {
        let (mut values, mut ends): (Vec<i64>, _) = (Vec::new(), vec![0]);
        for graph in graphs.clone() {
            let range = self.ids.edges.range(graph);
            for nodes in [&self.ids.src, &self.ids.dst] {
                values.extend(nodes[range.clone()].iter().map(|&node| i64::from(node)));
                ends.push(values.len());
            }
        }
        RawColumn {
            extent: Extent::WholeFile,
            graphs: Bounds::Owned((0..=graphs.len()).map(|graph| 2 * graph).collect()),
            rows: Bounds::Owned(ends),
            values: Values::Integers(values.into()),
            depth: Depth::Same(2),
            ..RawColumn::missing(c::EDGE_INDEX)
        }
    }

    fn split(&self, level: Level, graphs: &Range<usize>) -> RawTexts {
        let split = self.roles.split.filter(|(own, _)| *own == level);
        let Some(((_, at), table)) = split.zip(self.tables.of(level)) else { return RawTexts::missing(c::SPLIT) };
        let ((rows, bounds), column) = (self.rows(level, graphs), &table.columns[at]);
        let words = rows.iter().map(|&row| column.text(row));
        let present = Some(NullBuffer::new_valid(graphs.len()));
        RawTexts { name: c::SPLIT, graphs: bounds, values: words.collect(), present }
    }

    /// Columns `lap_pe0`, `lap_pe1`, … as rows.
    fn coordinates(&self, prefix: &str, graphs: &Range<usize>) -> RawColumn {
        let table = &self.tables.nodes;
        let columns: Vec<_> = (0..).map_while(|at| table.position(&format!("{prefix}{at}"))).collect();
        if columns.is_empty() {
            return RawColumn::missing(prefix);
        }
        let (rows, bounds) = self.rows(Level::Node, graphs);
        let ends = (0..=rows.len()).map(|row| row * columns.len()).collect();
        let columns: Vec<_> = columns.iter().map(|&at| &table.columns[at]).collect();
        let (values, nulls) = super::table::interleave(&columns, rows);
        RawColumn {
            extent: Extent::WholeFile,
            graphs: bounds,
            rows: Bounds::Owned(ends),
            values,
            nulls,
            depth: Depth::Same(2),
            ..RawColumn::missing(prefix)
        }
    }

    fn roles_of_nodes(&self, graphs: &Range<usize>) -> RawColumn {
        let Some(at) = self.tables.nodes.position(c::WL_PE) else { return RawColumn::missing(c::WL_PE) };
        let (rows, bounds) = self.rows(Level::Node, graphs);
        self.tables.nodes.columns[at].gather(rows, bounds, CellKind::Integer)
    }

    /// Columns that no model reads.
    fn carried(&self, graphs: &Range<usize>) -> Vec<Carried> {
        let column = |(level, name, values): &(Level, String, ArrayRef)| {
            let (rows, bounds) = self.rows(*level, graphs);
            let rows: UInt64Array = rows.iter().map(|&row| row as u64).collect::<Vec<_>>().into();
            let values = arrow_select::take::take(values, &rows, None).expect("rows are those of the table");
            Carried::new(name, Cells::Typed(values), bounds)
        };
        self.carried.iter().map(column).collect()
    }
}

fn read_carried(table: &Table, at: usize, stored: Option<&StoredSchema>) -> Result<ArrayRef> {
    let (column, rows) = (&table.columns[at], 0..table.rows);
    let declared = stored.and_then(|s| s.extras.get(&column.name)).map(String::as_str);
    let kind = match declared {
        Some("integer") => CellKind::Integer,
        Some("real") => CellKind::Real,
        Some(_) => CellKind::Text,
        None if !column.is_plain() || column.has_text() => CellKind::Text,
        None => column.kind(),
    };
    let wrong = |row: usize, problem: Problem| DataError::row(&table.path, row + 1, &column.name, problem);
    let values: ArrayRef = match kind {
        CellKind::Integer => {
            let values = rows.map(|row| column.integer(row).map_err(|problem| wrong(row, problem)));
            Arc::new(values.collect::<Result<Int64Array>>()?)
        }
        CellKind::Real => {
            let values = rows.map(|row| column.real(row).map_err(|problem| wrong(row, problem)));
            Arc::new(values.collect::<Result<Float64Array>>()?)
        }
        CellKind::Text | CellKind::List if declared == Some("boolean") => {
            let yes = |row| column.text(row).map(|word| word == "true" || word == "1");
            Arc::new(rows.map(yes).collect::<BooleanArray>())
        }
        CellKind::Text | CellKind::List => Arc::new(rows.map(|row| column.text(row)).collect::<StringArray>()),
    };
    Ok(values)
}

/// The schema next to tables that this program wrote.
///
/// # Errors
/// If the tables were not all written.
fn find_schema(path: &Path) -> Result<Option<StoredSchema>> {
    if !path.exists() {
        return Ok(None);
    }
    let file = File::open(path).map_err(|e| DataError::io(path, e))?;
    let mut text = String::new();
    let read = file.take(LONGEST_LINE).read_to_string(&mut text).map_err(|e| DataError::io(path, e))?;
    if read as u64 == LONGEST_LINE {
        return Err(DataError::file(path, FileProblem::LongLine { line: 1 }));
    }
    let stored = StoredSchema::parse(&text, path)?;
    if stored.unfinished {
        return Err(DataError::file(path, FileProblem::OpenSet));
    }
    Ok(Some(stored))
}
