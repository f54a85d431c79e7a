//! Unusual graphs, files and options: each once caused a crash, a wrong number or a lost file.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Place, assert_names};

const TINY: &str =
    "--device cpu --set model.layers=1 --set model.width=8 --set model.encoding=none --set train.epochs=2";

/// A path of nodes, or none at all.
fn path(nodes: usize, y: Value) -> Value {
    let (src, dst): (Vec<usize>, Vec<usize>) = (1..nodes).flat_map(|node| [(node - 1, node), (node, node - 1)]).unzip();
    let features: Vec<[f64; 1]> = (0..nodes).map(|node| [0.5 + node as f64]).collect();
    json!({"num_nodes": nodes, "node_feat": features, "edge_index": [src, dst], "y": y})
}

fn write(place: &Place, name: &str, graphs: impl Iterator<Item = Value>) {
    place.write(name, &graphs.map(|graph| format!("{graph}\n")).collect::<String>());
}

/// Paths with a number to predict, and a model of them in `run`.
fn trained(place: &Place) {
    write(place, "data.jsonl", (0..20).map(|i| path(2 + i % 4, json!([0.1 * i as f64]))));
    place.done(&format!("train --data data.jsonl --out run {TINY}"));
}

fn last_epoch(place: &Place) -> Value {
    let lines = fs::read_to_string(place.path("run/metrics.jsonl")).unwrap();
    serde_json::from_str(lines.lines().last().unwrap()).unwrap()
}

#[test]
fn graphs_without_nodes_go_through_networks_of_every_kind() {
    let place = Place::new();
    let nodes = |i: usize| if i.is_multiple_of(3) { 0 } else { 2 + i % 4 };
    write(&place, "data.jsonl", (0..24).map(|i| path(nodes(i), json!([0.1 * i as f64]))));
    write(&place, "empty.jsonl", std::iter::once(path(0, json!([0.0]))));
    for kind in ["transformer", "gcn", "gat", "gatedgcn"] {
        for batch in [1, 2] {
            let run = format!("{kind}-{batch}");
            place.done(&format!(
                "train --data data.jsonl --out {run} {TINY} --set model.kind={kind} --set train.batch={batch}"
            ));
            place.done(&format!("predict {run} --data empty.jsonl --out {run}.csv"));
            place.done(&format!("embed {run} --data empty.jsonl --out {run}-rows.csv"));
        }
    }
}

#[test]
fn a_class_per_graph_is_learned_from_batches_of_one_graph() {
    let place = Place::new();
    write(&place, "data.jsonl", (0..20).map(|i| path(2 + i % 2, json!([i % 2]))));
    place.done(&format!("train --data data.jsonl --out run {TINY} --set train.batch=1"));
    let epoch = last_epoch(&place);
    assert!(epoch["train"]["loss"]["paper"].as_f64().unwrap() > 0.1, "{epoch}");
}

#[test]
fn batches_without_a_label_are_no_batches_of_loss_0() {
    let place = Place::new();
    let y = |i: usize| if i.is_multiple_of(2) { json!([0.1 * i as f64]) } else { json!([null]) };
    let graphs = |i: usize| {
        let mut graph = path(3, y(i));
        graph["split"] = json!(["train", "train", "val", "val", "test", "test"][i % 6]);
        graph
    };
    write(&place, "data.jsonl", (0..36).map(graphs));
    place.done(&format!("train --data data.jsonl --out run {TINY} --set train.batch=1"));
    let epoch = last_epoch(&place);
    let [paper, exact] = ["paper", "exact"].map(|form| epoch["val"]["loss"][form].as_f64().unwrap());
    assert!((paper / exact - 1.0).abs() < 1e-5, "{epoch}");
}

