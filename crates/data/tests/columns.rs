//! Columns of a file are found by stored names, by position, or by the model. Stored encodings
//! have the width of the model.

mod support;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int64Type};
use arrow_array::{ArrayRef, Int64Array};
use graph_transformer_data::{
    Chunk, DataError, Expected, ExpectedEncoding, FileProblem, FileRoles, GraphReader, Labels, Number, Problem, Reason,
    TablePaths, read, read_expecting, read_tables, write,
};
use gt_graph::encoding::EncodingKind;
use gt_graph::{FeatureSchema, GraphError, GraphStore, Level, Schema, Vocabulary};
use support::{Shape, make, write_columns};

/// The file names of a data set in every format that stores encodings.
const FILES: [&str; 4] = ["g.jsonl", "g.parquet", "t_nodes.csv", "t_nodes.parquet"];

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn categories(names: &[&str], size: usize) -> Vec<Vocabulary> {
    names.iter().map(|name| Vocabulary::new(*name, size)).collect()
}

/// Columns of nodes.
fn nodes(categorical: &[&str], continuous: &[&str]) -> Schema {
    let continuous = continuous.iter().map(|name| (*name).into()).collect();
    let node = FeatureSchema { categorical: categories(categorical, 3), continuous, ..Default::default() };
    Schema { node, ..Default::default() }
}

/// One categorical column on nodes and edges.
fn plain() -> Schema {
    let edge = FeatureSchema { categorical: categories(&["edge_attr"], 3), ..Default::default() };
    Schema { edge, ..nodes(&["node_feat"], &[]) }
}

fn expecting(schema: &Schema) -> Expected<'_> {
    Expected { schema: Cow::Borrowed(schema), encoding: None, labels: Labels::Ignore }
}

fn with_encoding(schema: &Schema, kind: EncodingKind, width: usize) -> Expected<'_> {
    Expected { encoding: Some(ExpectedEncoding { kind, width }), ..expecting(schema) }
}

fn at_node(row: usize, column: &str, problem: Problem) -> Reason {
    Reason::Cell { level: Level::Node, row, column: column.into(), problem }
}

fn in_column(column: &str, problem: Problem) -> Reason {
    Reason::Column { column: column.into(), problem }
}

/// A number that is not a category, in a column that is known to be categorical.
fn no_category(value: f64) -> Problem {
    Problem::NotACategory { value: Number::Real(value), inferred: false }
}

/// A file that is small enough for one chunk.
fn read_chunk(path: &Path, expected: &Expected<'_>) -> Chunk {
    let mut chunks: Vec<Chunk> = GraphReader::open(path, expected).unwrap().map(Result::unwrap).collect();
    assert_eq!(chunks.len(), 1);
    chunks.remove(0)
}

fn reasons(chunk: &Chunk) -> Vec<(usize, Reason)> {
    let results = chunk.results.iter().enumerate();
    results.filter_map(|(graph, result)| Some((graph, result.as_ref().err()?.reason.clone()))).collect()
}

/// The graph and the reason of an error.
#[track_caller]
fn unusable(error: DataError) -> (usize, Reason) {
    match error {
        DataError::Graph { graph, reason, .. } => (graph, reason),
        other => panic!("{other}"),
    }
}

