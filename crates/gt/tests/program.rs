//! The program as a user runs it: output, exit codes and files.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use gt_testing::shared;
use serde_json::Value;
use support::{Place, assert_names};

#[test]
fn the_main_job_makes_encodes_and_describes_a_small_set() {
    let place = Place::new();
    let text = place.done("encode");
    for part in ["CLUSTER", "train", "lap_pe (10)", "wl_pe", "6 classes"] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    assert!(place.files().is_empty());
}

#[test]
fn a_set_is_drawn_encoded_split_converted_and_described() {
    let place = Place::new();
    place.done("data sbm pattern --out p.parquet --seed 7 --train 30 --val 6 --test 6");
    place.done("encode p.parquet --lap 2 --wl --walk 3 --out e.parquet");
    place.done("data split e.parquet --out s.jsonl --folds 3 --seed 2");
    place.done("data convert s.jsonl t_nodes.csv");
    place.done("data convert t_nodes.csv back.parquet");
    let info: Value = serde_json::from_str(&place.done("data info back.parquet --json")).unwrap();
    assert_eq!(info["splits"]["fold1"]["graphs"], 14);
    assert_eq!(info["encodings"]["lap_pe"], 2);
    assert_eq!(info["encodings"]["rw_pe"], 3);
    assert_eq!(info["node_vocab"], serde_json::json!([3]));
    let first: Value = serde_json::from_str(&place.done("data info p.parquet --json")).unwrap();
    assert_eq!(first["content_sha256"], info["content_sha256"]);
    assert!(place.done("data info s.jsonl").contains("fold2"));
}

#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    let place = Place::new();
    for threads in [1, 3] {
        place.done(&format!(
            "data sbm cluster --out c{threads}.parquet --train 40 --val 4 --test 4 --threads {threads}"
        ));
        place.done(&format!("encode c{threads}.parquet --lap 6 --wl --out e{threads}.parquet --threads {threads}"));
    }
    for name in ["c", "e"] {
        let read = |threads: usize| std::fs::read(place.path(&format!("{name}{threads}.parquet"))).unwrap();
        assert!(read(1) == read(3), "{name} differs");
    }
}

#[test]
fn bad_input_ends_with_exit_code_2_and_no_file() {
    let place = Place::new();
    place.write("bad.jsonl", "{\"num_nodes\": 2, \"edge_index\": [[0], [5]]}\n");
    place.write("half.parquet", "PAR1");
    let edge = &["bad.jsonl", "graph 0", "edge 0", "node 5"][..];
    let cases = [
        ("data info bad.jsonl", edge),
        ("data convert bad.jsonl out.parquet", edge),
        ("encode bad.jsonl --lap 2 --out out.parquet", edge),
        ("data split bad.jsonl --out out.parquet", edge),
        ("data info half.parquet", &["half.parquet"]),
        ("data info nowhere.parquet", &["nowhere.parquet", "No such file"]),
        ("data sbm cluster --out no/where.parquet", &["no/where.parquet"]),
        ("data convert bad.jsonl out.csv", &["out.csv", "NAME_nodes.csv"]),
        ("encode bad.jsonl --out out.parquet", &["--lap", "--wl", "--walk"]),
        ("encode --lap 0", &["--lap", "1..=1024"]),
        ("data sbm cluster --out c.parquet --train 0 --val 0 --test 0", &["splits are empty"]),
        ("data frobnicate", &["frobnicate"]),
        ("data fetch zinc --from bad.jsonl --cache bad.jsonl", &["bad.jsonl"]),
    ];
    for (line, named) in cases {
        let complaint = place.refused(line);
        assert!(complaint.starts_with("error: "), "gt {line}: {complaint}");
        assert!(named.iter().all(|name| complaint.contains(name)), "gt {line}: {complaint}");
    }
}

