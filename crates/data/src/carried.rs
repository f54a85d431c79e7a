//! Columns that no model reads (names, ids, SMILES strings), carried from a file to its rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow_schema::DataType;
use gt_graph::Level;
use serde_json::Value;

use crate::error::FileProblem;
use crate::extra::Extra;
use crate::formats::parquet::widen;
use crate::raw::{Bounds, FIRST_INEXACT};
use crate::scalar::Scalar;

/// Columns that a reader copies from a file to the rows of its graphs, nodes or edges.
///
/// ```
/// use graph_transformer_data::KeptColumns;
///
/// assert_eq!("all".parse(), Ok(KeptColumns::All));
/// assert_eq!("id,name".parse(), Ok(KeptColumns::Named(vec!["id".into(), "name".into()])));
/// assert!("id,".parse::<KeptColumns>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeptColumns {
    /// No column.
    #[default]
    Nothing,
    /// All columns that hold neither the graphs nor features that are read.
    All,
    /// The columns with these names.
    Named(Vec<String>),
}

impl KeptColumns {
    /// Whether a column that no model reads is kept.
    pub(crate) fn include(&self, name: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Named(names) => names.iter().any(|kept| kept == name),
        }
    }

    /// The names that the user lists.
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::Named(names) => names,
            Self::Nothing | Self::All => &[],
        }
    }
}

impl std::str::FromStr for KeptColumns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        match names.iter().enumerate().find(|(at, name)| name.is_empty() || names[..*at].contains(name)) {
            Some(_) => Err("expected \"all\", or different names of columns, such as id,name".into()),
            None if text.trim() == "all" => Ok(Self::All),
            None => Ok(Self::Named(names)),
        }
    }
}

/// Which columns a reader carries, and the level of the rows that they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The columns.
    pub columns: KeptColumns,
    /// Level of the rows. Columns of the table of this level have a value per row, columns of the
    /// table of graphs a value per graph.
    pub level: Level,
}

impl Default for Keep {
    /// No columns.
    fn default() -> Self {
        Self { columns: KeptColumns::Nothing, level: Level::Graph }
    }
}

/// A carried column, for consecutive graphs of a file.
///
/// ```
/// use std::borrow::Cow;
///
/// use graph_transformer_data::{
///     ChunkLimits, Expected, GraphReader, Keep, KeptColumns, Labels, Records,
/// };
/// use gt_graph::{Level, Schema};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("named.jsonl");
/// std::fs::write(&path, "{\"num_nodes\": 1, \"edge_index\": [], \"name\": \"water\"}\n")?;
/// let schema = Cow::Owned(Schema::default());
/// let expected = Expected { schema, encoding: None, labels: Labels::Ignore };
/// let keep = Keep { columns: KeptColumns::All, level: Level::Graph };
///
/// let mut reader = GraphReader::open_with(&path, &expected, ChunkLimits::default(), &keep)?;
/// let chunk = reader.next().unwrap()?;
/// let mut records = Records::default();
/// records.kept(chunk.kept[0].name(), &chunk.kept[0], &[(0, None)]);
/// records.write(&folder.path().join("out.csv"))?;
/// assert_eq!(std::fs::read_to_string(folder.path().join("out.csv"))?, "name\nwater\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Carried {
    name: String,
    cells: Cells,
    /// The cells of each graph, if the column is part of the table of nodes or edges.
    bounds: Bounds,
}

/// Values of a column.
#[derive(Clone, Debug)]
pub(crate) enum Cells {
    /// Values of JSON lines, which have no common type.
    Json(Vec<Value>),
    Typed(ArrayRef),
}

impl Carried {
    pub(crate) fn new(name: impl Into<String>, cells: Cells, bounds: Bounds) -> Self {
        Self { name: name.into(), cells, bounds }
    }