#[track_caller]
fn whole(error: DataError) -> FileProblem {
    match error {
        DataError::File { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

/// Checks which graphs are rejected, and that the first rejected graph ends a strict reading.
/// Returns the other graphs.
#[track_caller]
fn usable(path: &Path, expected: &Expected<'_>, rejected: &[(usize, Reason)]) -> GraphStore {
    let chunk = read_chunk(path, expected);
    assert_eq!(reasons(&chunk), rejected);
    match rejected.first() {
        Some(first) => assert_eq!(unusable(read_expecting(path, expected).unwrap_err()), *first),
        None => assert!(*read_expecting(path, expected).unwrap().graphs() == chunk.graphs),
    }
    chunk.graphs
}

/// An array with a list of rows for each graph.
fn nested<T: ArrowPrimitiveType>(graphs: &[&[&[T::Native]]]) -> ArrayRef {
    let mut lists = ListBuilder::new(ListBuilder::new(PrimitiveBuilder::<T>::new()));
    for rows in graphs {
        rows.iter().for_each(|row| lists.values().append_value(row.iter().map(|value| Some(*value))));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// Writes graphs without edges to Parquet, with a column of real numbers for their nodes.
fn write_rows(path: &Path, features: &str, graphs: &[&[&[f64]]]) {
    let sizes = Int64Array::from_iter_values(graphs.iter().map(|rows| rows.len() as i64));
    let edges = nested::<Int64Type>(&vec![&[&[][..], &[]][..]; graphs.len()]);
    let columns: Vec<(&str, ArrayRef)> =
        vec![("num_nodes", Arc::new(sizes)), ("edge_index", edges), (features, nested::<Float64Type>(graphs))];
    write_columns(path, columns);
}

/// A line of JSON: a graph without edges, whose nodes have features.
fn line(rows: &str) -> String {
    format!("{{\"edge_index\": [[], []], \"node_feat\": {rows}}}\n")
}

/// A line of JSON that begins with a schema of node columns.
fn line_with_schema(categorical: &[&str], continuous: &[&str], rows: &str) -> String {
    let categorical: Vec<String> =
        categorical.iter().map(|name| format!("{{\"name\": \"{name}\", \"size\": 3}}")).collect();
    let node = format!("{{\"categorical\": [{}], \"continuous\": {continuous:?}}}", categorical.join(", "));
    let stored = format!("{{\"format_version\": 1, \"schema\": {{\"node\": {node}, \"edge\": {{}}}}}}");
    line(rows).replacen('{', &format!("{{\"graph_transformer\": {stored}, "), 1)
}

#[test]
fn usable_graphs_keep_their_rows_and_encodings_whatever_is_rejected_between_them() {
    let graph = |features: &str, edges: &str, lap: &str| {
        format!(
            "{{\"num_nodes\": 2, \"node_feat\": {features}, \"edge_index\": {edges}, \"edge_attr\": [[1], [0]], \"lap_pe\": {lap}}}\n"
        )
    };
    let both = "[[0, 1], [1, 0]]";
    let lines = [
        "{\"num_nodes\": 2, \"node_fe\n".to_owned(),
        graph("[[1], [2]]", both, "[[0.5], [0.25]]"),
        graph("[[1], [null]]", both, "[[1.5], [1.25]]"),
        graph("[[1], [2]]", "[[0, 5], [1, 0]]", "[[2.5], [2.25]]"),
        graph("[[2], [0]]", both, "[[3.5], [3.25]]"),
        graph("[[1], [-2]]", both, "[[4.5], [4.25]]"),
        graph("[[1], [2]]", both, "[[5.5], [null]]"),
        graph("[[1], [2]]", both, "[[6.5]]"),
        "{\"num_nodes\": 1, \"node_feat\": [[2]], \"edge_index\": [[], []], \"lap_pe\": [[7.5]], \"split\": \"val\"}\n"
            .to_owned(),
        "{\"num_nodes\": 0, \"node_feat\": [], \"edge_index\": [[], []], \"edge_attr\": [], \"lap_pe\": []}\n"
            .to_owned(),
        graph("[[0], [1]]", both, "[[9.5], [9.25]]"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "g.jsonl", &lines.concat());
    let schema = plain();
    let chunk = read_chunk(&path, &with_encoding(&schema, EncodingKind::Laplacian, 1));
    let mut rejected = reasons(&chunk);
    assert!(matches!(rejected.remove(0), (0, Reason::Line { line: 1, .. })));
    let edge = GraphError::EdgeOutOfRange { edge: 1, node: 5, num_nodes: 2, is_source: true };
    assert_eq!(
        rejected,
        [
            (2, at_node(1, "node_feat", Problem::Null)),
            (3, Reason::Graph(edge)),
            (5, at_node(1, "node_feat", no_category(-2.0))),
            (6, at_node(1, "lap_pe", Problem::Null)),
            (7, in_column("lap_pe", Problem::RowCount { found: 1, expected: 2 })),
        ]
    );
    let graphs = &chunk.graphs;
    let features: Vec<&[u32]> = graphs.iter().map(|graph| graph.node().categorical).collect();
    assert_eq!(features, [&[1, 2][..], &[2, 0], &[2], &[], &[0, 1]]);
    let edges: Vec<usize> = graphs.iter().map(|graph| graph.num_edges()).collect();
    assert_eq!(edges, [2, 2, 0, 0, 2]);
    let coordinates = graphs.encodings().laplacian.as_ref().unwrap();
    assert_eq!((coordinates.width, &coordinates.values[..]), (1, &[0.5, 0.25, 3.5, 3.25, 7.5, 9.5, 9.25][..]));
}

#[test]
fn graphs_with_other_columns_than_the_model_name_the_column() {
    let lines = [
        r#"{"node_feat": [[1, 2]], "edge_index": [[0], [0]], "edge_attr": [[1]]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]], "edge_attr": [[2]]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]]}"#,
        r#"{"num_nodes": 1, "edge_index": [[0], [0]], "edge_attr": [[1]]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[], []]}"#,
        r#"{"node_feat": [[1]], "node_multi_hot": [[1]], "edge_index": [[], []]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]], "edge_attr_float": [[0.5, 1.5]]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]], "edge_attr": [[1]], "edge_attr_float": [[0.5]]}"#,
        r#"{"node_feat": [[], []], "edge_index": [[], []]}"#,
        r#"{"node_feat": [[2]], "node_multi_hot": null, "edge_index": [[], []], "edge_attr": null}"#,
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "g.jsonl", &lines.join("\n"));
    let width = |found| at_node(0, "node_feat", Problem::Width { found, expected: 1 });
    let rejected = [
        (0, width(2)),
        (2, in_column("edge_attr", Problem::Missing)),
        (3, in_column("node_feat", Problem::Missing)),
        (5, in_column("node_multi_hot", Problem::Unknown)),
        (6, in_column("edge_attr_float", Problem::Unknown)),
        (7, in_column("edge_attr_float", Problem::Unknown)),
        (8, width(0)),
    ];
    let schema = plain();
    let graphs = usable(&path, &expecting(&schema), &rejected);
    // A graph without edges needs no edge features.
    let rows: Vec<(&[u32], &[u32])> =
        graphs.iter().map(|graph| (graph.node().categorical, graph.edge().categorical)).collect();
    assert_eq!(rows, [(&[1][..], &[2][..]), (&[1], &[]), (&[2], &[])]);
}

#[test]
fn a_graph_without_edges_leaves_the_columns_of_edges_to_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        r#"{"node_feat": [[1]], "edge_index": [[], []]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]], "edge_attr": [[1, 2]]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]], "edge_attr": [[1]]}"#,
    ];
    let path = file(folder.path(), "g.jsonl", &lines.join("\n"));
    let problem = Problem::Width { found: 2, expected: 1 };
    let wide = Reason::Cell { level: Level::Edge, row: 0, column: "edge_attr".into(), problem };
    let schema = plain();
    assert_eq!(usable(&path, &expecting(&schema), &[(1, wide)]).len(), 2);
    // Without a model, the first graph with edges decides.
    let problem = Problem::Width { found: 1, expected: 2 };
    let narrow = Reason::Cell { level: Level::Edge, row: 0, column: "edge_attr".into(), problem };
    assert_eq!(unusable(read(&path).unwrap_err()), (2, narrow));
}

#[test]
fn a_stored_schema_decides_the_width_of_rows_wherever_the_odd_graph_is() {
    let folder = tempfile::tempdir().unwrap();
    let stated = |rows| line_with_schema(&["a", "b"], &[], rows);
    // Joined files state their schema more than once.
    let files = [
        (0, [stated("[[1]]"), line("[[2, 1]]"), stated("[[2, 1]]")]),
        (1, [stated("[[2, 1]]"), line("[[1]]"), line("[[2, 1]]")]),
    ];
    let schema = nodes(&["a", "b"], &[]);
    for (odd, lines) in files {
        let path = file(folder.path(), "g.jsonl", &lines.concat());
        let narrow = (odd, at_node(0, "node_feat", Problem::Width { found: 1, expected: 2 }));
        assert_eq!(unusable(read(&path).unwrap_err()), narrow);
        let graphs = usable(&path, &expecting(&schema), &[narrow]);
        assert_eq!(graphs.graph(1).node().categorical, [2, 1]);
    }
}

#[test]
fn a_later_record_may_repeat_the_schema_but_not_change_it() {
    let folder = tempfile::tempdir().unwrap();
    let stated = |second: &str| line_with_schema(&["a", second], &[], "[[2, 1]]");
    let broken = "{\"edge_index\": \n".to_owned();
    let schema = nodes(&["a", "b"], &[]);
    let path = file(folder.path(), "same.jsonl", &(stated("b") + &stated("b")));
    assert_eq!(*read(&path).unwrap().schema(), schema);
    assert_eq!(usable(&path, &expecting(&schema), &[]).len(), 2);
    // The schema of the first readable record counts.
    let path = file(folder.path(), "broken.jsonl", &(broken + &stated("b") + &stated("b")));
    assert_eq!(read_chunk(&path, &expecting(&schema)).graphs.len(), 2);
    for lines in [stated("b") + &stated("c"), line("[[2, 1]]") + &stated("b")] {
        let path = file(folder.path(), "other.jsonl", &lines);
        let other = (1, in_column("graph_transformer", Problem::OtherSchema));
        assert_eq!(unusable(read(&path).unwrap_err()), other);
        assert_eq!(unusable(read_expecting(&path, &expecting(&schema)).unwrap_err()), other);
        let first = GraphReader::open(&path, &expecting(&schema)).unwrap().next().unwrap();
        assert_eq!(unusable(first.unwrap_err()), other);
    }
}

#[test]
fn columns_of_a_stored_schema_are_found_by_name_and_else_by_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "g.jsonl", &line_with_schema(&["a", "b"], &[], "[[2, 1]]"));
    for (names, values) in [(["b", "a"], [1, 2]), (["a", "b"], [2, 1]), (["c", "a"], [2, 1])] {
        let schema = nodes(&names, &[]);
        let graphs = usable(&path, &expecting(&schema), &[]);
        assert_eq!(graphs.graph(0).node().categorical, values, "{names:?}");
    }
    // The file has a category that the model reads as a number.
    let schema = nodes(&["b"], &["a"]);
    let graphs = usable(&path, &expecting(&schema), &[]);
    assert_eq!((graphs.graph(0).node().categorical, graphs.graph(0).node().continuous), (&[1][..], &[2.0][..]));
    // A file with another number of columns cannot be the model's.
    for schema in [plain(), nodes(&["a", "b", "c"], &[]), nodes(&["c"], &["a"])] {
        let found = nodes(&["a", "b"], &[]).node.layout();
        let other = FileProblem::OtherFeatures { level: Level::Node, found, expected: schema.node.layout() };
        assert_eq!(whole(read_expecting(&path, &expecting(&schema)).unwrap_err()), other);
        let first = GraphReader::open(&path, &expecting(&schema)).unwrap().next().unwrap();
        assert_eq!(whole(first.unwrap_err()), other);
    }
}

/// A categorical and a continuous column on nodes, named by their positions in one list.
fn mixed(category: usize) -> Schema {
    let names = ["node_feat0", "node_feat1"];
    nodes(&[names[category]], &[names[1 - category]])
}

#[test]
fn positions_separate_categories_from_numbers() {
    let folder = tempfile::tempdir().unwrap();
    // Numbers are read in the same way from one list or from two.
    let text = [
        line("[[1.0, 0]]"),
        line("[[2, 0.5]]"),
        line("[[1.5, 0.5]]"),
        line("[[1, 2, 3]]"),
        line("[[1]]"),
        line("[[1]], \"node_feat_float\": [[3]]"),
    ];
    let mut rejected = vec![
        (2, at_node(0, "node_feat0", no_category(1.5))),
        (3, at_node(0, "node_feat", Problem::Width { found: 3, expected: 2 })),
        (4, in_column("node_feat_float", Problem::Missing)),
    ];
    let schema = mixed(0);
    let path = file(folder.path(), "g.jsonl", &text.concat());
    let graphs = usable(&path, &expecting(&schema), &rejected);
    let rows: Vec<_> = graphs.iter().map(|graph| (graph.node().categorical, graph.node().continuous)).collect();
    assert_eq!(rows, [(&[1][..], &[0.0][..]), (&[2], &[0.5]), (&[1], &[3.0])]);
    // A Parquet file as a whole has one list.
    let path = folder.path().join("g.parquet");
    write_rows(&path, "node_feat", &[&[&[1.0, 0.0]], &[&[2.0, 0.5]], &[&[1.5, 0.5]], &[&[1.0, 2.0, 3.0]], &[&[1.0]]]);
    rejected[2] = (4, at_node(0, "node_feat", Problem::Width { found: 1, expected: 2 }));
    let graphs = usable(&path, &expecting(&schema), &rejected);
    let rows: Vec<_> = graphs.iter().map(|graph| (graph.node().categorical, graph.node().continuous)).collect();
    assert_eq!(rows, [(&[1][..], &[0.0][..]), (&[2], &[0.5])]);
}

#[test]
fn a_category_after_a_number_keeps_the_name_of_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "g.jsonl", &(line("[[0.5, 2]]") + &line("[[1, 0]]")));
    let schema = mixed(1);
    let graphs = usable(&path, &expecting(&schema), &[]);
    assert_eq!((graphs.graph(1).node().categorical, graphs.graph(1).node().continuous), (&[0][..], &[1.0][..]));
    assert!(read(&path).unwrap().schema().node.names().eq(schema.node.names()));
}

