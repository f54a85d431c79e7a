//! Random numbers, parameters, graphs, batches and checks of gradients for the engine's tests.
#![allow(dead_code, reason = "each test binary uses its own part")]

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::cpu::{Engine, Isa};
use graph_transformer_nn::{Branch, Channels, Input, Loss, Network, Real, Role, WeightOrBias};
use gt_graph::encoding::{Coordinates, Encodings};
use gt_graph::{
    FeatureLayout, FeatureRows, GraphBatch, GraphParts, GraphStore, Layout, MISSING_CLASS, Ragged, TargetKind,
    TargetLayout, TargetRows,
};

/// Widths and heads that cover every path of the kernels: odd, padded, specialised, more heads than
/// a register holds.
pub const WIDTHS: [(usize, usize); 10] =
    [(1, 1), (7, 1), (7, 7), (6, 3), (16, 2), (70, 7), (64, 8), (80, 8), (40, 20), (96, 24)];

/// Splitmix64.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [−1, 1), exact in single precision.
    pub fn symmetric(&mut self) -> f64 {
        (self.next() >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn chance(&mut self, share: f64) -> bool {
        (self.symmetric() + 1.0) / 2.0 < share
    }
}

/// Fills all parameters: weights as wide as their inputs allow, γ about 1. The same numbers in both
/// precisions.
pub fn fill<T: Real>(engine: &mut Engine<T>, seed: u64) {
    let mut rng = Rng(seed);
    for index in 0..engine.parameters().list().len() {
        let parameter = &engine.parameters().list()[index];
        let shape = parameter.shape();
        let (base, scale) = match parameter.role() {
            Role::Norm(_, _, _, WeightOrBias::Weight) => (1.0, 0.3),
            Role::Embedding(..) | Role::MultiHot(_) | Role::Roles => (0.0, 1.0),
            _ if shape.len() == 2 => (0.0, 1.5 / (shape[1] as f64).sqrt()),
            // Logits of some size, so that weights differ.
            Role::Branch(_, "gatconv.attn_l" | "gatconv.attn_r") => (0.0, 1.5),
            _ => (0.0, 0.3),
        };
        let values: Vec<T> =
            (0..parameter.len()).map(|_| T::from_f64(f64::from((base + scale * rng.symmetric()) as f32))).collect();
        engine.set_parameter(index, &values);
    }
    engine.refresh();
}

/// A graph's structure.
#[derive(Clone, Debug)]
pub struct Shape {
    pub nodes: usize,
    pub edges: Vec<(u32, u32)>,
}

impl Shape {
    pub fn new(nodes: usize, edges: &[(u32, u32)]) -> Self {
        Self { nodes, edges: edges.to_vec() }
    }

    /// Edges at random, loops and repetitions included.
    pub fn random(rng: &mut Rng, nodes: usize, edges: usize) -> Self {
        let mut end = || rng.below(nodes) as u32;
        Self { nodes, edges: (0..edges).map(|_| (end(), end())).collect() }
    }

    /// Every ordered pair of distinct nodes.
    pub fn full(nodes: usize) -> Self {
        let n = nodes as u32;
        Self { nodes, edges: (0..n).flat_map(|d| (0..n).filter(move |&s| s != d).map(move |s| (s, d))).collect() }
    }

    /// All edges into the first node, and one out of it.
    pub fn hub(degree: usize) -> Self {
        let mut edges: Vec<(u32, u32)> = (1..=degree as u32).map(|s| (s, 0)).collect();
        edges.push((0, 1));
        Self { nodes: degree + 1, edges }
    }
}

/// A path, a single node, nodes without edges, no node at all, loops and repeated edges, a random
/// graph.
pub fn mixed() -> Vec<Shape> {
    vec![
        Shape::new(4, &[(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]),
        Shape::new(1, &[]),
        Shape::new(3, &[]),
        Shape::new(0, &[]),
        Shape::new(3, &[(0, 0), (0, 1), (0, 1), (2, 1), (1, 0), (1, 1)]),
        Shape::random(&mut Rng(5), 6, 14),
    ]
}

/// Random graphs of `least` to `most` nodes, about two edges a node.
pub fn random_graphs(seed: u64, count: usize, least: usize, most: usize) -> Vec<Shape> {
    let mut rng = Rng(seed);
    (0..count)
        .map(|_| {
            let nodes = least + rng.below(most - least + 1);
            Shape::random(&mut rng, nodes, 2 * nodes)
        })
        .collect()
}

/// Two layers with residual and batch normalisation, categorical inputs, a graph head of two
/// outputs.
pub fn network(width: usize, heads: usize, edge_stream: bool) -> Network {
    Network {
        edge_stream,
        node: Input { categorical: vec![5], ..Default::default() },
        edge: Input { categorical: vec![3], ..Default::default() },
        head: vec![width.div_ceil(2), 2],
        ..Network::new(Channels::new(width, heads), 2)
    }
}

/// The published kinds of layers of one branch except attention.
pub const KINDS: [Branch; 4] = [Branch::Gcn, Branch::GcnMean, Branch::Gat, Branch::GatedGcn];

/// A small network with layers of `kind`.
pub fn network_of(kind: Branch, width: usize, heads: usize) -> Network {
    network(width, heads, kind == Branch::GatedGcn).with_branches(&[kind], false)
}

struct Features {
    categorical: Vec<u32>,
    continuous: Vec<f32>,
    offsets: Vec<usize>,
    indices: Vec<u32>,
    hot: bool,
}

impl Features {
    fn random(rng: &mut Rng, input: &Input, rows: usize) -> Self {
        let mut all = Self {
            categorical: vec![],
            continuous: vec![],
            offsets: vec![0],
            indices: vec![],
            hot: input.multi_hot.is_some(),
        };
        for _ in 0..rows {
            all.categorical.extend(input.categorical.iter().map(|&size| rng.below(size) as u32));
            all.continuous.extend((0..input.continuous).map(|_| rng.symmetric() as f32));
            if let Some(size) = input.multi_hot {
                // None, one or several words.
                all.indices.extend((0..size as u32).filter(|_| rng.chance(0.4)));
            }
            all.offsets.push(all.indices.len());
        }
        all
    }

    fn rows(&self) -> FeatureRows<'_> {
        FeatureRows {
            categorical: &self.categorical,
            continuous: &self.continuous,
            multi_hot: self.hot.then_some(Ragged { offsets: &self.offsets, indices: &self.indices }),
        }
    }
}

fn feature_layout(input: &Input) -> FeatureLayout {
    FeatureLayout {
        categorical: input.categorical.len(),
        continuous: input.continuous,
        multi_hot: input.multi_hot.is_some(),
    }
}

/// A batch with everything that a network reads at random, and labels that fit a loss, a share of
/// them missing.
pub fn batch(network: &Network, graphs: &[Shape], loss: Loss, missing: f64, seed: u64) -> GraphBatch {
    all_of(&store(network, graphs, loss, missing, seed))
}

/// All graphs of a store in one batch.
pub fn all_of(store: &GraphStore) -> GraphBatch {
    let mut batch = GraphBatch::new();
    batch.assemble(store, &(0..store.len()).collect::<Vec<_>>()).unwrap();
    batch
}

/// Graphs with everything that a network reads at random, and labels that fit a loss, a share of
/// them missing.
pub fn store(network: &Network, graphs: &[Shape], loss: Loss, missing: f64, seed: u64) -> GraphStore {
    let mut rng = Rng(seed);
    let outputs = network.head[network.head.len() - 1];
    let (kind, columns, classes) = match loss {
        Loss::L1 | Loss::Mse => (TargetKind::Float, outputs, 0),
        Loss::CrossEntropy { .. } => (TargetKind::Class, 1, outputs),
        Loss::Bce => (TargetKind::Class, outputs, 2),
    };
    let mut store = GraphStore::new(Layout {
        node: feature_layout(&network.node),
        edge: feature_layout(&network.edge),
        target: Some(TargetLayout { level: network.reads.level(), kind, columns }),
    });
    for Shape { nodes, edges } in graphs {
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.iter().copied().unzip();
        let node = Features::random(&mut rng, &network.node, *nodes);
        let edge = Features::random(&mut rng, &network.edge, edges.len());
        let labels = network.reads.level().rows(*nodes, edges.len()) * columns;
        let floats: Vec<f32>;
        let numbers: Vec<u32>;
        let target = if kind == TargetKind::Float {
            floats = (0..labels).map(|_| if rng.chance(missing) { f32::NAN } else { rng.symmetric() as f32 }).collect();
            TargetRows::Float(&floats)
        } else {
            let mut class = || if rng.chance(missing) { MISSING_CLASS } else { rng.below(classes) as u32 };
            numbers = (0..labels).map(|_| class()).collect();
            TargetRows::Class(&numbers)
        };
        let parts = GraphParts {
            num_nodes: *nodes,
            src: &src,
            dst: &dst,
            node: node.rows(),
            edge: edge.rows(),
            target: Some(target),
        };
        store.push(parts).unwrap();
    }
    let nodes = store.num_nodes();
    let mut coordinates = |width: usize| Coordinates {
        width,
        values: (0..nodes * width).map(|_| rng.symmetric() as f32).collect::<Vec<f32>>(),
    };
    let (laplacian, walk) = (network.node.laplacian, network.node.random_walk);
    let encodings = Encodings {
        laplacian: (laplacian > 0).then(|| coordinates(laplacian)),
        random_walk: (walk > 0).then(|| coordinates(walk)),
        // Some roles lie beyond the vocabulary and share its last row.
        weisfeiler_lehman: network.node.roles.map(|size| (0..nodes).map(|_| rng.below(size + 2) as u32).collect()),
    };
    store.set_encodings(encodings).unwrap();
    store
}

const STEP: f64 = 1e-6;
const TOLERANCE: f64 = 1e-5;

/// Compares up to `most` entries of each parameter with central differences. Returns the largest
/// gradient.
pub fn check(name: &str, network: &Network, batch: &GraphBatch, edges: AttentionScope, loss: Loss, most: usize) -> f64 {
    let mut engine = Engine::<f64>::new(network.clone(), Isa::Portable);
    fill(&mut engine, 11);
    check_engine(name, &mut engine, batch, edges, loss, batch.target().unwrap(), most)
}

/// The same for an engine whose parameters, dropout key and pairs are set, and for other labels
/// than the batch's own.
pub fn check_engine(
    name: &str,
    engine: &mut Engine<f64>,
    batch: &GraphBatch,
    edges: AttentionScope,
    loss: Loss,
    target: TargetRows<'_>,
    most: usize,
) -> f64 {
    let mut probe = engine.clone();
    let base = engine.train(batch, edges, loss, target);
    assert!(base.is_finite(), "{name}: loss {base}");
    let gradients: Vec<Vec<f64>> = (0..engine.parameters().list().len()).map(|index| engine.gradient(index)).collect();
    let largest = gradients.iter().flatten().fold(0.0, |m: f64, g| m.max(g.abs()));
    // Where all gradients are tiny, rounding of the loss is what differences show.
    let allowed = TOLERANCE * largest.max(1e-3);
    let mut rng = Rng(13);
    let (mut compared, mut kinks) = (0, 0);
    for (index, gradient) in gradients.iter().enumerate() {
        let role = engine.parameters().list()[index].role();
        let values = engine.parameter(index);
        let all = values.len() <= most;
        for pick in 0..values.len().min(most) {
            let at = if all { pick } else { rng.below(values.len()) };
            let mut loss_at = |offset: f64| {
                let mut moved = values.clone();
                moved[at] += offset;
                probe.set_parameter(index, &moved);
                probe.refresh();
                probe.train(batch, edges, loss, target)
            };
            let (above, below) = ((loss_at(STEP) - base) / STEP, (base - loss_at(-STEP)) / STEP);
            compared += 1;
            let found = gradient[at];
            if (found - (above + below) / 2.0).abs() <= allowed {
                continue;
            }
            // Between two different slopes lies a kink of ReLU, clamp, |x| or max.
            let kink = (above - below).abs() > allowed
                && found >= above.min(below) - allowed
                && found <= above.max(below) + allowed;
            assert!(kink, "{name}: {role:?}[{at}] is {found:e}, differences {below:e} and {above:e}, of {largest:e}");
            kinks += 1;
        }
        probe.set_parameter(index, &values);
        probe.refresh();
    }
    assert!(kinks * 50 <= compared, "{name}: {kinks} kinks among {compared} entries");
    largest
}

/// The same with a batch of mixed graphs; gradients must not vanish.
pub fn check_mixed(name: &str, network: &Network, loss: Loss, missing: f64) {
    let batch = batch(network, &mixed(), loss, missing, 17);
    let largest = check(name, network, &batch, AttentionScope::Sparse, loss, 40);
    assert!(largest > 1e-3, "{name}: largest gradient {largest:e}");
}

/// Compares relative to the largest value.
pub fn assert_close<A: Real, B: Real>(what: &str, found: &[A], expected: &[B], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1e-3, |m: f64, v| m.max(v.to_f64().abs()));
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (found.to_f64() - expected.to_f64()).abs() / largest;
        assert!(off <= tolerance, "{what}: [{at}] is {found}, expected {expected}, off by {off:.1e}");
    }
}
