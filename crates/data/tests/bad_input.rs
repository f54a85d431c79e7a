//! Invalid input produces an error that names file, graph, column and value.

use std::path::Path;

use graph_transformer_data::{DataError, Dataset, FileProblem, Number, Problem, Reason, read, write};
use gt_graph::{GraphError, Level};

/// Reads `text` as a file with the given name.
fn read_text(name: &str, text: &str) -> Result<Dataset, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    read(&path)
}

/// Reads `text` as a file with the given name and returns the error message.
fn complaint(name: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let message = read(&path).expect_err(text).to_string();
    assert!(message.contains(name), "no file in: {message}");
    assert!(!message.contains('\n'), "more than a line: {message}");
    message.replace(&format!("{}: ", path.display()), "")
}

fn column(column: &str, problem: Problem) -> Reason {
    Reason::Column { column: column.into(), problem }
}

fn cell(level: Level, row: usize, column: &str, problem: Problem) -> Reason {
    Reason::Cell { level, row, column: column.into(), problem }
}

#[test]
fn json_lines_say_what_is_wrong_and_where() {
    let good = r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0, 1], [1, 0]], "edge_attr": [[1], [1]], "y": [0.5]}"#;
    let out_of_range =
        |node, is_source| Reason::Graph(GraphError::EdgeOutOfRange { edge: 0, node, num_nodes: 2, is_source });
    let (node, edge) = (Level::Node, Level::Edge);
    let cases: [(&str, Reason); 17] = [
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0], [7]], "edge_attr": [[1]], "y": [0.5]}"#,
            out_of_range(7, false),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[9], [1]], "edge_attr": [[1]], "y": [0.5]}"#,
            out_of_range(9, true),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0, 1], [1]], "edge_attr": [[1], [1]], "y": [0.5]}"#,
            Reason::Graph(GraphError::EdgeListLengths { sources: 2, targets: 1 }),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0], [-1]], "edge_attr": [[1]], "y": [0.5]}"#,
            cell(edge, 0, "edge_index", Problem::NotANode(Number::Real(-1.0))),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0], [0.5]], "edge_attr": [[1]], "y": [0.5]}"#,
            cell(edge, 0, "edge_index", Problem::NotANode(Number::Real(0.5))),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0, 1]], "edge_attr": [[1]], "y": [0.5]}"#,
            column("edge_index", Problem::NotTwoLists { found: 1 }),
        ),
        (
            r#"{"num_nodes": 3, "node_feat": [[1], [2]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            column("node_feat", Problem::RowCount { found: 2, expected: 3 }),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2, 3]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            cell(node, 1, "node_feat", Problem::Width { found: 2, expected: 1 }),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [null]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            cell(node, 1, "node_feat", Problem::Gap { column: "node_feat".into(), may_be_target: false }),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [-2]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            cell(node, 1, "node_feat", Problem::NotACategory { value: Number::Real(-2.0), inferred: true }),
        ),
        (
            r#"{"num_nodes": 2, "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            column("node_feat", Problem::Missing),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_attr": [], "y": [0.5]}"#,
            column("edge_index", Problem::Missing),
        ),
        (
            r#"{"num_nodes": 2.5, "node_feat": [[1], [2]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            column("num_nodes", Problem::NotANodeCount(Number::Real(2.5))),
        ),
        (
            r#"{"num_nodes": [2], "node_feat": [[1], [2]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            column("num_nodes", Problem::NotSingle),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[], []], "edge_attr": [], "y": [1e39]}"#,
            cell(Level::Graph, 0, "y", Problem::NotFinite(Number::Real(1e39))),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[], []], "edge_attr": [], "y": [1, 2, 3]}"#,
            column("y", Problem::NoTargetLevel { rows: 3, nodes: 2, edges: 0 }),
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[], []], "y": [0.5], "split": "train", "node_split": ["a", "b"]}"#,
            column("split", Problem::Unknown),
        ),
    ];
    for (line, expected) in cases {
        let Err(DataError::Graph { graph: 1, reason, .. }) = read_text("mine.jsonl", &format!("{good}\n{line}\n"))
        else {
            panic!("{line} is graph 1, and wrong");
        };
        assert_eq!(reason, expected);
    }
    let both = r#"{"num_nodes": 1, "edge_index": [[], []], "split": "train", "node_split": ["a"]}"#;
    let Err(DataError::Graph { graph: 0, reason, .. }) = read_text("both.jsonl", both) else { panic!("it was read") };
    assert_eq!(reason, column("node_split", Problem::SecondSplit(Level::Graph)));
    assert_eq!(complaint("mine.jsonl", "\n\n"), "there is no graph in it");
}