#[test]
fn columns_named_by_positions_may_have_any_order_in_the_model() {
    let folder = tempfile::tempdir().unwrap();
    for (level, prefix) in [(Level::Node, "node_feat"), (Level::Edge, "edge_attr")] {
        let text = match level {
            Level::Node => line("[[0.5, 2, 1.5]]"),
            _ => "{\"num_nodes\": 1, \"edge_index\": [[0], [0]], \"edge_attr\": [[0.5, 2, 1.5]]}".to_owned(),
        };
        let path = file(folder.path(), "g.jsonl", &text);
        let at = |positions: &[usize]| positions.iter().map(|at| format!("{prefix}{at}")).collect::<Vec<_>>();
        let unnamed = ["a", "c", "b"].map(str::to_owned).to_vec();
        for (categorical, continuous, categories, numbers) in [
            (vec![], at(&[2, 0, 1]), &[][..], &[1.5, 0.5, 2.0][..]),
            (at(&[1]), at(&[2, 0]), &[2], &[1.5, 0.5]),
            (vec![], at(&[0, 1, 2]), &[], &[0.5, 2.0, 1.5]),
            // Other names state no positions, so columns have the order of the file.
            (vec![], unnamed, &[], &[0.5, 2.0, 1.5]),
        ] {
            let categorical = categorical.into_iter().map(|name| Vocabulary::new(name, 5)).collect();
            let columns = FeatureSchema { categorical, continuous, ..Default::default() };
            let schema = match level {
                Level::Node => Schema { node: columns, ..Default::default() },
                _ => Schema { edge: columns, ..Default::default() },
            };
            let graphs = usable(&path, &expecting(&schema), &[]);
            let graph = graphs.graph(0);
            let rows = if level == Level::Node { graph.node() } else { graph.edge() };
            assert_eq!((rows.categorical, rows.continuous), (categories, numbers), "{schema:?}");
            assert_eq!(*read_expecting(&path, &expecting(&schema)).unwrap().schema(), schema);
        }
    }
}

