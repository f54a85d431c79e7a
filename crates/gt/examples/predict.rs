//! Predicts with a model file for graphs in memory.
//!
//! `cargo run --release --example predict -- runs/mine/model.safetensors new.jsonl`

use std::error::Error;
use std::path::PathBuf;

use graph_transformer::Model;
use graph_transformer::data::{Labels, read_expecting};
use graph_transformer::train::expected;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, file] = &paths[..] else { return Err("usage: predict MODEL FILE".into()) };

    let model = Model::open(model)?;
    let graphs = read_expecting(file, &expected(&model, Labels::Ignore))?.into_graphs();
    let predictions = model.predict(&graphs)?;
    for row in 0..predictions.len() {
        println!("{row}: {:?}", predictions.row(row));
    }
    Ok(())
}