#[test]
fn lines_that_are_no_records_are_named_with_the_position() {
    let good = r#"{"num_nodes": 1, "edge_index": [[], []]}"#;
    let cases = [
        (
            r#"{"node_feat": [[{}], [2]], "edge_index": [[], []]}"#,
            "position 18: key \"node_feat\": invalid type: map, expected a number, a text or null",
        ),
        (r#"{"num_nodes": 2, "#, "position 16: it is not JSON: EOF while parsing a value"),
        (r#"{"y": [NaN]}"#, "position 8: key \"y\": expected value; JSON has no NaN and no Infinity, write null"),
        (r#"{"y": [-Infinity]}"#, "position 9: key \"y\": invalid number; JSON has no NaN and no Infinity, write null"),
        (
            r#"[1, 2]"#,
            "position 0: invalid type: sequence, expected an object with the keys \"num_nodes\", \"edge_index\", …",
        ),
        (r#"{"y": 1, "y": 2}"#, "position 12: key \"y\" occurs twice"),
    ];
    for (line, expected) in cases {
        let found = complaint("mine.jsonl", &format!("{good}\n{line}\n"));
        assert_eq!(found, format!("graph 1, line 2, {expected}"));
    }
}

/// Error messages name file, graph, node and column, the problem, and a solution.
#[test]
fn messages_say_where_what_and_how() {
    let line = r#"{"node_feat": [[1], [-2]], "edge_index": [[], []]}"#;
    assert_eq!(
        complaint("mine.jsonl", line),
        "graph 0, node 1, column \"node_feat\": -2 is not a category (0, 1, 2, …); to make the column continuous, write numbers with a decimal point, or name it with --continuous"
    );
    let line = r#"{"node_feat": [[1]], "edge_index": [[0], [4]]}"#;
    assert_eq!(complaint("mine.jsonl", line), "graph 0: edge 0 points to node 4, but the graph has 1 nodes");
    let line = r#"{"num_nodes": 2, "edge_index": [[], []], "y": [1, 2]}"#;
    let message = complaint("mine.jsonl", &format!("{line}\n{}", line.replace("[1, 2]", "[0, 1.5, 3]")));
    assert!(message.starts_with("graph 1, column \"y\": 3 rows are neither one per graph"), "{message}");
}

#[test]
fn a_class_that_is_none_is_named() {
    let line = |y: &str| format!(r#"{{"num_nodes": 1, "edge_index": [[], []], "y": [{y}]}}"#);
    let Err(DataError::Graph { graph: 1, reason, .. }) =
        read_text("mine.jsonl", &format!("{}\n{}\n", line("3"), line("-2")))
    else {
        panic!("graph 1 is wrong");
    };
    assert_eq!(reason, cell(Level::Graph, 0, "y", Problem::NotAClass(Number::Real(-2.0))));
}

/// The table, the row and the column of an error, with the problem.
fn row(error: DataError) -> (String, usize, String, Problem) {
    match error {
        DataError::Row { path, row, column, problem } => {
            (path.file_name().unwrap().to_string_lossy().into_owned(), row, column, problem)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn tables_name_row_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let read_pair = |nodes: &str, edges: &str| {
        std::fs::write(folder.path().join("t_nodes.csv"), nodes).unwrap();
        std::fs::write(folder.path().join("t_edges.csv"), edges).unwrap();
        read(&folder.path().join("t_nodes.csv")).unwrap_err()
    };
    let nodes = "node,kind,x\n0,1,0.5\n1,2,1.5\n";
    let gap = Problem::Gap { column: "x".into(), may_be_target: true };
    let cases = [
        (nodes, "src,dst\n0,1\n1,5\n", "edges", "dst", Problem::NoSuchNode { id: "5".into(), counted: false }),
        ("node,kind,x\n0,1,0.5\n0,2,1.5\n", "src,dst\n", "nodes", "node", Problem::Duplicate { id: "0".into() }),
        (
            "node,kind,x\n0,1,0.5\n1,-2,1.5\n",
            "src,dst\n",
            "nodes",
            "kind",
            Problem::NotACategory { value: Number::Real(-2.0), inferred: true },
        ),
        ("node,kind,x\n0,1,0.5\n1,2,\n", "src,dst\n", "nodes", "x", gap),
        ("node,kind,x\n0,1,0.5\n1,2,nan\n", "src,dst\n", "nodes", "x", Problem::NotFinite(Number::Real(f64::NAN))),
        (
            "node,kind,y\n0,1,0\n1,2,1700000000000\n",
            "src,dst\n",
            "nodes",
            "y",
            Problem::NotAClass(Number::Real(1_700_000_000_000.0)),
        ),
        ("node,kind,x\n0,1,0.5\n1,2,heavy\n", "src,dst\n", "nodes", "x", Problem::TextAmongNumbers("heavy".into())),
        ("node,kind,x\n0,1,0.5\n1,NA,1.5\n", "src,dst\n", "nodes", "kind", Problem::TextAmongNumbers("NA".into())),
        ("node,kind,x\n0,1,0.5\n1,2,1e50\n", "src,dst\n", "nodes", "x", Problem::NotFinite(Number::Real(1e50))),
    ];
    for (nodes, edges, table, column, problem) in cases {
        assert_eq!(row(read_pair(nodes, edges)), (format!("t_{table}.csv"), 2, column.into(), problem));
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let cases = [
        (
            nodes,
            "a,b\n0,1\n",
            FileProblem::MissingColumn {
                column: "src".into(),
                found: names(&["a", "b"]),
                hint: "; gt data convert takes the ends of the edges as --src and --dst",
            },
        ),
        ("node,kind,x\n0,1\n", "src,dst\n", FileProblem::CellCount { line: 2, found: 2, expected: 3 }),
        ("node,kind,kind\n0,1,1\n", "src,dst\n", FileProblem::SameName("kind".into())),
        ("node\n\"0", "src,dst\n", FileProblem::OpenQuote(2)),
        ("", "src,dst\n", FileProblem::NoColumns),
    ];
    for (nodes, edges, expected) in cases {
        let DataError::File { problem, .. } = read_pair(nodes, edges) else { panic!("{expected}") };
        assert_eq!(problem, expected);
    }
}

#[test]
fn unknown_names_and_missing_files_are_named() {
    assert!(read(Path::new("graphs.xyz")).unwrap_err().to_string().starts_with("graphs.xyz: unknown format; expected"));
    assert!(read(Path::new("graphs.csv")).unwrap_err().to_string().contains("NAME_nodes.csv"));
    assert!(read(Path::new("nowhere.parquet")).unwrap_err().to_string().starts_with("nowhere.parquet: "));
}

#[test]
fn a_file_of_another_kind_is_no_parquet() {
    assert_eq!(complaint("x.parquet", "PAR"), "not a readable Parquet file: it is too short to be a Parquet file");
    assert_eq!(
        complaint("x.parquet", "hello, world, this is text"),
        "not a readable Parquet file: it is not a Parquet file"
    );
}

#[test]
fn a_newer_format_is_refused() {
    let line = r#"{"graph_transformer": {"format_version": 2, "schema": {}}, "num_nodes": 1, "edge_index": [[], []]}"#;
    assert_eq!(complaint("x.jsonl", line), "it was written in format 2, this program reads up to 1; use a newer one");
}

#[test]
fn a_value_beyond_its_stated_vocabulary_is_refused() {
    let schema = r#"{"format_version": 1, "schema": {"node": {"categorical": [{"name": "atom", "size": 3}]}}}"#;
    let line =
        format!(r#"{{"graph_transformer": {schema}, "num_nodes": 1, "node_feat": [[3]], "edge_index": [[], []]}}"#);
    assert_eq!(
        complaint("x.jsonl", &line),
        "graph 0, node 0, column \"atom\": 3 is beyond the vocabulary of 3 entries (0 to 2)"
    );
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    std::fs::write(&path, r#"{"num_nodes": 1, "edge_index": [[], []], "graph": "collides"}"#).unwrap();
    let dataset = read(&path).unwrap();
    let message = write(&dataset, &folder.path().join("y_nodes.csv")).unwrap_err().to_string();
    assert!(message.ends_with("two columns of one table would be named \"graph\""), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
