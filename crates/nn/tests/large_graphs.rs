//! Graphs that are cut into blocks give what whole graphs give.
//!
//! Two references run the same network on whole graphs. One has many small graphs instead of one
//! graph of many components. The other has symmetric edges on a graph where no edge has a reverse:
//! there they change no value but keep graphs whole.

mod support;

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::cpu::{Adam, Engine, Isa};
use graph_transformer_nn::{Clamp, Gate, HeadInput, Jump, Loss, Network, Norm, Readout, Role, Stream, WeightOrBias};
use gt_graph::{GraphBatch, GraphParts, GraphStore};
use support::{Rng, Shape, batch, fill, network, random_graphs};

const NORMS: [Norm; 3] = [Norm::Batch, Norm::Layer, Norm::None];
const TOLERANCE: f64 = 1e-9;

fn engine(network: &Network) -> Engine<f64> {
    let mut engine = Engine::new(network.clone(), Isa::Portable);
    fill(&mut engine, 11);
    engine.set_dropout_key(3);
    engine
}

/// Loss, outputs and all gradients of a training pass.
struct Pass {
    loss: f64,
    outputs: Vec<f64>,
    gradients: Vec<(Role, Vec<f64>)>,
}

fn pass(network: &Network, batch: &GraphBatch) -> Pass {
    let mut engine = engine(network);
    let loss = engine.train(batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
    let roles = engine.parameters().list().iter().map(|parameter| parameter.role());
    let gradients = roles.enumerate().map(|(index, role)| (role, engine.gradient(index))).collect();
    Pass { loss, outputs: engine.outputs(), gradients }
}

fn assert_close(what: &str, found: &[f64], expected: &[f64], largest: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (found - expected).abs() / largest;
        assert!(off <= TOLERANCE, "{what}[{at}] is {found:e}, expected {expected:e}, off by {off:.1e}");
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(1e-3, |m: f64, v| m.max(v.abs()))
}

fn assert_same(name: &str, found: &Pass, expected: &Pass) {
    assert!(expected.loss.is_finite() && expected.loss > 1e-6, "{name}: loss {}", expected.loss);
    assert_close(&format!("{name}: loss"), &[found.loss], &[expected.loss], expected.loss);
    assert_close(&format!("{name}: outputs"), &found.outputs, &expected.outputs, largest(&expected.outputs));
    let most = expected.gradients.iter().map(|(_, values)| largest(values)).fold(0.0, f64::max);
    for ((role, found), (_, expected)) in found.gradients.iter().zip(&expected.gradients) {
        assert_close(&format!("{name}: {role:?}"), found, expected, most);
    }
}

/// All graphs of a batch as one.
fn joined(batch: &GraphBatch) -> GraphBatch {
    let mut store = GraphStore::new(batch.layout().clone());
    let parts = GraphParts {
        num_nodes: batch.num_nodes(),
        src: batch.in_src(),
        dst: batch.in_dst(),
        node: batch.node(),
        edge: batch.edge(),
        target: batch.target(),
    };
    store.push(parts).unwrap();
    let mut joined = GraphBatch::new();
    joined.assemble(&store, &[0]).unwrap();
    joined
}

fn on_nodes(edge_stream: bool) -> Network {
    Network { reads: HeadInput::Nodes, ..network(6, 3, edge_stream) }
}

/// Random edges from lower to higher nodes: connected, multi-edges included, none of them with a
/// reverse.
fn one_way(seed: u64, nodes: usize, edges: usize) -> Shape {
    let mut rng = Rng(seed);
    let path = (1..nodes as u32).map(|node| (node - 1, node));
    let more = (nodes - 1..edges).map(|_| {
        let (a, b) = (rng.below(nodes - 1), rng.below(nodes));
        let b = if a == b { nodes - 1 } else { b };
        (a.min(b) as u32, a.max(b) as u32)
    });
    Shape { nodes, edges: path.chain(more).collect() }
}

fn cut_equals_whole(name: &str, network: &Network, graphs: &[Shape]) {
    let network = Network { edge_stream: true, symmetric_edges: false, ..network.clone() };
    let batch = batch(&network, graphs, Loss::Mse, 0.1, 17);
    let whole = Network { symmetric_edges: true, ..network.clone() };
    assert_same(name, &pass(&network, &batch), &pass(&whole, &batch));
}

#[test]
fn one_graph_of_many_components_equals_many_graphs() {
    let graphs = random_graphs(5, 700, 1, 16);
    for edge_stream in [true, false] {
        for norm in NORMS {
            let network = Network { norm, ..on_nodes(edge_stream) };
            let many = batch(&network, &graphs, Loss::Mse, 0.1, 17);
            assert!(many.num_nodes() > 5_000);
            let name = format!("{norm:?}, edge stream {edge_stream}");
            assert_same(&name, &pass(&network, &joined(&many)), &pass(&network, &many));
        }
    }
}

#[test]
fn dropout_places_and_jumps_do_not_depend_on_the_cut() {
    let graphs = random_graphs(6, 700, 1, 16);
    let places = [
        (HeadInput::Nodes, Jump::Concat),
        (HeadInput::Edges, Jump::Sum),
        (HeadInput::Pairs, Jump::Concat),
        (HeadInput::Products, Jump::Concat),
    ];
    for (reads, jump) in places {
        let (gate, clamp) = (Gate::Scalar, Clamp::Exponentials);
        let network = Network { reads, jump, gate, clamp, dropout: 0.2, input_dropout: 0.1, ..on_nodes(true) };
        let many = batch(&network, &graphs, Loss::Mse, 0.1, 17);
        assert_same(&format!("{reads:?}, {jump:?}"), &pass(&network, &joined(&many)), &pass(&network, &many));
    }
}

#[test]
fn prediction_on_one_graph_of_many_components_equals_that_on_many_graphs() {
    for edge_stream in [true, false] {
        let network = on_nodes(edge_stream);
        let many = batch(&network, &random_graphs(7, 700, 1, 16), Loss::Mse, 0.0, 17);
        let mut engine = engine(&network);
        let expected = engine.predict(&many, AttentionScope::Sparse);
        assert_close("outputs", &engine.predict(&joined(&many), AttentionScope::Sparse), &expected, largest(&expected));
    }
}

#[test]
fn a_connected_graph_equals_the_same_graph_in_one_piece_for_every_readout() {
    let graphs = [one_way(9, 6_000, 12_000)];
    for (number, reads) in [
        HeadInput::Graphs(Readout::Mean),
        HeadInput::Graphs(Readout::Sum),
        HeadInput::Graphs(Readout::Max),
        HeadInput::Edges,
    ]
    .into_iter()
    .enumerate()
    {
        let network = Network { reads, norm: NORMS[number % 2], ..on_nodes(true) };
        cut_equals_whole(&format!("{reads:?}"), &network, &graphs);
    }
}

#[test]
fn large_and_small_graphs_share_a_batch() {
    let graphs =
        [one_way(1, 30, 60), Shape::new(0, &[]), one_way(2, 5_000, 9_000), Shape::new(1, &[]), one_way(3, 7, 20)];
    for readout in [Readout::Mean, Readout::Max] {
        let network = Network { reads: HeadInput::Graphs(readout), ..on_nodes(true) };
        cut_equals_whole(&format!("{readout:?}"), &network, &graphs);
    }
}

#[test]
fn hubs_of_ten_thousand_edges_equal_those_in_one_piece() {
    let spokes = 1..=10_000;
    let into = Shape { nodes: 10_001, edges: spokes.clone().map(|node| (node, 0)).collect() };
    let out_of = Shape { nodes: 10_001, edges: spokes.map(|node| (0, node)).collect() };
    for (name, hub) in [("into", into), ("out of", out_of)] {
        cut_equals_whole(name, &on_nodes(true), &[one_way(4, 50, 100), hub]);
    }
}

#[test]
fn a_hub_without_edge_stream_equals_that_in_one_piece() {
    // By itself just small enough to stay whole.
    let network = on_nodes(false);
    let many = batch(&network, &[Shape::hub(4_200), Shape::full(20), one_way(5, 400, 900)], Loss::Mse, 0.0, 17);
    assert_same("hub", &pass(&network, &joined(&many)), &pass(&network, &many));
}

/// One entry of each of some parameters. A short step: among so many ReLUs, some one is always
/// close to its kink.
fn compare_with_differences(network: &Network, batch: &GraphBatch, chosen: impl Fn(Role) -> bool) {
    const STEP: f64 = 1e-7;
    let mut engine = engine(network);
    let target = batch.target().unwrap();
    engine.train(batch, AttentionScope::Sparse, Loss::Mse, target);
    let mut probe = engine.clone();
    let mut compared = 0;
    for index in 0..engine.parameters().list().len() {
        let role = engine.parameters().list()[index].role();
        if !chosen(role) {
            continue;
        }
        let (values, gradient) = (engine.parameter(index), engine.gradient(index));
        // The steepest entry, so that there is something to compare.
        let at = (0..values.len()).max_by(|&a, &b| gradient[a].abs().total_cmp(&gradient[b].abs())).unwrap();
        let mut loss_at = |offset: f64| {
            let mut moved = values.clone();
            moved[at] += offset;
            probe.set_parameter(index, &moved);
            probe.refresh();
            probe.train(batch, AttentionScope::Sparse, Loss::Mse, target)
        };
        let difference = (loss_at(STEP) - loss_at(-STEP)) / (2.0 * STEP);
        probe.set_parameter(index, &values);
        probe.refresh();
        let off = (gradient[at] - difference).abs();
        assert!(off <= 1e-3 * gradient[at].abs(), "{role:?}[{at}] is {:e}, difference {difference:e}", gradient[at]);
        compared += 1;
    }
    assert!(compared >= 5);
}

#[test]
fn gradients_fit_on_a_large_random_graph() {
    let shape = Shape::random(&mut Rng(21), 6_000, 12_000);
    for edge_stream in [true, false] {
        let network = on_nodes(edge_stream);
        let batch = batch(&network, std::slice::from_ref(&shape), Loss::Mse, 0.0, 17);
        compare_with_differences(&network, &batch, |role| {
            matches!(
                role,
                Role::Branch(0, "attention.Q.weight")
                    | Role::Branch(_, "attention.K.weight")
                    | Role::Branch(0, "attention.V.weight")
                    | Role::Branch(0, "attention.proj_e.weight")
                    | Role::Embedding(..)
                    | Role::Norm(0, Stream::Edge, 1, WeightOrBias::Weight)
                    | Role::FeedForward(0, _, 1, WeightOrBias::Weight)
            )
        });
    }
}

#[test]
fn training_on_a_large_graph_has_the_same_bits_on_any_number_of_threads() {
    let shape = Shape::random(&mut Rng(23), 6_000, 12_000);
    for edge_stream in [true, false] {
        let network = Network { dropout: 0.1, ..on_nodes(edge_stream) };
        let batch = batch(&network, std::slice::from_ref(&shape), Loss::Mse, 0.1, 31);
        let train = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut engine = Engine::<f32>::new(network.clone(), Isa::detect());
                fill(&mut engine, 29);
                let mut bits = Vec::new();
                for key in 0..4 {
                    engine.set_dropout_key(key);
                    let loss = engine.train(&batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
                    bits.extend([loss.to_bits(), engine.step(&Adam::default()).to_bits()]);
                }
                let count = engine.parameters().list().len();
                bits.extend((0..count).flat_map(|index| engine.parameter(index)).map(|v| u64::from(v.to_bits())));
                bits
            })
        };
        let one = train(1);
        for threads in [2, 3, 8] {
            assert!(train(threads) == one, "{threads} threads, edge stream {edge_stream}");
        }
    }
}
