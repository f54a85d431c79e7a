//! Whole numbers beyond 2^53, which real numbers round: ids, carried values and classes are kept
//! exactly, or an error has their digits. Two different numbers never become one.

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, UInt64Array};
use graph_transformer_data::{Dataset, read, write};
use support::write_columns;

/// Real numbers round the second to the first.
const PAIR: [i64; 2] = [9_007_199_254_740_992, 9_007_199_254_740_993];
/// Numbers beyond 64 bits with a sign.
const HASHES: [u64; 2] = [18_446_744_073_709_551_614, 18_446_744_073_709_551_615];

fn error(path: &Path) -> String {
    read(path).unwrap_err().to_string()
}

fn texts(data: &Dataset, column: &str) -> Vec<Option<String>> {
    let extra = data.extra(column).unwrap();
    (0..extra.len()).map(|graph| extra.text(graph)).collect()
}

/// Tables in which the second node is joined to the first by id.
fn joined(data: &Dataset) {
    let graph = data.graphs().graph(0);
    assert_eq!((graph.num_nodes(), graph.src(), graph.dst()), (2, &[1, 1][..], &[0, 1][..]));
}

#[test]
fn ids_of_text_tables_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("x_nodes.csv");
    for [a, b] in [PAIR.map(|id| id.to_string()), HASHES.map(|id| id.to_string())] {
        fs::write(&nodes, format!("id,x\n{a},0.5\n{b},1.5\n")).unwrap();
        fs::write(folder.path().join("x_edges.csv"), format!("src,dst\n{b},{a}\n{b},{b}\n")).unwrap();
        joined(&read(&nodes).unwrap());
    }
}

#[test]
fn ids_of_parquet_tables_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let (nodes, edges) = (folder.path().join("x_nodes.parquet"), folder.path().join("x_edges.parquet"));
    let signed = |at: &[usize]| -> ArrayRef { Arc::new(at.iter().map(|&at| Some(PAIR[at])).collect::<Int64Array>()) };
    let hashes =
        |at: &[usize]| -> ArrayRef { Arc::new(at.iter().map(|&at| Some(HASHES[at])).collect::<UInt64Array>()) };
    for ids in [&signed as &dyn Fn(&[usize]) -> ArrayRef, &hashes] {
        write_columns(&nodes, vec![("id", ids(&[0, 1]))]);
        write_columns(&edges, vec![("src", ids(&[1, 1])), ("dst", ids(&[0, 1]))]);
        joined(&read(&nodes).unwrap());
    }
}

#[test]
fn real_numbers_are_no_ids_beyond_their_precision() {
    let folder = tempfile::tempdir().unwrap();
    let (nodes, edges) = (folder.path().join("x_nodes.parquet"), folder.path().join("x_edges.parquet"));
    let reals = |values: [f64; 2]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
    write_columns(&nodes, vec![("id", reals([7.0, 8.0]))]);
    write_columns(&edges, vec![("src", reals([8.0, 8.0])), ("dst", reals([7.0, 8.0]))]);
    joined(&read(&nodes).unwrap());
    // Both ends are the same real number here, and were two ids before they were rounded.
    write_columns(&nodes, vec![("id", Arc::new(Int64Array::from(PAIR.to_vec())))]);
    write_columns(&edges, vec![("src", reals(PAIR.map(|id| id as f64))), ("dst", reals(PAIR.map(|id| id as f64)))]);
    let message = error(&nodes);
    assert!(message.contains("x_edges.parquet: row 1, column \"src\": 9007199254740992.0"), "{message}");
}

