//! Using a trained model: predictions, embeddings and attention from the command line.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use gt_data::RandomStream;
use serde_json::{Map, Value, json};
use support::{Place, assert_names};

type Rows = Vec<Map<String, Value>>;

const SMALL: &str = "--set model.layers=2 --set model.width=12 --set model.heads=3 --set model.encoding=laplacian --set model.encoding_size=4 \
                     --set train.epochs=2 --set train.batch=7 --set optimizer.lr=1e-2";

/// A tree with some more edges. The targets of the level are partly learnable.
fn graph(number: u64, level: &str) -> Value {
    let mut random = RandomStream::new(3, 200, number);
    let nodes = 2 + random.below(9) as usize;
    let kinds: Vec<u32> = (0..nodes).map(|_| random.below(4)).collect();
    let (mut src, mut dst, mut bonds) = (vec![], vec![], vec![]);
    let mut join = |a: usize, b: usize, bond: u32| {
        src.extend([a, b]);
        dst.extend([b, a]);
        bonds.extend([[bond], [bond]]);
    };
    (1..nodes).for_each(|node| join(random.below(node as u32) as usize, node, random.below(3)));
    join(0, nodes - 1, 1);
    let y = match level {
        "graph" => json!([[100.0 + 7.5 * kinds.iter().sum::<u32>() as f64, -0.001 * nodes as f64]]),
        "node" => json!(kinds.iter().map(|kind| kind / 2).collect::<Vec<_>>()),
        _ => json!(bonds.iter().map(|bond| bond[0]).collect::<Vec<_>>()),
    };
    let split = ["train", "train", "val", "test"][number as usize % 4];
    let features: Vec<[u32; 1]> = kinds.iter().map(|kind| [*kind]).collect();
    json!({"num_nodes": nodes, "node_feat": features, "edge_index": [src, dst], "edge_attr": bonds, "y": y, "split": split})
}

fn lines(graphs: &[Value]) -> String {
    graphs.iter().map(|graph| format!("{graph}\n")).collect()
}

/// Trains a small model on graphs with targets on a level.
fn train(place: &Place, level: &str, more: &str) -> Vec<Value> {
    let graphs: Vec<Value> = (0..40).map(|number| graph(number, level)).collect();
    place.write("data.jsonl", &lines(&graphs));
    place.done(&format!("train --data data.jsonl --out run {SMALL} {more}"));
    graphs
}

fn without(graph: &Value, keys: &[&str]) -> Value {
    let mut graph = graph.clone();
    keys.iter().for_each(|key| drop(graph.as_object_mut().unwrap().remove(*key)));
    graph
}

fn jsonl(path: &Path) -> Rows {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Numbers as numbers, empty cells as null.
fn csv(path: &Path) -> Rows {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let value = |cell: &str| match cell {
        "" => Value::Null,
        cell => serde_json::from_str(cell).unwrap_or_else(|_| Value::from(cell.trim_matches('"'))),
    };
    lines.map(|cells| names.iter().zip(cells).map(|(name, cell)| (name.to_string(), value(cell))).collect()).collect()
}

fn parquet(path: &Path) -> Rows {
    let file = std::fs::File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    let cell = |array: &dyn Array, row: usize| -> Value {
        if array.is_null(row) {
            return Value::Null;
        }
        match array.data_type().to_string().as_str() {
            "Int64" => array.as_primitive::<Int64Type>().value(row).into(),
            // Text keeps a single-precision number as it reads in the other formats.
            "Float32" => {
                serde_json::from_str(&format!("{:?}", array.as_primitive::<Float32Type>().value(row))).unwrap()
            }
            _ => array.as_string::<i32>().value(row).into(),
        }
    };
    let row = |batch: &RecordBatch, row: usize| {
        let schema = batch.schema();
        schema.fields().iter().zip(batch.columns()).map(|(f, array)| (f.name().clone(), cell(array, row))).collect()
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<_>>()).collect()
}

fn number(row: &Map<String, Value>, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row:?}"))
}

fn eval(place: &Place, line: &str) -> f64 {
    let scores: Value = serde_json::from_str(&place.done(&format!("eval {line} --json"))).unwrap();
    scores["exact"].as_f64().unwrap()
}

