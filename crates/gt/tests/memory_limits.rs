//! Work that does not fit into memory: predictions are divided, trainings are refused with a batch
//! size that fits.

#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::process::{Command, Output};

use support::{Place, TEST_CACHE};

/// Rings of some nodes.
fn write_rings(place: &Place, name: &str, graphs: usize, nodes: usize) {
    let mut text = String::new();
    for graph in 0..graphs {
        let list =
            |shift: usize| (0..nodes).map(|node| ((node + shift) % nodes).to_string()).collect::<Vec<_>>().join(",");
        let kinds =
            (0..nodes).map(|node| ["[0]", "[1]", "[2]"][(node * node + graph) % 3]).collect::<Vec<_>>().join(",");
        text.push_str(&format!(
            "{{\"node_feat\":[{kinds}],\"edge_index\":[[{0},{1}],[{1},{0}]],\"y\":{graph}.5}}\n",
            list(0),
            list(1)
        ));
    }
    place.write(name, &text);
}

/// Runs `gt` with an address space of some megabytes.
fn within(place: &Place, megabytes: usize, line: &str) -> Output {
    let script = format!("ulimit -v {}; exec {} {line} --threads 2", megabytes * 1000, env!("CARGO_BIN_EXE_gt"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(&place.0).env("GT_CACHE", TEST_CACHE).output().unwrap()
}

#[track_caller]
fn said(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[test]
fn predictions_and_scores_divide_batches_that_do_not_fit() {
    let place = Place::new();
    write_rings(&place, "small.jsonl", 20, 20);
    place.done(
        "train --data small.jsonl --out run --device cpu --set model.layers=2 --set model.width=64 --set model.heads=8 \
         --set model.encoding=none --set train.epochs=1 --set train.batch=128",
    );
    // 150,000 nodes at about 2.5 kB are one batch.
    write_rings(&place, "large.jsonl", 30, 5_000);
    for (command, megabytes) in [("predict", 600), ("embed", 650)] {
        let line = |out: &str| format!("{command} run --data large.jsonl --out {out}");
        place.done(&line("whole.csv"));
        said(&within(&place, megabytes, &line("divided.csv")), 0);
        let [whole, divided] = ["whole.csv", "divided.csv"].map(|name| fs::read(place.path(name)).unwrap());
        assert!(whole == divided && !whole.is_empty(), "{command}");
    }
    let line = "eval run --data large.jsonl --split train --json";
    let divided = within(&place, 600, line);
    said(&divided, 0);
    assert_eq!(String::from_utf8(divided.stdout).unwrap(), place.done(line));
}

#[test]
fn a_graph_that_does_not_fit_is_named() {
    let place = Place::new();
    write_rings(&place, "small.jsonl", 20, 20);
    place.done(
        "train --data small.jsonl --out run --device cpu --set model.layers=1 --set model.width=256 --set model.heads=8 \
         --set model.encoding=none --set train.epochs=1",
    );
    write_rings(&place, "one.jsonl", 1, 60_000);
    let small = fs::read_to_string(place.path("small.jsonl")).unwrap();
    let one = fs::read_to_string(place.path("one.jsonl")).unwrap();
    place.write("both.jsonl", &(small + &one));
    let said = said(&within(&place, 600, "predict run --data both.jsonl --out out.csv"), 2);
    for fact in ["error: both.jsonl: graph 20: ", "60000 nodes", "120000 edges", "ulimit -v"] {
        assert!(said.contains(fact), "{fact}: {said}");
    }
    assert!(!place.path("out.csv").exists());
}

#[test]
fn a_training_that_does_not_fit_is_refused_with_a_batch_that_fits() {
    let place = Place::new();
    write_rings(&place, "data.jsonl", 30, 2_000);
    let line = "train --data data.jsonl --out run --device cpu --set model.layers=4 --set model.width=64 \
                --set model.heads=8 --set model.encoding=none --set train.epochs=1 --set train.batch=64";
    let refused = said(&within(&place, 800, line), 2);
    assert!(refused.contains("train.batch = 64") && refused.contains("(ulimit -v)"), "{refused}");
    let remedy = refused.split("pass ").last().unwrap().trim();
    let batch = remedy.strip_prefix("--set train.batch=").and_then(|number| number.parse::<usize>().ok());
    assert!(batch.is_some_and(|batch| (1..24).contains(&batch)), "{refused}");
    said(&within(&place, 800, &format!("{line} {remedy}")), 0);
}
