//! Bad input gets one sentence that names file, graph, column and value.

use std::path::Path;

use graph_transformer_data::{read, write};

/// Reads `text` as a file of that name and returns the complaint.
fn complaint(name: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let message = read(&path).expect_err(text).to_string();
    assert!(message.contains(name), "no file in: {message}");
    assert!(!message.contains('\n'), "more than a line: {message}");
    message.replace(&format!("{}: ", path.display()), "")
}

#[test]
fn json_lines_say_what_is_wrong_and_where() {
    let good = r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0, 1], [1, 0]], "edge_attr": [[1], [1]], "y": [0.5]}"#;
    let cases: [(&str, &str); 20] = [
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0], [7]], "edge_attr": [[1]], "y": [0.5]}"#,
            "graph 1: edge 0 points to node 7, but the graph has 2 nodes",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[9], [1]], "edge_attr": [[1]], "y": [0.5]}"#,
            "graph 1: edge 0 starts at node 9, but the graph has 2 nodes",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0, 1], [1]], "edge_attr": [[1]], "y": [0.5]}"#,
            "graph 1, column `edge_index`: 2 sources but 1 targets",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0], [-1]], "edge_attr": [[1]], "y": [0.5]}"#,
            "graph 1, column `edge_index`: -1 is not a node",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0], [0.5]], "edge_attr": [[1]], "y": [0.5]}"#,
            "graph 1, column `edge_index`: 0.5 is not a node",
        ),
        (
            r#"{"num_nodes": 3, "node_feat": [[1], [2]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            "graph 1, column `node_feat`: 2 rows, expected 3",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2, 3]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            "graph 1, column `node_feat`: row 1 has 2 values, row 0 has 1",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [null]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            "graph 1, column `node_feat`: row 1, value 0 is null",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [-2]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            "graph 1, column `node_feat`: -2 is not a category (0, 1, 2, …); write numbers with a decimal point to make them continuous",
        ),
        (
            r#"{"num_nodes": 2, "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            "graph 1, column `node_feat`: the key is missing, but present in earlier graphs",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_attr": [], "y": [0.5]}"#,
            "graph 1, column `edge_index`: the key is missing (a graph without edges has [[], []])",
        ),
        (
            r#"{"num_nodes": 2.5, "node_feat": [[1], [2]], "edge_index": [[], []], "edge_attr": [], "y": [0.5]}"#,
            "graph 1, column `num_nodes`: it should be one integer",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[], []], "edge_attr": [], "y": [1e39]}"#,
            "graph 1, column `y`: 1000000000000000000000000000000000000000 is not a finite 32-bit number",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[], []], "edge_attr": [], "y": [1, 2, 3]}"#,
            "graph 1, column `y`: 3 rows are neither one per graph nor one per node (2) or edge (0) in every graph",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [["a"], [2]], "edge_index": [[], []]}"#,
            "line 2: key `node_feat`: invalid type: string \"a\", expected a number or null (column 35)",
        ),
        (
            r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[], []], "y": [0.5], "split": "train", "node_split": ["a", "b"]}"#,
            "graph 1, column `split`: the key is here, but earlier graphs have no such split",
        ),
        (r#"{"num_nodes": 2, "#, "line 2: it is not JSON: EOF while parsing a value (column 16)"),
        (
            r#"{"y": [NaN]}"#,
            "line 2: key `y`: expected value (column 8); NaN and Infinity have no form in JSON, null has",
        ),
        (
            r#"{"y": [-Infinity]}"#,
            "line 2: key `y`: invalid number (column 9); NaN and Infinity have no form in JSON, null has",
        ),
        (
            r#"[1, 2]"#,
            "line 2: invalid type: sequence, expected an object with the keys `num_nodes`, `edge_index`, … (column 0)",
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(complaint("mine.jsonl", &format!("{good}\n{line}\n")), expected);
    }
    assert_eq!(complaint("mine.jsonl", "\n\n"), "there is no graph in it");
}