#[test]
fn foreign_tables_are_converted_by_flags() {
    let place = Place::new();
    place.write("people.csv", "id,age,job\na,30,1\nb,40,0\n");
    place.write("friends.csv", "from,to\na,b\n");
    place.done(
        "data convert --nodes people.csv --edges friends.csv --target age --continuous age --undirected friends.jsonl",
    );
    let line = std::fs::read_to_string(place.path("friends.jsonl")).unwrap();
    let record: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(record["edge_index"], serde_json::json!([[0, 1], [1, 0]]));
    assert_eq!(record["y"], serde_json::json!([30.0, 40.0]));
    assert_eq!(record["node_feat"], serde_json::json!([[1], [0]]));
    let message = place.refused("data convert --nodes people.csv --edges friends.csv --target size x.jsonl");
    assert_names(&message, &["people.csv", "\"size\""]);
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let place = Place::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_gt"))
        .arg("encode")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .current_dir(&place.0)
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn zinc_is_taken_from_a_local_copy_into_the_cache() {
    let Some(zinc) = shared("data/zinc12k.parquet") else { return };
    let place = Place::new();
    let printed = place.done(&format!("data fetch zinc --from {} --cache cache", zinc.display()));
    assert_eq!(printed.trim(), "cache/zinc12k.parquet");
    let info: Value = serde_json::from_str(&place.done("data info cache/zinc12k.parquet --json")).unwrap();
    assert_eq!(info["splits"]["train"]["graphs"], 10_000);
    assert_eq!(info["splits"]["train"]["nodes_mean"], 23.1664);
    assert_eq!(info["node_vocab"], serde_json::json!([28]));
}

#[test]
fn the_version_is_there() {
    assert!(Place::new().done("--version").starts_with("gt 0."));
}

#[test]
fn import_writes_a_model_file_or_nothing() {
    let place = Place::new();
    let checkpoints = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/checkpoints");
    for name in ["transformer.pt", "transformer_legacy.pt", "malicious_zip.pt", "malicious_legacy.pt", "zip.pt"] {
        std::fs::copy(checkpoints.join(name), place.path(name)).unwrap();
    }
    let model = "[model]\nlayers = 2\nwidth = 16\nheads = 4\nencoding = \"laplacian\"\nencoding_size = 4\n";
    place.write("model.toml", model);
    for name in ["transformer.pt", "transformer_legacy.pt"] {
        place.done(&format!("import {name} {name}.safetensors --config model.toml"));
    }
    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert_eq!(read("transformer.pt.safetensors"), read("transformer_legacy.pt.safetensors"));
    for name in ["malicious_zip.pt", "malicious_legacy.pt"] {
        let complaint = place.refused(&format!("import {name} out.safetensors --config model.toml"));
        assert_names(&complaint, &[name, "`posix.system`"]);
    }
    let complaint = place.refused("import transformer.pt out.safetensors --config model.toml --set model.layers=3");
    assert_names(&complaint, &["transformer.pt", "`layers.2.attention.Q.weight`"]);
    let complaint = place.refused("import transformer.pt out.safetensors --config model.toml --set model.layer=3");
    assert_names(&complaint, &["model.toml", "`model.layer`", "`model.layers`"]);
    assert_names(&place.refused("import none.pt out.safetensors --config model.toml"), &["none.pt"]);
    let complaint = place.refused("import transformer.pt there/out.safetensors --config model.toml");
    assert_names(&complaint, &["there/out.safetensors"]);
    let complaint = place.refused("import zip.pt out.safetensors --config model.toml");
    assert_names(&complaint, &["zip.pt", "`MLP_layer.FC_layers.0.weight`"]);
}

#[test]
fn an_instruction_set_that_is_not_there_is_said() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command.args(["data", "sbm", "cluster", "--out", "c.parquet", "--train", "1", "--val", "1", "--test", "1"]);
    let output = command.env("GT_SIMD", "sse9").current_dir(&place.0).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_names(&text, &["GT_SIMD", "`sse9`"]);
    assert_eq!(output.status.code(), Some(0), "{text}");
}

#[test]
fn config_keys_lists_every_key_in_100_columns() {
    let place = Place::new();
    let text = place.done("config keys");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let sections: serde_json::Value = serde_json::from_str(&place.done("config keys --json")).unwrap();
    for section in sections.as_array().unwrap() {
        assert!(text.contains(&format!("[{}] ", section["section"].as_str().unwrap())));
        for key in section["keys"].as_array().unwrap() {
            let start = format!("\n  {} ", key["key"].as_str().unwrap());
            assert!(text.contains(&start), "{key}");
        }
    }
}

