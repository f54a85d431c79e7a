//! Predictions of a trained model, as columns that line up with the graphs, nodes or edges that it was asked about.

use std::path::Path;

use gt_data::Records;
use gt_graph::{GraphBatch, Level};
use gt_models::ModelHeader;
use gt_models::config::TaskName;
use gt_nn::Loss;
use gt_nn::cpu::Engine;
use gt_nn::cuda::{CudaDevice, Precision};

use crate::card;
use crate::error::{Result, TrainError};
use crate::inputs::{Inputs, schema_of};
use crate::links::{ends, score_pairs};
use crate::metrics::largest;
use crate::task::unscale;

/// Predictions for graphs, their nodes or their edges (in the order of the data's edge list), a row each:
///
/// | targets | columns |
/// |---|---|
/// | real numbers | one per target, with its name |
/// | one class | the most likely class under the target's name, and `NAME_p0`, `NAME_p1`, … for the classes' probabilities |
/// | several yes/no labels | `NAME_p1`, the probability, for each |
/// | links | `link_p1`, the probability that the ends of each edge are joined; all edges carry messages, the one in question too |
///
/// Before them stand `graph` and, for nodes, `node` or, for edges, `source` and `target`; after them `reason`. A target that bears one of these names is called
/// `predicted_NAME`. Graphs that turn out to be unusable are noted in `inputs`.
///
/// # Errors
/// If a batch cannot be assembled.
pub fn predict(engine: &mut Engine<f32>, header: &ModelHeader, inputs: &mut Inputs) -> Result<Records> {
    let width = engine.network().outputs();
    let outputs = match is_about_links(header) {
        true => link_outputs(engine, header, inputs)?,
        false => {
            let level = header.data.target.level;
            target_outputs(level, width, inputs, |batch| engine.predict(batch, inputs.edges()))?
        }
    };
    records(header, inputs, outputs, width)
}

/// The same on a card, row by row. `cache` is a folder for compiled kernels.
///
/// # Errors
/// If the model is one that only the processor can run, links among them, or the card fails ([`TrainError::Device`]); or as on the processor.
pub fn predict_on(
    device: &CudaDevice,
    precision: Precision,
    cache: Option<&Path>,
    engine: &Engine<f32>,
    header: &ModelHeader,
    inputs: &mut Inputs,
) -> Result<Records> {
    if is_about_links(header) {
        return Err(TrainError::links_on_card());
    }
    let (level, width) = (header.data.target.level, engine.network().outputs());
    let computed = card::outputs(device, precision, cache, engine, header, inputs)?;
    let mut left = &computed[..];
    let outputs = target_outputs(level, width, inputs, |batch| {
        let rows = match level {
            Level::Graph => batch.num_graphs(),
            Level::Node => batch.num_nodes(),
            Level::Edge => batch.num_edges(),
        };
        let (own, others) = left.split_at(rows * width);
        left = others;
        own.to_vec()
    })?;
    records(header, inputs, outputs, width)
}

fn is_about_links(header: &ModelHeader) -> bool {
    header.config.data.task == TaskName::Links
}

/// The table of outputs for all rows, `[rows, width]`.
fn records(header: &ModelHeader, inputs: &mut Inputs, mut outputs: Vec<f32>, width: usize) -> Result<Records> {
    let level = header.data.target.level;
    unscale(&header.scaling, &mut outputs);
    inputs.check_results(level, &outputs, width);
    let rows = inputs.rows(level);
    let mut records = inputs.index(level, &rows);
    let places = inputs.places(&rows);
    let numbers = |of: &dyn Fn(&[f32]) -> f32| -> Vec<f32> {
        let row = |place: &Option<usize>| place.map_or(f32::NAN, |row| of(&outputs[row * width..(row + 1) * width]));
        places.iter().map(row).collect()
    };
    let schema = schema_of(header);
    let names: Vec<String> = match is_about_links(header) {
        true => vec!["link".into()],
        false => schema.target.iter().flat_map(|t| &t.columns).map(|t| free_name(&t.name)).collect(),
    };
    match header.config.loss(&header.data)? {
        Loss::CrossEntropy { .. } => {
            let class = |row: usize| largest(&outputs[row * width..(row + 1) * width]);
            records.integers(&names[0], places.iter().map(|place| place.map(class)));
            for class in 0..width {
                records.reals(&format!("{}_p{class}", names[0]), numbers(&|logits| probability(logits, class)));
            }
        }
        Loss::Bce => {
            for (at, name) in names.iter().enumerate() {
                records.reals(&format!("{name}_p1"), numbers(&|outputs| sigmoid(outputs[at])));
            }
        }
        Loss::L1 | Loss::Mse => {
            names.iter().enumerate().for_each(|(at, name)| records.reals(name, numbers(&|outputs| outputs[at])));
        }
    }
    records.texts("reason", inputs.reasons(&rows));
    Ok(records)
}

/// Outputs for all rows of a level, `[rows, width]`, from those of each batch; NaN for unusable graphs.
fn target_outputs(
    level: Level,
    width: usize,
    inputs: &Inputs,
    mut outputs_of: impl FnMut(&GraphBatch) -> Vec<f32>,
) -> Result<Vec<f32>> {
    let graphs = inputs.graphs();
    let mut all = vec![f32::NAN; graphs.rows(level) * width];
    inputs.for_each(|batch| {
        let outputs = outputs_of(batch);
        let mut rows = outputs.chunks_exact(width);
        for (position, &graph) in batch.graph_ids().iter().enumerate() {
            let first = graphs.row_range(level, graph).start;
            let count = graphs.row_range(level, graph).len();
            let edges = batch.edges_of(position);
            for at in 0..count {
                // Edges of a batch lie in in-order.
                let place = match level {
                    Level::Edge => batch.in_to_list()[edges.start + at] as usize - edges.start,
                    _ => at,
                };
                let row = rows.next().expect("an output for every row");
                all[(first + place) * width..(first + place + 1) * width].copy_from_slice(row);
            }
        }
    })?;
    Ok(all)
}

/// Logits of a link model for all edges, in the order of their lists; NaN for unusable graphs.
fn link_outputs(engine: &mut Engine<f32>, header: &ModelHeader, inputs: &Inputs) -> Result<Vec<f32>> {
    let graphs = inputs.graphs();
    let mut all = vec![f32::NAN; graphs.rows(Level::Edge)];
    for graph in inputs.usable() {
        let pairs: Vec<(u32, u32)> = ends(graphs.graph(graph)).collect();
        let logits = score_pairs(engine, &header.config, graphs, graph, &pairs)?;
        all[graphs.edge_range(graph)].copy_from_slice(&logits);
    }
    Ok(all)
}

/// A target's name, unless a column of the index has it.
fn free_name(name: &str) -> String {
    match name {
        "graph" | "node" | "source" | "target" | "reason" => format!("predicted_{name}"),
        _ => name.to_owned(),
    }
}

/// The probability of yes.
pub(crate) fn sigmoid(logit: f32) -> f32 {
    (1.0 / (1.0 + f64::from(-logit).exp())) as f32
}

/// Softmax.
fn probability(logits: &[f32], class: usize) -> f32 {
    let most = f64::from(logits[largest(logits)]);
    let share = |logit: f32| (f64::from(logit) - most).exp();
    (share(logits[class]) / logits.iter().map(|&logit| share(logit)).sum::<f64>()) as f32
}
