//! Small networks and graphs that between them use every operation.

use gt_graph::encoding::{Coordinates, Encodings};
use gt_graph::{
    FeatureLayout, FeatureRows, GraphParts, GraphStore, Layout, MISSING_CLASS, Ragged, TargetKind, TargetLayout,
    TargetRows,
};

use crate::AttentionScope;
use crate::cpu::dropout::{GOLDEN, mix};
use crate::cpu::{Engine, Isa};
use crate::cuda::Size;
use crate::layers::{Branch, Combine};
use crate::network::{Clamp, Gate, HeadInput, Input, Jump, Network, Norm, Readout};
use crate::parameters::{Role, WeightOrBias};
use crate::{Channels, Loss, Real};

/// A network, its loss, and graphs to train it on.
pub(super) struct Problem {
    pub(super) name: String,
    pub(super) network: Network,
    pub(super) edges: AttentionScope,
    pub(super) loss: Loss,
    /// Nodes and edges of each graph.
    sizes: Vec<(usize, usize)>,
    /// Seed of the parameters.
    seed: u64,
}

/// Seed of the parameters of most problems.
const SEED: u64 = 3;

/// More values of a layer and batch than this are kept away from ReLU's bend: among so many, some
/// lie within rounding of it whatever the seed.
const CROWDED: usize = 50_000;

/// Distance of the biases of crowded values from 0. The values themselves deviate by about 1, so
/// all but about one in a thousand stay on their bias's side.
const ASIDE: f32 = 3.0;

/// The problems: the published models' shapes, then each option by itself.
pub(super) fn all() -> Vec<Problem> {
    let zinc = |norm| Network { norm, ..network(64, 8, true, 1) };
    let sbm = |norm| Network { norm, reads: HeadInput::Nodes, ..network(80, 8, false, 6) };
    let small = network(16, 2, true, 2);
    let weighted = Loss::CrossEntropy { weighted: true };
    let molecules = vec![(23, 50), (1, 0), (30, 64), (3, 0), (17, 36), (9, 40), (37, 80), (24, 52)];
    let communities = vec![(60, 900), (44, 1100), (5, 3), (100, 2500)];
    let everything = Input {
        categorical: vec![5, 3],
        continuous: 3,
        multi_hot: Some(7),
        laplacian: 4,
        random_walk: 5,
        roles: Some(6),
        bias: true,
        ..Default::default()
    };
    let mut problems = vec![
        problem("ZINC, batch norm", zinc(Norm::Batch), Loss::L1, &molecules).seeded(18),
        problem("ZINC, layer norm", zinc(Norm::Layer), Loss::L1, &molecules).seeded(18),
        problem("SBM, batch norm", sbm(Norm::Batch), weighted, &communities).seeded(7),
        problem("SBM, layer norm", sbm(Norm::Layer), weighted, &communities).seeded(4),
        problem(
            "all inputs, several labels",
            Network { node: everything, norm: Norm::Layer, ..small.clone() },
            Loss::Bce,
            &molecules,
        ),
        problem(
            "no norm, no residual",
            Network { norm: Norm::None, residual: false, ..small.clone() },
            Loss::Mse,
            &molecules,
        ),
        problem(
            "scalar gate, clamped exponentials",
            Network { gate: Gate::Scalar, clamp: Clamp::Exponentials, ..small.clone() },
            Loss::L1,
            &molecules,
        ),
        problem(
            "sum readout, layers side by side",
            Network { reads: HeadInput::Graphs(Readout::Sum), jump: Jump::Concat, ..small.clone() },
            Loss::Mse,
            &molecules,
        )
        .seeded(17),
        problem(
            "largest readout, layers added",
            Network { reads: HeadInput::Graphs(Readout::Max), jump: Jump::Sum, ..small.clone() },
            Loss::Mse,
            &molecules,
        ),
        problem(
            "edges",
            Network { reads: HeadInput::Edges, ..small.clone() },
            Loss::CrossEntropy { weighted: false },
            &molecules,
        ),
        problem(
            "pairs",
            Network { reads: HeadInput::Pairs, edge_stream: false, ..small.clone() },
            weighted,
            &molecules,
        )
        .seeded(18),
        problem("dropout", Network { dropout: 0.2, input_dropout: 0.1, ..small.clone() }, Loss::L1, &molecules)
            .seeded(17),
        problem("odd widths", Network { reads: HeadInput::Nodes, ..network(7, 1, true, 3) }, weighted, &molecules),
        problem(
            "many rows",
            Network { reads: HeadInput::Nodes, ..network(16, 2, true, 3) },
            weighted,
            &[(5_000, 13_000), (3_000, 13_500)],
        ),
        problem("ZINC, many graphs", zinc(Norm::Batch), Loss::L1, &molecules.repeat(40)).seeded(20),
        problem("SBM, many graphs", sbm(Norm::Batch), weighted, &communities.repeat(32)).seeded(9),
        problem("many graphs, layer norm", zinc(Norm::Layer), Loss::L1, &molecules.repeat(40)).seeded(4),
        problem("many heads", network(40, 20, false, 1), Loss::L1, &communities.repeat(2)).seeded(10),
    ];
    problems.extend(other_kinds(&molecules, &communities));
    for (name, network, loss) in
        [("ZINC, full graph", zinc(Norm::Batch), Loss::L1), ("SBM, full graph", sbm(Norm::Batch), weighted)]
    {
        problems.push(Problem { edges: AttentionScope::Full, ..problem(name, network, loss, &molecules) });
    }
    problems
}