#[test]
fn rows_under_a_schema_of_categories_and_numbers_need_every_value() {
    let folder = tempfile::tempdir().unwrap();
    let schema = mixed(0);
    for (rows, reason) in [
        ("[[1, 0.5], [0]]", at_node(1, "node_feat", Problem::Width { found: 1, expected: 2 })),
        ("[[1, 0.5], [0, null]]", at_node(1, "node_feat1", Problem::Null)),
        ("[[1, 0.5], [null, 1]]", at_node(1, "node_feat0", Problem::Null)),
    ] {
        let first = line_with_schema(&["node_feat0"], &["node_feat1"], "[[1, 2]]");
        let path = file(folder.path(), "g.jsonl", &(first + &line(rows)));
        assert_eq!(unusable(read(&path).unwrap_err()), (1, reason.clone()));
        let graphs = usable(&path, &expecting(&schema), &[(1, reason)]);
        assert_eq!(graphs.graph(0).node().continuous, [2.0]);
    }
}

#[test]
fn values_that_a_stored_schema_excludes_name_column_and_value() {
    let folder = tempfile::tempdir().unwrap();
    let schema = r#"{"format_version": 1, "schema": {"node": {"categorical": [{"name": "a", "size": 3}]}, "edge": {}, "target": {"level": "graph", "kind": "class", "columns": [{"name": "y", "classes": 2}]}}}"#;
    let line = |rows: &str, y: u32| format!("\"node_feat\": {rows}, \"edge_index\": [[], []], \"y\": [{y}]}}\n");
    let good = format!("{{\"graph_transformer\": {schema}, {}{{{}", line("[[1]]", 0), line("[[2]]", 1));
    let beyond = |value, size| Problem::BeyondVocabulary { value, size };
    let target = Reason::Cell { level: Level::Graph, row: 0, column: "y".into(), problem: beyond(7, 2) };
    for (odd, reason) in [
        (line("[[9]]", 0), at_node(0, "a", beyond(9, 3))),
        (line("[[1], [1.5]]", 0), at_node(1, "a", no_category(1.5))),
        (line("[[1]]", 7), target),
    ] {
        let path = file(folder.path(), "g.jsonl", &format!("{good}{{{odd}"));
        assert_eq!(unusable(read(&path).unwrap_err()), (2, reason));
    }
}

