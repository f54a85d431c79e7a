//! A defect has the same reason in every format. A strict reading ends with the first reason, a
//! chunked reading returns all.

mod support;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, ListBuilder, PrimitiveBuilder};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, Float64Array, Int64Array};
use graph_transformer_data::{
    DataError, Expected, ExpectedEncoding, FileProblem, GraphReader, Labels, Number, Problem, Reason, Rejected, read,
    read_expecting,
};
use gt_graph::encoding::EncodingKind;
use gt_graph::{FeatureSchema, GraphError, Level, Schema, TargetColumn, TargetKind, TargetSchema, Vocabulary};
use support::{Shape, make, write_columns};

/// Formats of a file, and ways to write it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    JsonLines,
    Parquet,
    Csv,
    ParquetTables,
}

const FORMS: [Form; 4] = [Form::JsonLines, Form::Parquet, Form::Csv, Form::ParquetTables];

impl Form {
    fn is_table(self) -> bool {
        matches!(self, Form::Csv | Form::ParquetTables)
    }
}

/// A graph as other programs write it, with one feature per node.
#[derive(Clone, Debug)]
struct Graph {
    nodes: usize,
    features: Vec<Option<f64>>,
    edges: Vec<(i64, i64)>,
    /// One Laplacian coordinate per node.
    lap: Option<Vec<Option<f64>>>,
}

/// Contents of a file of graphs.
#[derive(Clone, Debug)]
struct Content {
    /// Whether features are floats.
    real: bool,
    lap: bool,
    graphs: Vec<Graph>,
}

/// Three graphs of two nodes each. Tests damage the second graph.
fn content(real: bool, lap: bool) -> Content {
    let graph = Graph {
        nodes: 2,
        features: vec![Some(1.0), Some(2.0)],
        edges: vec![(0, 1), (1, 0)],
        lap: lap.then(|| vec![Some(0.5), Some(-0.5)]),
    };
    Content { real, lap, graphs: vec![graph; 3] }
}

impl Content {
    fn write(&self, form: Form, folder: &Path) -> PathBuf {
        match form {
            Form::JsonLines => self.write_json(folder.join("g.jsonl")),
            Form::Parquet => self.write_parquet(folder.join("g.parquet")),
            Form::Csv => self.write_csv(folder),
            Form::ParquetTables => self.write_tables(folder),
        }
    }

    fn write_json(&self, path: PathBuf) -> PathBuf {
        let number = |value: &Option<f64>, real: bool| match value {
            None => "null".to_owned(),
            Some(value) if real => format!("{value:?}"),
            Some(value) => format!("{value}"),
        };
        let rows = |values: &[Option<f64>], real| {
            let rows: Vec<String> = values.iter().map(|value| format!("[{}]", number(value, real))).collect();
            format!("[{}]", rows.join(", "))
        };
        let line = |graph: &Graph| {
            let (src, dst): (Vec<i64>, Vec<i64>) = graph.edges.iter().copied().unzip();
            let lap = graph.lap.as_ref().map(|lap| format!(", \"lap_pe\": {}", rows(lap, true))).unwrap_or_default();
            let (nodes, features) = (graph.nodes, rows(&graph.features, self.real));
            format!("{{\"num_nodes\": {nodes}, \"node_feat\": {features}, \"edge_index\": [{src:?}, {dst:?}]{lap}}}\n")
        };
        std::fs::write(&path, self.graphs.iter().map(line).collect::<String>()).unwrap();
        path
    }

