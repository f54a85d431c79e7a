//! Writes the embedding of every graph of a file to Parquet, chunk by chunk.
//!
//! ```sh
//! cargo run --release --example embeddings -- \
//!     runs/mine/model.safetensors graphs.parquet embeddings.parquet
//! ```

use std::error::Error;
use std::path::PathBuf;

use graph_transformer::Model;
use graph_transformer::graph::Level;
use graph_transformer::train::{Query, QueryOptions, query};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, file, out] = &paths[..] else { return Err("usage: embeddings MODEL FILE OUT".into()) };

    let model = Model::open(model)?;
    let embeddings = Query::Embeddings(Level::Graph);
    let report = query(&model.into(), file, out, &embeddings, &QueryOptions::default())?;
    println!("{} rows, {} graphs without an embedding", report.rows, report.unusable);
    Ok(())
}