#[test]
fn settings_that_no_file_can_hold_are_refused() {
    let place = Place::new();
    write(&place, "data.jsonl", (0..20).map(|i| path(3, json!([0.1 * i as f64]))));
    for key in ["train.hours", "train.checkpoint_seconds"] {
        let complaint = place.refused(&format!("train --data data.jsonl {TINY} --set {key}=inf"));
        assert_names(&complaint, &[&format!("`{key}`"), "inf"]);
    }
    for (option, value) in [("--seed", "18446744073709551615"), ("--seeds", "1,9223372036854775808")] {
        let complaint = place.refused(&format!("train --data data.jsonl {TINY} {option} {value}"));
        let last = value.split(',').next_back().unwrap();
        assert_names(&complaint, &[option, last, "0..=9223372036854775807"]);
    }
    // The folder and its parents are removed again after a failure.
    assert_names(&place.refused("train --data nowhere.jsonl --out some/where/deep"), &["nowhere.jsonl"]);
}

#[test]
fn a_model_of_graphs_is_not_scored_on_parts_of_nodes() {
    let place = Place::new();
    trained(&place);
    let graphs = (0..20).map(|i| {
        let mut graph = path(2, json!([0.1 * i as f64]));
        graph["node_split"] = json!(["train", "test"]);
        graph
    });
    write(&place, "parts.jsonl", graphs);
    let complaint = place.refused("eval run --data parts.jsonl --split test");
    assert_names(&complaint, &["parts.jsonl", "nodes", "graphs"]);
}

#[test]
fn rows_of_no_columns_and_targets_of_none_are_told() {
    let place = Place::new();
    place.write(
        "rows.jsonl",
        "{\"num_nodes\": 1, \"node_feat\": [[]], \"edge_index\": [[], []]}\n{\"num_nodes\": 1, \"node_feat\": [[5]], \"edge_index\": [[], []]}\n",
    );
    let complaint = place.refused("data info rows.jsonl");
    assert_names(&complaint, &["rows.jsonl", "graph 1", "node 0", "\"node_feat\"", "1", "0"]);
    write(&place, "y.jsonl", (0..4).map(|_| path(2, json!([]))));
    let complaint = place.refused("data split y.jsonl --stratify --out s.jsonl");
    assert_names(&complaint, &["y.jsonl", "graph 0", "\"y\""]);
}

#[test]
fn results_do_not_replace_what_is_read() {
    let place = Place::new();
    trained(&place);
    let complaint = place.refused("attention run --data data.jsonl --graph 0 --out data.jsonl");
    assert_names(&complaint, &["--data", "replaced"]);
    place.done("data convert data.jsonl t_nodes.csv");
    for table in ["nodes", "edges", "graphs"] {
        let complaint = place.refused(&format!("predict run --data t_nodes.csv --out t_{table}.csv"));
        assert_names(&complaint, &["--data", "replaced"]);
    }
    place.done("predict run --data t_nodes.csv --out t.csv");
    let complaint =
        place.refused("data convert --nodes t_nodes.csv --edges t_edges.csv --graphs nothing.csv out.jsonl");
    assert_names(&complaint, &["nothing.csv"]);
    place.done("data convert --nodes t_nodes.csv --edges t_edges.csv --graphs t_graphs.csv out.jsonl");
}

#[test]
fn large_letters_end_a_name_as_well() {
    let place = Place::new();
    trained(&place);
    let content = |file: &str| -> Value {
        let info: Value = serde_json::from_str(&place.done(&format!("data info {file} --json"))).unwrap();
        info["content_sha256"].clone()
    };
    for name in ["a_nodes.TSV", "b_nodes.PARQUET", "c_nodes.Csv", "d.PARQUET", "e.JSONL"] {
        place.done(&format!("data convert data.jsonl {name}"));
        assert_eq!(content(name), content("data.jsonl"), "{name}");
    }
    place.done("predict run --data e.JSONL --out p.TSV");
    assert!(fs::read_to_string(place.path("p.TSV")).unwrap().contains('\t'));
    place.done("attention run --data e.JSONL --graph 3 --out a.SVG");
    assert!(fs::read_to_string(place.path("a.SVG")).unwrap().contains("<svg"));
}