#[test]
fn a_fraction_among_several_categories_names_its_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "g.jsonl", &(line("[[1, 2]]") + &line("[[1, 0.5]]") + &line("[[1, 2.0]]")));
    let schema = nodes(&["a", "b"], &[]);
    let graphs = usable(&path, &expecting(&schema), &[(1, at_node(0, "b", no_category(0.5)))]);
    assert_eq!(graphs.graph(1).node().categorical, [1, 2]);
}

#[test]
fn a_file_without_usable_graphs_or_of_another_kind_ends_a_strict_reading() {
    let folder = tempfile::tempdir().unwrap();
    let schema = plain();
    let path = file(folder.path(), "wide.jsonl", &(line("[[1, 2]]") + &line("[[1, 2, 3]]")));
    let width = |found| at_node(0, "node_feat", Problem::Width { found, expected: 1 });
    assert!(usable(&path, &expecting(&schema), &[(0, width(2)), (1, width(3))]).is_empty());

    let path = file(folder.path(), "list.jsonl", "[\n1\n]\n");
    let (graphs, found): (Vec<_>, Vec<_>) = reasons(&read_chunk(&path, &expecting(&schema))).into_iter().unzip();
    assert_eq!(graphs, [0, 1, 2]);
    assert!(
        found.iter().enumerate().all(|(at, reason)| matches!(reason, Reason::Line { line, .. } if *line == at + 1))
    );
    assert_eq!(unusable(read_expecting(&path, &expecting(&schema)).unwrap_err()), (0, found[0].clone()));

    let path = file(folder.path(), "other.jsonl", "{\"foo\": 1}\n{}\n");
    let rejected = [0, 1].map(|graph| (graph, in_column("num_nodes", Problem::NoNodeCount)));
    assert!(usable(&path, &expecting(&schema), &rejected).is_empty());

    let path = file(folder.path(), "half.parquet", "PAR1");
    assert!(matches!(whole(read_expecting(&path, &expecting(&schema)).unwrap_err()), FileProblem::Parquet(_)));
    let opened = GraphReader::open(&path, &expecting(&schema)).map(drop);
    assert!(matches!(whole(opened.unwrap_err()), FileProblem::Parquet(_)));
}

