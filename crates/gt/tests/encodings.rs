//! An encoding that a file stores is used, or its width is an error. No command replaces a stored
//! encoding by its own.

mod support;

use std::fs;

use serde_json::Value;
use support::{Place, assert_names};

const SMALL: &str =
    "--set model.layers=1 --set model.width=32 --set model.heads=4 --set train.epochs=1 --set train.batch=4";
/// Widths that are unlikely to occur in a message by chance.
const MODEL: usize = 13;
const STORED: usize = 17;

/// Names of encodings in configurations, and of their columns in files.
const ENCODINGS: [(&str, &str); 2] = [("laplacian", "lap_pe"), ("random-walk", "rw_pe")];

/// A folder with a model that reads an encoding, and with data that does not store the encoding.
fn trained(encoding: &str) -> Place {
    let place = Place::new();
    place.done("data sbm cluster --out plain.parquet --train 6 --val 2 --test 2");
    place.done(&format!("train --data plain.parquet --out run {}", settings(encoding)));
    place
}

fn settings(encoding: &str) -> String {
    format!("{SMALL} --set model.encoding={encoding} --set model.encoding_size={MODEL}")
}

fn encode(place: &Place, width: usize) {
    place.done(&format!("encode plain.parquet --lap {width} --walk {width} --out e.parquet"));
}

fn records(place: &Place, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(place.path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write(place: &Place, name: &str, records: &[Value]) {
    place.write(name, &records.iter().map(|record| format!("{record}\n")).collect::<String>());
}

#[test]
fn every_command_names_an_encoding_of_another_width_and_both_widths_in_every_format() {
    let (model, stored) = (MODEL.to_string(), STORED.to_string());
    for (encoding, column) in ENCODINGS {
        let place = trained(encoding);
        encode(&place, STORED);
        let files = ["e.parquet", "e.jsonl", "c_nodes.csv", "p_nodes.parquet"];
        files[1..].iter().for_each(|file| drop(place.done(&format!("data convert e.parquet {file}"))));
        for file in files {
            let commands = [
                format!("train --data {file} --out other {}", settings(encoding)),
                format!("eval run --data {file} --split test"),
                format!("predict run --data {file} --out p.csv"),
                format!("predict run --data {file} --out p.csv --on-error stop"),
                format!("embed run --data {file} --out p.csv"),
                format!("attention run --data {file} --graph 0 --out a.json"),
            ];
            for command in commands {
                // Neither an output nor a folder of computed encodings may appear.
                let complaint = place.refused(&command);
                assert_names(&complaint, &[file, &format!("\"{column}\""), &stored, &model]);
            }
        }
    }
}

#[test]
fn one_graph_with_an_encoding_of_another_width_has_a_reason_instead_of_a_prediction() {
    for (encoding, column) in ENCODINGS {
        let place = trained(encoding);
        encode(&place, MODEL);
        place.done("data convert e.parquet e.jsonl");
        place.done("predict run --data e.jsonl --out all.jsonl");
        let mut graphs = records(&place, "e.jsonl");
        for row in graphs[4][column].as_array_mut().unwrap() {
            row.as_array_mut().unwrap().truncate(3);
        }
        write(&place, "odd.jsonl", &graphs);
        place.done("predict run --data odd.jsonl --out p.jsonl");
        let (rows, expected) = (records(&place, "p.jsonl"), records(&place, "all.jsonl"));
        assert_eq!(rows.len(), expected.len());
        for (row, expected) in rows.iter().zip(&expected) {
            if row["graph"] == 4 {
                assert_names(row["reason"].as_str().unwrap(), &[&format!("\"{column}\""), "3", &MODEL.to_string()]);
            } else {
                assert_eq!(row, expected);
            }
        }
        for command in ["eval run --data odd.jsonl", "predict run --data odd.jsonl --out q.csv --on-error stop"] {
            let complaint = place.refused(command);
            assert_names(&complaint, &["odd.jsonl", "graph 4", &format!("\"{column}\""), "3", &MODEL.to_string()]);
        }
    }
}

#[test]
fn a_stored_encoding_is_used_as_it_is() {
    for (encoding, column) in ENCODINGS {
        let place = trained(encoding);
        encode(&place, MODEL);
        place.done("data convert e.parquet e.jsonl");
        let mut graphs = records(&place, "e.jsonl");
        for row in graphs[0][column].as_array_mut().unwrap() {
            *row = vec![0.5; MODEL].into();
        }
        write(&place, "changed.jsonl", &graphs);
        for (data, out) in [("plain.parquet", "a.jsonl"), ("e.parquet", "b.jsonl"), ("changed.jsonl", "c.jsonl")] {
            place.done(&format!("predict run --data {data} --out {out}"));
        }
        let [computed, stored, changed] = ["a.jsonl", "b.jsonl", "c.jsonl"].map(|name| records(&place, name));
        assert_eq!(computed, stored);
        let differ = |graph: usize| {
            let rows = stored.iter().zip(&changed).filter(|(row, _)| row["graph"] == graph);
            rows.map(|(a, b)| a != b).collect::<Vec<_>>()
        };
        assert!(differ(0).contains(&true), "{encoding}: the stored encoding has no effect");
        assert!((1..10).all(|graph| !differ(graph).contains(&true)), "{encoding}: other graphs are affected");
        place.done("eval run --data changed.jsonl --split test");
    }
}