#[test]
fn a_class_that_is_none_is_named() {
    let line = |y: &str| format!(r#"{{"num_nodes": 1, "edge_index": [[], []], "y": [{y}]}}"#);
    let message = complaint("mine.jsonl", &format!("{}\n{}\n", line("3"), line("-2")));
    assert!(message.starts_with("graph 1, column `y`: -2 is not a class"), "{message}");
}

#[test]
fn tables_name_row_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let read_pair = |nodes: &str, edges: &str| {
        std::fs::write(folder.path().join("t_nodes.csv"), nodes).unwrap();
        std::fs::write(folder.path().join("t_edges.csv"), edges).unwrap();
        let message = read(&folder.path().join("t_nodes.csv")).unwrap_err().to_string();
        message.replace(&format!("{}/", folder.path().display()), "")
    };
    let nodes = "node,kind,x\n0,1,0.5\n1,2,1.5\n";
    let cases = [
        (nodes, "src,dst\n0,1\n1,5\n", "t_edges.csv: row 2, column `dst`: there is no node 5"),
        (nodes, "a,b\n0,1\n", "t_edges.csv: no column for the edges' src among `a`, `b`; name it with --src"),
        ("node,kind,x\n0,1,0.5\n0,2,1.5\n", "src,dst\n", "t_nodes.csv: row 2, column `node`: node 0 is listed twice"),
        (
            "node,kind,x\n0,1,0.5\n1,-2,1.5\n",
            "src,dst\n",
            "t_nodes.csv: row 2, column `kind`: -2 is not a category (0, 1, 2, …); gt data convert --continuous kind makes it a number",
        ),
        ("node,kind,x\n0,1,0.5\n1,2,\n", "src,dst\n", "t_nodes.csv: row 2, column `x`: the cell is empty or NaN"),
        ("node,kind,x\n0,1,0.5\n1,2,nan\n", "src,dst\n", "t_nodes.csv: row 2, column `x`: the cell is empty or NaN"),
        (
            "node,kind,y\n0,1,0\n1,2,1700000000000\n",
            "src,dst\n",
            "t_nodes.csv: row 2, column `y`: 1700000000000 is not a class (0, 1, 2, … or -1 for a missing label); gt data convert --continuous y makes it a number",
        ),
        (
            "node,kind,x\n0,1,0.5\n1,2,1e50\n",
            "src,dst\n",
            "t_nodes.csv: row 2, column `x`: 1e50 is not a finite 32-bit number",
        ),
        ("node,kind,x\n0,1\n", "src,dst\n", "t_nodes.csv: line 2 has 2 cells, the header has 3"),
        (
            "node,name\n0,ann\n",
            "src,dst\n",
            "t_nodes.csv: column `name` holds text; number its values, give it a role, or leave it out with gt data convert --ignore name",
        ),
        ("node,kind,kind\n0,1,1\n", "src,dst\n", "t_nodes.csv: two columns are named `kind`"),
    ];
    for (nodes, edges, expected) in cases {
        let found = read_pair(nodes, edges);
        assert_eq!(found.replace("100000000000000000000000000000000000000000000000000", "1e50"), expected);
    }
}

#[test]
fn unknown_names_and_missing_files_are_named() {
    assert!(read(Path::new("graphs.xyz")).unwrap_err().to_string().starts_with("graphs.xyz: unknown format"));
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
    assert_eq!(complaint("x.jsonl", &line), "graph 0, column `atom`: 3 is beyond its vocabulary of 3 entries");
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    std::fs::write(&path, r#"{"num_nodes": 1, "edge_index": [[], []], "graph": "collides"}"#).unwrap();
    let dataset = read(&path).unwrap();
    let message = write(&dataset, &folder.path().join("y_nodes.csv")).unwrap_err().to_string();
    assert!(message.ends_with("two columns of one table would be named `graph`"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
