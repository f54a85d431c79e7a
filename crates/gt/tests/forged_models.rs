//! Model files with valid checksums and a wrong header: every field deleted, null, huge, negative,
//! of another type, or written twice. The result is a model or an error of one line, never a panic,
//! and never memory that the file does not justify.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use gt_models::Model;
use gt_nn::backend::Device;
use gt_testing::PeakMemory;
use gt_train::{Query, QueryOptions, query};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::Place;

#[global_allocator]
static MEMORY: PeakMemory = PeakMemory::new();

/// The files have about 20 kB.
const LIMIT: usize = 64 << 20;

const SMALL: &str = "--device cpu --set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1";

/// Graphs with named categories, continuous columns and edge features.
fn graph(number: usize, y: Value) -> Value {
    let kinds: Vec<Value> = (0..4).map(|node| json!(["C", "N", "O"][(number + node) % 3])).collect();
    let sizes: Vec<Value> = (0..4).map(|node| json!([0.5 * (number + node) as f64, -1.5 * node as f64])).collect();
    let split = ["train", "train", "val"][number % 3];
    json!({
        "num_nodes": 4, "edge_index": [[0, 1, 2], [1, 2, 3]], "edge_attr": [[0], [1], [number % 2]],
        "node_feat": kinds, "node_feat_float": sizes, "y": y,
        "split": split,
    })
}

/// The parts of a model file: text of the program, entries of the tensors, and the tensors.
struct Parts {
    text: Value,
    tensors: Value,
    data: Vec<u8>,
}

impl Parts {
    fn of(file: &[u8]) -> Self {
        let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let mut tensors: Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
        let header = tensors.as_object_mut().unwrap().remove("__metadata__").unwrap();
        let mut text: Value = serde_json::from_str(header["graph_transformer"].as_str().unwrap()).unwrap();
        for key in ["header_sha256", "weights_sha256"] {
            text.as_object_mut().unwrap().remove(key).unwrap();
        }
        Self { text, tensors, data: file[8 + length..].to_vec() }
    }

