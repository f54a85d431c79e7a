//! Reading for a model that is trained already: labels and splits do not matter, and a graph that cannot be used does not stand in the way of the others.

use std::collections::BTreeMap;
use std::path::Path;

use gt_graph::{FeatureLayout, FeatureRows, GraphParts, GraphStore, Ragged};

use crate::dataset::Dataset;
use crate::error::{DataError, Result};
use gt_graph::{FeatureSchema, Schema};

/// Graphs, as far as a file could be read.
#[derive(Clone, Debug)]
pub struct Readable {
    /// All graphs in order, without targets and split. One that could not be read has no edges and only zeros as features, or no nodes either.
    pub dataset: Dataset,
    /// Why a graph could not be read: a sentence that names column and value.
    pub unusable: BTreeMap<usize, String>,
}

/// What a lenient reader expects, and what it has passed over.
pub(crate) struct Lenient {
    /// Columns of the features where the file does not state them: those that a graph of JSON lines must have, and what its contents leave open.
    pub(crate) expected: Schema,
    pub(crate) unusable: BTreeMap<usize, String>,
}

impl Lenient {
    pub(crate) fn new(expected: &Schema) -> Self {
        Self { expected: without_sizes(expected), unusable: BTreeMap::new() }
    }

    /// Takes a graph of `nodes` nodes for the one that is to come next.
    pub(crate) fn stand_in(&mut self, store: &mut GraphStore, nodes: usize, reason: String) {
        let layout = store.layout().clone();
        let zeros = |layout: &FeatureLayout, rows: usize| {
            (vec![0; rows * layout.categorical], vec![0.0; rows * layout.continuous], vec![0; rows + 1])
        };
        let (node, edge) = (zeros(&layout.node, nodes), zeros(&layout.edge, 0));
        fn rows<'a>(layout: &FeatureLayout, of: &'a (Vec<u32>, Vec<f32>, Vec<usize>)) -> FeatureRows<'a> {
            let multi_hot = layout.multi_hot.then_some(Ragged { offsets: &of.2, indices: &[] });
            FeatureRows { categorical: &of.0, continuous: &of.1, multi_hot }
        }
        self.unusable.insert(store.len(), reason);
        let parts = GraphParts {
            num_nodes: nodes,
            node: rows(&layout.node, &node),
            edge: rows(&layout.edge, &edge),
            ..Default::default()
        };
        store.push(parts).expect("zeros fit every layout");
    }
}

/// A stated schema as a lenient reader takes it: values beyond a vocabulary are the model's business.
pub(crate) fn without_sizes(schema: &Schema) -> Schema {
    let clear = |features: &FeatureSchema| {
        let mut features = features.clone();
        features.categorical.iter_mut().chain(&mut features.multi_hot).for_each(|vocabulary| vocabulary.size = 0);
        features
    };
    Schema { node: clear(&schema.node), edge: clear(&schema.edge), target: None }
}

/// Appends a graph; one that does not hold together ends the reading, unless the reader is lenient.
pub(crate) fn push(
    store: &mut GraphStore,
    parts: GraphParts<'_>,
    path: &Path,
    lenient: Option<&mut Lenient>,
) -> Result<()> {
    let graph = store.len();
    match (store.push(parts), lenient) {
        (Ok(()), _) => Ok(()),
        (Err(source), None) => Err(DataError::Graph { path: path.into(), graph, source }),
        (Err(source), Some(lenient)) => {
            lenient.stand_in(store, parts.num_nodes, source.to_string());
            Ok(())
        }
    }
}
