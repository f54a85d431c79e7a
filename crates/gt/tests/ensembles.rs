//! A folder of runs is one model: `gt predict` and `gt eval` of several runs together.

mod support;

use serde_json::{Value, json};
use support::{Place, assert_names};

const SMALL: &str = "--device cpu --set train.epochs=2 --set train.batch=8 --set model.layers=1 --set model.width=8 \
                     --set model.heads=2";

/// Paths of 3 to 8 nodes with a label; parts are dealt interleaved.
fn paths(count: usize, label: impl Fn(usize) -> Value) -> String {
    let path = |i: usize| {
        let n = 3 + i % 6;
        let (from, to): (Vec<usize>, Vec<usize>) = (1..n).flat_map(|v| [(v - 1, v), (v, v - 1)]).unzip();
        let types: Vec<[usize; 1]> = (0..n).map(|v| [(v + i) % 3]).collect();
        let split = ["train", "train", "val", "test"][i % 4];
        let graph =
            json!({"num_nodes": n, "node_feat": types, "edge_index": [from, to], "y": [label(i)], "split": split});
        graph.to_string() + "\n"
    };
    (0..count).map(path).collect()
}

/// The numbers of a column of a table.
fn column(place: &Place, file: &str, name: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(place.path(file)).unwrap();
    let mut lines = text.lines();
    let at = lines.next().unwrap().split(',').position(|found| found == name).unwrap();
    lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn numbers_of_several_runs_are_averaged() {
    let place = Place::new();
    place.write("mine.jsonl", &paths(48, |i| json!(i as f64 * 0.37 % 5.0 + 0.01)));
    place.done(&format!("train --data mine.jsonl --seeds 1,2,3 --out runs --set data.standardize=true {SMALL}"));
    for seed in 1..=3 {
        place.done(&format!("predict runs/{seed} --data mine.jsonl --out {seed}.csv"));
    }
    place.done("predict runs --data mine.jsonl --out all.csv");
    let together = column(&place, "all.csv", "y");
    let alone: Vec<Vec<f64>> = (1..=3).map(|seed| column(&place, &format!("{seed}.csv"), "y")).collect();
    for (row, value) in together.iter().enumerate() {
        let mean = alone.iter().map(|values| values[row]).sum::<f64>() / 3.0;
        assert!((value - mean).abs() < 1e-5, "row {row}: {value} {mean}");
    }
    assert!(alone[0] != alone[1]);
    // The score is that of the means.
    let labels: Vec<f64> = (0..48).map(|i| i as f64 * 0.37 % 5.0 + 0.01).collect();
    let tested: Vec<usize> = (0..48).filter(|i| i % 4 == 3).collect();
    let mae = tested.iter().map(|&i| (together[i] - labels[i]).abs()).sum::<f64>() / tested.len() as f64;
    let scores = json(&place.done("eval runs --json"));
    assert!((scores["exact"].as_f64().unwrap() - mae).abs() < 1e-5, "{scores} {mae}");
    assert_eq!(scores["graphs"], json!(12));
    // Shards together are the whole.
    for shard in 1..=2 {
        place.done(&format!("predict runs --data mine.jsonl --shard {shard}/2 --out part{shard}.csv"));
    }
    let parts: Vec<f64> = (1..=2).flat_map(|shard| column(&place, &format!("part{shard}.csv"), "y")).collect();
    assert_eq!(parts, together);
}

#[test]
fn probabilities_of_several_runs_are_averaged() {
    let place = Place::new();
    place.write("mine.jsonl", &paths(48, |i| json!(i / 2 % 3)));
    place.done(&format!("train --data mine.jsonl --seeds 1,2 --out runs {SMALL}"));
    for run in ["runs/1", "runs/2", "runs"] {
        place.done(&format!("predict {run} --data mine.jsonl --out {}.csv", run.replace('/', "-")));
    }
    let p = |file: &str, class: usize| column(&place, file, &format!("y_p{class}"));
    let together: Vec<Vec<f64>> = (0..3).map(|class| p("runs.csv", class)).collect();
    for (class, together) in together.iter().enumerate() {
        for (row, (a, b)) in p("runs-1.csv", class).into_iter().zip(p("runs-2.csv", class)).enumerate() {
            assert!((together[row] - (a + b) / 2.0).abs() < 1e-6);
        }
    }
    let classes = column(&place, "runs.csv", "y");
    let right = (0..48).filter(|i| i % 4 == 3).filter(|&i| {
        let largest = (0..3).max_by(|&a, &b| together[a][i].total_cmp(&together[b][i])).unwrap();
        assert_eq!(classes[i] as usize, largest);
        largest == i / 2 % 3
    });
    let accuracy = right.count() as f64 / 12.0 * 100.0;
    let scores = json(&place.done("eval runs --json"));
    assert!((scores["exact"].as_f64().unwrap() - accuracy).abs() < 1e-9, "{scores} {accuracy}");
}

#[test]
fn runs_that_do_not_fit_together_are_named() {
    let place = Place::new();
    place.write("numbers.jsonl", &paths(24, |i| json!(i as f64 + 0.5)));
    place.write("classes.jsonl", &paths(24, |i| json!(i % 2)));
    place.done(&format!("train --data numbers.jsonl --out runs/a {SMALL}"));
    place.done(&format!("train --data classes.jsonl --out runs/b {SMALL}"));
    let said = place.refused("predict runs --data numbers.jsonl --out p.csv");
    assert_names(&said, &["runs/a", "runs/b", "targets"]);
    assert_names(&place.refused("eval runs"), &["runs/a", "runs/b", "targets"]);
    std::fs::remove_dir_all(place.path("runs/b")).unwrap();
    place.done(&format!("train --data numbers.jsonl --out runs/c --set model.encoding=laplacian {SMALL}"));
    assert_names(&place.refused("eval runs"), &["runs/a", "runs/c", "encodings"]);
    // Other widths and depths fit.
    std::fs::remove_dir_all(place.path("runs/c")).unwrap();
    let wide = SMALL.replace("width=8", "width=16");
    place.done(&format!("train --data numbers.jsonl --out runs/d {wide}"));
    assert_eq!(json(&place.done("eval runs --json"))["graphs"], json!(6));
    // Commands of one model name a member.
    assert_names(&place.refused("embed runs --data numbers.jsonl --out e.csv"), &["runs", "runs/a"]);
    let said = place.refused("attention runs --data numbers.jsonl --graph 0 --out a.svg");
    assert_names(&said, &["runs", "runs/a"]);
}

#[test]
fn folds_predict_new_data_together_and_are_not_scored_on_what_they_have_seen() {
    let place = Place::new();
    let without_split = |text: String| {
        text.replace(r#""split":"train","#, "").replace(r#""split":"val","#, "").replace(r#""split":"test","#, "")
    };
    place.write("mine.jsonl", &without_split(paths(30, |i| json!(i as f64 + 0.5))));
    place.write("new.jsonl", &paths(16, |i| json!(i as f64 + 0.5)));
    place.done(&format!("train --data mine.jsonl --folds 3 --out cv {SMALL}"));
    assert_names(&place.refused("eval cv"), &["cv/out_of_fold.csv", "--data"]);
    assert_names(&place.refused("eval cv --data mine.jsonl"), &["cv/out_of_fold.csv", "--data"]);
    assert_eq!(json(&place.done("eval cv --data new.jsonl --json"))["graphs"], json!(4));
    place.done("predict cv --data new.jsonl --out p.csv");
    assert_eq!(column(&place, "p.csv", "y").len(), 16);
    // A run that is not finished.
    std::fs::remove_file(place.path("cv/fold-2/model.safetensors")).unwrap();
    let said = place.refused("predict cv --data new.jsonl --out q.csv");
    assert_names(&said, &["cv/fold-2", "`gt train --resume --out cv`"]);
}