    /// Name of the column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The values of rows, each the number of its graph among the consecutive graphs and, for nodes
    /// and edges, the number of the row within the graph.
    ///
    /// A list with values of nodes or edges in a column of graphs gives each row its value. Other
    /// values of graphs are repeated for each row.
    pub(crate) fn gather(&self, rows: &[Row]) -> Cells {
        match &self.cells {
            Cells::Json(values) => {
                let value = |row: &Row| match (self.cell(row).map(|cell| &values[cell]), self.item(row)) {
                    (Some(Value::Array(list)), Some(item)) => list.get(item).cloned(),
                    (value, _) => value.cloned(),
                };
                Cells::Json(rows.iter().map(|row| value(row).unwrap_or(Value::Null)).collect())
            }
            Cells::Typed(values) => {
                let divided = rows.iter().any(|row| self.item(row).is_some());
                match values.as_list_opt::<i32>().filter(|_| divided) {
                    None => take(values, rows.iter().map(|row| self.cell(row))),
                    Some(lists) => {
                        let position = |row: &Row| {
                            let cell = self.cell(row).filter(|cell| lists.is_valid(*cell))?;
                            let ends = lists.value_offsets();
                            (ends[cell] as usize..ends[cell + 1] as usize).nth(self.item(row)?)
                        };
                        take(lists.values(), rows.iter().map(position))
                    }
                }
            }
        }
    }

    /// The cell of a row.
    fn cell(&self, (graph, row): &Row) -> Option<usize> {
        match &self.bounds {
            Bounds::Single => Some(*graph),
            bounds => row.and_then(|row| bounds.range(*graph).nth(row)),
        }
    }

    /// The item of a row within its cell, if the cell belongs to a graph with several rows.
    fn item(&self, (_, row): &Row) -> Option<usize> {
        row.filter(|_| matches!(self.bounds, Bounds::Single))
    }
}

/// The number of a graph and, for nodes and edges, the number of the row within the graph.
type Row = (usize, Option<usize>);

fn take(values: &ArrayRef, positions: impl Iterator<Item = Option<usize>>) -> Cells {
    let positions: UInt64Array = positions.map(|position| position.map(|position| position as u64)).collect();
    let taken = arrow_select::take::take(values, &positions, None);
    Cells::Typed(taken.expect("positions are within the column, whose type is a plain one"))
}

/// Joins the pieces of carried columns of a whole file.
#[derive(Default)]
pub(crate) struct CarriedColumns {
    columns: Vec<(String, Vec<Cells>)>,
    positions: HashMap<String, usize>,
    /// Graphs so far.
    graphs: usize,
}

impl CarriedColumns {
    /// Appends the columns of the next graphs. A column that the graphs before did not have is
    /// empty for them.
    pub(crate) fn push(&mut self, pieces: Vec<Carried>, graphs: usize) {
        for Carried { name, cells, .. } in pieces {
            let at = *self.positions.entry(name).or_insert_with_key(|name| {
                let before = Cells::Json(vec![Value::Null; self.graphs]);
                let parts = if self.graphs == 0 { Vec::new() } else { vec![before] };
                self.columns.push((name.clone(), parts));
                self.columns.len() - 1
            });
            self.columns[at].1.push(cells);
        }
        self.graphs += graphs;
    }

    pub(crate) fn finish(self) -> Result<Vec<Extra>, FileProblem> {
        self.columns.into_iter().map(|(name, parts)| Ok(Extra::new(name.clone(), join(&name, parts)?))).collect()
    }
}

fn join(name: &str, parts: Vec<Cells>) -> Result<ArrayRef, FileProblem> {
    let typed: Vec<&dyn Array> = parts.iter().filter_map(Cells::typed).collect();
    if !typed.is_empty() {
        let joined = arrow_select::concat::concat(&typed);
        return joined.map(widen).map_err(|e| FileProblem::Parquet(format!("column \"{name}\": {e}")));
    }
    let values = parts.into_iter().flat_map(|part| match part {
        Cells::Json(values) => values,
        Cells::Typed(_) => Vec::new(),
    });
    Ok(narrowest(&values.collect::<Vec<_>>()))
}

