//! Scores that the program prints: independent of the order of the data and of the batch size, and
//! of the model that a run has chosen.

mod support;

use std::fs;

use gt_models::Model;
use serde_json::{Value, json};
use support::Place;

const GRAPHS: usize = 90;

/// A path of three to seven nodes. Two of ten graphs belong to validation, three to the test split.
fn graph(number: usize, task: &str) -> Value {
    let nodes = 3 + number * 7 % 5;
    let features: Vec<[usize; 1]> = (0..nodes).map(|node| [(number * 3 + node * node) % 4]).collect();
    let (src, dst): (Vec<usize>, Vec<usize>) = (1..nodes).flat_map(|node| [(node - 1, node), (node, node - 1)]).unzip();
    let y = match task {
        "number" => json!([number as f64 * 0.37 % 5.1 + 0.01]),
        "class" => json!([(number * number + nodes) % 3]),
        "two classes" => json!([usize::from((number * number + nodes).is_multiple_of(3))]),
        "edges" => {
            json!((0..src.len()).map(|edge| [usize::from((number + edge).is_multiple_of(3))]).collect::<Vec<_>>())
        }
        "numbers of edges" => json!((0..src.len()).map(|edge| [(number * edge) as f64 * 0.37]).collect::<Vec<_>>()),
        "labels" => json!([number % 2, nodes % 2, (number / 3) % 2]),
        _ => json!((0..nodes).map(|node| [usize::from((number + node).is_multiple_of(4))]).collect::<Vec<_>>()),
    };
    let split = ["train", "train", "train", "train", "train", "val", "val", "test", "test", "test"][number % 10];
    json!({"num_nodes": nodes, "node_feat": features, "edge_index": [src, dst], "y": y, "split": split})
}

fn write(place: &Place, name: &str, graphs: &[Value]) {
    place.write(name, &graphs.iter().map(|graph| format!("{graph}\n")).collect::<String>());
}

fn train(place: &Place, task: &str, more: &str) -> Value {
    let graphs: Vec<Value> = (0..GRAPHS).map(|number| graph(number, task)).collect();
    write(place, "data.jsonl", &graphs);
    let small = "--set model.layers=2 --set model.width=8 --set model.heads=2 --set train.batch=16";
    let line =
        format!("train --data data.jsonl --out run {small} --set train.epochs=8 --set optimizer.lr=0.02 --json {more}");
    serde_json::from_str(place.done(&line).lines().last().unwrap()).unwrap()
}

fn eval(place: &Place, line: &str) -> Value {
    serde_json::from_str(&place.done(&format!("eval {line} --split test --json"))).unwrap()
}

#[test]
fn order_and_batch_size_change_no_digit_of_a_score() {
    for task in ["number", "class", "two classes", "labels", "nodes", "edges", "numbers of edges"] {
        let place = Place::new();
        train(&place, task, "");
        let model = Model::open(place.path("run/best.safetensors")).unwrap();
        let graphs: Vec<Value> = (0..GRAPHS).map(|number| graph(number, task)).collect();
        let mut sorted = graphs.clone();
        sorted.sort_by_key(|graph| graph["y"].to_string());
        let reversed: Vec<Value> = graphs.iter().rev().cloned().collect();
        let mut found = Vec::new();
        for (order, graphs) in [("as trained", &graphs), ("sorted", &sorted), ("reversed", &reversed)] {
            write(&place, "ordered.jsonl", graphs);
            for batch in [1, 10, 64] {
                let mut model = model.clone();
                model.config.train.batch = batch;
                model.save(place.path("batched.safetensors")).unwrap();
                let mut scores = eval(&place, "batched.safetensors --data ordered.jsonl");
                let scores = scores.as_object_mut().unwrap();
                // The paper's form is a mean over batches. The loss is not a metric.
                scores.retain(|name, _| !["paper", "loss"].contains(&name.as_str()));
                found.push((order, batch, Value::Object(scores.clone())));
            }
        }
        let (.., first) = &found[0];
        assert!(first["exact"].is_f64() && first.as_object().unwrap().len() > 5, "{task}: {first}");
        for (order, batch, scores) in &found {
            assert_eq!(scores, first, "{task}, {order}, batches of {batch}");
        }
    }
}

#[test]
fn the_result_of_a_run_is_the_model_that_the_chosen_metric_selects() {
    for (select, task) in [("auto", "class"), ("loss", "class"), ("macro_recall", "class"), ("rmse", "number")] {
        let place = Place::new();
        let line = train(&place, task, &format!("--set train.select={select}"));
        let history = fs::read_to_string(place.path("run/metrics.jsonl")).unwrap();
        let epochs: Vec<Value> = history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let value = |epoch: &Value| {
            let val = &epoch["val"];
            match select {
                "auto" => -val["metric"]["exact"].as_f64().unwrap(),
                "loss" => val["loss"]["exact"].as_f64().unwrap(),
                "macro_recall" => -val["others"]["macro_recall"].as_f64().unwrap(),
                other => val["others"][other].as_f64().unwrap(),
            }
        };
        let rank = |epoch: &Value| (value(epoch), epoch["val"]["loss"]["exact"].as_f64().unwrap());
        let best = epochs.iter().min_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap()).unwrap();
        assert_eq!(line["best"]["epoch"], best["epoch"], "{select}");
        assert_eq!(line["select"], if select == "auto" { "accuracy" } else { select });
        // Commands use the best model, unless the last one is asked for.
        if let "rmse" | "macro_recall" = select {
            let [best, last] = ["", "--last"].map(|option| eval(&place, &format!("run {option}"))[select].clone());
            assert!(best.is_f64());
            assert_eq!((&best, &last), (&line["best"]["test"][select], &line["last"]["test"][select]));
            let table = place.done("train --resume --out run");
            assert!(
                table.contains(&format!("({select})\n")) && table.contains(&format!("{:.4}", best.as_f64().unwrap()))
            );
        }
        let of = |option: &str| eval(&place, &format!("run {option}"))["exact"].clone();
        assert_eq!(of(""), line["best"]["test"]["exact"], "{select}");
        assert_eq!(of("--best"), of(""), "{select}");
        assert_eq!(of("--last"), line["last"]["test"]["exact"], "{select}");
    }
}

