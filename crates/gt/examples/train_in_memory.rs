//! Trains on graphs that are built in memory, and prints the scores.
//!
//! `cargo run --release --example train_in_memory`

use std::error::Error;
use std::sync::atomic::AtomicBool;

use graph_transformer::data::Dataset;
use graph_transformer::graph::{
    FeatureRows, GraphParts, GraphStore, Level, Schema, TargetKind, TargetRows, TargetSchema,
};
use graph_transformer::models::Config;
use graph_transformer::nn::backend::Device;
use graph_transformer::train::{Prepared, Purpose, RunDirectory, Trainer};

/// Rings of 3 to 10 nodes, of which the first is marked. The target is the size of the ring.
fn rings() -> Result<Dataset, Box<dyn Error>> {
    let schema = Schema::categorical(&[2], &[], TargetSchema::new(Level::Graph, TargetKind::Float, &[0]));
    let mut graphs = GraphStore::new(schema.layout());
    for number in 0..200 {
        let size = 3 + number % 8;
        let src: Vec<u32> = (0..size).collect();
        let dst: Vec<u32> = (0..size).map(|node| (node + 1) % size).collect();
        let marks: Vec<u32> = (0..size).map(|node| u32::from(node == 0)).collect();
        graphs.push(GraphParts {
            num_nodes: size as usize,
            src: &src,
            dst: &dst,
            node: FeatureRows { categorical: &marks, ..Default::default() },
            target: Some(TargetRows::Float(&[size as f32])),
            ..Default::default()
        })?;
    }
    Ok(Dataset::new(schema, graphs)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::from_toml(
        "[model]\nlayers = 2\nwidth = 32\nheads = 4\n[optimizer]\nlr = 5e-3\n[train]\nbatch = 16\nepochs = 30",
    )?;
    let data = Prepared::for_training(rings()?, &config, None)?;
    let backend = data.place(&Device::Cpu)?.backend(&data, &config, Purpose::Training)?;

    let folder = tempfile::tempdir()?;
    let run = RunDirectory::open(folder.path())?;
    let outcome = Trainer::new(&data, &config, &run, backend, &mut ())?.run(&AtomicBool::new(false), &mut ())?;
    for (split, scores) in &outcome.last {
        println!("{:5} mean absolute error {:.3}", split.name(), scores.metric.exact);
    }
    Ok(())
}