    fn write_parquet(&self, path: PathBuf) -> PathBuf {
        let features = self.graphs.iter().map(|graph| Some(&graph.features[..]));
        let features: ArrayRef = if self.real {
            Arc::new(rows(Float64Builder::new(), features, |value| value))
        } else {
            Arc::new(rows(Int64Builder::new(), features, |value| value as i64))
        };
        let mut edges = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
        for graph in &self.graphs {
            let (src, dst): (Vec<i64>, Vec<i64>) = graph.edges.iter().copied().unzip();
            for ends in [src, dst] {
                edges.values().append_value(ends.into_iter().map(Some));
            }
            edges.append(true);
        }
        let sizes = Int64Array::from_iter_values(self.graphs.iter().map(|graph| graph.nodes as i64));
        let mut columns: Vec<(&str, ArrayRef)> =
            vec![("num_nodes", Arc::new(sizes)), ("node_feat", features), ("edge_index", Arc::new(edges.finish()))];
        if self.lap {
            let lap = self.graphs.iter().map(|graph| graph.lap.as_deref());
            columns.push(("lap_pe", Arc::new(rows(Float64Builder::new(), lap, |value| value))));
        }
        write_columns(&path, columns);
        path
    }

    fn write_csv(&self, folder: &Path) -> PathBuf {
        let cell = |value: &Option<f64>| value.map_or(String::new(), |value| format!("{value}"));
        let mut nodes = if self.lap { "graph,node,node_feat,lap_pe0\n" } else { "graph,node,node_feat\n" }.to_owned();
        let mut edges = "graph,src,dst\n".to_owned();
        for (number, graph) in self.graphs.iter().enumerate() {
            for (node, feature) in graph.features.iter().enumerate() {
                let lap = graph.lap.as_ref().map(|lap| format!(",{}", cell(&lap[node]))).unwrap_or_default();
                // One decimal point makes the whole column real, as pandas writes it.
                let feature =
                    if self.real { feature.map_or(String::new(), |v| format!("{v:?}")) } else { cell(feature) };
                nodes.push_str(&format!("{number},{node},{feature}{lap}\n"));
            }
            for (src, dst) in &graph.edges {
                edges.push_str(&format!("{number},{src},{dst}\n"));
            }
        }
        let path = folder.join("t_nodes.csv");
        std::fs::write(&path, nodes).unwrap();
        std::fs::write(folder.join("t_edges.csv"), edges).unwrap();
        path
    }

    fn write_tables(&self, folder: &Path) -> PathBuf {
        let owners = self.graphs.iter().enumerate();
        let per_node = owners.clone().flat_map(|(number, graph)| vec![number as i64; graph.features.len()]);
        let places = self.graphs.iter().flat_map(|graph| 0..graph.features.len() as i64);
        let features = self.graphs.iter().flat_map(|graph| graph.features.iter().copied());
        let features: ArrayRef = if self.real {
            Arc::new(features.collect::<Float64Array>())
        } else {
            Arc::new(features.map(|value| value.map(|value| value as i64)).collect::<Int64Array>())
        };
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("graph", Arc::new(Int64Array::from_iter_values(per_node))),
            ("node", Arc::new(Int64Array::from_iter_values(places))),
            ("node_feat", features),
        ];
        if self.lap {
            let lap = self.graphs.iter().flat_map(|graph| graph.lap.clone().unwrap());
            columns.push(("lap_pe0", Arc::new(lap.collect::<Float64Array>())));
        }
        let path = folder.join("t_nodes.parquet");
        write_columns(&path, columns);
        let edges: Vec<[i64; 3]> =
            owners.flat_map(|(number, graph)| graph.edges.iter().map(move |(s, d)| [number as i64, *s, *d])).collect();
        let column = |at: usize| Arc::new(Int64Array::from_iter_values(edges.iter().map(|edge| edge[at]))) as ArrayRef;
        write_columns(
            &folder.join("t_edges.parquet"),
            vec![("graph", column(0)), ("src", column(1)), ("dst", column(2))],
        );
        path
    }
}

/// An array of lists with one value per row.
fn rows<'a, T: ArrowPrimitiveType>(
    leaf: PrimitiveBuilder<T>,
    graphs: impl Iterator<Item = Option<&'a [Option<f64>]>>,
    value: fn(f64) -> T::Native,
) -> arrow_array::ListArray {
    let mut lists = ListBuilder::new(ListBuilder::new(leaf));
    for graph in graphs {
        for cell in graph.unwrap_or_default() {
            lists.values().append_value([cell.map(value)]);
        }
        lists.append(graph.is_some());
    }
    lists.finish()
}