#[test]
fn the_papers_form_reports_the_last_model() {
    let place = Place::new();
    let line = train(&place, "class", "--set model.metrics=paper --set train.select=loss");
    let of = |option: &str| eval(&place, &format!("run {option}"));
    assert_eq!(of("")["paper"], line["last"]["test"]["paper"]);
    assert_eq!(of("--best")["paper"], line["best"]["test"]["paper"]);
    // In the paper's form, accuracy is a mean of recalls.
    assert!(of("")["plain_accuracy"].is_f64() && of("")["macro_recall"].is_null());
}

#[test]
fn a_metric_of_another_task_is_an_error_before_the_run_begins() {
    let place = Place::new();
    write(&place, "data.jsonl", &(0..GRAPHS).map(|number| graph(number, "number")).collect::<Vec<_>>());
    let error = place.refused("train --data data.jsonl --out run --set train.select=roc_auc");
    assert!(error.contains("train.select") && error.contains("roc_auc") && error.contains("rmse"), "{error}");
    assert!(!place.path("run").exists());
}

#[test]
fn a_metric_that_the_validation_split_does_not_define_leaves_the_choice_to_the_loss() {
    let place = Place::new();
    let mut graphs: Vec<Value> = (0..GRAPHS).map(|number| graph(number, "class")).collect();
    // A single class has no area under the curve.
    graphs.iter_mut().filter(|graph| graph["split"] == "val").for_each(|graph| graph["y"] = json!([0]));
    write(&place, "data.jsonl", &graphs);
    let small = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=3";
    let output = place.gt(&format!("train --data data.jsonl --out run {small} --set train.select=roc_auc --json"));
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.lines().filter(|line| line.contains("roc_auc is not defined")).count() == 1, "{notes}");
    let line = String::from_utf8(output.stdout).unwrap();
    let result: Value = serde_json::from_str(line.lines().last().unwrap()).unwrap();
    assert_eq!(result["select"], "loss");
    assert!(result["best"]["epoch"].is_u64());
}

/// A network of 40 nodes with two named classes; five nodes have no label.
fn write_network(place: &Place) {
    let (mut nodes, mut edges) = ("node,size,label\n".to_owned(), "src,dst\n".to_owned());
    for node in 0..40 {
        let label = if node % 8 == 7 { "" } else { ["safe", "toxic"][node * 3 % 2] };
        nodes += &format!("{node},{}.5,{label}\n", node % 4);
        edges += &format!("{node},{}\n{},{node}\n", (node + 1) % 40, (node + 1) % 40);
    }
    place.write("net_nodes.csv", &nodes);
    place.write("net_edges.csv", &edges);
}

#[test]
fn eval_counts_labelled_rows_names_the_positive_class_and_scores_whole_files() {
    let place = Place::new();
    write_network(&place);
    let small = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=2";
    place.done(&format!("train --data net_nodes.csv --out run {small}"));
    let output = place.gt("eval run --split all");
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(text.starts_with("all of 35 nodes, 5 more have no label\n"), "{text}");
    assert!(text.contains("\nmacro_f1 ") && !text.contains("\nf1 "), "{text}");
    for name in ["roc_auc", "average_precision"] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.ends_with("(of the class toxic)"), "{text}");
    }
    assert!(said.contains("the model was trained on most of them"), "{said}");
    let scores: Value = serde_json::from_str(&place.done("eval run --split all --json")).unwrap();
    assert_eq!((&scores["split"], &scores["nodes"], &scores["unlabelled"]), (&json!("all"), &json!(35), &json!(5)));
    assert_eq!(scores["positive_class"], "toxic");
    assert!(scores["f1"].is_f64(), "programs read F1 under its first name: {scores}");

    // The parts of a file make up the whole.
    place.done("data split net_nodes.csv --out parts.parquet");
    let of = |split: &str| -> Value {
        serde_json::from_str(&place.done(&format!("eval run --data parts.parquet --split {split} --json"))).unwrap()
    };
    let right = |scores: &Value| scores["exact"].as_f64().unwrap() / 100.0 * scores["nodes"].as_f64().unwrap();
    let parts: f64 = ["train", "val", "test"].map(|split| right(&of(split))).iter().sum();
    assert!((right(&of("all")) - parts).abs() < 1e-6, "{} {parts}", of("all"));

    // Files without a split name the option, and link models have held-out edges.
    let said = String::from_utf8(place.gt("eval run --data net_nodes.csv").stderr).unwrap();
    assert!(said.contains("--split all"), "{said}");
    place.done(&format!("train --data net_nodes.csv --task links --out links {small}"));
    assert!(place.refused("eval links --split all").contains("train, val or test"));
}

#[test]
fn macro_f1_selects_under_both_names() {
    for name in ["macro_f1", "f1"] {
        let place = Place::new();
        let line = train(&place, "class", &format!("--set train.select={name}"));
        assert_eq!(line["select"], "f1");
        let config = fs::read_to_string(place.path("run/config.toml")).unwrap();
        assert!(config.contains("select = \"macro_f1\""), "{config}");
        let table = place.done("train --resume --out run");
        assert!(table.contains("(macro_f1)\n") && !table.contains("(f1)"), "{table}");
    }
}