#[test]
fn predicted_numbers_have_the_error_that_eval_reports() {
    let place = Place::new();
    let graphs = train(&place, "graph", "--set data.standardize=true");
    place.done("predict run --data data.jsonl --out p.jsonl");
    let rows = jsonl(&place.path("p.jsonl"));
    assert_eq!(rows.len(), 40);
    assert_eq!(rows[0].keys().cloned().collect::<Vec<_>>(), ["graph", "reason", "y0", "y1"]);
    let mut errors = vec![];
    for (at, (row, graph)) in rows.iter().zip(&graphs).enumerate() {
        assert_eq!((&row["graph"], &row["reason"]), (&Value::from(at), &Value::Null));
        if graph["split"] == "test" {
            errors.extend((0..2).map(|c| (number(row, &format!("y{c}")) - graph["y"][0][c].as_f64().unwrap()).abs()));
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let exact = eval(&place, "run --split test");
    assert!((mean / exact - 1.0).abs() < 1e-6, "{mean}, {exact}");
    // Labels and split are neither needed nor read.
    let plain: Vec<Value> = graphs.iter().map(|graph| without(graph, &["y", "split"])).collect();
    place.write("plain.jsonl", &lines(&plain));
    place.done("predict run/model.safetensors --data plain.jsonl --out q.jsonl");
    assert_eq!(jsonl(&place.path("q.jsonl")), rows);
    let complaint = place.refused("predict run/model.safetensors --best --data plain.jsonl --out r.jsonl");
    assert_names(&complaint, &["--best", "run/model.safetensors"]);
    // A graph with other columns has a reason, and does not affect the others.
    let mut odd = plain.clone();
    odd[1] = without(&odd[1], &["node_feat", "edge_attr"]);
    odd[1]["num_nodes"] = Value::from(1);
    odd[1]["edge_index"] = json!([[], []]);
    place.write("odd.jsonl", &lines(&odd));
    place.done("predict run --data odd.jsonl --out odd-rows.jsonl");
    let told = jsonl(&place.path("odd-rows.jsonl"));
    assert_names(told[1]["reason"].as_str().unwrap(), &["\"node_feat\""]);
    assert!(told[0] == rows[0] && told[2..] == rows[2..]);
    // The last model is another one.
    place.done("predict run --last --data plain.jsonl --out last.jsonl");
    assert!(eval(&place, "run --last --split test") == exact || jsonl(&place.path("last.jsonl")) != rows);
}

#[test]
fn predicted_classes_of_nodes_and_edges_have_the_accuracy_that_eval_reports() {
    for (level, full) in
        [("node", ""), ("edge", ""), ("edge", "--set model.pairs=ends"), ("node", "--set model.graph=full")]
    {
        let place = Place::new();
        let graphs = train(&place, level, &format!("{full} --set train.epochs=12"));
        place.done("predict run --last --data data.jsonl --out p.parquet");
        let rows = parquet(&place.path("p.parquet"));
        let mut at = 0;
        // For each class: number of rows, and number of correct rows.
        let mut counts: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for (index, graph) in graphs.iter().enumerate() {
            for (place, label) in graph["y"].as_array().unwrap().iter().enumerate() {
                let row = &rows[at];
                at += 1;
                assert_eq!(row["graph"], index);
                if level == "node" {
                    assert_eq!(row["node"], place);
                } else {
                    let ends = [0, 1].map(|end| &graph["edge_index"][end][place]);
                    assert_eq!([&row["source"], &row["target"]], ends);
                }
                let shares: Vec<f64> = (0..).map_while(|c| row.get(&format!("y_p{c}"))?.as_f64()).collect();
                assert_eq!(shares.len(), if level == "node" { 2 } else { 3 });
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-5);
                let class = row["y"].as_u64().unwrap();
                assert!(shares.iter().all(|share| *share <= shares[class as usize]), "{row:?}");
                if graph["split"] == "test" {
                    let count = counts.entry(label.as_u64().unwrap()).or_default();
                    count.0 += 1.0;
                    count.1 += f64::from(u8::from(class == label.as_u64().unwrap()));
                }
            }
        }
        assert_eq!(at, rows.len());
        let sum = |of: fn(&(f64, f64)) -> f64| counts.values().map(of).sum::<f64>();
        let accuracy = 100.0 * sum(|(_, right)| *right) / sum(|(all, _)| *all);
        let exact = eval(&place, "run --last --split test");
        assert!((accuracy - exact).abs() < 1e-9, "{level} {full}: {accuracy}, {exact}");
        // A constant answer would not show an order that is wrong.
        let classes: BTreeSet<u64> = rows.iter().filter_map(|row| row["y"].as_u64()).collect();
        assert!(classes.len() > 1, "{level} {full}");
    }
}

#[test]
fn predicted_labels_have_the_area_under_the_curve_that_eval_reports() {
    let place = Place::new();
    let mut graphs: Vec<Value> = (0..40).map(|number| graph(number, "graph")).collect();
    for graph in &mut graphs {
        let kinds = graph["node_feat"].as_array().unwrap().clone();
        let has = |kind: u32| u8::from(kinds.contains(&json!([kind])));
        graph["y"] = json!([[has(0), has(3)]]);
    }
    place.write("data.jsonl", &lines(&graphs));
    place.done(&format!("train --data data.jsonl --out run {SMALL}"));
    place.done("predict run --data data.jsonl --out p.csv");
    let rows = csv(&place.path("p.csv"));
    let area = |column: usize| {
        let test = || rows.iter().zip(&graphs).filter(|(_, graph)| graph["split"] == "test");
        let of = |label: u64| {
            let chosen = test().filter(move |(_, graph)| graph["y"][0][column] == label);
            chosen.map(|(row, _)| number(row, &format!("y{column}_p1"))).collect::<Vec<_>>()
        };
        let (no, yes) = (of(0), of(1));
        let above: f64 = yes
            .iter()
            .flat_map(|y| no.iter().map(move |n| if y > n { 1.0 } else { 0.5 * f64::from(u8::from(y == n)) }))
            .sum();
        assert!(yes.iter().chain(&no).all(|share| (0.0..=1.0).contains(share)));
        above / (yes.len() * no.len()) as f64
    };
    let (mean, exact) = ((area(0) + area(1)) / 2.0, eval(&place, "run --split test"));
    assert!((mean - exact).abs() < 1e-9, "{mean}, {exact}");
}

#[test]
fn edges_keep_the_order_of_their_list() {
    let place = Place::new();
    let graphs = train(&place, "edge", "");
    let turned: Vec<Value> = graphs
        .iter()
        .map(|graph| {
            let mut graph = graph.clone();
            let reverse = |list: &mut Value| list.as_array_mut().unwrap().reverse();
            (0..2).for_each(|end| reverse(&mut graph["edge_index"][end]));
            reverse(&mut graph["edge_attr"]);
            without(&graph, &["y"])
        })
        .collect();
    place.write("turned.jsonl", &lines(&turned));
    place.done("predict run --data data.jsonl --out a.jsonl");
    place.done("predict run --data turned.jsonl --out b.jsonl");
    let by_graph = |name: &str| {
        let mut rows: BTreeMap<u64, Rows> = BTreeMap::new();
        jsonl(&place.path(name))
            .into_iter()
            .for_each(|row| rows.entry(row["graph"].as_u64().unwrap()).or_default().push(row));
        rows
    };
    for (graph, (a, b)) in by_graph("a.jsonl").iter().zip(by_graph("b.jsonl")).map(|((g, a), (_, b))| (g, (a, b))) {
        for (a, b) in a.iter().zip(b.iter().rev()) {
            assert_eq!((&a["source"], &a["target"]), (&b["source"], &b["target"]));
            let off = (number(a, "y_p0") - number(b, "y_p0")).abs();
            assert!(off < 1e-4, "graph {graph}: {a:?}, {b:?}");
        }
    }
}

/// Odd graphs that a model can take, then some that it cannot.
fn odd() -> Vec<String> {
    let mut unknown = without(&graph(1, "graph"), &["y"]);
    unknown["node_feat"][1][0] = 9.into();
    let mut missing = without(&graph(2, "graph"), &["y"]);
    missing["node_feat"][0][0] = Value::Null;
    let mut dangling = without(&graph(3, "graph"), &["y"]);
    dangling["edge_index"][0][0] = 50.into();
    let mut bond = without(&graph(4, "graph"), &["y"]);
    bond["edge_attr"][1][0] = 3.into();
    [
        without(&graph(0, "graph"), &["y"]).to_string(),
        json!({"num_nodes": 1, "node_feat": [[2]], "edge_index": [[], []], "edge_attr": []}).to_string(),
        json!({"num_nodes": 3, "node_feat": [[2], [1], [0]], "edge_index": [[], []], "edge_attr": []}).to_string(),
        json!({"num_nodes": 0, "node_feat": [], "edge_index": [[], []], "edge_attr": []}).to_string(),
        json!({"num_nodes": 2, "node_feat": [[2], [1]], "edge_index": [[0, 1], [0, 1]], "edge_attr": [[0], [1]]})
            .to_string(),
        unknown.to_string(),
        missing.to_string(),
        dangling.to_string(),
        bond.to_string(),
        "{\"num_nodes\": 3, \"node_f".to_owned(),
        without(&graph(5, "graph"), &["y"]).to_string(),
    ]
    .into()
}

#[test]
fn graphs_that_a_model_cannot_take_get_a_reason_and_the_others_a_prediction() {
    let place = Place::new();
    train(&place, "graph", "");
    place.write("odd.jsonl", &(odd().join("\n") + "\n"));
    let output = place.gt("predict run --data odd.jsonl --out p.csv --json");
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8(output.stderr).unwrap();
    assert_names(&told, &["5", "11", "graph 5", "node 1", "\"node_feat\""]);
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&line["rows"], &line["graphs"], &line["unusable"]), (&11.into(), &11.into(), &5.into()));
    let reasons: Vec<&str> =
        line["reasons"].as_array().unwrap().iter().map(|r| r["reason"].as_str().unwrap()).collect();
    let expected = [
        &["node 1", "\"node_feat\"", "9", "4"][..],
        &["node 0", "\"node_feat\""],
        &["edge 0", "node 50"],
        &["edge 1", "\"edge_attr\"", "3"],
        &["line 10"],
    ];
    assert_eq!(reasons.len(), expected.len());
    reasons.iter().zip(expected).for_each(|(found, expected)| assert_names(found, expected));
    place.done("predict run --data odd.jsonl --out p.jsonl");
    place.done("predict run --data odd.jsonl --out p.parquet");
    let rows = jsonl(&place.path("p.jsonl"));
    assert_eq!(rows, parquet(&place.path("p.parquet")));
    assert_eq!(rows.iter().map(|row| row["graph"].as_u64().unwrap()).collect::<Vec<_>>(), (0..11).collect::<Vec<_>>());
    for (at, row) in rows.iter().enumerate() {
        let unusable = (5..10).contains(&at);
        assert_eq!((row["y0"].is_null(), row["reason"].is_string()), (unusable, unusable), "{row:?}");
    }
    // Valid graphs have the same predictions as without the other graphs.
    let good: Vec<String> =
        odd().into_iter().enumerate().filter(|(at, _)| !(5..10).contains(at)).map(|(_, l)| l).collect();
    place.write("good.jsonl", &good.join("\n"));
    place.done("predict run --data good.jsonl --out good.csv --on-error stop");
    let numbers = |rows: &Rows| rows.iter().filter(|r| !r["y0"].is_null()).map(|r| number(r, "y0")).collect::<Vec<_>>();
    assert_eq!(numbers(&csv(&place.path("good.csv"))), numbers(&rows));
    let complaint = place.refused("predict run --data odd.jsonl --out none.csv --on-error stop");
    assert_eq!(complaint, format!("error: odd.jsonl: graph 5, {}\n", reasons[0]));
}