/// The model's columns: one feature per node.
fn model(real: bool) -> Schema {
    let name = "node_feat".to_owned();
    let node = if real {
        FeatureSchema { continuous: vec![name], ..Default::default() }
    } else {
        FeatureSchema { categorical: vec![Vocabulary::new(name, 3)], ..Default::default() }
    };
    Schema { node, ..Default::default() }
}

fn expecting(schema: &Schema, lap: bool) -> Expected<'_> {
    let encoding = lap.then_some(ExpectedEncoding { kind: EncodingKind::Laplacian, width: 1 });
    Expected { schema: Cow::Borrowed(schema), encoding, labels: Labels::Ignore }
}

fn node(row: usize, column: &str, problem: Problem) -> Reason {
    Reason::Cell { level: Level::Node, row, column: column.into(), problem }
}

fn column(column: &str, problem: Problem) -> Reason {
    Reason::Column { column: column.into(), problem }
}

/// Results of all chunks.
fn results(path: &Path, expected: &Expected<'_>) -> Vec<Result<usize, Rejected>> {
    GraphReader::open(path, expected).unwrap().flat_map(|chunk| chunk.unwrap().results).collect()
}

/// Checks the error of a strict reader for the second graph. Errors in tables name the row.
fn assert_strict(error: DataError, reason: &Reason, form: Form, path: &Path) {
    match (error, reason) {
        (
            DataError::Row { row, column, problem, path: table },
            Reason::Cell { level, row: at, column: named, problem: expected },
        ) => {
            assert!(form.is_table(), "{form:?}");
            let word = if *level == Level::Node { "nodes" } else { "edges" };
            assert!(table.display().to_string().contains(word), "{form:?}: {}", table.display());
            // The first graph has the two rows before.
            assert_eq!((row, &column, &problem), (2 + at + 1, named, expected), "{form:?}");
        }
        (DataError::Graph { path: file, graph, reason: found }, reason) => {
            assert_eq!((file.as_path(), graph, &found), (path, 1, reason), "{form:?}");
        }
        (error, reason) => panic!("{form:?}: {error} instead of {reason}"),
    }
}

/// A defect of one graph: the file, the model's kind of feature, and the reason. Without a model
/// the reason may differ.
struct Defect {
    name: &'static str,
    content: Content,
    real: bool,
    expected: Reason,
    /// The reason of a reading without a model; `None` if the graphs are valid without one.
    inferred: Option<Reason>,
    forms: Vec<Form>,
}