#[test]
fn embeddings_that_are_no_numbers_are_empty() {
    let place = Place::new();
    trained(&place);
    let mut graph = path(2, json!([0.0]));
    graph["node_feat"] = json!([[3.3e38], [1.5]]);
    write(&place, "huge.jsonl", std::iter::once(graph));
    place.done("embed run --data huge.jsonl --level node --out e.csv");
    let rows = fs::read_to_string(place.path("e.csv")).unwrap();
    for row in rows.lines().skip(1) {
        // Eight empty cells and a reason.
        assert!(row.contains(",,,,,,,,") && !row.ends_with(','), "{row}");
    }
}

#[test]
fn links_of_complete_graphs_have_nothing_to_be_told_from() {
    let place = Place::new();
    let complete = |nodes: usize| {
        let (src, dst): (Vec<usize>, Vec<usize>) =
            (0..nodes * nodes).map(|at| (at / nodes, at % nodes)).filter(|(a, b)| a != b).unzip();
        json!({"num_nodes": nodes, "node_feat": vec![[1]; nodes], "edge_index": [src, dst]})
    };
    write(&place, "data.jsonl", (0..4).map(|_| complete(6)));
    let complaint = place.refused(&format!("train --data data.jsonl {TINY} --set data.task=links"));
    assert_names(&complaint, &["data.jsonl", "links", "train"]);
}

#[test]
fn a_quote_that_is_never_closed_loses_no_rows() {
    let place = Place::new();
    place.write("a_nodes.csv", "id,x\n0,1\n1,2\n2,0\n");
    place.write("a_edges.csv", "src,dst,note\n0,1,\"5 inch\n1,2,ok\n2,0,ok\n");
    let complaint = place.refused("data convert a_nodes.csv a.jsonl --ignore note");
    assert_names(&complaint, &["a_edges.csv", "line 2"]);
}

#[test]
fn ids_are_the_same_in_every_table() {
    let place = Place::new();
    let converted = |nodes: &str, edges: &str| {
        place.write("a_nodes.csv", nodes);
        place.write("a_edges.csv", edges);
        place.done("data convert a_nodes.csv a.jsonl");
        let text = fs::read_to_string(place.path("a.jsonl")).unwrap();
        let graphs = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["edge_index"].clone());
        graphs.collect::<Vec<_>>()
    };
    // Numbers next to names, a decimal point in one column only, and codes with leading zeros.
    assert_eq!(converted("id,x\n1,1\na,2\n", "src,dst\n1,a\n"), [json!([[0], [1]])]);
    assert_eq!(converted("id,x\n1,1\n2,2\n", "src,dst\n1.0,2.0\n"), [json!([[0], [1]])]);
    assert_eq!(converted("id,x\n01,1\n1,2\n", "src,dst\n1,01\n"), [json!([[1], [0]])]);
    let graphs = converted("graph,id,x\n01,1,1\n1,2,2\nb,3,2\n", "graph,src,dst\n1,2,2\n01,1,1\n");
    assert_eq!(graphs, [json!([[0], [0]]), json!([[0], [0]]), json!([[], []])]);
    // Nodes without ids are counted.
    assert_eq!(converted("x\n1\n2\n", "src,dst\n00,01\n"), [json!([[0], [1]])]);
}

#[test]
fn codes_with_leading_zeros_stay_as_they_are() {
    let place = Place::new();
    place.write("a_nodes.csv", "graph,x\n0,1\n1,1\n");
    place.write("a_edges.csv", "graph,src,dst\n");
    place.write("a_graphs.csv", "graph,code,size\n0,007,0.5\n1,7,-0.5\n");
    place.done("data convert a_nodes.csv a.jsonl");
    let text = fs::read_to_string(place.path("a.jsonl")).unwrap();
    assert!(
        text.contains("\"code\":\"007\"") && text.contains("\"code\":\"7\"") && text.contains("\"size\":-0.5"),
        "{text}"
    );
}

