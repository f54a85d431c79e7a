//! What a checkpoint of the published code tells about the data that it was trained on.

use gt_graph::{Level, TargetKind};

use crate::config::{Columns, DataShape, TargetShape};
use crate::torch::StateDict;

/// A tensor that every published Graph Transformer has is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tensor `{0}` is missing or has no two dimensions, so this is no checkpoint of a Graph Transformer")]
pub struct NotATransformer(String);

/// The shape of the data, from the sizes of a checkpoint's input and output layers. What its targets belong to and whether they are classes,
/// it does not tell.
///
/// # Errors
/// If the node embedding or the head is not there.
pub fn shape_of_checkpoint(state: &StateDict, level: Level, kind: TargetKind) -> Result<DataShape, NotATransformer> {
    let matrix = |name: &str| match state.get(name)?.shape() {
        &[rows, columns] => Some((rows, columns)),
        _ => None,
    };
    // An embedding is [types, width]; a linear layer is [width, columns] and has a bias.
    let columns = |stream: &str| {
        let (rows, width) = matrix(&format!("embedding_{stream}.weight"))?;
        let linear = state.get(&format!("embedding_{stream}.bias")).is_some();
        Some(match linear {
            false => Columns { categorical: vec![rows], ..Default::default() },
            // The published code feeds edges without features the constant 1.
            true if stream == "e" && width == 1 => Columns::default(),
            true => Columns { continuous: width, ..Default::default() },
        })
    };
    let missing = |name: &str| NotATransformer(name.to_owned());
    let node = columns("h").ok_or_else(|| missing("embedding_h.weight"))?;
    let last = (0..).map_while(|layer| matrix(&format!("MLP_layer.FC_layers.{layer}.weight"))).last();
    let (outputs, _) = last.ok_or_else(|| missing("MLP_layer.FC_layers.0.weight"))?;
    let columns_of = match kind {
        TargetKind::Float => vec![0; outputs],
        TargetKind::Class => vec![outputs],
    };
    let target = TargetShape { level, kind, columns: columns_of };
    Ok(DataShape { node, edge: columns("e").unwrap_or_default(), target })
}