    /// A file with valid checksums around a text and entries, as `docs/reference/model-file.md`
    /// describes it.
    fn seal(&self, text: &str, tensors: &str) -> Vec<u8> {
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
        let weights = hex(&Sha256::digest(&self.data));
        let inner = |header: &str| {
            let rest = text.strip_prefix('{').unwrap();
            let comma = if rest.starts_with('}') { "" } else { "," };
            let text = format!("{{\"header_sha256\":\"{header}\",\"weights_sha256\":\"{weights}\"{comma}{rest}");
            let tensors = tensors.strip_prefix('{').unwrap();
            let comma = if tensors.starts_with('}') { "" } else { "," };
            let mut header = format!("{{\"__metadata__\":{{\"graph_transformer\":{}}}{comma}{tensors}", json!(text));
            header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
            [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()
        };
        let digest = hex(&Sha256::digest(inner(&"0".repeat(64))));
        [inner(&digest), self.data.clone()].concat()
    }
}

/// A position in a JSON value.
type Position = Vec<Step>;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

/// All positions in a value but the whole.
fn positions(value: &Value, at: &Position, found: &mut Vec<Position>) {
    let children: Vec<(Step, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (Step::Key(key.clone()), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(at, value)| (Step::Index(at), value)).collect(),
        _ => Vec::new(),
    };
    for (step, child) in children {
        let here = [&at[..], &[step]].concat();
        found.push(here.clone());
        positions(child, &here, found);
    }
}

/// What happens to the value at a position.
#[derive(Clone, Debug)]
enum Change {
    Delete,
    Twice,
    /// This text takes its place.
    Text(String),
}

fn changes(value: &Value) -> Vec<Change> {
    let text = |text: &str| Change::Text(text.to_owned());
    let mut changes = vec![Change::Delete, Change::Twice];
    for other in [
        "null",
        "0",
        "-1",
        "1",
        "0.5",
        "1e18",
        "1e300",
        "1e999",
        "4294967296",
        "18446744073709551615",
        "99999999999999999999999",
        "true",
        "\"\"",
        "\"x\\n\\u0000y\"",
        "[]",
        "[[1, 2]]",
        "{}",
        "{\"size\": 3}",
    ] {
        changes.push(text(other));
    }
    changes.push(Change::Text(json!("long".repeat(20_000)).to_string()));
    match value {
        Value::Array(list) => {
            let many: Vec<&Value> = list.iter().cycle().take(if list.is_empty() { 0 } else { 3_000 }).collect();
            changes.push(Change::Text(json!(many).to_string()));
            changes.push(Change::Text(json!([list.clone(), list.clone()].concat()).to_string()));
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            changes.extend([number + 1.0, number - 1.0, number * 1000.0].map(|v| Change::Text(v.to_string())));
        }
        _ => {}
    }
    changes
}

/// The text of a value with a change at a position.
fn render(value: &Value, position: &[Step], change: &Change) -> String {
    let [step, rest @ ..] = position else { unreachable!("the whole stays") };
    let write = |matches: bool, prefix: &str, child: &Value| -> Vec<String> {
        let whole = || vec![format!("{prefix}{child}")];
        match (matches, rest.is_empty(), change) {
            (false, ..) => whole(),
            (true, false, _) => vec![format!("{prefix}{}", render(child, rest, change))],
            (true, true, Change::Delete) => Vec::new(),
            (true, true, Change::Twice) => [whole(), whole()].concat(),
            (true, true, Change::Text(text)) => vec![format!("{prefix}{text}")],
        }
    };
    match value {
        Value::Object(map) => {
            let of = |(key, child): (&String, &Value)| {
                write(*step == Step::Key(key.clone()), &format!("{}:", json!(key)), child)
            };
            format!("{{{}}}", map.iter().flat_map(of).collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => {
            let of = |(at, child): (usize, &Value)| write(*step == Step::Index(at), "", child);
            format!("[{}]", list.iter().enumerate().flat_map(of).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Opens a forged file and predicts with it. The error, if there is one.
fn use_model(file: &Path, place: &Place, what: &str) -> Result<(), String> {
    let (result, peak) = MEMORY.measure(|| {
        catch_unwind(AssertUnwindSafe(|| {
            let model = Model::open(file).map_err(|error| error.to_string()).inspect_err(|error| {
                assert!(!error.is_empty() && !error.contains('\n') && error.len() < 10_000, "{error}");
            })?;
            let predictions = Query::Predictions(Device::Cpu);
            let (data, out) = (place.path("data.jsonl"), place.path("out.jsonl"));
            let report = query(&model.into(), &data, &out, &predictions, &QueryOptions::default());
            report.map(drop).map_err(|error| error.to_string())
        }))
    });
    let result = result.unwrap_or_else(|_| panic!("{what}: a panic"));
    assert!(peak <= LIMIT, "{what}: {peak} bytes were in use at once");
    result
}

fn trained(place: &Place, y: impl Fn(usize) -> Value, more: &str) -> Parts {
    let lines: String = (0..12).map(|number| format!("{}\n", graph(number, y(number)))).collect();
    place.write("data.jsonl", &lines);
    place.done(&format!("train --data data.jsonl --out run {SMALL} {more}"));
    Parts::of(&std::fs::read(place.path("run/model.safetensors")).unwrap())
}

/// Every change at every position; the program itself gets some of the files.
fn torture(place: &Place, parts: &Parts, every: usize) {
    let _alone = MEMORY.alone();
    let file = place.path("forged.safetensors");
    std::fs::write(&file, parts.seal(&parts.text.to_string(), &parts.tensors.to_string())).unwrap();
    assert_eq!(use_model(&file, place, "nothing is changed"), Ok(()));
    let (mut refused, mut count) = (0, 0);
    for of_tensors in [false, true] {
        let whole = if of_tensors { &parts.tensors } else { &parts.text };
        let mut all = Vec::new();
        positions(whole, &Vec::new(), &mut all);
        // The entries of all tensors are alike.
        all.truncate(if of_tensors { 24 } else { usize::MAX });
        for position in &all {
            let value = position.iter().fold(whole, |value, step| match step {
                Step::Key(key) => &value[key],
                Step::Index(at) => &value[at],
            });
            for change in changes(value) {
                let text = render(whole, position, &change);
                let bytes = match of_tensors {
                    false => parts.seal(&text, &parts.tensors.to_string()),
                    true => parts.seal(&parts.text.to_string(), &text),
                };
                std::fs::write(&file, bytes).unwrap();
                let what = format!("{position:?}: {}", format!("{change:?}").chars().take(60).collect::<String>());
                let result = use_model(&file, place, &what);
                refused += usize::from(result.is_err());
                count += 1;
                if count % every == 0 {
                    let output = place.gt("predict forged.safetensors --data data.jsonl --out out.csv");
                    let message = String::from_utf8_lossy(&output.stderr).into_owned();
                    let code = if result.is_err() { 2 } else { 0 };
                    assert_eq!(output.status.code(), Some(code), "{what}: {message}");
                    let errors = message.lines().filter(|line| line.starts_with("error: ")).count();
                    assert!(
                        errors == usize::from(result.is_err()) && !message.contains("panicked"),
                        "{what}: {message}"
                    );
                }
            }
        }
    }
    assert!(count > 1_500 && refused * 2 > count, "{refused} of {count} files were refused");
}

#[test]
fn forged_models_of_scaled_numbers_are_refused_or_used() {
    let place = Place::new();
    let numbers = |number: usize| json!([0.5 * number as f64, -2.0 * number as f64]);
    let more = "--set data.standardize=true --set data.standardize_inputs=true --set model.encoding=laplacian --set \
                model.encoding_size=2";
    let parts = trained(&place, numbers, more);
    assert_eq!(parts.text["scaling"]["target"].as_array().unwrap().len(), 2);
    torture(&place, &parts, 97);
}

#[test]
fn forged_models_of_named_classes_are_refused_or_used() {
    let place = Place::new();
    let parts = trained(&place, |number| json!(["red", "green", "blue"][number % 3]), "--set model.norm=layer");
    assert_eq!(parts.text["schema"]["target"]["columns"][0]["names"], json!(["blue", "green", "red"]));
    torture(&place, &parts, 97);
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let _alone = MEMORY.alone();
    let place = Place::new();
    let numbers = |number: usize| json!([0.5 * number as f64]);
    let more = "--set data.standardize=true --set data.standardize_inputs=true";
    let parts = trained(&place, numbers, more);
    let file = place.path("forged.safetensors");
    for (pointer, value, names) in [
        ("/schema/node/categorical/0/size", json!(0), "vocabulary"),
        ("/schema/node/categorical/0/size", json!(u64::MAX), "vocabulary"),
        ("/schema/node/categorical/0/size", json!(1u64 << 32), "vocabulary"),
        ("/schema/node/categorical/0/names", json!(["C", "C", "O"]), "two values"),
        ("/schema/node/categorical/0/names", json!(["C", "N", "O", "S"]), "4 names for 3 values"),
        ("/schema/node/continuous", json!(["a", "a"]), "two node columns"),
        ("/schema/node/continuous", json!(["a"]), "scales of 2 columns"),
        ("/schema/target/columns", json!([]), "no column"),
        ("/schema/target/columns", json!([{"name": "y"}, {"name": "y"}]), "two graph columns"),
        ("/schema/target/columns/0", json!({"name": "y", "classes": 3}), "3 classes"),
        ("/schema/target/kind", json!("class"), "vocabulary of 0"),
        ("/schema/target", json!(null), "no targets"),
        ("/scaling/target", json!([[0.0, 1.0], [0.0, 1.0]]), "scales of 2 columns"),
        ("/scaling/target", json!([[0.0, 0.0]]), "deviation 0"),
        ("/scaling/node", json!([[0.0, 1.0], [0.0, -1.0]]), "deviation -1"),
        ("/config/model/layers", json!(0), "belongs to no part"),
        ("/config/model/layers", json!(1_000), "is missing"),
        ("/config/model/width", json!(65_536), "65536"),
        ("/config/model/width", json!(1_000_000), "1000000"),
        ("/config/model/heads", json!(3), "3 heads"),
        ("/config/model/heads", json!(0), "model.heads"),
        ("/config/train/batch", json!(0), "train.batch"),
    ] {
        let mut text = parts.text.clone();
        match text.pointer_mut(pointer) {
            Some(place) => *place = value.clone(),
            None => panic!("{pointer} is not in {text}"),
        }
        std::fs::write(&file, parts.seal(&text.to_string(), &parts.tensors.to_string())).unwrap();
        let what = format!("{pointer} = {value}");
        let error = use_model(&file, &place, &what).expect_err(&what);
        assert!(error.contains(names), "{what}: {error}");
    }
}
