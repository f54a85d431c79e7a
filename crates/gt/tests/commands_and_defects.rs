//! Every command reports every data defect in every format: exit code, file, graph or row, column
//! and value.

mod graph_files;
mod support;

use std::fs;
use std::sync::LazyLock;

use graph_files::Format::{self, CsvTables, JsonLines, Parquet, ParquetTables};
use graph_files::{ALL, Content, GRAPHS, Graph, NATIVE, TABLES, content};
use serde_json::{Map, Value};
use support::Place;

/// The graph that most defects are in, and the weight of its last edge, which no other edge has.
const DAMAGED: usize = 5;
const WEIGHT: &str = "31.25";
const LAST: Extent = Extent::OneGraph(GRAPHS - 1);

/// The bytes of a file after the damage; `None` removes the file.
type Bytes = fn(&[u8]) -> Option<Vec<u8>>;

enum Damage {
    /// Changes the content before it is written.
    Content(fn(&mut Content)),
    /// Changes one graph before it is written.
    Graph(fn(&mut Graph)),
    /// Changes the bytes of the written file.
    Bytes(Bytes),
}

/// The graphs that a defect makes unusable.
#[derive(Clone, Copy)]
enum Extent {
    File,
    /// Every graph; an error names the first one.
    AllGraphs,
    OneGraph(usize),
}

/// The result of training, which has no model to compare the columns with.
#[derive(Clone, Copy, PartialEq)]
enum Training {
    Fails,
    /// The error names file and column, but neither row nor value.
    FailsForColumn,
    Succeeds,
}

struct Defect {
    name: &'static str,
    formats: &'static [Format],
    damage: Damage,
    extent: Extent,
    /// The table with the defect, where there are tables.
    table: &'static str,
    /// The column in the error; may be empty.
    column: &'static str,
    /// The value in the error; may be empty.
    value: &'static str,
    training: Training,
}

/// A defect of the file of nodes or edges.
fn file(name: &'static str, formats: &'static [Format], table: &'static str, bytes: Bytes) -> Defect {
    let (extent, damage) = (Extent::File, Damage::Bytes(bytes));
    Defect { name, formats, damage, extent, table, column: "", value: "", training: Training::Fails }
}

