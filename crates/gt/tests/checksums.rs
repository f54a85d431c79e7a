//! Checksums of the files that a run leaves: damaged models are refused, and `weights_sha256`
//! depends on the weights alone.

mod support;

use std::fs;

use gt_data::RandomStream;
use gt_models::Model;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::Place;

const SMALL: &str = "--device cpu --seed 3 --set model.layers=1 --set model.width=8 --set model.heads=2 \
                     --set model.encoding=laplacian --set model.encoding_size=2 --set train.epochs=2 --json";

fn graphs() -> String {
    let graph = |number: usize| {
        let split = ["train", "train", "val", "test"][number % 4];
        json!({
            "num_nodes": 4, "edge_index": [[0, 1, 2, 3], [1, 2, 3, 0]], "node_feat": [[0], [1], [2], [number % 3]],
            "y": [0.25 * (number % 5) as f64], "split": split,
        })
    };
    (0..24).map(|number| format!("{}\n", graph(number))).collect()
}

/// Trains, and returns `weights_sha256`.
fn train(place: &Place, data: &str, out: &str) -> String {
    let text = place.done(&format!("train --data {data} --out {out} {SMALL}"));
    let result: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    result["weights_sha256"].as_str().unwrap().to_owned()
}

#[test]
fn every_damaged_byte_of_a_model_is_an_error_that_names_the_file() {
    let place = Place::new();
    place.write("data.jsonl", &graphs());
    train(&place, "data.jsonl", "run");
    for name in ["model.safetensors", "best.safetensors"] {
        let path = place.path("run").join(name);
        let whole = fs::read(&path).unwrap();
        let mut random = RandomStream::new(7, 1, name.len() as u64);
        for round in 0..1_000 {
            let mut damaged = whole.clone();
            let (at, bit) = (random.below(whole.len() as u32) as usize, random.below(8));
            damaged[at] ^= 1 << bit;
            fs::write(&path, &damaged).unwrap();
            let error = Model::open(&path).expect_err(&format!("{name}: byte {at}, bit {bit}")).to_string();
            assert!(!error.is_empty());
            if round % 200 == 0 {
                let option = if name.starts_with("best") { "--best" } else { "--last" };
                let message = place.refused(&format!("predict run {option} --data data.jsonl --out out.csv"));
                assert!(message.starts_with("error: ") && message.contains(name), "{message}");
                assert_eq!(message.trim_end().lines().count(), 1, "{message}");
            }
        }
        fs::write(&path, &whole).unwrap();
        Model::open(&path).unwrap();
    }
}

#[test]
fn a_damaged_model_is_written_again_by_a_resumed_run() {
    let place = Place::new();
    place.write("data.jsonl", &graphs());
    train(&place, "data.jsonl", "run");
    let path = place.path("run/model.safetensors");
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&path, damaged).unwrap();
    let message = place.refused("predict run --last --data data.jsonl --out out.csv");
    assert!(message.contains("gt train --resume"), "{message}");
    place.done("train --resume --out run");
    assert!(fs::read(&path).unwrap() == whole);
}

#[test]
fn the_hash_of_weights_depends_on_no_path_and_no_format() {
    let place = Place::new();
    place.write("data.jsonl", &graphs());
    place.done("data convert data.jsonl other.parquet");
    place.done("data convert data.jsonl tables_nodes.csv");
    let first = train(&place, "data.jsonl", "run");
    assert_eq!(train(&place, "data.jsonl", "run-with-another-name"), first);
    assert_eq!(train(&place, "other.parquet", "of-parquet"), first);
    assert_eq!(train(&place, "tables_nodes.csv", "of-tables"), first);
    // The bytes of the tensors, as any other program finds them.
    for run in ["run", "of-parquet"] {
        let file = fs::read(place.path(run).join("model.safetensors")).unwrap();
        let start = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let digest: String = Sha256::digest(&file[start..]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, first);
        let header: Value = serde_json::from_slice(&file[8..start]).unwrap();
        let text = header["__metadata__"]["graph_transformer"].as_str().unwrap().to_owned();
        let text: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text["weights_sha256"], first);
    }
}
