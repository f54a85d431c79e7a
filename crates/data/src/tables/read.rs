//! Tables to data sets.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use gt_graph::encoding::{Coordinates, Encodings};
use gt_graph::{FeatureRows, GraphParts, GraphStore, Layout, Level, MISSING_CLASS, Ragged, TargetKind, TargetRows};

use super::ids::Ids;
use super::mapping::TableMapping;
use super::table::{Column, Kind, Table};
use super::{TablePaths, schema_path};
use crate::columns as c;
use crate::dataset::{Dataset, Extra, Splits};
use crate::error::{DataError, Result};
use crate::format::extension;
use crate::lenient::{self, Lenient, without_sizes};
use crate::stored_schema::StoredSchema;
use gt_graph::{FeatureSchema, Schema, TargetColumn, TargetSchema, Vocabulary};

/// Reads tables of nodes and edges, and of graphs where there is one.
///
/// # Errors
/// With the file, row and column of whatever does not fit.
pub fn read_tables(paths: &TablePaths, mapping: &TableMapping) -> Result<Dataset> {
    read_with(paths, mapping, None)
}

pub(crate) fn read_with(
    paths: &TablePaths,
    mapping: &TableMapping,
    mut lenient: Option<&mut Lenient>,
) -> Result<Dataset> {
    let nodes = Table::read(&paths.nodes)?;
    let edges = Table::read(&paths.edges)?;
    let graphs = paths.graphs.as_deref().map(Table::read).transpose()?;
    let tables: Vec<&Table> = [Some(&nodes), Some(&edges), graphs.as_ref()].into_iter().flatten().collect();
    if let Some(table) = tables.iter().find(|table| table.columns.is_empty()) {
        return Err(DataError::file(&table.path, "it is empty; a table begins with the names of its columns"));
    }
    mapping.check(&tables)?;
    let mut stored = find_schema(&nodes, &schema_path(&paths.nodes))?.filter(|_| mapping.is_default());
    if let Some(lenient) = &lenient {
        let schema = stored.as_ref().map_or_else(|| lenient.expected.clone(), |stored| without_sizes(&stored.schema));
        stored = Some(StoredSchema::new(&schema));
    }

    let ids = Ids::new(&nodes, &edges, graphs.as_ref(), mapping)?;
    let mut roles = Roles::new(mapping, stored.as_ref(), &nodes, &edges, graphs.as_ref())?;
    let node = roles.features(&nodes, Level::Node, ids.node_columns.clone())?;
    let edge = roles.features(&edges, Level::Edge, ids.edge_columns.clone())?;

    let node_rows = node.gather(&nodes, &ids.nodes.rows, lenient.is_some())?;
    let edge_rows = edge.gather(&edges, &ids.edges.rows, lenient.is_some())?;
    let mut schema = Schema { node: node.schema, edge: edge.schema, target: None };
    let mut store = GraphStore::new(Layout { target: None, ..schema.layout() });
    for graph in 0..ids.graphs {
        let (n, e) = (ids.nodes.range(graph), ids.edges.range(graph));
        let parts = GraphParts {
            num_nodes: n.len(),
            src: &ids.src[e.clone()],
            dst: &ids.dst[e.clone()],
            node: node_rows.slice(&store.layout().node, n),
            edge: edge_rows.slice(&store.layout().edge, e),
            target: None,
        };
        lenient::push(&mut store, parts, &paths.nodes, lenient.as_deref_mut())?;
    }
    let order = |level: Level| match level {
        Level::Graph => ids.graph_rows.clone(),
        Level::Node => ids.nodes.rows.clone(),
        Level::Edge => ids.edges.rows.clone(),
    };
    if let Some((table, level, columns)) = roles.targets {
        schema.target = Some(set_targets(&mut store, table, level, &columns, &order(level), mapping, stored.as_ref())?);
    }
    let encodings = read_encodings(&nodes, &ids.nodes.rows)?;
    store.set_encodings(encodings).map_err(|e| DataError::file(&paths.nodes, e.to_string()))?;
    let splits = match roles.split.filter(|_| lenient.is_none()) {
        Some((table, level, column)) => Some(read_split(table, level, column, &order(level))?),
        None => None,
    };
    let mut extras = Vec::new();
    if let Some(table) = &graphs {
        for &column in &roles.extras {
            extras.push(read_extra(table, column, &ids.graph_rows, stored.as_ref())?);
        }
    }
    if let Some(stored) = stored {
        schema = stored.schema;
    }
    Dataset::from_file(&paths.nodes, Ok(schema), store, splits, extras)
}

