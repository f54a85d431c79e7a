//! The schema of the training data, as far as a checkpoint of the published code determines it.

use gt_graph::{FeatureLayout, Layout, Level, Schema, TargetKind, TargetSchema};

use crate::torch::StateDict;

/// A tensor of every published Graph Transformer is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tensor `{0}` is missing or has no two dimensions, so this is no checkpoint of a Graph Transformer")]
pub struct NotATransformer(String);

/// The columns of the data, from the sizes of a checkpoint's input and output layers. A checkpoint
/// does not store the level of its targets, nor whether they are classes. Edge features are ignored
/// if the checkpoint was trained without them (`edge_feat: false`).
///
/// # Errors
/// If the node embedding or the head is not there.
pub fn schema_of_checkpoint(state: &StateDict, level: Level, kind: TargetKind) -> Result<Schema, NotATransformer> {
    let matrix = |name: &str| match state.get(name)?.shape() {
        &[rows, columns] => Some((rows, columns)),
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
    let missing = |name: &str| NotATransformer(name.to_owned());
    let (node, node_continuous) = columns("h").ok_or_else(|| missing("embedding_h.weight"))?;
    let (edge, edge_continuous) = columns("e").unwrap_or_default();
    let last = (0..).map_while(|layer| matrix(&format!("MLP_layer.FC_layers.{layer}.weight"))).last();
    let (outputs, _) = last.ok_or_else(|| missing("MLP_layer.FC_layers.0.weight"))?;
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
}