fn defects() -> Vec<Defect> {
    let all = || FORMS.to_vec();
    let native = || vec![Form::JsonLines, Form::Parquet];
    let without_json = || vec![Form::Parquet, Form::Csv, Form::ParquetTables];
    let damage = |real: bool, lap: bool, change: &dyn Fn(&mut Graph)| {
        let mut content = content(real, lap);
        change(&mut content.graphs[1]);
        content
    };
    let feature = |real: bool, value: Option<f64>| damage(real, false, &|graph| graph.features[1] = value);
    let coordinate = |value: Option<f64>| damage(false, true, &|graph| graph.lap.as_mut().unwrap()[1] = value);
    let no_category = |value: f64, inferred: bool| {
        node(1, "node_feat", Problem::NotACategory { value: Number::Real(value), inferred })
    };
    let mut defects = Vec::new();
    let mut add = |name, content, real, expected: Reason, inferred, forms| {
        defects.push(Defect { name, content, real, expected, inferred, forms });
    };
    add(
        "less than 0",
        feature(false, Some(-2.0)),
        false,
        no_category(-2.0, false),
        Some(no_category(-2.0, true)),
        all(),
    );
    add("a fraction", feature(true, Some(1.5)), false, no_category(1.5, false), None, all());
    let beyond = Problem::Untrained(Box::new(Problem::BeyondVocabulary { value: 7, size: 3 }));
    let beyond = node(1, "node_feat", beyond);
    add("an unknown category", feature(false, Some(7.0)), false, beyond, None, all());
    let null = node(1, "node_feat", Problem::Null);
    // Without a model, the user chooses the columns, and those of tables may be targets.
    let tables = || vec![Form::Csv, Form::ParquetTables];
    for (may_be_target, forms) in [(false, native()), (true, tables())] {
        let gap = node(1, "node_feat", Problem::Gap { column: "node_feat".into(), may_be_target });
        add("a category missing", feature(false, None), false, null.clone(), Some(gap.clone()), forms.clone());
        add("a number missing", feature(true, None), true, null.clone(), Some(gap), forms);
    }
    for (name, value, forms) in
        [("NaN", f64::NAN, without_json()), ("infinity", f64::INFINITY, without_json()), ("too large", 1e39, all())]
    {
        let reason = node(1, "node_feat", Problem::NotFinite(Number::Real(value)));
        add(name, feature(true, Some(value)), true, reason.clone(), Some(reason), forms);
    }
    let nowhere = damage(false, false, &|graph| graph.edges[1] = (1, 9));
    let reason = Reason::Graph(GraphError::EdgeOutOfRange { edge: 1, node: 9, num_nodes: 2, is_source: false });
    add("an edge to nowhere", nowhere.clone(), false, reason.clone(), Some(reason), native());
    let problem = Problem::NoSuchNode { id: "9".into(), counted: false };
    let reason = Reason::Cell { level: Level::Edge, row: 1, column: "dst".into(), problem };
    add("an edge to no id", nowhere, false, reason.clone(), Some(reason), vec![Form::Csv, Form::ParquetTables]);
    let rows = damage(false, false, &|graph| graph.nodes = 3);
    let reason = column("node_feat", Problem::RowCount { found: 2, expected: 3 });
    add("a row too few", rows, false, reason.clone(), Some(reason), native());
    let reason = column("lap_pe", Problem::Missing);
    add("no encoding", damage(false, true, &|graph| graph.lap = None), false, reason.clone(), Some(reason), native());
    let reason = node(1, "lap_pe", Problem::Null);
    add("a coordinate missing", coordinate(None), false, reason.clone(), Some(reason), all());
    for (name, value, forms) in
        [("a coordinate NaN", f64::NAN, without_json()), ("a coordinate too large", 1e39, all())]
    {
        let reason = node(1, "lap_pe", Problem::NotFinite(Number::Real(value)));
        add(name, coordinate(Some(value)), false, reason.clone(), Some(reason), forms);
    }
    let short = damage(false, true, &|graph| graph.lap.as_mut().unwrap().truncate(1));
    let reason = column("lap_pe", Problem::RowCount { found: 1, expected: 2 });
    add("a coordinate too few", short, false, reason.clone(), Some(reason), native());
    defects
}

#[test]
fn a_defect_of_one_graph_is_the_same_reason_in_every_format_and_mode() {
    for Defect { name, content, real, expected, inferred, forms } in defects() {
        for form in forms {
            let folder = tempfile::tempdir().unwrap();
            let path = content.write(form, folder.path());
            let schema = model(real);
            let expecting = expecting(&schema, content.lap);
            let results = results(&path, &expecting);
            assert_eq!((&results[0], &results[2]), (&Ok(0), &Ok(1)), "{name}, {form:?}");
            let rejected = results[1].as_ref().expect_err(name);
            assert_eq!(rejected.reason, expected, "{name}, {form:?}");
            assert!(rejected.nodes >= 2, "{name}, {form:?}: the size is known");
            assert_strict(read_expecting(&path, &expecting).expect_err(name), &expected, form, &path);
            match &inferred {
                Some(reason) => assert_strict(read(&path).expect_err(name), reason, form, &path),
                None => assert_eq!(read(&path).unwrap().graphs().len(), 3, "{name}, {form:?}"),
            }
        }
    }
}

