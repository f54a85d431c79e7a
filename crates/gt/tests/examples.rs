//! The examples run, and print what they promise.

use std::path::PathBuf;
use std::process::Command;

/// Runs an example, which `cargo test` has built; returns what it prints.
fn run(example: &str, arguments: &[&str]) -> String {
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test.ancestors().nth(2).unwrap().join("examples");
    let done = Command::new(folder.join(example)).args(arguments).output().unwrap();
    assert!(done.status.success(), "{example}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_model_learns_from_graphs_in_memory() {
    let text = run("train_in_memory", &[]);
    let test = text.lines().find(|line| line.starts_with("test ")).unwrap();
    let error: f64 = test.rsplit(' ').next().unwrap().parse().unwrap();
    // Sizes range from 3 to 10; their mean would be off by 2.
    assert!(error < 1.5, "{text}");
}

#[test]
fn an_observer_ends_a_training() {
    let text = run("custom_loop", &[]);
    assert!(text.contains("epoch  1: validation loss") && text.contains(" epochs"), "{text}");
}

#[test]
fn a_model_file_predicts_and_embeds() {
    let folder = tempfile::tempdir().unwrap();
    let [model, data, out] =
        ["model.safetensors", "graphs.jsonl", "embeddings.parquet"].map(|name| folder.path().join(name));
    let schema = gt_models::PublishedSet::Cluster.schema();
    let config = gt_models::Config::from_toml("[model]\nlayers = 1\nwidth = 8\nheads = 2").unwrap();
    gt_models::Model::new(config, schema).unwrap().save(&model).unwrap();
    std::fs::write(&data, "{\"node_feat\": [[1], [0], [6]], \"edge_index\": [[0, 1], [1, 2]]}\n").unwrap();
    let [model, data, out] = [&model, &data, &out].map(|path| path.to_str().unwrap());
    // A row for every node.
    assert_eq!(run("predict", &[model, data]).lines().count(), 3);
    assert_eq!(run("embeddings", &[model, data, out]), "1 rows, 0 graphs without an embedding\n");
    assert!(std::fs::metadata(out).unwrap().len() > 0);
}