/// Layers of other kinds than attention, in the published widths, then their options.
fn other_kinds(molecules: &[(usize, usize)], communities: &[(usize, usize)]) -> Vec<Problem> {
    use Branch::{Gat, GatedGcn, Gcn, GcnMean};
    let weighted = Loss::CrossEntropy { weighted: true };
    let of = |branch: Branch, width, heads, outputs| {
        network(width, heads, branch.needs_edge_stream(), outputs).with_branches(&[branch], false)
    };
    let on_nodes = |network| Network { reads: HeadInput::Nodes, ..network };
    let constant = Input { constant: true, ..Default::default() };
    let layered = |kind| Network { norm: Norm::Layer, residual: false, jump: Jump::Concat, ..of(kind, 16, 2, 2) };
    let dropped = |kind| Network { dropout: 0.2, jump: Jump::Sum, ..of(kind, 24, 3, 2) };
    vec![
        problem("convolution, molecules", of(Gcn, 172, 1, 1), Loss::L1, molecules),
        problem("convolution, communities", on_nodes(of(Gcn, 172, 1, 6)), weighted, communities).seeded(8),
        problem("mean, communities", on_nodes(of(GcnMean, 40, 1, 6)), weighted, communities),
        problem("additive, molecules", of(Gat, 176, 8, 1), Loss::L1, molecules),
        problem("additive, communities", on_nodes(of(Gat, 176, 8, 6)), weighted, communities).seeded(17),
        problem("gated, molecules", of(GatedGcn, 78, 1, 1), Loss::L1, molecules),
        problem(
            "gated, communities",
            Network { edge: constant, ..on_nodes(of(GatedGcn, 78, 1, 6)) },
            weighted,
            communities,
        ),
        problem("convolution, layer norm, no residual", layered(Gcn), Loss::Mse, molecules),
        problem("additive, layer norm, no residual", layered(Gat), Loss::Mse, molecules).seeded(6),
        problem("gated, layer norm, no residual", layered(GatedGcn), Loss::Mse, molecules),
        problem("convolution, dropout, layers added", dropped(Gcn), Loss::Mse, molecules),
        problem("additive, dropout, layers added", dropped(Gat), Loss::Mse, molecules),
        problem("gated, dropout, layers added", dropped(GatedGcn), Loss::Mse, molecules),
        problem("gated, many rows", on_nodes(of(GatedGcn, 16, 1, 3)), weighted, &[(5_000, 13_000), (3_000, 13_500)]),
        problem("gated, edges", Network { reads: HeadInput::Edges, ..of(GatedGcn, 7, 1, 2) }, weighted, molecules),
        problem("additive, many heads", of(Gat, 40, 20, 1), Loss::L1, &communities.repeat(2)).seeded(9),
    ]
}

