//! Embeddings of nodes and graphs: the values before the head of a model.

use gt_graph::{GraphBatch, GraphStore, Level, Split};
use gt_nn::backend::{BackendError, GraphSource, PassPlan, divide_batches};
use gt_nn::cpu::{Engine, Isa, PassMemory};
use gt_nn::{FreeMemory, Readout};

use super::{Model, ModelError, Predictions};

impl Model {
    /// Embeddings of nodes (the last layer's normalised stream, in the published order of channels)
    /// or of graphs (the configured readout of their nodes). Graphs without the encoding that the
    /// model reads get it.
    ///
    /// # Errors
    /// If the graphs have other columns than the model, or values that the model does not know.
    ///
    /// # Panics
    /// If `level` is that of edges, which have no embeddings of their own.
    pub fn embed(&self, graphs: &GraphStore, level: Level) -> Result<Predictions, ModelError> {
        assert_ne!(level, Level::Edge, "edges have no embeddings of their own");
        self.check(graphs)?;
        let graphs = self.scaled(self.encoded(graphs)?);
        let mut engine = Engine::<f32>::new(self.network().clone(), Isa::detect());
        engine.load(&self.weights);
        let width = self.network().channels.width();
        let mut values = Vec::with_capacity(graphs.rows(level) * width);
        let mut batch = GraphBatch::new();
        let source = GraphSource::new(&graphs, self.scope());
        let plan = PassPlan::evaluation(Split::Test, (0..graphs.len()).collect(), self.config.train.batch);
        let memory = PassMemory::of_inner_values(self.network());
        let (order, _) = divide_batches(&source, &plan, &memory, 0.0, FreeMemory::now()).map_err(BackendError::from)?;
        for number in 0..order.batches() {
            batch.assemble(&graphs, order.batch(number))?;
            let nodes = engine.embed(&batch, self.scope());
            match level {
                Level::Node => values.extend(nodes),
                _ => {
                    for position in 0..batch.num_graphs() {
                        let own = batch.nodes_of(position);
                        read_out(
                            self.config.model.readout,
                            width,
                            &nodes[own.start * width..own.end * width],
                            &mut values,
                        );
                    }
                }
            }
        }
        Ok(Predictions { level, width, values })
    }
}

/// Appends the one row that a graph's nodes become; 0 without any.
fn read_out(readout: Readout, width: usize, nodes: &[f32], to: &mut Vec<f32>) {
    let count = (nodes.len() / width) as f32;
    to.extend((0..width).map(|channel| {
        let values = nodes.iter().skip(channel).step_by(width).copied();
        match readout {
            Readout::Max => values.reduce(f32::max).unwrap_or(0.0),
            Readout::Sum => values.sum(),
            Readout::Mean => values.sum::<f32>() / count.max(1.0),
        }
    }));
}