#[test]
fn a_run_trains_is_refused_twice_and_scores_the_same_again() {
    let place = Place::new();
    place.done("data sbm cluster --out c.parquet --train 6 --val 2 --test 2");
    let small = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=2 --set train.batch=2";
    let line = place.done(&format!("train --data c.parquet --out run --json {small}"));
    let result: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&result["epochs"], &result["stop"]), (&Value::from(2), &Value::from("epochs")));
    for name in ["config.toml", "model.safetensors", "best.safetensors", "metrics.jsonl"] {
        assert!(place.path("run").join(name).exists(), "{name}");
    }
    let info: Value = serde_json::from_str(&place.done("data info c.parquet --json")).unwrap();
    let line = place.done("eval run --data c.parquet --split test --json");
    let scores: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(scores["paper"], result["last"]["test"]["paper"]);
    assert_eq!(scores["exact"], result["last"]["test"]["exact"]);
    assert_eq!((&scores["metric"], &scores["nodes"]), (&Value::from("accuracy"), &info["splits"]["test"]["nodes"]));
    let complaint = place.refused("train --data c.parquet --out run");
    assert_names(&complaint, &["run", "--resume"]);
    // A finished run has nothing left to do and prints the same result again.
    let again: Value = serde_json::from_str(&place.done("train --out run --resume --json")).unwrap();
    assert_eq!(again["weights_sha256"], result["weights_sha256"]);
    place.write(
        "other.jsonl",
        "{\"num_nodes\": 2, \"node_feat\": [[1], [2]], \"edge_index\": [[0, 1], [1, 0]], \"y\": [0.5]}\n",
    );
    let complaint = place.refused("eval run --data other.jsonl");
    assert_names(&complaint, &["other.jsonl", "graph 0", "\"y\"", "1", "2 nodes"]);
    assert_names(&place.refused("eval nothing"), &["nothing"]);
    // A name that is close to another gets a suggestion.
    assert_names(&place.refused("train --preset zink"), &["`zink`", "`zinc`", "zinc", "pattern", "cluster"]);
    let complaint = place.refused("train --preset social-network");
    assert_names(&complaint, &["`social-network`", "zinc", "pattern", "cluster"]);
    assert!(!complaint.contains("`zinc`"), "{complaint}");
    let shown = place.done("config show --preset pattern-full-none-ln --set optimizer.lr=1e-3");
    place.write("mine.toml", &shown);
    place.done("config check mine.toml");
    let complaint = place.refused("config check mine.toml --set model.heads=3");
    assert_names(&complaint, &["`model.heads`", "3", "80"]);
}

#[test]
fn zinc_that_has_been_fetched_needs_no_name() {
    let place = Place::new();
    let train = |more: &str| {
        let line =
            format!("train --preset zinc --device cpu --out run --set train.epochs=1 --set model.layers=1{more}");
        let gt = Command::new(env!("CARGO_BIN_EXE_gt"))
            .args(line.split_whitespace())
            .current_dir(place.path(""))
            .env("GT_CACHE", place.path("cache"))
            .output()
            .unwrap();
        (gt.status.code(), [gt.stdout, gt.stderr].map(|text| String::from_utf8(text).unwrap()).concat())
    };
    let (code, complaint) = train("");
    assert_eq!(code, Some(2));
    assert_names(&complaint, &["--data"]);
    let molecule = |y: f32| {
        format!(
            "{{\"num_nodes\": 3, \"node_feat\": [[0], [5], [0]], \"edge_index\": [[0, 1, 1, 2], [1, 0, 2, 1]], \"edge_attr\": [[1], [1], [2], [2]], \"y\": [{y}]}}\n"
        )
    };
    place.write("mine.jsonl", &(0..30).map(|i| molecule(i as f32 * 0.1)).collect::<String>());
    std::fs::create_dir(place.path("cache")).unwrap();
    place.done("data convert mine.jsonl cache/zinc12k.parquet");
    let (code, told) = train("");
    assert_eq!(code, Some(0), "{told}");
    assert_names(&told, &["epoch 1", "val", "exact"]);
    assert!(std::fs::read_to_string(place.path("run/config.toml")).unwrap().contains("cache/zinc12k.parquet"));
    // A preset of another set has no default file.
    assert_names(&place.refused("train --preset pattern"), &["--data"]);
}

