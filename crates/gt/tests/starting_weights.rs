//! `gt train --init` and `train.freeze`: training that starts from a model.

mod support;

use std::collections::BTreeMap;
use std::process::Stdio;

use gt_models::{Model, parameter_name};
use serde_json::{Value, json};
use support::{Place, assert_names, program};

const MODEL: &str = "--set model.layers=2 --set model.width=8 --set model.heads=2 --set model.encoding=random-walk";
const TRAIN: &str = "--device cpu --set train.epochs=3 --set train.batch=8";

/// Paths of 3 to 8 nodes with three kinds of nodes and two of edges.
fn paths(count: usize, kinds: usize, label: impl Fn(usize) -> Value) -> String {
    let path = |i: usize| {
        let n = 3 + i % 6;
        let (from, to): (Vec<usize>, Vec<usize>) = (1..n).flat_map(|v| [(v - 1, v), (v, v - 1)]).unzip();
        let types: Vec<[usize; 1]> = (0..n).map(|v| [(v + i) % kinds]).collect();
        let bonds: Vec<[usize; 1]> = (0..from.len()).map(|e| [(e / 2 + i) % 2]).collect();
        let graph =
            json!({"num_nodes": n, "node_feat": types, "edge_index": [from, to], "edge_attr": bonds, "y": label(i)});
        graph.to_string() + "\n"
    };
    (0..count).map(path).collect()
}

/// A folder with a model of three numbers per graph, and data with one class per graph.
fn trained() -> Place {
    let place = Place::new();
    place.write("numbers.jsonl", &paths(40, 3, |i| json!([i as f64 % 7.0 + 0.5, i as f64 + 0.5, 0.25])));
    place.write("classes.jsonl", &paths(40, 2, |i| json!([i / 2 % 3])));
    place.done(&format!("train --data numbers.jsonl --out first {MODEL} {TRAIN}"));
    place
}

/// All tensors of the last model of a run by name, with running statistics.
fn tensors(place: &Place, file: &str) -> BTreeMap<String, Vec<f32>> {
    let model = Model::open(place.path(file)).unwrap();
    let (network, weights) = (model.network(), &model.weights);
    let list = weights.parameters().list().iter().enumerate();
    let mut all: BTreeMap<String, Vec<f32>> =
        list.map(|(at, parameter)| (parameter_name(network, parameter.role()), weights.parameter(at))).collect();
    for site in network.norm_sites() {
        all.insert(
            format!("running of layers.{} {:?} {}", site.layer, site.stream, site.number),
            weights.running(site).concat(),
        );
    }
    all
}

#[test]
fn a_new_head_learns_on_a_frozen_encoder() {
    let place = trained();
    let output = place.gt(&format!(
        "train --data classes.jsonl --init first --init-layers encoder --out second {TRAIN} \
         --set optimizer.weight_decay=0.1 --set optimizer.clip=1.0 --set train.freeze=[\"embedding\",\"layers\"]"
    ));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_names(&said, &["first/best.safetensors", "MLP_layer.FC_layers.0.weight"]);
    let (before, after) = (tensors(&place, "first/best.safetensors"), tensors(&place, "second/model.safetensors"));
    assert_eq!(before.len(), after.len());
    for (name, values) in &after {
        let frozen = !name.starts_with("MLP_layer");
        assert_eq!(before[name] == *values, frozen, "{name}");
    }
    // The data has two kinds of nodes, and the embedding those of the model.
    assert_eq!(after["embedding_h.weight"].len(), 3 * 8);
    let scores: Value = serde_json::from_str(&place.done("eval second --json")).unwrap();
    assert_eq!(scores["metric"], "accuracy");
    place.done("predict second --data numbers.jsonl --out p.csv");
}