impl Cells {
    fn typed(&self) -> Option<&dyn Array> {
        match self {
            Self::Json(_) => None,
            Self::Typed(values) => Some(&**values),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(values) => values.len(),
            Self::Typed(values) => values.len(),
        }
    }

    /// The values with a type that does not depend on them: texts, for JSON.
    pub(crate) fn to_array(&self) -> ArrayRef {
        match self {
            Self::Json(values) => Arc::new(values.iter().map(json_text).collect::<StringArray>()),
            Self::Typed(values) => Arc::clone(values),
        }
    }

    /// The type, if its values have no form as text.
    pub(crate) fn type_without_text(&self) -> Option<String> {
        let Self::Typed(values) = self else { return None };
        let kind = match values.as_list_opt::<i32>() {
            Some(lists) => lists.values().data_type(),
            None => values.data_type(),
        };
        (!Scalar::has_text(kind)).then(|| values.data_type().to_string())
    }

    /// The type of [`Cells::to_array`].
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Self::Json(_) => DataType::Utf8,
            Self::Typed(values) => values.data_type().clone(),
        }
    }

    /// The value of a row as the text of a table cell. Values of a list are separated by spaces.
    pub(crate) fn text(&self, row: usize) -> String {
        match self {
            Self::Json(values) => json_text(&values[row]).unwrap_or_default(),
            Self::Typed(values) => match list_at(values, row) {
                Some(list) => texts_of(&list).join(" "),
                None => Scalar::at(values, row).map(|value| value.to_text()).unwrap_or_default(),
            },
        }
    }

    /// The value of a row as JSON.
    pub(crate) fn json(&self, row: usize) -> String {
        match self {
            Self::Json(values) => values[row].to_string(),
            Self::Typed(values) => typed_json(values, row),
        }
    }
}

fn list_at(values: &ArrayRef, row: usize) -> Option<ArrayRef> {
    values.as_list_opt::<i32>().filter(|lists| lists.is_valid(row)).map(|lists| lists.value(row))
}

fn texts_of(list: &ArrayRef) -> Vec<String> {
    (0..list.len()).filter_map(|at| Scalar::at(list, at)).map(|value| value.to_text()).collect()
}

fn typed_json(values: &ArrayRef, row: usize) -> String {
    match list_at(values, row) {
        Some(list) => {
            let items: Vec<String> = (0..list.len()).map(|at| typed_json(&list, at)).collect();
            format!("[{}]", items.join(","))
        }
        None => Scalar::at(values, row).map_or("null".into(), |value| value.to_json()),
    }
}

fn json_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Whether a number is exact as a real number.
fn is_exact(value: &Value) -> bool {
    value.is_f64() || value.as_i64().is_some_and(|value| value.unsigned_abs() < FIRST_INEXACT)
}

/// Returns the narrowest column type that holds all values. Values that fit no type are kept as
/// JSON text.
fn narrowest(values: &[Value]) -> ArrayRef {
    let all = |fits: fn(&Value) -> bool| values.iter().all(|v| v.is_null() || fits(v));
    if all(Value::is_string) {
        Arc::new(values.iter().map(Value::as_str).collect::<StringArray>())
    } else if all(Value::is_boolean) {
        Arc::new(values.iter().map(Value::as_bool).collect::<BooleanArray>())
    } else if all(Value::is_i64) {
        Arc::new(values.iter().map(Value::as_i64).collect::<Int64Array>())
    } else if all(Value::is_u64) {
        Arc::new(values.iter().map(Value::as_u64).collect::<UInt64Array>())
    } else if all(|value| value.is_number() && is_exact(value)) {
        Arc::new(values.iter().map(Value::as_f64).collect::<Float64Array>())
    } else {
        Arc::new(values.iter().map(json_text).collect::<StringArray>())
    }
}
