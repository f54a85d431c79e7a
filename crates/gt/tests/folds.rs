//! `gt train --folds`, and folders of several runs that resume with one command.

mod support;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use support::{Place, assert_names, program};

const SMALL: &str = "--device cpu --set train.epochs=2 --set train.batch=8 --set model.layers=1 --set model.width=8 \
                     --set model.heads=2";

/// Rings of 3 to 8 nodes, with a number or a class for each; every tenth has no label.
fn rings(count: usize, label: impl Fn(usize) -> Value) -> String {
    let ring = |i: usize| {
        let n = 3 + i % 6;
        let (from, to): (Vec<usize>, Vec<usize>) = (0..n).flat_map(|v| [(v, (v + 1) % n), ((v + 1) % n, v)]).unzip();
        let types = vec![[0]; n];
        let label = if i % 10 == 9 { Value::Null } else { label(n) };
        json!({"num_nodes": n, "node_feat": types, "edge_index": [from, to], "y": [label]}).to_string() + "\n"
    };
    (0..count).map(ring).collect()
}

fn table(place: &Place, name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(place.path(name)).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn every_labelled_graph_is_predicted_by_the_model_that_did_not_see_it() {
    let place = Place::new();
    place.write("mine.jsonl", &rings(40, |n| json!(n as f64 + 0.5)));
    let lines = place.done(&format!("train --data mine.jsonl --folds 4 --out cv --json {SMALL}"));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    let together = &lines[4];
    assert_eq!(together["folds"], json!(4));
    let of = |line: &Value| line["best"]["test"]["exact"].as_f64().unwrap();
    let mean = lines[..4].iter().map(of).sum::<f64>() / 4.0;
    assert!((together["best"]["test"]["exact"]["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!(together["best"]["test"]["exact"]["sd"].as_f64().unwrap() > 0.0);

    let rows = table(&place, "cv/out_of_fold.csv");
    assert_eq!(rows[0], ["graph", "fold", "y", "predicted_y"]);
    let graphs: Vec<usize> = rows[1..].iter().map(|row| row[0].parse().unwrap()).collect();
    assert_eq!(graphs, (0..40).filter(|i| i % 10 != 9).collect::<Vec<_>>());
    // Nine labelled graphs in each fold.
    for fold in 1..=4 {
        assert_eq!(rows[1..].iter().filter(|row| row[1] == fold.to_string()).count(), 9);
    }
    // The prediction is that of the fold's model, and the label that of the data.
    place.done("predict cv/fold-2 --data mine.jsonl --out p.csv");
    let predictions = table(&place, "p.csv");
    for row in rows[1..].iter().filter(|row| row[1] == "2") {
        let graph: usize = row[0].parse().unwrap();
        assert_eq!(row[2].parse::<f64>().unwrap(), (3 + graph % 6) as f64 + 0.5);
        let [ours, theirs] = [&row[3], &predictions[graph + 1][1]].map(|text| text.parse::<f64>().unwrap());
        assert!((ours - theirs).abs() < 1e-4, "{row:?} {theirs}");
    }
    // A fold can be trained and scored alone, with the same model.
    place.done(&format!("train --data mine.jsonl --set data.folds=4 --set data.fold=3 --out alone {SMALL}"));
    let model = |run: &str| std::fs::read(place.path(run).join("model.safetensors")).unwrap();
    assert_eq!(model("alone"), model("cv/fold-3"));
    let scores: Value = serde_json::from_str(&place.done("eval cv/fold-3 --json")).unwrap();
    assert!((scores["exact"].as_f64().unwrap() - of(&lines[2])).abs() < 1e-6, "{scores}");
    // Other data has its own split.
    place.done("data split mine.jsonl --out parts.jsonl");
    let scores: Value = serde_json::from_str(&place.done("eval cv/fold-3 --data parts.jsonl --json")).unwrap();
    assert_eq!(scores["graphs"], json!(4));
    // In parallel, the same files.
    place.done(&format!("train --data mine.jsonl --folds 4 --parallel --out beside {SMALL}"));
    for file in ["fold-1/model.safetensors", "fold-4/best.safetensors", "out_of_fold.csv"] {
        let bytes = |folder: &str| std::fs::read(place.path(folder).join(file)).unwrap();
        assert_eq!(bytes("cv"), bytes("beside"), "{file}");
    }
}

#[test]
fn folds_of_classes_have_equal_shares_and_probabilities_of_every_class() {
    let place = Place::new();
    place.write("mine.jsonl", &rings(60, |n| json!(usize::from(n > 6))));
    let text = place.done(&format!("train --data mine.jsonl --folds 3 --out cv {SMALL}"));
    assert_names(&text, &["3", "accuracy", "test", "cv/out_of_fold.csv"]);
    let rows = table(&place, "cv/out_of_fold.csv");
    assert_eq!(rows[0], ["graph", "fold", "y", "predicted_y", "y_p0", "y_p1"]);
    let shares = |fold: &str| rows[1..].iter().filter(|row| row[1] == fold && row[2] == "1").count();
    assert_eq!([shares("1"), shares("2"), shares("3")], [6, 6, 6]);
    for row in &rows[1..] {
        let [no, yes] = [&row[4], &row[5]].map(|text| text.parse::<f64>().unwrap());
        assert!((no + yes - 1.0).abs() < 1e-5 && (row[3] == "1") == (yes > no), "{row:?}");
    }
}

/// A ring of nodes, whose class is the parity of their number.
fn node_table(nodes: usize) -> String {
    let (from, to): (Vec<usize>, Vec<usize>) =
        (0..nodes).flat_map(|v| [(v, (v + 1) % nodes), ((v + 1) % nodes, v)]).unzip();
    let types: Vec<[usize; 1]> = (0..nodes).map(|v| [v % 2]).collect();
    let labels: Vec<usize> = (0..nodes).map(|v| v % 2).collect();
    json!({"num_nodes": nodes, "node_feat": types, "edge_index": [from, to], "y": labels}).to_string()
}

#[test]
fn nodes_of_one_graph_have_folds() {
    let place = Place::new();
    place.write("net.jsonl", &node_table(30));
    place.done(&format!("train --data net.jsonl --folds 3 --out cv {SMALL}"));
    let rows = table(&place, "cv/out_of_fold.csv");
    assert_eq!(rows[0][..3], ["graph", "node", "fold"]);
    let nodes: Vec<usize> = rows[1..].iter().map(|row| row[1].parse().unwrap()).collect();
    assert_eq!(nodes, (0..30).collect::<Vec<_>>());
    let sizes = ["1", "2", "3"].map(|fold| rows[1..].iter().filter(|row| row[2] == fold).count());
    assert_eq!(sizes, [10, 10, 10]);
}

#[test]
fn folds_of_a_file_are_the_test_parts() {
    let place = Place::new();
    place.write("mine.jsonl", &rings(30, |n| json!(n as f64 + 0.5)));
    place.done("data split mine.jsonl --folds 3 --seed 5 --out folds.jsonl");
    let text = std::fs::read_to_string(place.path("folds.jsonl")).unwrap();
    let parts: Vec<String> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["split"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(parts.len(), 30);
    place.done(&format!("train --data folds.jsonl --folds 3 --out cv {SMALL}"));
    for row in &table(&place, "cv/out_of_fold.csv")[1..] {
        let (graph, fold): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert_eq!(parts[graph], format!("fold{}", fold - 1));
    }
    let said = place.refused(&format!("train --data folds.jsonl --folds 5 --out other {SMALL}"));
    assert_names(&said, &["folds.jsonl", "3", "5", "--folds"]);
    let said = place.refused(&format!("train --data folds.jsonl --out other {SMALL}"));
    assert_names(&said, &["fold0", "gt train --folds 3"]);
    place.done("data split mine.jsonl --out parts.jsonl");
    let said = place.refused(&format!("train --data parts.jsonl --folds 5 --out other {SMALL}"));
    assert_names(&said, &["parts.jsonl", "train", "val", "test", "gt data split FILE --folds 5 --out COPY"]);
}

#[test]
fn notes_of_every_fold_are_printed_once_with_the_numbers_of_their_folds() {
    let place = Place::new();
    // All graphs of a class are in the first of three folds.
    let fold = |at: usize, line: &str| line.replace('}', &format!(", \"split\": \"fold{}\"}}\n", at / 10));
    let class = |at: usize| if at < 10 { "odd" } else { ["big", "small"][at % 2] };
    let rings = rings(30, |_| json!("CLASS"));
    let text: String = rings.lines().enumerate().map(|(at, line)| fold(at, line).replace("CLASS", class(at))).collect();
    place.write("mine.jsonl", &text);
    for more in ["", "--parallel"] {
        let output = place.gt(&format!("train --data mine.jsonl --folds 3 --out cv{more} {SMALL} {more}"));
        let said = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        let count = |wanted: &str| lines.iter().filter(|line| line.contains(wanted)).count();
        assert_eq!(count("task: classification"), 1, "{said}");
        // In the first fold the class is tested and never trained.
        let note = "note: y: class odd does not occur in the split `train`";
        assert_eq!((count(note), lines.contains(&&*format!("fold 1: {note}"))), (1, true), "{said}");
        let test = "classes big, small do not occur in the split `test`";
        assert!(lines.iter().any(|line| line.starts_with("fold 1: ") && line.contains("class odd")), "{said}");
        assert!(lines.iter().any(|line| line.starts_with("fold 1: ") && line.contains(test)), "{said}");
        assert!(lines.iter().any(|line| line.starts_with("folds 2, 3: ") && line.contains("class odd")), "{said}");
    }
}

#[test]
fn folds_that_cannot_be_made_are_refused() {
    let place = Place::new();
    place.write("mine.jsonl", &rings(12, |n| json!(n as f64 + 0.5)));
    let refused = |rest: &str| place.refused(&format!("train --data mine.jsonl --out cv {SMALL} {rest}"));
    assert_names(&refused("--folds 1"), &["data.folds", "1"]);
    assert_names(&refused("--folds 20"), &["mine.jsonl", "12", "20"]);
    assert_names(&refused("--folds 3 --set data.task=links"), &["links", "--folds"]);
    assert_names(&refused("--set data.fold=2"), &["data.fold", "data.folds"]);
    assert_names(&refused("--set data.folds=3 --set data.fold=4"), &["data.fold", "4", "3"]);
    assert_names(&refused("--folds 3 --seeds 1,2"), &["--folds", "--seeds"]);
    assert_names(&refused("--parallel"), &["--parallel", "--seeds", "--folds"]);
    let ends = [[0, 1, 1, 2], [1, 0, 2, 1]];
    let edges = json!({"num_nodes": 3, "node_feat": [[0], [0], [0]], "edge_index": ends, "y": [0, 1, 0, 1]});
    place.write("edges.jsonl", &edges.to_string());
    let said = place.refused(&format!("train --data edges.jsonl --out cv --folds 2 {SMALL}"));
    assert_names(&said, &["edges.jsonl", "--folds"]);
}

/// Starts a call, and interrupts it when a file is there.
fn interrupted_after(place: &Place, line: &str, file: &str) -> String {
    let mut call = program();
    call.args(line.split_whitespace()).current_dir(&place.0).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = call.spawn().unwrap();
    while !std::fs::read_to_string(place.path(file)).is_ok_and(|text| text.lines().count() > 1) {
        assert!(child.try_wait().unwrap().is_none(), "it ended too soon");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    said.lines().last().unwrap().to_owned()
}

#[test]
fn an_interrupted_cross_validation_resumes_with_one_command_to_the_same_bytes() {
    let place = Place::new();
    place.write("mine.jsonl", &rings(60, |n| json!(n as f64 + 0.5)));
    let long = SMALL.replace("epochs=2", "epochs=40");
    let call = format!("train --data mine.jsonl --folds 3 {long}");
    place.done(&format!("{call} --out whole"));
    // Fold 1 is complete, fold 2 is not, and fold 3 has not begun.
    let said = interrupted_after(&place, &format!("{call} --out cv"), "cv/fold-2/metrics.jsonl");
    assert_eq!(said, "interrupted; `gt train --resume --out cv --device cpu` resumes");
    assert!(!place.path("cv/fold-3").exists() && !place.path("cv/out_of_fold.csv").exists());
    assert_names(&place.refused(&format!("{call} --out cv")), &["cv", "--resume"]);
    let table = place.done("train --resume --out cv --device cpu");
    assert_names(&table, &["3 folds", "cv/out_of_fold.csv"]);
    let folders: BTreeSet<_> = ["fold-1", "fold-2", "fold-3"].into();
    for file in folders.iter().map(|fold| format!("{fold}/model.safetensors")).chain(["out_of_fold.csv".into()]) {
        let bytes = |folder: &str| std::fs::read(place.path(folder).join(&file)).unwrap();
        assert!(bytes("whole") == bytes("cv"), "{file}");
    }
    // A complete one prints its table again.
    assert_eq!(place.done("train --resume --out cv --device cpu"), table);
}
