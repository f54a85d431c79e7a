//! Keys that are left open follow the data.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::Place;

/// Paths of 3 to 6 nodes with a continuous feature, and targets by the number of the graph.
fn paths(scale: f64, shift: f64, target: impl Fn(usize, f64) -> Value) -> String {
    let graph = |number: usize| {
        let nodes = 3 + number % 4;
        let feature = |node: usize| ((number * 7 + node * 3) % 11) as f64 / 10.0;
        let sum: f64 = (0..nodes).map(feature).sum();
        let features: Vec<[f64; 1]> = (0..nodes).map(|node| [feature(node) * scale + shift]).collect();
        let (src, dst): (Vec<usize>, Vec<usize>) =
            (1..nodes).flat_map(|node| [(node - 1, node), (node, node - 1)]).unzip();
        let split = ["train", "train", "train", "train", "val", "test"][number % 6];
        json!({"num_nodes": nodes, "node_feat": features, "edge_index": [src, dst], "y": [target(number, sum)], "split": split})
    };
    (0..60).map(|number| format!("{}\n", graph(number))).collect()
}

fn config(place: &Place, run: &str) -> toml::Table {
    fs::read_to_string(place.path(run).join("config.toml")).unwrap().parse().unwrap()
}

fn last_line(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn open_keys_are_chosen_printed_and_stored_and_set_keys_win() {
    let place = Place::new();
    place.write("d.jsonl", &paths(1.0, 0.0, |_, sum| json!(sum)));
    let output = place.gt("train --data d.jsonl --set train.epochs=2 --set model.width=12 --out run --json");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("defaults for regression with 40 training rows\n"), "{said}");
    assert!(said.contains("4 layers of width 12, 16 random-walk steps") && said.contains("batch 16, at most 2 epochs"));
    let config = config(&place, "run");
    assert_eq!(config["model"]["layers"].as_integer(), Some(4));
    // Six heads divide the width that was set.
    assert_eq!(config["model"]["heads"].as_integer(), Some(6));
    assert_eq!(config["data"]["standardize"].as_bool(), Some(true));
    assert_eq!(config["data"]["standardize_inputs"].as_bool(), Some(true));
    assert_eq!(config["schedule"]["name"].as_str(), Some("cosine"));
    // The configuration of the run leaves nothing open: the same run, and no line about defaults.
    let weights = |text: &[u8]| last_line(std::str::from_utf8(text).unwrap())["weights_sha256"].clone();
    let again = place.gt("train run/config.toml --out again --json");
    assert!(!String::from_utf8_lossy(&again.stderr).contains("defaults for"), "{again:?}");
    assert_eq!(weights(&again.stdout), weights(&output.stdout));
    let published = place.gt("train --preset zinc-gcn --data d.jsonl --out zinc");
    assert!(!String::from_utf8_lossy(&published.stderr).contains("defaults for"));
}

#[test]
fn folds_of_the_file_count_as_rows_to_learn_from() {
    let place = Place::new();
    place.write("d.jsonl", &paths(1.0, 0.0, |_, sum| json!(sum)));
    place.done("data split d.jsonl --folds 3 --out folds.parquet");
    let output = place.gt("train --data folds.parquet --folds 3 --set train.epochs=1 --set model.width=8 --out folds");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("defaults for regression with 48 training rows"), "{said}");
    let complaint = place.refused("train --data d.jsonl --init folds --out more");
    assert!(complaint.contains("folds: it is a folder of several runs"), "{complaint}");
    place.done("train --data d.jsonl --init folds/fold-1 --set train.epochs=1 --out more");
    // Without a target there is nothing to choose for.
    let unlabelled = paths(1.0, 0.0, |_, _| json!(null)).replace(",\"y\":[null]", "");
    place.write("unlabelled.jsonl", &unlabelled);
    assert!(!place.refused("train --data unlabelled.jsonl --out none").contains("defaults for"));
}

#[test]
fn the_scale_of_continuous_inputs_and_targets_has_no_effect() {
    let place = Place::new();
    place.write("plain.jsonl", &paths(1.0, 0.0, |_, sum| json!(sum)));
    place.write("scaled.jsonl", &paths(4096.0, 512.0, |_, sum| json!(sum * 256.0)));
    let predictions = |name: &str, options: &str| -> Vec<f64> {
        place.done(&format!("train --data {name}.jsonl --set train.epochs=3 --out {name}{options} --threads 1"));
        let run = name.to_owned() + options.split(' ').next().unwrap();
        place.done(&format!("predict {run} --data {name}.jsonl --out p-{run}.jsonl"));
        let rows = fs::read_to_string(place.path(&format!("p-{run}.jsonl"))).unwrap();
        rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap()["y"].as_f64().unwrap()).collect()
    };
    let (plain, scaled) = (predictions("plain", ""), predictions("scaled", ""));
    let worst = plain.iter().zip(&scaled).map(|(a, b)| (a - b / 256.0).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-3, "{worst}");
    // Without the statistics in the model, predictions would be far off.
    let raw = predictions("scaled", "-raw --set data.standardize_inputs=false");
    let worst = plain.iter().zip(&raw).map(|(a, b)| (a - b / 256.0).abs()).fold(0.0, f64::max);
    assert!(worst > 0.01, "{worst}");
    // `gt eval` scales as the training did.
    let line = last_line(&place.done("train --resume --out scaled --json"));
    let scores = last_line(&place.done("eval scaled --split test --json"));
    assert_eq!(scores["exact"], line["best"]["test"]["exact"]);
}

#[test]
fn two_classes_have_one_logit_and_predictions_of_both() {
    let place = Place::new();
    // One class has an eighth of the graphs.
    place.write("d.jsonl", &paths(1.0, 0.0, |number, _| json!(usize::from(number % 8 == 0))));
    let small = "--set train.epochs=3 --set model.layers=1 --set model.width=8";
    let line = last_line(&place.done(&format!("train --data d.jsonl {small} --out run --json")));
    assert_eq!((&line["metric"], &line["select"]), (&json!("accuracy"), &json!("roc_auc")));
    let other = format!("train --data d.jsonl {small} --set train.loss=cross-entropy --out two --json");
    let two = last_line(&place.done(&other));
    // The last layer of the head has 2 inputs: a second logit has 2 weights and a bias.
    assert_eq!(two["params"].as_u64().unwrap() - line["params"].as_u64().unwrap(), 3);
    place.done("predict run --data d.jsonl --out p.jsonl");
    for row in fs::read_to_string(place.path("p.jsonl")).unwrap().lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let [p0, p1] = ["y_p0", "y_p1"].map(|name| row[name].as_f64().unwrap());
        assert!((p0 + p1 - 1.0).abs() < 1e-6, "{row}");
        assert_eq!(row["y"], json!(usize::from(p1 > p0)), "{row}");
    }
    let scores = last_line(&place.done("eval run --split val --json"));
    assert_eq!(scores["metric"], "accuracy");
}