#[test]
fn converting_does_not_replace_what_is_read() {
    let place = Place::new();
    let (nodes, edges) = ("id,x\nanna,1\nbob,2\n", "src,dst\nanna,bob\n");
    place.write("k_nodes.csv", nodes);
    place.write("k_edges.csv", edges);
    place.write("people.csv", nodes);
    let onto = |line: &str, table: &str| assert_names(&place.refused(line), &[table, "replaced"]);
    onto("data convert k_nodes.csv k_nodes.csv", "k_nodes.csv");
    onto("data convert --nodes people.csv --edges k_edges.csv k_nodes.csv", "k_edges.csv");
    assert_eq!(fs::read_to_string(place.path("k_nodes.csv")).unwrap(), nodes);
    assert_eq!(fs::read_to_string(place.path("k_edges.csv")).unwrap(), edges);
    place.done("data convert k_nodes.csv other_nodes.csv");
}

#[test]
fn more_graphs_than_memory_holds_are_not_drawn() {
    let place = Place::new();
    let complaint = place.refused("data sbm cluster --train 99999999999999 --out t.jsonl");
    // Machines that do not report their memory draw graphs until memory runs out.
    assert_names(&complaint, &["100000000001999", "1700000000 GB"]);
}

#[test]
fn predictions_need_no_targets_that_can_be_read() {
    let place = Place::new();
    trained(&place);
    let mut graphs = [path(2, json!(["?"])), path(3, json!({"unknown": true})), path(2, json!(null))];
    graphs[2]["split"] = json!(5);
    write(&place, "new.jsonl", graphs.into_iter());
    place.done("predict run --data new.jsonl --out p.csv --on-error stop");
    assert_eq!(fs::read_to_string(place.path("p.csv")).unwrap().lines().count(), 4);
}

#[test]
fn a_split_that_is_drawn_for_other_data_is_told() {
    let place = Place::new();
    trained(&place);
    write(&place, "other.jsonl", (0..30).map(|i| path(2 + i % 4, json!([0.1 * i as f64]))));
    let told = |line: &str| String::from_utf8(place.gt(line).stderr).unwrap();
    assert_names(&told("eval run --data other.jsonl"), &["other.jsonl", "split"]);
    assert!(!told("eval run").contains("split"));
}

#[test]
fn classes_with_decimal_points_are_classes_if_asked_for() {
    let place = Place::new();
    place.write("a_nodes.csv", "id,age,label\nanna,3,1.0\nbob,4,\ncy,5,0.0\n");
    place.write("a_edges.csv", "src,dst\nanna,bob\n");
    place.done("data convert a_nodes.csv a.jsonl --categorical label");
    let text = fs::read_to_string(place.path("a.jsonl")).unwrap();
    assert!(text.contains("\"kind\":\"class\""), "{text}");
}

#[test]
fn tables_without_columns_are_named() {
    let place = Place::new();
    place.write("a_nodes.csv", "");
    place.write("a_edges.csv", "src,dst\n1,2\n");
    let complaint = place.refused("data convert a_nodes.csv a.jsonl");
    assert_names(&complaint, &["a_nodes.csv"]);
    place.write("a_nodes.csv", "ID;x\nanna;1\n");
    let complaint = place.refused("data convert a_nodes.csv a.jsonl --ignore ID;x");
    assert_names(&complaint, &["a_edges.csv", "row 1", "\"src\"", "node 1"]);
}

#[test]
fn data_of_a_run_that_is_not_here_is_told() {
    let place = Place::new();
    trained(&place);
    fs::rename(place.path("data.jsonl"), place.path("moved.jsonl")).unwrap();
    assert_names(&place.refused("eval run"), &["data.jsonl", "--data"]);
    place.done("eval run --data moved.jsonl");
}