#[test]
fn graphs_without_defects_are_the_same_in_every_format_and_mode() {
    for (real, lap) in [(false, false), (false, true), (true, false)] {
        // Whole numbers are categories in any notation, and numbers need no decimal point.
        for model_real in [false, true] {
            for form in FORMS {
                let folder = tempfile::tempdir().unwrap();
                let path = content(real, lap).write(form, folder.path());
                let schema = model(model_real);
                let expecting = expecting(&schema, lap);
                let whole = read_expecting(&path, &expecting).unwrap();
                let chunks: Vec<_> = GraphReader::open(&path, &expecting).unwrap().map(Result::unwrap).collect();
                assert_eq!((chunks.len(), chunks[0].first, &chunks[0].results[..]), (1, 0, &[Ok(0), Ok(1), Ok(2)][..]));
                assert!(chunks[0].graphs == *whole.graphs(), "{form:?}");
                let node = whole.graphs().graph(1).node();
                if model_real {
                    assert_eq!(node.continuous, [1.0, 2.0], "{form:?}");
                } else {
                    assert_eq!(node.categorical, [1, 2], "{form:?}");
                }
                assert_eq!(whole.graphs().encodings().laplacian.is_some(), lap, "{form:?}");
                assert_eq!(whole.schema(), &schema, "{form:?}");
            }
        }
    }
}

#[test]
fn an_encoding_that_is_not_expected_is_not_looked_at() {
    let mut damaged = content(false, true);
    damaged.graphs[1].lap = Some(vec![Some(f64::MAX), Some(0.0)]);
    for form in FORMS {
        let folder = tempfile::tempdir().unwrap();
        let path = damaged.write(form, folder.path());
        let schema = model(false);
        assert_eq!(results(&path, &expecting(&schema, false)), [Ok(0), Ok(1), Ok(2)], "{form:?}");
        assert!(read_expecting(&path, &expecting(&schema, false)).unwrap().graphs().encodings().is_empty());
    }
}

#[test]
fn an_encoding_is_the_files_if_a_first_graph_has_it() {
    let schema = model(false);
    for form in [Form::JsonLines, Form::Parquet] {
        let folder = tempfile::tempdir().unwrap();
        let mut some = content(false, true);
        some.graphs[0].lap = None;
        let path = some.write(form, folder.path());
        let missing = column("lap_pe", Problem::Missing);
        let found = results(&path, &expecting(&schema, true));
        assert_eq!(found[0].as_ref().unwrap_err().reason, missing, "{form:?}");
        assert_eq!(found[1..], [Ok(0), Ok(1)], "{form:?}");
        // No graph has the encoding, so the file has none, and it can be computed.
        some.graphs.iter_mut().for_each(|graph| graph.lap = None);
        let path = some.write(form, folder.path());
        let whole = read_expecting(&path, &expecting(&schema, true)).unwrap();
        assert!(whole.graphs().encodings().is_empty(), "{form:?}");
    }
}

#[test]
fn targets_that_the_model_does_not_have_are_not_read() {
    let schema = model(false);
    let expected = Expected { labels: Labels::Read, ..expecting(&schema, false) };
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("g.jsonl");
    let line = r#"{"node_feat": [[1]], "edge_index": [[], []], "y": "none", "split": "train"}"#;
    std::fs::write(&json, line).unwrap();
    let nodes = folder.path().join("g_nodes.csv");
    std::fs::write(&nodes, "graph,node,node_feat,label,split\n0,0,1,none,train\n").unwrap();
    std::fs::write(folder.path().join("g_edges.csv"), "graph,src,dst\n").unwrap();
    for path in [json, nodes] {
        let whole = read_expecting(&path, &expected).unwrap();
        assert_eq!(whole.schema(), &schema);
        assert_eq!(whole.split().unwrap().rows("train"), [0]);
    }
}