#[test]
fn an_encoding_of_another_width_than_the_model_reads_is_an_error_in_every_format() {
    let shape = Shape {
        graphs: 9,
        largest: 7,
        node: (2, 1, true),
        edge: (1, 2, false),
        target: None,
        split: None,
        encodings: true,
    };
    let dataset = make(&shape, 4);
    let filled: Vec<usize> = (0..9).filter(|&graph| dataset.graphs().graph(graph).num_nodes() > 0).collect();
    let folder = tempfile::tempdir().unwrap();
    for name in FILES {
        let path = folder.path().join(name);
        write(&dataset, &path).unwrap();
        for (kind, column, found) in [(EncodingKind::Laplacian, "lap_pe", 3), (EncodingKind::RandomWalk, "rw_pe", 2)] {
            for expected in [1, found + 1] {
                let width = Problem::Width { found, expected };
                let expecting = with_encoding(dataset.schema(), kind, expected);
                match read_expecting(&path, &expecting).unwrap_err() {
                    // Tables have rows instead of graphs.
                    DataError::Row { row: 1, column: named, problem, .. } if name.starts_with('t') => {
                        assert_eq!((&*named, problem), (column, width.clone()), "{name}");
                    }
                    error => assert_eq!(unusable(error), (filled[0], at_node(0, column, width.clone())), "{name}"),
                }
                // Each graph with nodes has the reason. No graph is left that an encoding could be
                // computed for.
                let chunk = read_chunk(&path, &expecting);
                let rejected: Vec<_> = filled.iter().map(|&graph| (graph, at_node(0, column, width.clone()))).collect();
                assert_eq!(reasons(&chunk), rejected, "{name}");
                assert_eq!(chunk.graphs.num_nodes(), 0, "{name}");
            }
        }
    }
}