/// A defect of one graph.
fn graph(name: &'static str, formats: &'static [Format], at: [&'static str; 3], damage: fn(&mut Graph)) -> Defect {
    let ([table, column, value], extent) = (at, Extent::OneGraph(DAMAGED));
    Defect { name, formats, damage: Damage::Graph(damage), extent, table, column, value, training: Training::Fails }
}

/// Defects of files and of graphs (docs/reference/file-formats.md, "What is checked"). A format
/// that is not listed cannot hold the defect.
fn defects() -> Vec<Defect> {
    use Training::{FailsForColumn, Succeeds};
    let without_kinds = || Damage::Content(|content| content.kinds = false);
    let unknown = graph("unknown", ALL, ["nodes", "node_feat", "77"], |graph| graph.kinds[1] = 77);
    let negative = || graph("negative", ALL, ["nodes", "node_feat", "-7"], |graph| graph.kinds[1] = -7);
    let no_graph = Damage::Content(|content| content.graphs.clear());
    let stated = Damage::Content(|content| (content.schema, content.graphs[DAMAGED].kinds[1]) = (true, 77));
    vec![
        file("missing", ALL, "nodes", |_| None),
        file("edges missing", TABLES, "edges", |_| None),
        file("empty", ALL, "nodes", |_| Some(Vec::new())),
        file("edges empty", TABLES, "edges", |_| Some(Vec::new())),
        Defect { damage: no_graph, ..file("no graph", ALL, "nodes", |_| None) },
        file("cut", &[Parquet, ParquetTables], "nodes", cut_in_half),
        file("edges cut", &[ParquetTables], "edges", cut_in_half),
        Defect { value: "line 25", ..file("cut", &[CsvTables], "nodes", cut_last_value) },
        // Each line of JSON lines is a graph, and the lines before the last one are complete.
        Defect { value: "line 12", extent: LAST, ..file("cut", &[JsonLines], "nodes", cut_last_value) },
        Defect { extent: Extent::AllGraphs, name: "all negative", ..negative() },
        // Parquet and tables have columns of the file, but in JSON lines each graph has its own
        // keys. Training has no model to compare with, and succeeds.
        Defect {
            damage: without_kinds(),
            column: "node_feat",
            training: Succeeds,
            ..file("no column", &[Parquet, CsvTables, ParquetTables], "nodes", |_| None)
        },
        Defect {
            damage: without_kinds(),
            extent: Extent::AllGraphs,
            training: Succeeds,
            ..graph("no key", &[JsonLines], ["nodes", "node_feat", ""], |_| ())
        },
        negative(),
        // Without a schema the vocabulary of training is as large as the largest category.
        Defect { training: Succeeds, ..unknown },
        Defect { damage: stated, ..graph("beyond the schema", ALL, ["nodes", "node_feat", "77"], |_| ()) },
        graph("NaN", ALL, ["edges", "edge_attr", "NaN"], |graph| graph.weights[1] = f64::NAN),
        // A column of a Parquet file has a type, so one value alone cannot be text.
        Defect {
            damage: Damage::Bytes(weight_to_text),
            ..graph("text", &[JsonLines], ["edges", "edge_attr", "heavy"], |_| ())
        },
        // Training sees a column of text. A model knows that the column holds numbers.
        Defect {
            damage: Damage::Bytes(weight_to_text),
            training: FailsForColumn,
            ..graph("text", &[CsvTables], ["edges", "edge_attr", "heavy"], |_| ())
        },
        // Tables have no lists: each row is a node or an edge.
        graph("seven nodes", NATIVE, ["nodes", "node_feat", "7"], |graph| graph.kinds = vec![1; 7]),
        graph("nine sources", NATIVE, ["edges", "", "9"], |graph| graph.ends[0] = vec![0; 9]),
        // Native formats hold positions of nodes, and an error names the edge. Tables hold ids in a
        // column.
        graph("edge to nowhere", NATIVE, ["edges", "", "99"], |graph| graph.ends[1][1] = 99),
        graph("edge to nowhere", TABLES, ["edges", "dst", "99"], |graph| graph.ends[1][1] = 99),
    ]
}

fn cut_in_half(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(bytes[..bytes.len() / 2].to_vec())
}

fn cut_last_value(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(bytes[..bytes.iter().rposition(|byte| *byte == b',').unwrap()].to_vec())
}

fn weight_to_text(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(String::from_utf8_lossy(bytes).replace(WEIGHT, "\"heavy\"").into_bytes())
}

impl Defect {
    fn write(&self, format: Format, place: &Place) {
        let mut content = content();
        match (&self.damage, self.extent) {
            (Damage::Content(damage), _) => damage(&mut content),
            (Damage::Graph(damage), Extent::OneGraph(number)) => damage(&mut content.graphs[number]),
            (Damage::Graph(damage), _) => content.graphs.iter_mut().for_each(damage),
            (Damage::Bytes(_), _) => {}
        }
        content.write(format, place);
        if let Damage::Bytes(damage) = self.damage {
            let path = place.path(&format.file(self.table));
            match damage(&fs::read(&path).unwrap()) {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
        }
    }

    /// Column and value, as they stand in an error.
    fn tokens(&self) -> Vec<String> {
        let column = (!self.column.is_empty()).then(|| format!("\"{}\"", self.column));
        column.into_iter().chain([self.value.to_owned()]).collect()
    }

    /// Checks the error of a command that reads a whole file, or a file in chunks.
    fn check(&self, message: &str, format: Format, whole: bool) {
        let number = match self.extent {
            Extent::File => None,
            Extent::AllGraphs => Some(0),
            Extent::OneGraph(number) => Some(number),
        };
        let own = message.contains(&format.file(self.table));
        // A reader of chunks names the given path, even if another table has the defect of a graph.
        let given = number.is_some() && !whole && message.contains(&format.file("nodes"));
        assert!(own || given, "{message}");
        // Two nodes and two edges per graph, and defects are in the second one.
        let in_tables = whole && TABLES.contains(&format);
        let at =
            number.map(|number| if in_tables { format!("row {}", 2 * number + 2) } else { format!("graph {number}") });
        for token in at.into_iter().chain(self.tokens()) {
            assert!(message.contains(&token), "{token} is missing: {message}");
        }
    }

    /// Checks that one row of the predictions has a reason, and all others have a number.
    fn check_rows(&self, text: &str, damaged: usize) {
        let rows: Vec<Map<String, Value>> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), GRAPHS);
        for (number, row) in rows.iter().enumerate() {
            assert_eq!(row["graph"], number);
            let unusable = number == damaged;
            assert_eq!((row["y"].is_null(), row["reason"].is_string()), (unusable, unusable), "{row:?}");
        }
        let reason = rows[damaged]["reason"].as_str().unwrap();
        assert!(self.tokens().iter().all(|token| reason.contains(token)), "{reason}");
    }
}