/// Roles of the columns that are not ids.
struct Roles<'a> {
    mapping: &'a TableMapping,
    schema: Option<&'a Schema>,
    targets: Option<(&'a Table, Level, Vec<usize>)>,
    split: Option<(&'a Table, Level, usize)>,
    extras: Vec<usize>,
}

impl<'a> Roles<'a> {
    fn new(
        mapping: &'a TableMapping,
        stored: Option<&'a StoredSchema>,
        nodes: &'a Table,
        edges: &'a Table,
        graphs: Option<&'a Table>,
    ) -> Result<Self> {
        let schema = stored.map(|s| &s.schema);
        let tables: Vec<(&Table, Level)> =
            graphs.map(|g| (g, Level::Graph)).into_iter().chain([(nodes, Level::Node), (edges, Level::Edge)]).collect();
        let wanted: Vec<String> = match schema {
            Some(schema) => schema.target.iter().flat_map(|t| &t.columns).map(|t| t.name.clone()).collect(),
            None => mapping.targets.clone(),
        };
        let level = schema.and_then(|s| s.target.as_ref()).map(|t| t.level);
        let targets = if schema.is_some() || !wanted.is_empty() {
            if wanted.is_empty() {
                None
            } else {
                let holds = |table: &Table| wanted.iter().all(|name| table.position(name).is_some());
                let found = tables.iter().find(|(table, l)| level.is_none_or(|level| level == *l) && holds(table));
                let (table, level) = found.ok_or_else(|| {
                    DataError::file(
                        &nodes.path,
                        format!("the targets `{}` are not all in one table", wanted.join("`, `")),
                    )
                })?;
                Some((*table, *level, wanted.iter().filter_map(|name| table.position(name)).collect()))
            }
        } else {
            let usual = |table: &Table| ["y", "label"].iter().find_map(|name| table.position(name));
            tables.iter().find_map(|(table, level)| usual(table).map(|at| (*table, *level, vec![at])))
        };
        let split = tables.iter().find_map(|(table, level)| {
            mapping.find(mapping.split.as_ref(), table, &[c::SPLIT]).map(|at| (*table, *level, at))
        });
        let mut roles = Self { mapping, schema, targets, split, extras: Vec::new() };
        if let Some(table) = graphs {
            let graph = mapping.find(mapping.graph.as_ref(), table, &["graph"]);
            roles.extras = (0..table.columns.len())
                .filter(|&at| Some(at) != graph && !roles.taken(table, Level::Graph, at))
                .collect();
        }
        Ok(roles)
    }

    /// Whether a column is a target, a split or to be ignored.
    fn taken(&self, table: &Table, level: Level, at: usize) -> bool {
        let target = self.targets.as_ref().is_some_and(|(_, l, columns)| *l == level && columns.contains(&at));
        let split = self.split.is_some_and(|(_, l, column)| l == level && column == at);
        target || split || self.mapping.ignore.contains(&table.columns[at].name)
    }

    /// Everything else is a feature.
    fn features(&mut self, table: &Table, level: Level, ids: Vec<usize>) -> Result<FeatureColumns> {
        let declared = self.schema.map(|s| if level == Level::Node { &s.node } else { &s.edge });
        if let Some(schema) = declared {
            let at = |name: &str| {
                table
                    .position(name)
                    .ok_or_else(|| DataError::file(&table.path, format!("column `{name}` of the schema is missing")))
            };
            return Ok(FeatureColumns {
                categorical: schema.categorical.iter().map(|v| at(&v.name)).collect::<Result<_>>()?,
                continuous: schema.continuous.iter().map(|name| at(name)).collect::<Result<_>>()?,
                multi_hot: schema.multi_hot.iter().map(|v| at(&v.name)).next().transpose()?,
                schema: schema.clone(),
            });
        }
        let mut features = FeatureColumns::default();
        let TableMapping { categorical, continuous, multi_hot, .. } = self.mapping;
        for (at, column) in table.columns.iter().enumerate() {
            let name = &column.name;
            if ids.contains(&at)
                || self.taken(table, level, at)
                || (level == Level::Node && encoding_column(name).is_some())
            {
                continue;
            }
            let kind = if categorical.contains(name) {
                Kind::Integer
            } else if continuous.contains(name) {
                Kind::Real
            } else if multi_hot.contains(name) {
                Kind::List
            } else {
                column.kind()
            };
            match kind {
                Kind::Integer => {
                    features.categorical.push(at);
                    features.schema.categorical.push(Vocabulary { name: name.clone(), size: 0 });
                }
                Kind::Real => {
                    features.continuous.push(at);
                    features.schema.continuous.push(name.clone());
                }
                Kind::List if features.multi_hot.is_none() => {
                    features.multi_hot = Some(at);
                    features.schema.multi_hot = Some(Vocabulary { name: name.clone(), size: 0 });
                }
                Kind::List => {
                    let message = format!(
                        "column `{name}` is a second list of indices; one is supported, leave the other out with --ignore"
                    );
                    return Err(DataError::file(&table.path, message));
                }
                Kind::Text => {
                    let message = format!(
                        "column `{name}` holds text; number its values, give it a role, or leave it out with gt data convert --ignore {name}"
                    );
                    return Err(DataError::file(&table.path, message));
                }
            }
        }
        Ok(features)
    }
}

/// Columns of features, by kind.
#[derive(Default)]
struct FeatureColumns {
    schema: FeatureSchema,
    categorical: Vec<usize>,
    continuous: Vec<usize>,
    multi_hot: Option<usize>,
}

/// Features of all rows, in the order of the graphs.
#[derive(Default)]
struct FeatureValues {
    categorical: Vec<u32>,
    continuous: Vec<f32>,
    offsets: Vec<usize>,
    indices: Vec<u32>,
}

impl FeatureColumns {
    /// A lenient reader takes NaN for numbers that are none, and leaves them to the graph's check.
    fn gather(&self, table: &Table, rows: &[usize], lenient: bool) -> Result<FeatureValues> {
        let mut values = FeatureValues::default();
        let mut list = Vec::new();
        values.offsets.push(0);
        for &row in rows {
            for &at in &self.categorical {
                values.categorical.push(cell(table, at, row, |column| {
                    let value = column.category(row)?.ok_or("the cell is empty")?;
                    Ok(index(value).ok_or_else(|| {
                        format!(
                            "{value} is not a category (0, 1, 2, …); gt data convert --continuous {} makes it a number",
                            column.name
                        )
                    })?)
                })?);
            }
            for &at in &self.continuous {
                values.continuous.push(cell(table, at, row, |column| {
                    let value = column.real(row)?;
                    if lenient {
                        return Ok(value.map_or(f32::NAN, |value| value as f32));
                    }
                    Ok(finite(value.ok_or("the cell is empty or NaN")?)?)
                })?);
            }
            if let Some(at) = self.multi_hot {
                list.clear();
                cell(table, at, row, |column| {
                    column.list(row, &mut list)?;
                    for &value in &list {
                        values.indices.push(index(value).ok_or_else(|| format!("{value} is not an index"))?);
                    }
                    Ok(())
                })?;
                values.offsets.push(values.indices.len());
            }
        }
        Ok(values)
    }
}

impl FeatureValues {
    fn slice(&self, layout: &gt_graph::FeatureLayout, rows: std::ops::Range<usize>) -> FeatureRows<'_> {
        let (a, b) = (layout.categorical, layout.continuous);
        FeatureRows {
            categorical: &self.categorical[rows.start * a..rows.end * a],
            continuous: &self.continuous[rows.start * b..rows.end * b],
            multi_hot: layout.multi_hot.then(|| Ragged {
                offsets: &self.offsets[rows.start..=rows.end],
                indices: &self.indices[self.offsets[rows.start]..self.offsets[rows.end]],
            }),
        }
    }
}