#[test]
fn carried_numbers_are_exact_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let lines = |values: [String; 2]| {
        let line = |value: String| format!("{{\"num_nodes\": 1, \"edge_index\": [[], []], \"id\": {value}}}\n");
        values.map(line).concat()
    };
    let cases = [
        PAIR.map(|id| id.to_string()),
        HASHES.map(|id| id.to_string()),
        [PAIR[0].to_string(), HASHES[0].to_string()],
        ["0.5".to_owned(), PAIR[1].to_string()],
        ["-1".to_owned(), HASHES[1].to_string()],
    ];
    for values in cases {
        fs::write(path("carried.jsonl"), lines(values.clone())).unwrap();
        let expected = values.clone().map(Some);
        let first = read(&path("carried.jsonl")).unwrap();
        assert_eq!(texts(&first, "id"), expected);
        for name in ["carried.parquet", "again.jsonl", "x_nodes.csv", "y_nodes.parquet"] {
            write(&first, &path(name)).unwrap();
            assert_eq!(texts(&read(&path(name)).unwrap(), "id"), expected, "{name}");
        }
        // Tables of other programs have no schema.
        fs::write(path("z_nodes.csv"), "graph,x\na,0.5\nb,1.5\n").unwrap();
        fs::write(path("z_edges.csv"), "graph,src,dst\na,0,0\nb,0,0\n").unwrap();
        fs::write(path("z_graphs.csv"), format!("graph,id\na,{}\nb,{}\n", values[0], values[1])).unwrap();
        assert_eq!(texts(&read(&path("z_nodes.csv")).unwrap(), "id"), expected);
    }
}

#[test]
fn carried_hashes_of_parquet_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hashes.parquet");
    let first = folder.path().join("first.jsonl");
    fs::write(&first, "{\"num_nodes\": 1, \"edge_index\": [[], []]}\n".repeat(2)).unwrap();
    let lists = |values: [i64; 2]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let mut empty = arrow_array::builder::ListBuilder::new(arrow_array::builder::ListBuilder::new(
        arrow_array::builder::Int64Builder::new(),
    ));
    empty.append(true);
    empty.append(true);
    write_columns(
        &path,
        vec![
            ("num_nodes", lists([1, 1])),
            ("edge_index", Arc::new(empty.finish())),
            ("id", Arc::new(UInt64Array::from(HASHES.to_vec()))),
        ],
    );
    let expected = HASHES.map(|id| Some(id.to_string()));
    let data = read(&path).unwrap();
    assert_eq!(texts(&data, "id"), expected);
    write(&data, &first).unwrap();
    assert_eq!(texts(&read(&first).unwrap(), "id"), expected);
}

#[test]
fn names_of_classes_keep_their_digits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("classes.jsonl");
    let line = |y: String| format!("{{\"num_nodes\": 1, \"edge_index\": [[], []], \"y\": {y}}}\n");
    // A chunk has at most 1024 graphs, so the text is in a later one.
    let numbers: String = (0..1100).map(|at| line(PAIR[at % 2].to_string())).collect();
    fs::write(&path, numbers.clone() + &line("\"other\"".into())).unwrap();
    let data = read(&path).unwrap();
    let target = data.schema().target.as_ref().unwrap();
    assert_eq!(target.columns[0].names, ["9007199254740992", "9007199254740993", "other"]);
    fs::write(&path, line("\"other\"".into()) + &numbers).unwrap();
    assert_eq!(read(&path).unwrap().schema().target.as_ref().unwrap().columns[0].names, target.columns[0].names);
    // Without a text, the classes are numbers.
    fs::write(&path, line(PAIR[1].to_string())).unwrap();
    let message = error(&path);
    assert!(message.contains("graph 0") && message.contains("9007199254740993 is not a class"), "{message}");
}

#[test]
fn categories_keep_their_digits_or_an_error_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kinds.jsonl");
    let line = |kinds: String| format!("{{\"node_feat\": [{kinds}], \"edge_index\": [[], []]}}\n");
    let [a, b] = PAIR;
    fs::write(&path, line(format!("[\"x\"], [{a}], [{b}]"))).unwrap();
    let data = read(&path).unwrap();
    assert_eq!(data.schema().node.categorical[0].names, ["9007199254740992", "9007199254740993", "x"]);
    fs::write(&path, line(format!("[1], [{b}]"))).unwrap();
    let message = error(&path);
    assert!(message.contains("node 1") && message.contains("9007199254740993 is not a category"), "{message}");
    let native = folder.path().join("edges.jsonl");
    fs::write(&native, format!("{{\"num_nodes\": 1, \"edge_index\": [[{}], [0]]}}", HASHES[1])).unwrap();
    let message = error(&native);
    assert!(message.contains("18446744073709551615 is not a node"), "{message}");
}
