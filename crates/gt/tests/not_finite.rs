//! Runs whose numbers overflow: every remedy that the error names is applied and works.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Place, assert_names};

/// Circular skip links, as in CSL: no features, and every node has the same neighbourhood. The
/// three classes differ in the distance of the skip links.
fn skip_links(place: &Place) {
    const NODES: usize = 13;
    let graph = |number: usize| {
        let edges = (0..NODES).flat_map(|node| {
            [1, [2, 3, 5][number % 3]].into_iter().flat_map(move |step| {
                let to = (node + step) % NODES;
                [(node, to), (to, node)]
            })
        });
        let (src, dst): (Vec<usize>, Vec<usize>) = edges.unzip();
        json!({"num_nodes": NODES, "edge_index": [src, dst], "y": [number % 3], "split": split(number)})
    };
    write(place, (0..30).map(graph));
}

/// Paths of 3 nodes with a number to predict; one graph of training has another feature.
fn paths(place: &Place, odd: f64) {
    let graph = |number: usize| {
        let value = 0.05 * number as f64;
        let last = if number == 3 { odd } else { 0.5 };
        let features = [[value], [1.0 - value], [last]];
        json!({"node_feat": features, "edge_index": [[0, 1, 1, 2], [1, 0, 2, 1]], "y": [value], "split": split(number)})
    };
    write(place, (0..30).map(graph));
}

fn split(number: usize) -> &'static str {
    ["train", "train", "train", "val", "test"][number / 6]
}

fn write(place: &Place, graphs: impl Iterator<Item = Value>) {
    place.write("data.jsonl", &graphs.map(|graph| format!("{graph}\n")).collect::<String>());
    // A complete configuration: no key follows the data.
    place.write("base.toml", &place.done("config show"));
}

const TRAIN: &str = "train base.toml --data data.jsonl --device cpu --threads 1 --set train.epochs=2";

/// The error of a run.
fn error_of(place: &Place, line: &str) -> String {
    let output = place.gt(line);
    assert_eq!(output.status.code(), Some(2), "gt {line}");
    let text = String::from_utf8(output.stderr).unwrap();
    text[text.find("error: ").unwrap_or_else(|| panic!("{text}"))..].to_owned()
}

/// The settings that an error names, such as `model.norm=layer`.
fn settings(error: &str) -> Vec<&str> {
    let words = error.split_whitespace().map(|word| word.trim_end_matches([',', ';']));
    words.filter(|word| word.contains('.') && word.contains('=')).collect()
}

/// Checks that a run in `out` ends with finite scores and a plausible validation loss. Validation
/// uses running statistics, so its loss can explode even if training is stable.
fn works(place: &Place, line: &str, out: &str) {
    place.done(line);
    let metrics = fs::read_to_string(place.path(out).join("metrics.jsonl")).unwrap();
    assert_eq!(metrics.lines().count(), 2, "gt {line}");
    for epoch in metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        for split in ["train", "val", "test"] {
            let loss = epoch[split]["loss"]["exact"].as_f64().unwrap_or(f64::NAN);
            assert!(loss < 1e3, "gt {line}: {epoch}");
        }
    }
}

#[test]
fn the_defaults_learn_graphs_whose_nodes_are_alike() {
    let place = Place::new();
    skip_links(&place);
    let line = "train --data data.jsonl --device cpu --threads 1 --set train.epochs=30 --out run --json";
    let result: Value = serde_json::from_str(place.done(line).lines().last().unwrap()).unwrap();
    // One of three classes: chance is 33 %.
    assert!(result["best"]["test"]["exact"].as_f64().unwrap() > 60.0, "{result}");
}

#[test]
fn every_remedy_for_nodes_that_are_alike_works() {
    let place = Place::new();
    skip_links(&place);
    let deep = format!("{TRAIN} --set model.layers=10 --set model.encoding=none");
    let error = error_of(&place, &format!("{deep} --out first"));
    assert_names(&error, &["epoch 1", "batch 1", "gradient"]);
    let named = settings(&error);
    let all = ["model.encoding=laplacian", "model.encoding=random-walk", "model.norm=layer"];
    assert_eq!(named, all, "{error}");
    for (number, setting) in named.iter().enumerate() {
        works(&place, &format!("{deep} --set {setting} --out run{number}"), &format!("run{number}"));
    }
    // What does not help is not named.
    for (number, setting) in ["optimizer.clip=0.1", "optimizer.lr=1e-5", "model.encoding=wl"].iter().enumerate() {
        assert_eq!(settings(&error_of(&place, &format!("{deep} --set {setting} --out bad{number}"))), all);
    }
}

#[test]
fn a_run_that_skips_every_step_fails_with_remedies_that_work() {
    let place = Place::new();
    skip_links(&place);
    let skipping = format!("{TRAIN} --set model.layers=10 --set model.encoding=wl --set train.skip_bad_steps=true");
    let error = error_of(&place, &format!("{skipping} --set train.batch=6 --out first"));
    assert_names(&error, &["epoch 1", "no step of 3", "train.skip_bad_steps"]);
    assert_eq!(settings(&error).len(), 3, "{error}");
    for (number, setting) in settings(&error).iter().enumerate() {
        works(&place, &format!("{skipping} --set {setting} --out run{number}"), &format!("run{number}"));
    }
}

#[test]
fn every_remedy_for_values_that_are_too_large_works() {
    let place = Place::new();
    paths(&place, 3e38);
    let small = format!("{TRAIN} --set model.layers=2 --set model.width=16 --set train.batch=3");
    let error = error_of(&place, &format!("{small} --out first"));
    assert_names(&error, &["rescale", "remove", "graphs"]);
    assert_eq!(settings(&error), ["train.skip_bad_steps=true"], "{error}");
    works(&place, &format!("{small} --set train.skip_bad_steps=true --out skipping"), "skipping");
    paths(&place, 3.0);
    works(&place, &format!("{small} --out rescaled"), "rescaled");
    let text = fs::read_to_string(place.path("data.jsonl")).unwrap();
    let rest: Vec<&str> = text.lines().enumerate().filter(|(number, _)| *number != 3).map(|(_, line)| line).collect();
    place.write("data.jsonl", &rest.join("\n"));
    works(&place, &format!("{small} --out removed"), "removed");
}

#[test]
fn a_smaller_rate_helps_where_the_error_names_it() {
    let place = Place::new();
    paths(&place, 0.5);
    let small = format!("{TRAIN} --set model.layers=2 --set model.width=16 --set schedule.name=constant");
    // The weights overflow in a later batch, or in the last step before they are saved.
    for (number, (settings, lr)) in
        [("--set model.norm=none --set train.batch=3", "1e30"), ("", "3e38")].into_iter().enumerate()
    {
        let error = error_of(&place, &format!("{small} {settings} --set optimizer.lr={lr} --out first{number}"));
        assert_names(&error, &["not finite", "new run", "smaller optimizer.lr"]);
        works(
            &place,
            &format!("{small} {settings} --set optimizer.lr=1e-3 --out run{number}"),
            &format!("run{number}"),
        );
    }
}