#[test]
fn rows_of_unusable_graphs_stay_as_far_as_they_are_known() {
    let place = Place::new();
    train(&place, "node", "");
    place.write("odd.jsonl", &odd().join("\n"));
    place.done("predict run --data odd.jsonl --out p.jsonl");
    let rows = jsonl(&place.path("p.jsonl"));
    let of = |graph: usize| rows.iter().filter(move |row| row["graph"] == graph).collect::<Vec<_>>();
    // A graph without nodes has no rows. An unknown value keeps the rows of the nodes. A line that
    // is not a graph has one row.
    assert_eq!(of(3).len(), 0);
    assert_eq!(of(5).len() as u64, graph(1, "node")["num_nodes"].as_u64().unwrap());
    assert!(of(5).iter().enumerate().all(|(at, row)| row["node"] == at && row["y"].is_null()));
    assert!(of(9).len() == 1 && of(9)[0]["node"].is_null() && of(9)[0]["reason"].is_string());
}

#[test]
fn what_is_wrong_with_the_whole_file_stops_in_both_ways() {
    let place = Place::new();
    train(&place, "graph", "");
    place.write("wide.jsonl", "{\"node_feat\": [[1, 2]], \"edge_index\": [[], []], \"edge_attr\": []}\n");
    for more in ["", " --on-error stop"] {
        let complaint = place.refused(&format!("predict run --data wide.jsonl --out p.csv{more}"));
        assert_names(&complaint, &["wide.jsonl", "graph 0", "node 0", "\"node_feat\"", "2", "1"]);
        assert_names(&place.refused(&format!("predict run --data none.jsonl --out p.csv{more}")), &["none.jsonl"]);
    }
    let predict = |out: &str| place.refused(&format!("predict run --data data.jsonl --out {out}"));
    assert_names(&predict("p.xlsx"), &["p.xlsx", ".parquet", ".csv"]);
    assert_names(&predict("no/p.csv"), &["no/p.csv"]);
    assert_names(&predict("data.jsonl"), &["--data", "replaced"]);
    assert_names(&place.refused("predict nothing --data data.jsonl --out p.csv"), &["nothing"]);
}