#[test]
fn one_graph_with_an_encoding_of_another_width_is_rejected_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [json, parquet] = ["g.jsonl", "g.parquet"].map(|name| folder.path().join(name));
    let (good, wide): (&[&[f64]], &[&[f64]]) = (&[&[0.5], &[1.5]], &[&[0.5, 1.0], &[1.5, 2.0]]);
    let schema = Schema::default();
    for (column, kind) in [("lap_pe", EncodingKind::Laplacian), ("rw_pe", EncodingKind::RandomWalk)] {
        for (odd, rows) in [(0, [wide, good, good]), (1, [good, wide, good]), (2, [good, good, wide])] {
            let line =
                |rows: &[&[f64]]| format!("{{\"num_nodes\": 2, \"edge_index\": [[], []], \"{column}\": {rows:?}}}\n");
            std::fs::write(&json, rows.map(line).concat()).unwrap();
            write_rows(&parquet, column, &rows);
            for path in [&json, &parquet] {
                let width = |found, expected| at_node(0, column, Problem::Width { found, expected });
                let graphs = usable(path, &with_encoding(&schema, kind, 1), &[(odd, width(2, 1))]);
                let encodings = graphs.encodings();
                let own = if column == "lap_pe" { &encodings.laplacian } else { &encodings.random_walk };
                assert_eq!(own.as_ref().unwrap().values, [0.5, 1.5, 0.5, 1.5]);
                // Without a model, the first graph decides.
                let strict = if odd == 0 { (1, width(1, 2)) } else { (odd, width(2, 1)) };
                assert_eq!(unusable(read(path).unwrap_err()), strict);
            }
        }
    }
}

