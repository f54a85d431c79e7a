//! The schema of the training data, as far as a checkpoint of the published code determines it.

use gt_graph::{FeatureLayout, Layout, Level, Schema, TargetKind, TargetSchema};

use crate::torch::StateDict;

/// Why the tensors of a checkpoint are not those of a published Graph Transformer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATransformer {
    /// A tensor of every published Graph Transformer is missing, or is no matrix.
    #[error("tensor `{0}` is missing or has no two dimensions, so this is no checkpoint of a Graph Transformer")]
    NoMatrix(String),
    /// A tensor stands for more columns or outputs than a model can have.
    #[error("tensor `{name}` has shape {shape:?}; a model has at most {MOST} columns or outputs")]
    TooWide {
        /// Name of the tensor.
        name: String,
        /// Its shape.
        shape: [usize; 2],
    },
}

/// Most columns of the data, and most outputs.
const MOST: usize = 65_536;

/// The columns of the data, from the sizes of a checkpoint's input and output layers. A checkpoint
/// does not store the level of its targets, nor whether they are classes. Edge features are ignored
/// if the checkpoint was trained without them (`edge_feat: false`).
///
/// # Errors
/// If the node embedding or the head is not there, or stands for more columns than a model has.
pub fn schema_of_checkpoint(state: &StateDict, level: Level, kind: TargetKind) -> Result<Schema, NotATransformer> {
    let matrix = |name: &str| match state.get(name)?.shape() {
        &[rows, columns] if rows > 0 && columns > 0 => Some((rows, columns)),
        _ => None,
    };
    // An embedding is [types, width]; a linear layer is [width, columns] and has a bias.
    let columns = |stream: &str| {
        let (rows, width) = matrix(&format!("embedding_{stream}.weight"))?;
        let linear = state.get(&format!("embedding_{stream}.bias")).is_some();
        Some(match linear {
            false => (vec![rows], 0),
            // The published code feeds edges without features the constant 1.
            true if stream == "e" && width == 1 => (vec![], 0),
            true => (vec![], width),
        })
    };
    let missing = |name: &str| NotATransformer::NoMatrix(name.to_owned());
    let (node, node_continuous) = columns("h").ok_or_else(|| missing("embedding_h.weight"))?;
    let (edge, edge_continuous) = columns("e").unwrap_or_default();
    let head = |layer: usize| {
        let name = format!("MLP_layer.FC_layers.{layer}.weight");
        matrix(&name).map(|shape| (name, shape))
    };
    let last = (0..).map_while(head).last();
    let (name, (outputs, hidden)) = last.ok_or_else(|| missing("MLP_layer.FC_layers.0.weight"))?;
    for (name, count, shape) in [
        ("embedding_h.weight", node_continuous, matrix("embedding_h.weight").unwrap_or_default()),
        ("embedding_e.weight", edge_continuous, matrix("embedding_e.weight").unwrap_or_default()),
        (&name, outputs, (outputs, hidden)),
    ] {
        if count > MOST {
            return Err(NotATransformer::TooWide { name: name.into(), shape: shape.into() });
        }
    }
    let classes = match kind {
        TargetKind::Float => vec![0; outputs],
        TargetKind::Class => vec![outputs],
    };
    let layout = |categorical: &[usize], continuous| FeatureLayout {
        categorical: categorical.len(),
        continuous,
        multi_hot: false,
    };
    let mut schema = Schema::unnamed(&Layout {
        node: layout(&node, node_continuous),
        edge: layout(&edge, edge_continuous),
        target: None,
    });
    for (columns, sizes) in [(&mut schema.node, node), (&mut schema.edge, edge)] {
        columns.categorical.iter_mut().zip(sizes).for_each(|(column, size)| column.size = size);
    }
    if schema.edge.names().next().is_none() {
        // A network without edge features takes data with bonds, and does not read them.
        schema.edge.ignored = ["edge_attr", "edge_attr_multi_hot"].map(str::to_owned).to_vec();
    }
    schema.target = Some(TargetSchema::new(level, kind, &classes));
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use gt_graph::{FeatureRows, GraphParts, GraphStore};

    use super::*;
    use crate::{Config, Model, torch};

    #[test]
    fn a_checkpoint_without_edge_features_ignores_those_of_the_data() {
        let bytes = std::fs::read("tests/checkpoints/transformer.pt").unwrap();
        let with_edges = torch::read_state_dict(&bytes).unwrap();
        let schema = schema_of_checkpoint(&with_edges, Level::Graph, TargetKind::Float).unwrap();
        assert!(schema.edge.ignored.is_empty() && schema.edge.vocabulary_sizes() == [4]);
        // `edge_feat: false` feeds the constant 1 through a linear layer.
        let width = with_edges.get("embedding_e.weight").unwrap().shape()[1];
        let state = with_edges
            .replace("embedding_e.weight", &[("embedding_e.weight", &[width, 1]), ("embedding_e.bias", &[width])]);
        let schema = schema_of_checkpoint(&state, Level::Graph, TargetKind::Float).unwrap();
        assert_eq!(schema.edge.ignored, ["edge_attr", "edge_attr_multi_hot"]);
        assert_eq!(schema.layout().edge, FeatureLayout::default());

        let text =
            "[model]\nlayers = 2\nwidth = 16\nheads = 4\nencoding = \"laplacian\"\nencoding_size = 4\nedges = true";
        let model = Model::import(Config::from_toml(text).unwrap(), schema, &state).unwrap();
        let mut graphs = GraphStore::new(Layout { target: None, ..model.schema.layout() });
        let node = FeatureRows { categorical: &[1, 0], ..FeatureRows::default() };
        graphs.push(GraphParts { num_nodes: 2, src: &[0, 1], dst: &[1, 0], node, ..GraphParts::default() }).unwrap();
        assert_eq!(model.predict(&graphs).unwrap().len(), 1);
    }

    #[test]
    fn shapes_claim_no_columns_without_bytes() {
        let bytes = std::fs::read("tests/checkpoints/transformer.pt").unwrap();
        let state = torch::read_state_dict(&bytes).unwrap();
        let schema_with = |name: &str, others: &[(&str, &[usize])]| {
            schema_of_checkpoint(&state.replace(name, others), Level::Graph, TargetKind::Float)
        };
        let head = "MLP_layer.FC_layers.0.weight";
        // A tensor without values may have any number of rows.
        let empty = schema_with(head, &[(head, &[1 << 60, 0])]);
        assert_eq!(empty, Err(NotATransformer::NoMatrix(head.into())));
        let last = "MLP_layer.FC_layers.2.weight";
        let wide = schema_with(last, &[(last, &[MOST + 1, 1])]).unwrap_err();
        assert_eq!(wide, NotATransformer::TooWide { name: last.into(), shape: [MOST + 1, 1] });
        let node = "embedding_h.weight";
        let wide = schema_with(node, &[(node, &[1, MOST + 1]), ("embedding_h.bias", &[1])]).unwrap_err();
        assert_eq!(wide, NotATransformer::TooWide { name: node.into(), shape: [1, MOST + 1] });
    }
}