#[test]
fn columns_are_found_by_name_in_any_order() {
    let place = Place::new();
    let nodes = |names: &str, swap: bool| {
        let cell = |graph: u32, node: u32| (f64::from(graph * 3 + node) / 7.0, f64::from(node) * 10.0 + 0.5);
        let row = |graph: u32, node: u32| match (cell(graph, node), swap) {
            ((a, b), false) => format!("{graph},{node},{a},{b}\n"),
            ((a, b), true) => format!("{graph},{node},{b},{a}\n"),
        };
        let rows: String = (0..12).flat_map(|graph| (0..3).map(move |node| row(graph, node))).collect();
        format!("graph,node,{names}\n{rows}")
    };
    let edges: String = (0..12).map(|graph| format!("{graph},0,1\n{graph},1,2\n")).collect();
    let graphs: String = (0..12).map(|graph| format!("{graph},{}\n", f64::from(graph) * 0.3)).collect();
    for (name, table) in [("t", nodes("a,b", false)), ("s", nodes("b,a", true))] {
        place.write(&format!("{name}_nodes.csv"), &table);
        place.write(&format!("{name}_edges.csv"), &format!("graph,src,dst\n{edges}"));
        place.write(&format!("{name}_graphs.csv"), &format!("graph,y\n{graphs}"));
    }
    place.done(&format!("train --data t_nodes.csv --out run {SMALL}"));
    place.done("predict run --data t_nodes.csv --out t.csv");
    place.done("predict run --data s_nodes.csv --out s.csv");
    assert_eq!(csv(&place.path("t.csv")), csv(&place.path("s.csv")));
    assert_eq!(place.done("eval run --data t_nodes.csv"), place.done("eval run --data s_nodes.csv"));
}