#[test]
fn lines_that_are_no_graph_do_not_stand_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.jsonl");
    let good = r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0, 1], [1, 0]], "y": "none", "split": 7}"#;
    let lines = ["{\"num_nodes\": 2, \"node_fe", good, "[1, 2]", r#"{"num_nodes": 0, "edge_index": [[], []]}"#];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let schema = model(false);
    let found = results(&path, &expecting(&schema, false));
    let line = |result: &Result<usize, Rejected>| match &result.as_ref().unwrap_err().reason {
        Reason::Line { line, .. } => *line,
        other => panic!("{other}"),
    };
    assert_eq!((line(&found[0]), &found[1], line(&found[2]), &found[3]), (1, &Ok(0), 3, &Ok(1)));
    assert_eq!(found[0].as_ref().unwrap_err().nodes, 0);
    assert!(matches!(read(&path), Err(DataError::Graph { graph: 0, reason: Reason::Line { line: 1, .. }, .. })));
    // The caller decides about a file without any valid graph. A file without lines is an error.
    std::fs::write(&path, "{\"foo\": 1}\n{}\n").unwrap();
    assert!(results(&path, &expecting(&schema, false)).iter().all(Result::is_err));
}

#[test]
fn rejected_graphs_keep_their_size_and_edges() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.jsonl");
    std::fs::write(&path, r#"{"node_feat": [[1], [9]], "edge_index": [[0, 1, 1], [1, 0, 1]]}"#).unwrap();
    let schema = model(false);
    let found = results(&path, &expecting(&schema, false));
    let rejected = found[0].as_ref().unwrap_err();
    assert_eq!((rejected.nodes, &rejected.edges[..]), (2, &[(0, 1), (1, 0), (1, 1)][..]));
}