#[test]
fn one_frozen_layer_stays_and_the_others_move() {
    let place = trained();
    place.done(&format!("train --data numbers.jsonl --init first/model.safetensors --out second {TRAIN} --set train.freeze=[\"layers.0\"]"));
    let (before, after) = (tensors(&place, "first/model.safetensors"), tensors(&place, "second/model.safetensors"));
    let stays = |name: &str| before[name] == after[name];
    assert!(
        before.keys().filter(|name| name.contains("layers.0.") && !name.starts_with("MLP")).all(|name| stays(name))
    );
    assert!(before.keys().filter(|name| name.starts_with("running of layers.0 ")).all(|name| stays(name)));
    for moved in ["embedding_h.weight", "layers.1.attention.Q.weight", "MLP_layer.FC_layers.2.weight"] {
        assert!(!stays(moved), "{moved}");
    }
    assert!(!before.keys().filter(|name| name.starts_with("running of layers.1 ")).all(|name| stays(name)));
}

#[test]
fn training_goes_on_where_the_model_stands() {
    let place = trained();
    let loss = |run: &str, epoch: usize| {
        let text = std::fs::read_to_string(place.path(run).join("metrics.jsonl")).unwrap();
        let line: Value = serde_json::from_str(text.lines().nth(epoch).unwrap()).unwrap();
        line["val"]["loss"]["exact"].as_f64().unwrap()
    };
    // With a tiny rate, the first epoch has the scores of the model.
    place.done(&format!("train --data numbers.jsonl --init first/model.safetensors --out second {TRAIN} --set optimizer.lr=1e-12 --set schedule.min_lr=1e-13 --set train.freeze=[\"layers\"]"));
    assert!((loss("second", 0) - loss("first", 2)).abs() < 1e-5, "{} {}", loss("second", 0), loss("first", 2));
    assert!((loss("second", 0) - loss("first", 0)).abs() > 1e-3);
}

#[test]
fn an_interrupted_run_ends_with_the_same_bytes_without_its_model() {
    let line = "train --data classes.jsonl --init first --out second --device cpu --set train.epochs=60 \
                --set train.batch=8 --set train.freeze=[\"layers.1\"]";
    let (whole, broken) = (trained(), trained());
    whole.done(line);
    let mut call = program();
    call.args(line.split_whitespace()).current_dir(&broken.0).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = call.spawn().unwrap();
    while !std::fs::read_to_string(broken.path("second/metrics.jsonl")).is_ok_and(|text| text.lines().count() > 1) {
        assert!(child.try_wait().unwrap().is_none(), "it ended too soon");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_dir_all(broken.path("first")).unwrap();
    broken.done("train --resume --out second --device cpu");
    for file in ["model.safetensors", "best.safetensors"] {
        let bytes = |place: &Place| std::fs::read(place.path("second").join(file)).unwrap();
        assert!(bytes(&whole) == bytes(&broken), "{file}");
    }
}

#[test]
fn models_that_do_not_fit_are_refused_with_the_column() {
    let place = trained();
    let refused = |data: &str, rest: &str| {
        place.refused(&format!("train --data {data} --init first --out second {TRAIN} {rest}"))
    };
    place.write("wide.jsonl", &paths(20, 5, |i| json!([i as f64 + 0.5])));
    assert_names(&refused("wide.jsonl", ""), &["first/best.safetensors", "node_feat", "category 3", "3 others"]);
    let floats = paths(20, 3, |i| json!([i as f64 + 0.5])).replace("[0]", "[0.5]").replace("[1]", "[1.5]");
    place.write("floats.jsonl", &floats.replace("[2]", "[2.5]"));
    let said = refused("floats.jsonl", "");
    assert_names(&said, &["first/best.safetensors", "node_feat (numbers)", "node_feat (categories)"]);
    assert_names(
        &refused("numbers.jsonl", "--set model.layers=0 --set model.width=16"),
        &["first/best.safetensors", "8", "16"],
    );
    assert_names(
        &refused("numbers.jsonl", "--set train.freeze=[\"encoder\"]"),
        &["train.freeze", "encoder", "layers.0", "MLP_layer"],
    );
    assert_names(
        &refused("numbers.jsonl", "--set train.freeze=[\"embedding\",\"layers\",\"MLP_layer\"]"),
        &["train.freeze"],
    );
    let said = place.refused(&format!("train --data numbers.jsonl --init nowhere --out second {TRAIN}"));
    assert_names(&said, &["nowhere"]);
}