#[test]
fn graph_embeddings_are_the_mean_of_node_embeddings() {
    let place = Place::new();
    train(&place, "graph", "");
    place.write("odd.jsonl", &odd().join("\n"));
    place.done("embed run --data odd.jsonl --out nodes.parquet");
    place.done("embed run --data odd.jsonl --out graphs.csv --level graph");
    let (nodes, graphs) = (parquet(&place.path("nodes.parquet")), csv(&place.path("graphs.csv")));
    assert_eq!(graphs.len(), 11);
    for (at, graph) in graphs.iter().enumerate() {
        if (5..10).contains(&at) {
            assert!(graph["e0"].is_null() && graph["reason"].is_string());
            continue;
        }
        let own: Rows = nodes.iter().filter(|row| row["graph"] == at).cloned().collect();
        for channel in 0..12 {
            let key = format!("e{channel}");
            let mean = own.iter().map(|row| number(row, &key)).sum::<f64>() / own.len().max(1) as f64;
            assert!((number(graph, &key) - mean).abs() < 1e-5, "graph {at}, {key}");
        }
        assert!(!graph.contains_key("e12"));
    }
    assert!(nodes.iter().any(|row| row["e0"].as_f64().is_some_and(|value| value.abs() > 1e-3)));
}

#[test]
fn attention_is_written_for_every_layer_head_and_edge() {
    for more in ["", "--set model.graph=full", "--set model.edges=false"] {
        let place = Place::new();
        let graphs = train(&place, "graph", more);
        place.done("attention run --data data.jsonl --graph 6 --out a.parquet");
        place.done("attention run --data data.jsonl --graph 6 --out a.json");
        let rows = parquet(&place.path("a.parquet"));
        let object: Value = serde_json::from_str(&std::fs::read_to_string(place.path("a.json")).unwrap()).unwrap();
        let nodes = graphs[6]["num_nodes"].as_u64().unwrap();
        let edges = object["edges"].as_array().unwrap();
        let full = more.contains("full");
        let listed = graphs[6]["edge_attr"].as_array().unwrap().len() as u64;
        assert_eq!(edges.len() as u64, if full { nodes * (nodes - 1) } else { listed });
        assert_eq!((&object["nodes"], rows.len()), (&nodes.into(), 2 * 3 * edges.len()));
        let mut sums: BTreeMap<[u64; 3], f64> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            let [layer, head, target] = ["layer", "head", "target"].map(|key| row[key].as_u64().unwrap());
            let edge = at % edges.len();
            assert_eq!((layer as usize, head as usize), (1 + at / edges.len() / 3, 1 + at / edges.len() % 3));
            assert_eq!(edges[edge], json!([row["source"], row["target"]]));
            if !full {
                assert_eq!([&row["source"], &row["target"]], [0, 1].map(|end| &graphs[6]["edge_index"][end][edge]));
            }
            assert_eq!(object["weights"][layer as usize - 1][head as usize - 1][edge], row["weight"]);
            *sums.entry([layer, head, target]).or_default() += number(row, "weight");
        }
        assert_eq!(sums.len() as u64, 6 * nodes);
        assert!(sums.values().all(|sum| (sum - 1.0).abs() < 2e-4), "{more}: {sums:?}");
        // One layer, and the mean over its heads.
        place.done("attention run --data data.jsonl --graph 6 --layer 2 --head mean --out mean.jsonl");
        for (edge, row) in jsonl(&place.path("mean.jsonl")).iter().enumerate() {
            let mean = (0..3).map(|head| object["weights"][1][head][edge].as_f64().unwrap()).sum::<f64>() / 3.0;
            assert!((number(row, "weight") - mean).abs() < 1e-6 && row["head"].is_null() && row["layer"] == 2);
        }
    }
}

