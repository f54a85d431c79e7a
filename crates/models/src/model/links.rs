//! How likely a model of links finds pairs of nodes to be joined.

use std::borrow::Cow;

use gt_graph::{GraphError, GraphRef, GraphStore, Level, Split};
use gt_nn::AttentionScope;
use gt_nn::backend::{BackendError, Cpu, DataSource, GraphTooLarge, Labels, PairQueries, PassPlan, PreparedBatch, run};
use gt_nn::cpu::{GraphSize, Isa};

use super::{Model, ModelError, Predictions};
use crate::Config;
use crate::config::{EdgeHead, TaskName};

/// Pairs of nodes of one graph.
#[derive(Clone, Debug, PartialEq)]
pub struct PairGroup {
    /// The graph.
    pub graph: usize,
    /// Source and target of each pair.
    pub pairs: Vec<(u32, u32)>,
}

/// Groups of pairs; each is a batch of its own.
struct PairSource<'a> {
    graphs: &'a GraphStore,
    scope: AttentionScope,
    both_orders: bool,
    groups: &'a [PairGroup],
}

impl DataSource for PairSource<'_> {
    fn graphs(&self) -> &GraphStore {
        self.graphs
    }

    fn scope(&self) -> AttentionScope {
        self.scope
    }

    fn labels(&self, _: Split) -> Result<Labels, GraphError> {
        Ok(Labels::Absent)
    }

    fn size(&self, _: &PassPlan, group: usize) -> GraphSize {
        let PairGroup { graph, pairs } = &self.groups[group];
        let orders = if self.both_orders { 2 } else { 1 };
        GraphSize { pairs: orders * pairs.len(), ..GraphSize::new(&self.graphs.graph(*graph), self.scope) }
    }

    fn fill(&self, plan: &PassPlan, number: usize, batch: &mut PreparedBatch) -> Result<(), GraphError> {
        let group = &self.groups[plan.order.batch(number)[0]];
        batch.graphs.assemble(self.graphs, &[group.graph])?;
        batch.pairs = Some(PairQueries::new(self.both_orders, group.pairs.iter().copied()));
        Ok(())
    }
}

impl Model {
    /// Logits of pairs of nodes, in the order of the groups and their pairs.
    ///
    /// Messages follow all edges of `graphs`, which must have the encoding that the model reads. A
    /// pair of a node and itself gets a logit too, though training never sees one.
    ///
    /// ```
    /// use graph_transformer_models::{Config, Model, ModelError, PairGroup, is_directed, sigmoid};
    /// use gt_graph::{Graph, GraphParts, Schema};
    ///
    /// let text = "[data]\ntask = \"links\"\n[model]\nlayers = 1\nwidth = 8\nheads = 2";
    /// let model = Model::new(Config::from_toml(text)?, Schema::default())?;
    /// let (src, dst) = (&[0, 1, 1, 2], &[1, 0, 2, 1]);
    /// let path = Graph::new(GraphParts { num_nodes: 3, src, dst, ..Default::default() })?;
    ///
    /// // Undirected links: both orders of a pair have one score.
    /// assert!(!is_directed(path.as_store()));
    /// let group = PairGroup { graph: 0, pairs: vec![(0, 2), (2, 0)] };
    /// let logits = model.score_pairs(path.as_store(), &[group])?;
    /// assert_eq!((logits.len(), logits[0]), (2, logits[1]));
    /// assert!((0.0..1.0).contains(&sigmoid(logits[0])));
    ///
    /// let missing = PairGroup { graph: 0, pairs: vec![(0, 3)] };
    /// let error = model.score_pairs(path.as_store(), &[missing]).unwrap_err();
    /// assert!(matches!(error, ModelError::NoNode { node: 3, nodes: 3, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the model predicts something else than links, or there is no such graph or node.
    pub fn score_pairs(&self, graphs: &GraphStore, groups: &[PairGroup]) -> Result<Vec<f32>, ModelError> {
        if self.config.data.task != TaskName::Links {
            return Err(ModelError::NotLinks);
        }
        for PairGroup { graph, pairs } in groups {
            if *graph >= graphs.len() {
                return Err(ModelError::NoGraph { graph: *graph, graphs: graphs.len() });
            }
            let nodes = graphs.node_range(*graph).len();
            if let Some(node) = pairs.iter().flat_map(|&(a, b)| [a, b]).find(|&node| node as usize >= nodes) {
                return Err(ModelError::NoNode { graph: *graph, node, nodes });
            }
        }
        let directed = self.config.links.directed.unwrap_or_else(|| is_directed(graphs));
        let both_orders = scores_both_orders(&self.config, directed);
        let graphs = &*self.scaled(Cow::Borrowed(graphs));
        let source = PairSource { graphs, scope: self.scope(), both_orders, groups };
        let mut cpu = Cpu::new(&source, &self.weights, self.loss()?, Isa::detect());
        let outcome = run(&mut cpu, PassPlan::evaluation(Split::Test, (0..groups.len()).collect(), 1));
        let outcome = outcome.map_err(|error| match error {
            // The pass counts groups.
            BackendError::Memory(error) => GraphTooLarge { graph: groups[error.graph].graph, ..error }.into(),
            error => error,
        });
        Ok(outcome?.outputs.values)
    }

    /// Logits of all edges of all graphs, in the order of their lists.
    pub(super) fn score_edges(&self, graphs: &GraphStore) -> Result<Predictions, ModelError> {
        let group = |(graph, view): (usize, GraphRef<'_>)| PairGroup {
            graph,
            pairs: view.src().iter().copied().zip(view.dst().iter().copied()).collect(),
        };
        let groups: Vec<PairGroup> = graphs.iter().enumerate().map(group).collect();
        Ok(Predictions { level: Level::Edge, width: 1, values: self.score_pairs(graphs, &groups)? })
    }
}

/// Whether pairs must be scored in both orders, so that scores are symmetric where links are.
pub fn scores_both_orders(config: &Config, directed: bool) -> bool {
    !directed && config.model.pairs == EdgeHead::Ends
}

/// Whether some edge has no reverse.
pub fn is_directed(graphs: &GraphStore) -> bool {
    let sorted = |pairs: &mut dyn Iterator<Item = (u32, u32)>| {
        let mut pairs: Vec<(u32, u32)> = pairs.collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    };
    graphs.iter().any(|graph| {
        let ends = || graph.src().iter().copied().zip(graph.dst().iter().copied());
        sorted(&mut ends()) != sorted(&mut ends().map(|(a, b)| (b, a)))
    })
}