#[test]
fn encodings_need_whole_roles_and_no_broken_line_decides_about_them() {
    let folder = tempfile::tempdir().unwrap();
    let line = |roles: &str| format!("{{\"num_nodes\": 2, \"edge_index\": [[], []], \"wl_pe\": {roles}}}\n");
    let text =
        ["{\"num_nodes\": 2, \n", &line("[0, 1]"), &line("[0, 1.5]"), &line("[0, -1]"), &line("[0]"), &line("[2, 1]")];
    let path = file(folder.path(), "g.jsonl", &text.concat());
    let schema = Schema::default();
    let chunk = read_chunk(&path, &with_encoding(&schema, EncodingKind::WeisfeilerLehman, 2));
    let no_role = |value| at_node(1, "wl_pe", Problem::NotARole(Number::Real(value)));
    let rows = in_column("wl_pe", Problem::RowCount { found: 1, expected: 2 });
    assert_eq!(reasons(&chunk)[1..], [(2, no_role(1.5)), (3, no_role(-1.0)), (4, rows)]);
    assert_eq!(chunk.graphs.encodings().weisfeiler_lehman.as_deref(), Some(&[0, 1, 2, 1][..]));
}

#[test]
fn a_table_names_the_column_of_an_encoding_that_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "t_edges.csv", "src,dst\n0,1\n");
    let schema = Schema::default();
    for (columns, lacking) in [("lap_pe0,lap_pe2", "lap_pe1"), ("lap_pe1,lap_pe2", "lap_pe0")] {
        let path = file(folder.path(), "t_nodes.csv", &format!("node,{columns}\n0,0.5,1.5\n1,0.25,1.25\n"));
        for width in [1, 2, 3] {
            let Err(DataError::File { problem: FileProblem::MissingColumn { column, .. }, .. }) =
                read_expecting(&path, &with_encoding(&schema, EncodingKind::Laplacian, width))
            else {
                panic!("the table has {columns}")
            };
            assert_eq!(column, lacking);
        }
        assert!(matches!(read(&path), Err(DataError::File { problem: FileProblem::MissingColumn { .. }, .. })));
        // A model without this encoding does not look at the columns.
        assert!(read_expecting(&path, &with_encoding(&schema, EncodingKind::RandomWalk, 2)).is_ok());
    }
}

#[test]
fn a_role_that_no_column_has_blames_the_table_of_the_role() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = file(folder.path(), "t_nodes.csv", "id,kind\n0,1\n1,2\n");
    let edges = file(folder.path(), "t_edges.csv", "from,to\n0,1\n");
    let paths = TablePaths { nodes: nodes.clone(), edges: edges.clone(), graphs: None };
    let name = |name: &str| Some(name.to_owned());
    let wrong_edges = FileRoles { src: name("kind"), dst: name("to"), ..Default::default() };
    let wrong_nodes = FileRoles { node: name("from"), src: name("from"), dst: name("to"), ..Default::default() };
    for (mapping, blamed, lacking, known) in
        [(wrong_edges, &edges, "kind", ["from", "to"]), (wrong_nodes, &nodes, "from", ["id", "kind"])]
    {
        let Err(DataError::File { path, problem: FileProblem::MissingColumn { column, found, .. } }) =
            read_tables(&paths, &mapping)
        else {
            panic!("{lacking} is in the other table")
        };
        assert_eq!((&path, &*column), (blamed, lacking));
        assert_eq!(found, known);
    }
}