#[test]
fn models_of_other_kinds_are_used_like_transformers() {
    let place = Place::new();
    for kind in ["gcn", "gat", "gatedgcn"] {
        // Networks train with three heads here. Kinds without heads reject this number.
        let heads = if kind == "gat" { "" } else { "--set model.heads=1" };
        let graphs = train(&place, "graph", &format!("--set model.kind={kind} {heads}"));
        place.done("eval run --data data.jsonl --split test");
        place.done("predict run --data data.jsonl --out p.jsonl");
        assert_eq!(jsonl(&place.path("p.jsonl")).len(), graphs.len());
        place.done("embed run --data data.jsonl --out e.jsonl");
        assert!(jsonl(&place.path("e.jsonl"))[0].contains_key("e11"));
        if kind == "gat" {
            place.done("attention run --data data.jsonl --graph 6 --out a.json");
            place.done("attention run --data data.jsonl --graph 6 --out a.svg");
            let object: Value = serde_json::from_str(&std::fs::read_to_string(place.path("a.json")).unwrap()).unwrap();
            let heads = |layer: usize| object["weights"][layer].as_array().unwrap().len();
            // The last layer has one head of the full width.
            assert_eq!((object["heads"].as_array().unwrap().len(), heads(0), heads(1)), (3, 3, 1));
            let refusal = place.refused("attention run --data data.jsonl --graph 6 --layer 2 --head 2 --out a.svg");
            assert_names(&refusal, &["--head 2", "layer 2", "1 to 1"]);
        } else {
            let refusal = place.refused("attention run --data data.jsonl --graph 6 --out a.json");
            assert_names(&refusal, &["run", "attention"]);
        }
        std::fs::remove_dir_all(place.path("run")).unwrap();
    }
}

#[test]
fn attention_names_what_there_is() {
    let place = Place::new();
    train(&place, "graph", "");
    place.write("odd.jsonl", &odd().join("\n"));
    let ask = |more: &str| place.refused(&format!("attention run --data odd.jsonl --out a.svg {more}"));
    assert_names(&ask("--graph 0 --layer 3"), &["--layer 3", "1 to 2"]);
    assert_names(&ask("--graph 0 --head 0"), &["--head 0", "1 to 3"]);
    assert_names(&ask("--graph 0 --head all"), &["--head", "1", "`mean`"]);
    assert_names(&ask("--graph 11"), &["odd.jsonl", "graph 11"]);
    assert_names(&ask("--graph 5"), &["odd.jsonl", "graph 5", "node 1", "\"node_feat\""]);
    let complaint = place.refused("attention run --data odd.jsonl --graph 0 --out a.gif");
    assert_names(&complaint, &["a.gif", ".svg", ".png", ".json"]);
}

