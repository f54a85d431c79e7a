//! What a trained model makes of nodes and graphs before its head.

use gt_data::Records;
use gt_graph::Level;
use gt_models::ModelHeader;
use gt_nn::Readout;
use gt_nn::cpu::Engine;

use crate::error::Result;
use crate::inputs::Inputs;

/// Embeddings of nodes (the last layer's normalised stream, in the published order of channels) or of graphs (the configured readout of their nodes), a row each:
/// `graph`, for nodes `node`, then `e0`, `e1`, …, and `reason`. Edges have the embeddings of their nodes.
///
/// # Errors
/// If a batch cannot be assembled.
///
/// # Panics
/// If `level` is that of edges.
pub fn embed(engine: &mut Engine<f32>, header: &ModelHeader, inputs: &mut Inputs, level: Level) -> Result<Records> {
    assert_ne!(level, Level::Edge, "edges have no embeddings of their own");
    let width = engine.network().channels.width();
    let mut all = vec![f32::NAN; inputs.graphs().rows(level) * width];
    inputs.for_each(|batch| {
        let nodes = engine.embed(batch, inputs.edges());
        for (position, &graph) in batch.graph_ids().iter().enumerate() {
            let own = batch.nodes_of(position);
            let own = &nodes[own.start * width..own.end * width];
            let rows = inputs.graphs().row_range(level, graph);
            let to = &mut all[rows.start * width..rows.end * width];
            match level {
                Level::Node => to.copy_from_slice(own),
                _ => read_out(header.config.model.readout, own, to),
            }
        }
    })?;
    inputs.check_results(level, &all, width);
    let rows = inputs.rows(level);
    let mut records = inputs.index(level, &rows);
    let places = inputs.places(&rows);
    for channel in 0..width {
        let value = |place: &Option<usize>| place.map_or(f32::NAN, |row| all[row * width + channel]);
        records.reals(&format!("e{channel}"), places.iter().map(value));
    }
    records.texts("reason", inputs.reasons(&rows));
    Ok(records)
}

/// One row out of a graph's nodes; 0 without any.
fn read_out(readout: Readout, nodes: &[f32], out: &mut [f32]) {
    let width = out.len();
    let count = (nodes.len() / width) as f32;
    for (channel, out) in out.iter_mut().enumerate() {
        let values = nodes.iter().skip(channel).step_by(width).copied();
        *out = match readout {
            Readout::Max => values.reduce(f32::max).unwrap_or(0.0),
            Readout::Sum => values.sum(),
            Readout::Mean => values.sum::<f32>() / count.max(1.0),
        };
    }
}
