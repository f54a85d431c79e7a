//! PyTorch checkpoints, as zip archives and as streams of pickles.

use std::path::Path;

use gt_graph::{Level, TargetKind};
use gt_models::schema_of_checkpoint;
use gt_models::torch::read_state_dict;

use super::accepted;

/// Reads a checkpoint and the schema that it implies.
pub fn run(bytes: &[u8], _: &Path) -> bool {
    let state = read_state_dict(bytes);
    if let Ok(state) = &state {
        accepted(schema_of_checkpoint(state, Level::Graph, TargetKind::Float));
    }
    accepted(state)
}
