//! The same small graphs in every format, written as other programs write them.

use std::fs;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;

use crate::support::Place;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Format {
    Parquet,
    JsonLines,
    CsvTables,
    ParquetTables,
}

use Format::{CsvTables, JsonLines, Parquet, ParquetTables};

/// The formats.
pub const ALL: &[Format] = &[Parquet, JsonLines, CsvTables, ParquetTables];
pub const NATIVE: &[Format] = &[Parquet, JsonLines];
pub const TABLES: &[Format] = &[CsvTables, ParquetTables];

impl Format {
    /// The file of nodes, edges or graphs; native formats have one file for all.
    pub fn file(self, table: &str) -> String {
        match self {
            Parquet => "g.parquet".into(),
            JsonLines => "g.jsonl".into(),
            CsvTables => format!("t_{table}.csv"),
            ParquetTables => format!("t_{table}.parquet"),
        }
    }
}

/// A graph of two nodes and two edges: a category per node, a number per edge, and a target.
pub struct Graph {
    pub kinds: Vec<i64>,
    pub ends: [Vec<i64>; 2],
    pub weights: Vec<f64>,
    pub y: f64,
}

pub struct Content {
    pub graphs: Vec<Graph>,
    /// Whether the column `node_feat` is written.
    pub kinds: bool,
    /// Whether a schema states a vocabulary of three categories.
    pub schema: bool,
}

const SCHEMA: &str = r#"{"format_version": 1, "schema": {
    "node": {"categorical": [{"name": "node_feat", "size": 3}]}, "edge": {"continuous": ["edge_attr"]},
    "target": {"level": "graph", "kind": "float", "columns": [{"name": "y"}]}}}"#;

pub const GRAPHS: usize = 12;

/// Files without a defect. Every weight but 0.5 occurs once.
pub fn content() -> Content {
    let graph = |number: usize| Graph {
        kinds: vec![number as i64 % 3, (number as i64 + 1) % 3],
        ends: [vec![0, 1], vec![1, 0]],
        weights: vec![0.5, 6.25 * number as f64],
        y: 0.5 * number as f64 + 0.25,
    };
    Content { graphs: (0..GRAPHS).map(graph).collect(), kinds: true, schema: false }
}

enum Column {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
}

impl Content {
    pub fn write(&self, format: Format, place: &Place) {
        match format {
            Parquet => self.write_parquet(place),
            JsonLines => place.write("g.jsonl", &self.json_lines()),
            CsvTables | ParquetTables => self.write_tables(format, place),
        }
    }

    fn json_lines(&self) -> String {
        let mut text = String::new();
        for (number, graph) in self.graphs.iter().enumerate() {
            text += "{\"num_nodes\": 2, ";
            if self.schema && number == 0 {
                text += &format!("\"graph_transformer\": {}, ", SCHEMA.replace('\n', " "));
            }
            if self.kinds {
                let kinds: Vec<_> = graph.kinds.iter().map(|kind| [kind]).collect();
                text += &format!("\"node_feat\": {kinds:?}, ");
            }
            // Other programs write NaN, though it is not JSON.
            let weights: Vec<_> = graph.weights.iter().map(|weight| [weight]).collect();
            let (ends, y) = (&graph.ends, graph.y);
            text += &format!("\"edge_index\": {ends:?}, \"edge_attr\": {weights:?}, \"y\": {y:?}}}\n");
        }
        text
    }

    fn write_parquet(&self, place: &Place) {
        let graphs = || self.graphs.iter();
        let kinds = nested::<Int64Type>(graphs().map(|graph| graph.kinds.iter().map(|kind| vec![*kind]).collect()));
        let ends = nested::<Int64Type>(graphs().map(|graph| graph.ends.to_vec()));
        let weights = nested::<Float64Type>(graphs().map(|graph| graph.weights.iter().map(|w| vec![*w]).collect()));
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("num_nodes", Arc::new(Int64Array::from(vec![2; self.graphs.len()]))),
            ("edge_index", ends),
            ("edge_attr", weights),
            ("y", Arc::new(Float64Array::from_iter_values(graphs().map(|graph| graph.y)))),
        ];
        if self.kinds {
            columns.push(("node_feat", kinds));
        }
        if self.schema {
            columns.push(("graph_transformer", Arc::new(StringArray::from(vec![SCHEMA; self.graphs.len()]))));
        }
        write_arrays(place, "g.parquet", columns);
    }

    fn write_tables(&self, format: Format, place: &Place) {
        let graphs = || self.graphs.iter();
        let places = graphs().flat_map(|graph| 0..graph.kinds.len() as i64).collect();
        let mut nodes = vec![("graph", self.owners(|graph| graph.kinds.len())), ("node", Column::Integers(places))];
        if self.kinds {
            nodes.push(("node_feat", Column::Integers(graphs().flat_map(|graph| graph.kinds.clone()).collect())));
        }
        let ends = |end: usize| Column::Integers(graphs().flat_map(|graph| graph.ends[end].clone()).collect());
        let weights = Column::Reals(graphs().flat_map(|graph| graph.weights.clone()).collect());
        let owners = self.owners(|graph| graph.weights.len());
        let edges = vec![("graph", owners), ("src", ends(0)), ("dst", ends(1)), ("edge_attr", weights)];
        let y = Column::Reals(graphs().map(|graph| graph.y).collect());
        write_table(place, &format.file("nodes"), nodes);
        write_table(place, &format.file("edges"), edges);
        write_table(place, &format.file("graphs"), vec![("graph", self.owners(|_| 1)), ("y", y)]);
        if self.schema {
            place.write(&format!("{}.json", format.file("schema")), SCHEMA);
        }
    }

    /// The graph of each row of a table.
    fn owners(&self, rows: fn(&Graph) -> usize) -> Column {
        let graphs = self.graphs.iter().enumerate();
        Column::Integers(graphs.flat_map(|(number, graph)| vec![number as i64; rows(graph)]).collect())
    }
}

fn write_table(place: &Place, name: &str, columns: Vec<(&str, Column)>) {
    if name.ends_with(".parquet") {
        let array = |column: Column| -> ArrayRef {
            match column {
                Column::Integers(values) => Arc::new(Int64Array::from(values)),
                Column::Reals(values) => Arc::new(Float64Array::from(values)),
            }
        };
        return write_arrays(place, name, columns.into_iter().map(|(name, column)| (name, array(column))).collect());
    }
    let texts = |column: &Column| -> Vec<String> {
        match column {
            Column::Integers(values) => values.iter().map(|value| format!("{value:?}")).collect(),
            Column::Reals(values) => values.iter().map(|value| format!("{value:?}")).collect(),
        }
    };
    let cells: Vec<Vec<String>> = columns.iter().map(|(_, column)| texts(column)).collect();
    let mut text = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",") + "\n";
    for row in 0..cells[0].len() {
        text += &(cells.iter().map(|column| &*column[row]).collect::<Vec<_>>().join(",") + "\n");
    }
    place.write(name, &text);
}

/// For each graph a list of rows.
fn nested<T: ArrowPrimitiveType>(graphs: impl Iterator<Item = Vec<Vec<T::Native>>>) -> ArrayRef {
    let mut lists = ListBuilder::new(ListBuilder::new(PrimitiveBuilder::<T>::new()));
    for rows in graphs {
        for row in rows {
            lists.values().append_value(row.into_iter().map(Some));
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn write_arrays(place: &Place, name: &str, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let out = fs::File::create(place.path(name)).unwrap();
    let mut writer = ArrowWriter::try_new(out, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}