/// Twelve rings with chords, every edge in both directions. Nodes have two kinds, and the class of
/// an edge is whether its ends have the same kind.
fn rings(targets: bool) -> String {
    let mut lines = String::new();
    for ring in 0..12 {
        let n = 12 + ring % 5;
        let kinds: Vec<usize> = (0..n).map(|v| (v * v + ring) % 3 % 2).collect();
        let edges = (0..n).flat_map(|v| [(v, (v + 1) % n), (v, (v + 3) % n)]).flat_map(|(a, b)| [(a, b), (b, a)]);
        let (src, dst): (Vec<usize>, Vec<usize>) = edges.unzip();
        let features: Vec<[usize; 1]> = kinds.iter().map(|kind| [*kind]).collect();
        let mut record = serde_json::json!({"num_nodes": n, "node_feat": features, "edge_index": [src, dst]});
        if targets {
            let same = src.iter().zip(&dst).map(|(a, b)| usize::from(kinds[*a] == kinds[*b]));
            record["y"] = same.collect::<Vec<_>>().into();
        }
        lines += &format!("{record}\n");
    }
    lines
}

#[test]
fn edges_are_classified_by_what_the_file_says_of_them() {
    let place = Place::new();
    place.write("rings.jsonl", &rings(true));
    let small = "--set model.layers=1 --set model.width=16 --set model.heads=2 --set train.epochs=40 --set train.batch=2 --set optimizer.lr=1e-2";
    let line = place.done(&format!("train --data rings.jsonl --out run --json {small}"));
    let result: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(result["metric"], "accuracy");
    assert!(result["last"]["test"]["exact"].as_f64().unwrap() > 95.0, "{result}");
    let scores: Value = serde_json::from_str(&place.done("eval run --json")).unwrap();
    assert_eq!(scores["exact"], result["last"]["test"]["exact"]);
    // One graph with an existing split of its edges.
    place.write("one.jsonl", rings(true).lines().next().unwrap());
    place.done("data split one.jsonl --level edge --out one.parquet");
    place.done(&format!("train --data one.parquet --out one --json {small}"));
    assert!(place.done("eval one").contains("accuracy"));
}