const SMALL: &str =
    "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1 --set train.batch=4";

/// A model file, trained once for all tests.
static MODEL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let place = Place::new();
    content().write(JsonLines, &place);
    place.done(&format!("train --data g.jsonl --out run {SMALL}"));
    fs::read(place.path("run/model.safetensors")).unwrap()
});

/// The lines of `gt train`, `eval`, `predict --on-error stop` and `predict` for a format.
fn commands(format: Format) -> [String; 4] {
    let data = format.file("nodes");
    let with_model = |command: &str, more: &str| format!("{command} model.safetensors --data {data} {more}");
    let predict = with_model("predict", "--out p.jsonl");
    let train = format!("train --data {data} --out run {SMALL}");
    [train, with_model("eval", ""), format!("{predict} --on-error stop"), predict]
}

fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("model.safetensors"), &*MODEL).unwrap();
    place
}

/// Runs every command on every defect that a format can hold.
fn walk(format: Format) {
    let [train, eval, stop, predict] = commands(format);
    for defect in defects().iter().filter(|defect| defect.formats.contains(&format)) {
        println!("{}, {format:?}", defect.name);
        let place = place();
        defect.write(format, &place);
        defect.check(&place.refused(&eval), format, true);
        defect.check(&place.refused(&stop), format, true);
        match defect.extent {
            Extent::OneGraph(number) => {
                place.done(&predict);
                defect.check_rows(&fs::read_to_string(place.path("p.jsonl")).unwrap(), number);
            }
            _ => defect.check(&place.refused(&predict), format, false),
        }
        match defect.training {
            Training::Succeeds => drop(place.done(&train)),
            Training::Fails => defect.check(&place.refused(&train), format, true),
            Training::FailsForColumn => {
                let message = place.refused(&train);
                assert!(message.contains(&format.file(defect.table)) && message.contains(defect.column), "{message}");
            }
        }
    }
}

#[test]
fn defects_of_parquet_files_are_reported_by_every_command() {
    walk(Parquet);
}

#[test]
fn defects_of_json_lines_are_reported_by_every_command() {
    walk(JsonLines);
}

#[test]
fn defects_of_csv_tables_are_reported_by_every_command() {
    walk(CsvTables);
}

#[test]
fn defects_of_parquet_tables_are_reported_by_every_command() {
    walk(ParquetTables);
}

#[test]
fn files_without_defects_are_used_by_every_command_and_alike_in_every_format() {
    let predictions = ALL.iter().map(|format| {
        let place = place();
        content().write(*format, &place);
        commands(*format).iter().for_each(|line| drop(place.done(line)));
        fs::read_to_string(place.path("p.jsonl")).unwrap()
    });
    let predictions: Vec<String> = predictions.collect();
    assert!(predictions.iter().all(|text| text.lines().count() == GRAPHS && *text == predictions[0]));
}