#[test]
fn drawings_show_every_node_and_edge_of_odd_graphs_too() {
    let place = Place::new();
    train(&place, "graph", "");
    place.write("odd.jsonl", &odd().join("\n"));
    for (graph, nodes, edges) in
        [(0, None, None), (1, Some(1), Some(0)), (2, Some(3), Some(0)), (3, Some(0), Some(0)), (4, Some(2), Some(2))]
    {
        place.done(&format!("attention run --data odd.jsonl --graph {graph} --out a.svg --head mean"));
        let text = std::fs::read_to_string(place.path("a.svg")).unwrap();
        assert!(text.contains(&format!("run · graph {graph} · layer 2 · mean of heads")), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let count = |part: &str| text.matches(part).count();
        nodes.inspect(|nodes| assert_eq!(count("<title>node "), *nodes, "{text}"));
        edges.inspect(|edges| assert_eq!(count(" → "), *edges, "{text}"));
        place.done(&format!("attention run --data odd.jsonl --graph {graph} --out b.svg --head mean"));
        assert_eq!(text, std::fs::read_to_string(place.path("b.svg")).unwrap());
    }
}

#[test]
fn edges_are_scored_as_links_with_all_edges_in_place() {
    for (more, directed) in [("", false), ("--set model.pairs=ends", false), ("--set links.directed=true", true)] {
        let place = Place::new();
        let mut graphs = train(&place, "edge", &format!("--set data.task=links {more}"));
        graphs[3]["node_feat"][0] = json!([9]);
        let unlabelled: Vec<Value> = graphs.iter().map(|graph| without(graph, &["y", "split"])).collect();
        place.write("new.jsonl", &lines(&unlabelled));
        place.done("predict run --data new.jsonl --out p.jsonl");
        let rows = jsonl(&place.path("p.jsonl"));
        let columns: BTreeSet<&str> = rows[0].keys().map(String::as_str).collect();
        assert_eq!(columns, BTreeSet::from(["graph", "source", "target", "link_p1", "reason"]));

        let model = gt_models::Model::open(place.path("run/best.safetensors")).unwrap();
        let mut store = gt_data::read(&place.path("data.jsonl")).unwrap().graphs().clone();
        gt_models::add_encodings(&mut store, &model.config.model).unwrap();
        for (at, graph) in store.iter().enumerate() {
            let own: Vec<_> = rows.iter().filter(|row| row["graph"] == at).collect();
            if at == 3 {
                assert!(own[0]["link_p1"].is_null(), "{own:?}");
                assert_names(own[0]["reason"].as_str().unwrap(), &["node 0", "\"node_feat\"", "9", "4"]);
                continue;
            }
            let pairs: Vec<(u32, u32)> = graph.src().iter().copied().zip(graph.dst().iter().copied()).collect();
            let listed: Vec<_> =
                own.iter().map(|row| (number(row, "source") as u32, number(row, "target") as u32)).collect();
            assert_eq!(listed, pairs);
            let score = |pairs: &[(u32, u32)]| {
                let group = gt_models::PairGroup { graph: at, pairs: pairs.to_vec() };
                model.score_pairs(&store, &[group]).unwrap()
            };
            let logits = score(&pairs);
            for (row, logit) in own.iter().zip(&logits) {
                let expected = 1.0 / (1.0 + f64::from(-logit).exp());
                assert!((number(row, "link_p1") - expected).abs() < 1e-6, "{row:?}: {expected}");
            }
            let turned: Vec<(u32, u32)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            assert_eq!(score(&turned) == logits, !directed, "graph {at} {more}");
        }
        place.done("embed run --data new.jsonl --out e.jsonl");
        assert_eq!(jsonl(&place.path("e.jsonl")).len(), store.num_nodes());
        place.done("attention run --data new.jsonl --graph 5 --out a.jsonl --layer 1 --head 1");
        assert_eq!(jsonl(&place.path("a.jsonl")).len(), store.edge_range(5).len());
    }
}
