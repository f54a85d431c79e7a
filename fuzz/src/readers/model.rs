//! Model files.

use std::path::Path;

use gt_graph::{FeatureLayout, FeatureRows, GraphParts, GraphStore, Layout, Ragged};
use gt_models::Model;

use super::accepted;

/// Opens a model file, and predicts for a small graph.
pub fn run(bytes: &[u8], _: &Path) -> bool {
    let model = Model::from_bytes(bytes);
    if let Ok(model) = &model {
        accepted(model.predict(&graph(&Layout { target: None, ..model.schema.layout() })));
        std::hint::black_box(model.to_bytes());
    }
    accepted(model)
}

/// Two connected nodes whose features are all zero.
fn graph(layout: &Layout) -> GraphStore {
    let zeros = |columns: &FeatureLayout| (vec![0; 2 * columns.categorical], vec![0.0; 2 * columns.continuous]);
    let (node, edge) = (zeros(&layout.node), zeros(&layout.edge));
    let lists = Ragged { offsets: &[0, 0, 0], indices: &[] };
    let mut store = GraphStore::new(layout.clone());
    let parts = GraphParts {
        num_nodes: 2,
        src: &[0, 1],
        dst: &[1, 0],
        node: FeatureRows {
            categorical: &node.0,
            continuous: &node.1,
            multi_hot: layout.node.multi_hot.then_some(lists),
        },
        edge: FeatureRows {
            categorical: &edge.0,
            continuous: &edge.1,
            multi_hot: layout.edge.multi_hot.then_some(lists),
        },
        target: None,
    };
    store.push(parts).expect("the graph fits the layout");
    store
}