/// Reads a cell; an error gets its place.
fn cell<T>(table: &Table, at: usize, row: usize, read: impl FnOnce(&Column) -> Result<T, Message>) -> Result<T> {
    let column = &table.columns[at];
    read(column).map_err(|Message(m)| DataError::row(&table.path, row + 1, &column.name, m))
}

/// A complaint about a cell.
struct Message(String);

impl<T: Into<String>> From<T> for Message {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

fn index(value: i64) -> Option<u32> {
    u32::try_from(value).ok().filter(|&v| v != u32::MAX)
}

fn finite(value: f64) -> Result<f32, String> {
    Some(value as f32).filter(|v| v.is_finite()).ok_or_else(|| format!("{value} is not a finite 32-bit number"))
}

fn set_targets(
    store: &mut GraphStore,
    table: &Table,
    level: Level,
    columns: &[usize],
    rows: &[usize],
    mapping: &TableMapping,
    stored: Option<&StoredSchema>,
) -> Result<TargetSchema> {
    let declared = stored.and_then(|s| s.schema.target.as_ref());
    let real = |at: usize| {
        let column = &table.columns[at];
        let named = |list: &[String]| list.contains(&column.name);
        named(&mapping.continuous) || !named(&mapping.categorical) && column.kind() == Kind::Real
    };
    let kind = match declared {
        Some(target) => target.kind,
        None if columns.iter().any(|&at| real(at)) => TargetKind::Float,
        None => TargetKind::Class,
    };
    let names = columns.iter().map(|&at| TargetColumn { name: table.columns[at].name.clone(), classes: 0 }).collect();
    let schema = TargetSchema { level, kind, columns: names };
    let (mut floats, mut classes) = (Vec::new(), Vec::new());
    for &row in rows {
        for &at in columns {
            match kind {
                TargetKind::Float => floats.push(cell(table, at, row, |column| match column.real(row)? {
                    Some(value) => Ok(finite(value)?),
                    None => Ok(f32::NAN),
                })?),
                TargetKind::Class => classes.push(cell(table, at, row, |column| match column.category(row)? {
                    None | Some(-1) => Ok(MISSING_CLASS),
                    Some(value) => Ok(index(value).ok_or_else(|| {
                        let classes = "0, 1, 2, … or -1 for a missing label";
                        format!(
                            "{value} is not a class ({classes}); gt data convert --continuous {} makes it a number",
                            column.name
                        )
                    })?),
                })?),
            }
        }
    }
    let values = match kind {
        TargetKind::Float => TargetRows::Float(&floats),
        TargetKind::Class => TargetRows::Class(&classes),
    };
    store.set_target(schema.layout(), values).map_err(|e| DataError::file(&table.path, e.to_string()))?;
    Ok(schema)
}

/// `lap_pe3` is column 3 of the Laplacian encoding.
fn encoding_column(name: &str) -> Option<(&'static str, usize)> {
    if name == c::WL_PE {
        return Some((c::WL_PE, 0));
    }
    [c::LAP_PE, c::RW_PE].into_iter().find_map(|prefix| Some((prefix, name.strip_prefix(prefix)?.parse().ok()?)))
}

fn read_encodings(nodes: &Table, rows: &[usize]) -> Result<Encodings> {
    let coordinates = |prefix: &str| -> Result<Option<Coordinates>> {
        let columns: Vec<usize> = (0..).map_while(|i| nodes.position(&format!("{prefix}{i}"))).collect();
        if columns.is_empty() {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(rows.len() * columns.len());
        for &row in rows {
            for &at in &columns {
                values.push(cell(nodes, at, row, |column| Ok(finite(column.real(row)?.ok_or("the cell is empty")?)?))?);
            }
        }
        Ok(Some(Coordinates { width: columns.len(), values }))
    };
    let roles = |at: usize| -> Result<Vec<u32>> {
        let role = |&row: &usize| {
            cell(nodes, at, row, |column| {
                let value = column.integer(row)?.ok_or("the cell is empty")?;
                Ok(index(value).ok_or_else(|| format!("{value} is not a role"))?)
            })
        };
        rows.iter().map(role).collect()
    };
    Ok(Encodings {
        laplacian: coordinates(c::LAP_PE)?,
        random_walk: coordinates(c::RW_PE)?,
        weisfeiler_lehman: nodes.position(c::WL_PE).map(roles).transpose()?,
    })
}

fn read_split(table: &Table, level: Level, at: usize, rows: &[usize]) -> Result<Splits> {
    let mut splits = Splits::new(level);
    for &row in rows {
        cell(table, at, row, |column| {
            let name = column.text(row).ok_or("the cell is empty")?;
            splits.push(&name).ok_or("more than 65,536 different parts")?;
            Ok(())
        })?;
    }
    Ok(splits)
}

fn read_extra(table: &Table, at: usize, rows: &[usize], stored: Option<&StoredSchema>) -> Result<Extra> {
    let column = &table.columns[at];
    let declared = stored.and_then(|s| s.extras.get(&column.name)).map(String::as_str);
    let kind = match declared {
        Some("integer") => Kind::Integer,
        Some("real") => Kind::Real,
        Some(_) => Kind::Text,
        None if !column.is_plain() => Kind::Text,
        None => column.kind(),
    };
    let values: ArrayRef = match kind {
        Kind::Integer => {
            let values = rows.iter().map(|&row| cell(table, at, row, |column| Ok(column.integer(row)?)));
            Arc::new(values.collect::<Result<Int64Array>>()?)
        }
        Kind::Real => {
            let values = rows.iter().map(|&row| cell(table, at, row, |column| Ok(column.real(row)?)));
            Arc::new(values.collect::<Result<Float64Array>>()?)
        }
        Kind::Text | Kind::List if declared == Some("boolean") => Arc::new(
            rows.iter()
                .map(|&row| column.text(row).map(|word| word == "true" || word == "1"))
                .collect::<BooleanArray>(),
        ),
        Kind::Text | Kind::List => Arc::new(rows.iter().map(|&row| column.text(row)).collect::<StringArray>()),
    };
    Ok(Extra { name: column.name.clone(), values })
}

/// The schema of tables that this project wrote: in the metadata of a Parquet table, or beside a CSV table.
fn find_schema(nodes: &Table, beside: &Path) -> Result<Option<StoredSchema>> {
    let (text, path) = match &nodes.schema {
        Some(text) => (text.clone(), nodes.path.as_path()),
        None if extension(&nodes.path) != "parquet" && beside.exists() => {
            (std::fs::read_to_string(beside).map_err(|e| DataError::io(beside, e))?, beside)
        }
        None => return Ok(None),
    };
    StoredSchema::parse(&text, path).map(Some)
}