#[test]
fn a_file_that_as_a_whole_is_none_ends_both_readings() {
    let schema = model(false);
    let expecting = expecting(&schema, false);
    let both = |path: &Path| {
        let strict = read_expecting(path, &expecting).unwrap_err();
        let chunked = GraphReader::open(path, &expecting).and_then(|mut reader| {
            let first = reader.next().unwrap().map(drop);
            assert!(first.is_ok() || reader.next().is_none(), "a reader ends after an error");
            first
        });
        assert_eq!(chunked.unwrap_err().to_string(), strict.to_string());
        strict
    };
    let problem = |error: DataError| match error {
        DataError::File { problem, .. } => problem,
        other => panic!("{other}"),
    };
    for form in FORMS {
        let folder = tempfile::tempdir().unwrap();
        let missing = content(false, false).write(form, folder.path());
        std::fs::remove_file(&missing).unwrap();
        assert!(matches!(both(&missing), DataError::Io { .. }), "{form:?}");

        let empty = Content { graphs: Vec::new(), ..content(false, false) };
        if form.is_table() {
            std::fs::remove_dir_all(folder.path()).unwrap();
            std::fs::create_dir(folder.path()).unwrap();
        }
        assert_eq!(problem(both(&empty.write(form, folder.path()))), FileProblem::NoGraph, "{form:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    // The model has a column that the file lacks, or the reverse.
    let other = |name: &str| Schema {
        node: FeatureSchema {
            categorical: vec![Vocabulary::new("node_feat", 0)],
            continuous: vec![name.into()],
            ..Default::default()
        },
        ..Default::default()
    };
    for form in [Form::Parquet, Form::Csv, Form::ParquetTables] {
        let path = content(false, false).write(form, folder.path());
        let wide = other("x");
        let expecting = Expected { schema: Cow::Borrowed(&wide), ..expecting.clone() };
        let problem = problem(read_expecting(&path, &expecting).unwrap_err());
        let name = if form.is_table() { "x" } else { "node_feat_float" };
        assert!(
            matches!(problem, FileProblem::MissingColumn { ref column, .. } if column == name),
            "{form:?}: {problem}"
        );
    }
    let none = Schema::default();
    let nothing = Expected { schema: Cow::Borrowed(&none), ..expecting.clone() };
    let path = content(false, false).write(Form::Parquet, folder.path());
    let unknown = problem(read_expecting(&path, &nothing).unwrap_err());
    assert_eq!(unknown, FileProblem::UnknownColumn("node_feat".into()));
    // Table columns that the model does not have are ignored.
    let path = content(false, false).write(Form::Csv, folder.path());
    assert_eq!(read_expecting(&path, &nothing).unwrap().schema(), &none);
}

#[test]
fn labels_are_read_or_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.jsonl");
    let line = |y: &str| format!("{{\"node_feat\": [[1]], \"edge_index\": [[], []], \"y\": {y}, \"split\": \"a\"}}\n");
    std::fs::write(&path, line("1") + &line("9") + &line("null")).unwrap();
    let columns = vec![TargetColumn::new("y", 3)];
    let target = Some(TargetSchema { level: Level::Graph, kind: TargetKind::Class, columns });
    let schema = Schema { target, ..model(false) };
    let read_labels = Expected { schema: Cow::Borrowed(&schema), encoding: None, labels: Labels::Read };
    let problem = Problem::BeyondVocabulary { value: 9, size: 3 };
    let reason = Reason::Cell { level: Level::Graph, row: 0, column: "y".into(), problem };
    assert_eq!(results(&path, &read_labels)[1].as_ref().unwrap_err().reason, reason);
    assert_strict(read_expecting(&path, &read_labels).unwrap_err(), &reason, Form::JsonLines, &path);
    let ignored = Expected { labels: Labels::Ignore, ..read_labels.clone() };
    assert_eq!(results(&path, &ignored), [Ok(0), Ok(1), Ok(2)]);
    let whole = read_expecting(&path, &ignored).unwrap();
    assert_eq!((whole.graphs().target(), whole.split()), (None, None));
    std::fs::write(&path, line("1") + &line("2")).unwrap();
    let whole = read_expecting(&path, &read_labels).unwrap();
    assert_eq!(whole.graphs().target().unwrap().classes(), Some(&[1, 2][..]));
    assert_eq!(whole.split().unwrap().rows("a"), [0, 1]);
}

#[test]
fn whole_files_read_the_same_but_without_labels_in_all_formats() {
    let shape = Shape {
        graphs: 9,
        largest: 7,
        node: (2, 1, true),
        edge: (1, 2, false),
        target: Some((Level::Node, TargetKind::Class, 2)),
        split: Some(Level::Graph),
        encodings: true,
    };
    let dataset = make(&shape, 4);
    let folder = tempfile::tempdir().unwrap();
    for name in ["g.parquet", "g.jsonl", "g_nodes.csv", "h_nodes.parquet"] {
        let path = folder.path().join(name);
        graph_transformer_data::write(&dataset, &path).unwrap();
        for (encoding, width) in
            [(EncodingKind::Laplacian, 3), (EncodingKind::RandomWalk, 2), (EncodingKind::WeisfeilerLehman, 5)]
        {
            let expected = Expected {
                schema: Cow::Borrowed(dataset.schema()),
                encoding: Some(ExpectedEncoding { kind: encoding, width }),
                labels: Labels::Ignore,
            };
            let found = read_expecting(&path, &expected).unwrap();
            assert_eq!((found.graphs().target(), found.split()), (None, None), "{name}");
            let (own, all) = (found.graphs().encodings(), dataset.graphs().encodings());
            match encoding {
                EncodingKind::Laplacian => assert_eq!((&own.laplacian, &own.random_walk), (&all.laplacian, &None)),
                EncodingKind::RandomWalk => assert_eq!((&own.random_walk, &own.laplacian), (&all.random_walk, &None)),
                EncodingKind::WeisfeilerLehman => assert_eq!(own.weisfeiler_lehman, all.weisfeiler_lehman),
            }
            for (a, b) in found.graphs().iter().zip(dataset.graphs().iter()) {
                assert_eq!((a.src(), a.dst(), a.node(), a.edge()), (b.src(), b.dst(), b.node(), b.edge()), "{name}");
            }
        }
    }
}