#[test]
fn links_are_predicted_without_targets_and_scored_the_same_again() {
    let place = Place::new();
    place.write("rings.jsonl", &rings(false));
    let small = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=3 --set train.batch=4";
    assert_names(
        &place.refused("train --data rings.jsonl --out other"),
        &["rings.jsonl", "targets", "`y`", "data.task"],
    );
    place.write("loops.jsonl", "{\"num_nodes\": 3, \"edge_index\": [[0, 1, 2], [0, 1, 2]]}\n");
    let complaint = place.refused("train --data loops.jsonl --set data.task=links --out other");
    assert_names(&complaint, &["loops.jsonl"]);
    let output = place.gt(&format!("train --data rings.jsonl --set data.task=links --out run --json {small}"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_names(&said, &["undirected"]);
    assert!(!said.contains("targets"), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["metric"], "roc_auc");
    for part in ["val", "test"] {
        let scores: Value = serde_json::from_str(&place.done(&format!("eval run --split {part} --json"))).unwrap();
        assert_eq!(scores["exact"], result["last"][part]["exact"]);
        assert_eq!(scores["paper"], result["last"][part]["paper"]);
        assert!(scores["average_precision"].as_f64().is_some() && scores["hits@10"].as_f64().is_some(), "{scores}");
    }
    let model = std::fs::read(place.path("run/model.safetensors")).unwrap();
    assert!(String::from_utf8_lossy(&model[..2000]).contains(r#"\"task\":\"links\""#));
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    let [_, val, test] = ["train", "val", "test"].map(|part| {
        let row = report.split(&format!("<th scope=\"row\">{part}</th>")).last().unwrap();
        row.split("<td>").skip(2).take(2).map(|cell| cell.split('<').next().unwrap().to_owned()).collect::<Vec<_>>()
    });
    // Held-out links are compared with an equal number of pairs without an edge.
    assert_names(&said, &[&val[0], &test[0]]);
    assert!(val[0] == val[1] && test[0] == test[1], "{val:?} {test:?}");
    assert!(report.contains("undirected") && report.contains("<th scope=\"row\">link</th>"));
    // The same data with targets, which are not used. The program prints a note.
    place.write("labelled.jsonl", &rings(true));
    let output = place.gt(&format!("train --data labelled.jsonl --set data.task=links --out again --json {small}"));
    assert_names(&String::from_utf8_lossy(&output.stderr), &["undirected", "targets"]);
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(again["last"], result["last"]);
    let complaint = place.refused("config check --set data.task=link");
    assert_names(&complaint, &["`data.task`", "`link`", "`targets`", "`links`"]);
    assert!(place.done("config show --set data.task=links").contains("task = \"links\""));
}

#[test]
fn several_seeds_give_what_each_gives_alone_side_by_side_or_not() {
    let place = Place::new();
    place.write("mine.jsonl", &rings_with_sizes());
    let short = "train --data mine.jsonl --device cpu --set train.epochs=2 --set train.batch=8 --set model.layers=1 --set model.width=8 --set model.heads=2";
    place.done(&format!("{short} --seed 7 --out alone"));
    place.done(&format!("{short} --seeds 7,8 --out after"));
    let lines = place.done(&format!("{short} --seeds 7,8 --parallel --out beside --json"));
    let model = |run: &str| std::fs::read(place.path(run).join("model.safetensors")).unwrap();
    assert_eq!(model("alone"), model("after/7"));
    assert_eq!(model("alone"), model("beside/7"));
    assert_eq!(model("after/8"), model("beside/8"));
    assert_ne!(model("after/7"), model("after/8"));
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [first, second, together] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(together["seeds"], serde_json::json!([7, 8]));
    let of = |line: &serde_json::Value| line["last"]["val"]["exact"].as_f64().unwrap();
    let mean = together["last"]["val"]["exact"]["mean"].as_f64().unwrap();
    assert!((mean - (of(first) + of(second)) / 2.0).abs() < 1e-9, "{lines:?}");
    assert_names(&place.refused(&format!("{short} --seeds 7,7 --out twice")), &["--seeds"]);
    assert_names(&place.refused("embed after --data mine.jsonl --out e.csv"), &["after", "after/7"]);
}

/// Rings of three to twelve nodes. The target is the number of nodes.
fn rings_with_sizes() -> String {
    let ring = |i: usize| {
        let n = 3 + i % 10;
        let (from, to): (Vec<usize>, Vec<usize>) = (0..n).flat_map(|v| [(v, (v + 1) % n), ((v + 1) % n, v)]).unzip();
        let types = vec![[0]; n];
        format!(
            "{{\"num_nodes\": {n}, \"node_feat\": {types:?}, \"edge_index\": [{from:?}, {to:?}], \"y\": [{n}.0]}}\n"
        )
    };
    (0..40).map(ring).collect()
}

/// Twenty paths of three nodes whose kinds and labels are some function of their number.
fn paths(kind: impl Fn(usize) -> u64, label: impl Fn(usize) -> u64) -> String {
    let line = |i: usize| {
        let (kind, label) = (kind(i), label(i));
        format!(
            "{{\"node_feat\": [[{kind}], [1], [2]], \"edge_index\": [[0, 1, 1, 2], [1, 0, 2, 1]], \"y\": [{label}]}}\n"
        )
    };
    (0..20).map(line).collect()
}

#[test]
fn numbers_that_look_like_classes_are_trained_on_with_a_warning() {
    let place = Place::new();
    // Counts of up to 60,000: a matrix of all pairs of these classes would take 29 GB.
    place.write("counts.jsonl", &paths(|i| i as u64 % 3, |i| 3_157 * i as u64));
    let output = place.gt("train --data counts.jsonl --out run --set model.layers=1 --set train.epochs=1");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_names(&said, &["warning", "59984", "16"]);
    assert!(place.path("run/report.html").exists());
    let told = place.done("data info counts.jsonl");
    let counts = "0: 1, 3157: 1, 6314: 1, 9471: 1, 12628: 1, 15785: 1, 18942: 1, 22099: 1";
    assert_names(&told, &["`y`", "59984", counts, "12", "59964"]);
}

#[test]
fn too_few_graphs_for_a_split_are_told_with_what_helps() {
    let place = Place::new();
    let few: String = paths(|i| i as u64, |i| i as u64 % 2).lines().take(4).map(|line| format!("{line}\n")).collect();
    place.write("few.jsonl", &few);
    let said = place.refused("train --data few.jsonl --out run");
    assert_names(&said, &["few.jsonl", "\"val\"", "4", "0.1", "data.split"]);
    let small = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1";
    place.done(&format!("train --data few.jsonl --out run {small} --set data.split=[0.5,0.25,0.25]"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_model_that_does_not_fit_into_memory_is_refused_before_its_run_begins() {
    let place = Place::new();
    place.write("ids.jsonl", &paths(|i| 4_000_000_000 + i as u64, |i| i as u64 % 2));
    let said = place.refused("train --data ids.jsonl --out run");
    assert_names(&said, &["GB", "4000000020", "categories"]);
    place.write("fine.jsonl", &paths(|i| i as u64 % 3, |i| i as u64 % 2));
    let said = place.refused("train --data fine.jsonl --out run --set model.width=65536 --set model.layers=1000");
    assert_names(&said, &["GB"]);
    assert!(!said.contains("categories"), "{said}");
    // Data that cannot be used for training can still be described.
    assert_names(&place.done("data info ids.jsonl"), &["`node_feat`", "ids?"]);
    place.write("big.jsonl", &paths(|i| i as u64 % 3, |i| 4_000_000_000 + i as u64));
    assert_names(&place.done("data info big.jsonl"), &["`y`", "4000000009.5000"]);
    assert_names(&place.refused("bench --set large --nodes 2000000000 --edges 4000000000"), &["GB"]);
}

#[test]
fn benchmarks_refuse_data_of_another_shape_and_sizes_that_are_none() {
    let place = Place::new();
    place.write("mine.jsonl", &paths(|i| i as u64 % 3, |i| i as u64 % 2));
    let said = place.refused("bench --set zinc --steps 1 --data mine.jsonl");
    assert_names(&said, &["mine.jsonl", "graph 0", "\"edge_attr\""]);
    for (line, named) in [
        ("bench --layers 0", ["--layers", "'0'"]),
        ("bench --set large --nodes 0", ["--nodes", "'0'"]),
        ("bench --set large --nodes 5000000000", ["--nodes", "'5000000000'"]),
        ("bench --nodes 10", ["--nodes", "--set large"]),
        ("bench --set zinc --edge-features", ["--edge-features", "--set large"]),
    ] {
        assert_names(&place.refused(line), &named);
    }
}

#[test]
fn a_part_by_another_name_is_told_with_the_names_that_there_are() {
    let place = Place::new();
    let names = ["train", "valid", "test"];
    let graphs = paths(|i| i as u64 % 3, |i| i as u64 % 2);
    let split = |(i, line): (usize, &str)| line.replace('}', &format!(", \"split\": \"{}\"}}\n", names[i % 3]));
    place.write("mine.jsonl", &graphs.lines().enumerate().map(split).collect::<String>());
    let splits = ["mine.jsonl", "`val`", "`train`", "`valid`", "`test`"];
    assert_names(&place.refused("train --data mine.jsonl --out run"), &splits);
    place.write("plain.jsonl", &graphs);
    place.done("train --data plain.jsonl --out run --set model.layers=1 --set train.epochs=1");
    assert_names(&place.refused("eval run --data mine.jsonl --split val"), &splits);
    // If all three parts exist, an additional part leads to a warning only.
    let names = ["train", "val", "test", "Train", "other"];
    let split = |(i, line): (usize, &str)| line.replace('}', &format!(", \"split\": \"{}\"}}\n", names[i % 5]));
    place.write("five.jsonl", &graphs.lines().enumerate().map(split).collect::<String>());
    let output = place.gt("train --data five.jsonl --out five --set model.layers=1 --set train.epochs=1");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_names(&said, &["warning", "4", "`Train`"]);
    assert!(output.status.success() && !said.contains("`other`"), "{said}");
}