fn problem(name: &str, network: Network, loss: Loss, sizes: &[(usize, usize)]) -> Problem {
    Problem { name: name.into(), network, edges: AttentionScope::Sparse, loss, sizes: sizes.to_vec(), seed: SEED }
}

fn network(width: usize, heads: usize, edge_stream: bool, outputs: usize) -> Network {
    Network {
        edge_stream,
        node: Input { categorical: vec![9], laplacian: 4, ..Default::default() },
        edge: Input { categorical: vec![4], ..Default::default() },
        head: vec![width.div_ceil(2), width.div_ceil(4), outputs],
        ..Network::new(Channels::new(width, heads), 3)
    }
}

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    fn below(&mut self, limit: usize) -> u32 {
        (self.next() % limit.max(1) as u64) as u32
    }

    /// Between −1 and 1, exact in single precision.
    pub(super) fn symmetric(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

impl Problem {
    /// The problem with parameters of another seed. With those of [`SEED`], rounding would decide
    /// on which side of a bend some value lies, or no gradient would reach the inputs.
    fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// An engine with random parameters, the same in both precisions.
    pub(super) fn engine<T: Real>(&self, isa: Isa) -> Engine<T> {
        let mut engine = Engine::new(self.network.clone(), isa);
        self.fill(&mut engine);
        engine
    }

    fn fill<T: Real>(&self, engine: &mut Engine<T>) {
        let mut random = Random(self.seed);
        for index in 0..engine.parameters().list().len() {
            let parameter = &engine.parameters().list()[index];
            let shape = parameter.shape();
            let (base, scale) = match parameter.role() {
                Role::Norm(_, _, _, WeightOrBias::Weight) => (1.0, 0.3),
                Role::Embedding(..) | Role::MultiHot(_) | Role::Roles => (0.0, 1.0),
                _ if shape.len() == 2 => (0.0, 1.5 / (shape[1] as f32).sqrt()),
                _ => (0.0, 0.3),
            };
            let aside = if self.crowded() && self.bends_after(parameter.role()) { ASIDE } else { 0.0 };
            let values: Vec<T> = (0..parameter.len())
                .map(|i| if i % 2 == 0 { base + aside } else { base - aside })
                .map(|base| T::from_f64(f64::from(base + scale * random.symmetric())))
                .collect();
            engine.set_parameter(index, &values);
        }
        engine.refresh();
    }

    fn crowded(&self) -> bool {
        let Size { nodes, edges, .. } = self.usual();
        let rows = nodes + if self.network.edge_stream { edges } else { 0 };
        rows * self.network.channels.width() > CROWDED
    }

    /// Whether ReLU follows what a parameter is added to.
    fn bends_after(&self, role: Role) -> bool {
        match role {
            Role::FeedForward(_, _, 1, WeightOrBias::Bias) => true,
            Role::Norm(_, _, number, WeightOrBias::Bias) => {
                let branch = self.network.branches.get(usize::from(number) - 1);
                branch.is_some_and(|branch| matches!(branch.facts().combine, Combine::SumWithNorm(_)))
            }
            Role::Head(layer, WeightOrBias::Bias) => layer + 1 < self.network.head.len(),
            _ => false,
        }
    }

    /// The usual size of a batch, which is half of the graphs.
    pub(super) fn usual(&self) -> Size {
        let sum = |count: fn(&(usize, usize)) -> usize| self.sizes.iter().map(count).sum();
        let edges = match self.edges {
            AttentionScope::Sparse => sum(|&(_, edges)| edges),
            AttentionScope::Full => sum(|&(nodes, _)| nodes * (nodes - 1)),
        };
        Size::usual(sum(|&(nodes, _)| nodes), edges, self.sizes.len(), self.sizes.len().div_ceil(2))
    }

    /// Graphs of two batches: the second finds buffers and statistics that are used already.
    pub(super) fn batches(&self) -> Vec<Vec<usize>> {
        let graphs: Vec<usize> = (0..self.sizes.len()).rev().collect();
        graphs.chunks(graphs.len().div_ceil(2)).map(<[usize]>::to_vec).collect()
    }

    /// The dropout key of a batch.
    pub(super) fn dropout_key(batch: usize) -> u64 {
        77 + batch as u64
    }

    /// Random graphs with everything that the network reads; one label in ten is missing.
    pub(super) fn graphs(&self) -> GraphStore {
        let mut random = Random(5);
        let outputs = self.network.outputs();
        let (kind, columns, classes) = match self.loss {
            Loss::L1 | Loss::Mse => (TargetKind::Float, outputs, 0),
            Loss::CrossEntropy { .. } => (TargetKind::Class, 1, outputs),
            Loss::Bce => (TargetKind::Class, outputs, 2),
        };
        let level = self.network.reads.level();
        let layout = |input: &Input| FeatureLayout {
            categorical: input.categorical.len(),
            continuous: input.continuous,
            multi_hot: input.multi_hot.is_some(),
        };
        let (node, edge) = (&self.network.node, &self.network.edge);
        let target = Some(TargetLayout { level, kind, columns });
        let mut store = GraphStore::new(Layout { node: layout(node), edge: layout(edge), target });
        for &(nodes, edges) in &self.sizes {
            let ends = |random: &mut Random| (0..edges).map(|_| random.below(nodes)).collect::<Vec<u32>>();
            let (src, dst) = (ends(&mut random), ends(&mut random));
            let (node, edge) = (Rows::new(node, nodes, &mut random), Rows::new(edge, edges, &mut random));
            let labels = level.rows(nodes, edges) * columns;
            let missing: Vec<bool> = (0..labels).map(|_| random.below(10) == 0).collect();
            let floats: Vec<f32> = missing.iter().map(|&m| if m { f32::NAN } else { random.symmetric() }).collect();
            let numbers: Vec<u32> =
                missing.iter().map(|&m| if m { MISSING_CLASS } else { random.below(classes) }).collect();
            let target = match kind {
                TargetKind::Float => TargetRows::Float(&floats),
                TargetKind::Class => TargetRows::Class(&numbers),
            };
            let parts = GraphParts {
                num_nodes: nodes,
                src: &src,
                dst: &dst,
                node: node.rows(),
                edge: edge.rows(),
                target: Some(target),
            };
            store.push(parts).expect("the graphs fit their layout");
        }
        let nodes = store.num_nodes();
        let mut coordinates = |width: usize| {
            (width > 0).then(|| Coordinates { width, values: (0..nodes * width).map(|_| random.symmetric()).collect() })
        };
        let encodings = Encodings {
            laplacian: coordinates(node.laplacian),
            random_walk: coordinates(node.random_walk),
            // Some lie beyond the vocabulary.
            weisfeiler_lehman: node.roles.map(|size| (0..nodes as u32).map(|i| i % (size as u32 + 2)).collect()),
        };
        store.set_encodings(encodings).expect("a row for every node");
        store
    }
}

/// Features of a graph's nodes or edges.
struct Rows {
    categorical: Vec<u32>,
    continuous: Vec<f32>,
    words: Option<(Vec<usize>, Vec<u32>)>,
}

impl Rows {
    fn new(input: &Input, rows: usize, random: &mut Random) -> Self {
        let categorical = (0..rows).flat_map(|_| &input.categorical).map(|&size| random.below(size)).collect();
        let continuous = (0..rows * input.continuous).map(|_| random.symmetric()).collect();
        let words = input.multi_hot.map(|size| {
            let (mut offsets, mut indices) = (vec![0], Vec::new());
            for _ in 0..rows {
                indices.extend((0..size as u32).filter(|_| random.below(3) == 0));
                offsets.push(indices.len());
            }
            (offsets, indices)
        });
        Self { categorical, continuous, words }
    }

    fn rows(&self) -> FeatureRows<'_> {
        let multi_hot = self.words.as_ref().map(|(offsets, indices)| Ragged { offsets, indices });
        FeatureRows { categorical: &self.categorical, continuous: &self.continuous, multi_hot }
    }
}
