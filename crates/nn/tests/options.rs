//! Options of a network: their gradients against finite differences, and what each of them
//! promises.

mod support;

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::cpu::{Engine, Isa};
use graph_transformer_nn::{
    Channels, Clamp, Gate, HeadInput, Input, Jump, Loss, Network, Norm, Readout, Role, Stream, WeightOrBias,
};
use gt_graph::{
    FeatureLayout, FeatureRows, GraphBatch, GraphParts, GraphStore, Layout, Level, TargetKind, TargetLayout, TargetRows,
};
use support::{Rng, Shape, batch, check_engine, fill, mixed, network, random_graphs};

const NORMS: [Norm; 3] = [Norm::Batch, Norm::Layer, Norm::None];
const JUMPS: [Jump; 3] = [Jump::Last, Jump::Concat, Jump::Sum];

fn engine(network: &Network) -> Engine<f64> {
    let mut engine = Engine::new(network.clone(), Isa::Portable);
    fill(&mut engine, 11);
    engine.set_dropout_key(7);
    engine
}

fn index_of(engine: &Engine<f64>, role: Role) -> usize {
    engine.parameters().list().iter().position(|parameter| parameter.role() == role).unwrap()
}

fn of(engine: &Engine<f64>, role: Role) -> Vec<f64> {
    engine.parameter(index_of(engine, role))
}

fn set(engine: &mut Engine<f64>, role: Role, value: impl Fn(usize, f64) -> f64) {
    let index = index_of(engine, role);
    let values: Vec<f64> = engine.parameter(index).into_iter().enumerate().map(|(at, v)| value(at, v)).collect();
    engine.set_parameter(index, &values);
    engine.refresh();
}

/// Trains once; returns the outputs.
fn train(engine: &mut Engine<f64>, batch: &GraphBatch) -> Vec<f64> {
    engine.train(batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
    engine.outputs()
}

/// Gradients against differences on a batch of mixed graphs; they must not vanish.
fn check(name: &str, network: &Network, graphs: &[Shape], most: usize) {
    let batch = batch(network, graphs, Loss::Mse, 0.0, 17);
    let target = batch.target().unwrap();
    let largest = check_engine(name, &mut engine(network), &batch, AttentionScope::Sparse, Loss::Mse, target, most);
    assert!(largest > 1e-3, "{name}: largest gradient {largest:e}");
}

fn assert_near(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= tolerance, "{what}: [{at}] is {found}, expected {expected}");
    }
}

/// Every edge in both directions, some of them repeated, and what has no reverse: loops, one more
/// copy, one-way edges.
fn two_way() -> Vec<Shape> {
    vec![
        Shape::new(4, &[(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (0, 3)]),
        Shape::new(1, &[]),
        Shape::new(3, &[(0, 1), (1, 0), (0, 1), (1, 1), (1, 0), (2, 1), (0, 1), (2, 2)]),
        Shape::full(5),
    ]
}

/// "The paper's variant": everything that the published code does differently from the paper's
/// text.
fn paper(width: usize, heads: usize, norm: Norm) -> Network {
    let base = network(width, heads, true);
    Network {
        norm,
        gate: Gate::Scalar,
        clamp: Clamp::Exponentials,
        symmetric_edges: true,
        node: Input { bias: true, laplacian: 2, ..base.node.clone() },
        edge: Input { bias: true, ..base.edge.clone() },
        head: vec![width, 3],
        ..base
    }
}

#[test]
fn gradients_fit_for_scalar_gates() {
    for norm in NORMS {
        let network = Network { norm, gate: Gate::Scalar, ..network(6, 3, true) };
        check(&format!("{norm:?}"), &network, &mixed(), 12);
    }
    for (width, heads) in [(7, 1), (16, 2), (64, 8), (40, 20)] {
        let network = Network { norm: Norm::Layer, gate: Gate::Scalar, ..network(width, heads, true) };
        check(&format!("{width}/{heads}"), &network, &mixed(), 2);
    }
}

#[test]
fn gradients_fit_where_some_exponentials_are_clamped() {
    let gates = [(false, Gate::PerChannel), (true, Gate::PerChannel), (true, Gate::Scalar)];
    for (edge_stream, gate) in gates {
        let name = format!("edge stream {edge_stream}, {gate:?}");
        let network = Network { norm: Norm::Layer, gate, clamp: Clamp::Exponentials, ..network(6, 3, edge_stream) };
        let batch = batch(&network, &two_way(), Loss::Mse, 0.0, 17);
        let large = |network: &Network| {
            let mut engine = engine(network);
            (0..2).for_each(|layer| set(&mut engine, Role::Branch(layer, "attention.Q.weight"), |_, v| 3.0 * v));
            engine
        };
        let mut clamped = large(&network);
        let target = batch.target().unwrap();
        check_engine(&name, &mut clamped, &batch, AttentionScope::Sparse, Loss::Mse, target, 12);
        // It holds somewhere: the clamp of logits gives something else. Not everywhere: queries
        // would have no gradient.
        let other = train(&mut large(&Network { clamp: Clamp::Logits, ..network.clone() }), &batch);
        assert_ne!(clamped.outputs(), other, "{name}");
        let gradient = clamped.gradient(index_of(&clamped, Role::Branch(1, "attention.Q.weight")));
        assert!(gradient.iter().any(|g| g.abs() > 1e-4), "{name}");
    }
}

#[test]
fn gradients_fit_for_symmetric_edges() {
    for norm in NORMS {
        let symmetric = Network { norm, symmetric_edges: true, ..network(6, 3, true) };
        check(&format!("{norm:?}"), &symmetric, &two_way(), 12);
        let edges = Network { reads: HeadInput::Edges, ..symmetric };
        check(&format!("{norm:?}, edges"), &edges, &two_way(), 6);
    }
    let mut graphs = random_graphs(25, 60, 20, 40);
    for graph in &mut graphs {
        graph.edges.extend(graph.edges.clone().iter().map(|&(s, t)| (t, s)));
    }
    let network = Network { symmetric_edges: true, reads: HeadInput::Nodes, ..network(6, 3, true) };
    check("several parts", &network, &graphs, 1);
}

#[test]
fn gradients_fit_for_input_biases() {
    for (node_bias, edge_bias) in [(true, false), (false, true), (true, true)] {
        let base = network(6, 2, true);
        let node = Input { bias: node_bias, random_walk: 2, ..base.node.clone() };
        let edge = Input { bias: edge_bias, ..base.edge.clone() };
        let network = Network { node, edge, norm: Norm::Layer, ..base };
        check(&format!("nodes {node_bias}, edges {edge_bias}"), &network, &mixed(), 12);
        let engine = engine(&network);
        let has = |stream| engine.parameters().list().iter().any(|p| p.role() == Role::InputBias(stream));
        assert_eq!((has(Stream::Node), has(Stream::Edge)), (node_bias, edge_bias));
    }
}

#[test]
fn gradients_fit_for_the_variant_of_the_paper() {
    for norm in NORMS {
        check(&format!("{norm:?}"), &paper(6, 2, norm), &two_way(), 12);
        check(&format!("{norm:?}, dropout"), &Network { dropout: 0.2, ..paper(6, 2, norm) }, &two_way(), 6);
    }
    check("64/8", &paper(64, 8, Norm::Batch), &two_way(), 2);
}

#[test]
fn gradients_fit_with_dropout() {
    for norm in NORMS {
        for edge_stream in [true, false] {
            for (dropout, input_dropout) in [(0.3, 0.0), (0.0, 0.3), (0.4, 0.2)] {
                let base = network(6, 3, edge_stream);
                let node = Input { laplacian: 2, bias: true, ..base.node.clone() };
                let network = Network { norm, dropout, input_dropout, node, ..base };
                let name = format!("{norm:?}, edge stream {edge_stream}, dropout {dropout}, {input_dropout}");
                check(&name, &network, &mixed(), 6);
            }
        }
    }
    // The last layer's edge stream, too.
    let network = Network { dropout: 0.3, reads: HeadInput::Edges, ..network(6, 3, true) };
    check("edges", &network, &mixed(), 12);
}

#[test]
fn gradients_fit_for_every_place_jump_and_depth() {
    let places = [
        HeadInput::Graphs(Readout::Mean),
        HeadInput::Graphs(Readout::Max),
        HeadInput::Nodes,
        HeadInput::Edges,
        HeadInput::Pairs,
        HeadInput::Products,
    ];
    for reads in places {
        for jump in JUMPS {
            for layers in [0, 1, 2, 3] {
                let norm = NORMS[layers % 3];
                let head = if layers % 2 == 0 { vec![5, 2] } else { vec![2] };
                let network = Network { reads, jump, layers, norm, head, ..network(6, 3, true) };
                check(&format!("{reads:?}, {jump:?}, {layers} layers, {norm:?}"), &network, &mixed(), 3);
            }
        }
    }
}

#[test]
fn gradients_fit_where_nodes_outnumber_edges() {
    let few = [Shape::new(9, &[(0, 1)]), Shape::new(7, &[]), Shape::new(5, &[(2, 2), (1, 0)])];
    for (jump, reads) in JUMPS.into_iter().flat_map(|jump| [(jump, HeadInput::Edges), (jump, HeadInput::Pairs)]) {
        let network = Network { reads, jump, ..network(6, 3, true) };
        check(&format!("{reads:?}, {jump:?}"), &network, &few, 3);
    }
}

#[test]
fn gradients_fit_for_pairs_that_are_no_edges() {
    let asked: (Vec<u32>, Vec<u32>) = [(0, 3), (3, 0), (2, 2), (9, 1), (9, 1), (16, 0), (4, 10)].into_iter().unzip();
    let mut rng = Rng(43);
    let labels: Vec<f32> = (0..2 * asked.0.len()).map(|_| rng.symmetric() as f32).collect();
    for (jump, reads) in JUMPS.into_iter().flat_map(|jump| [(jump, HeadInput::Pairs), (jump, HeadInput::Products)]) {
        let network = Network { reads, jump, ..network(6, 3, true) };
        let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 17);
        let mut engine = engine(&network);
        engine.set_pairs(Some((&asked.0, &asked.1)));
        let target = TargetRows::Float(&labels);
        let largest = check_engine("pairs", &mut engine, &batch, AttentionScope::Sparse, Loss::Mse, target, 6);
        assert!(largest > 1e-3);
        assert_eq!(engine.outputs().len(), labels.len());
    }
}

#[test]
fn dropout_is_a_function_of_its_key() {
    for (dropout, input_dropout) in [(0.3, 0.0), (0.0, 0.3)] {
        let network = Network { dropout, input_dropout, reads: HeadInput::Nodes, ..network(6, 3, true) };
        let batch = batch(&network, &random_graphs(3, 120, 20, 40), Loss::Mse, 0.0, 17);
        let run = |key: u64, threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut engine = engine(&network);
                engine.set_dropout_key(key);
                let mut values = train(&mut engine, &batch);
                (0..engine.parameters().list().len()).for_each(|index| values.extend(engine.gradient(index)));
                values.into_iter().map(f64::to_bits).collect::<Vec<u64>>()
            })
        };
        let one = run(5, 1);
        assert_eq!(one, run(5, 1));
        assert_eq!(one, run(5, 2));
        assert_eq!(one, run(5, 5));
        assert_ne!(one, run(6, 1));
    }
}

#[test]
fn prediction_drops_nothing() {
    let plain = Network { reads: HeadInput::Nodes, ..network(6, 3, true) };
    let dropping = Network { dropout: 0.5, input_dropout: 0.5, ..plain.clone() };
    let batch = batch(&plain, &mixed(), Loss::Mse, 0.0, 17);
    let expected = engine(&plain).predict(&batch, AttentionScope::Sparse);
    let mut engine = engine(&dropping);
    for key in [7, 8] {
        engine.set_dropout_key(key);
        assert_eq!(engine.predict(&batch, AttentionScope::Sparse), expected);
    }
    assert_ne!(train(&mut engine, &batch), expected);
}

/// Where the network is linear in what is dropped, the mean over many keys must be what nothing
/// dropped gives.
fn mean_over_keys_is_the_undropped_value(network: &Network, batch: &GraphBatch) {
    const KEYS: usize = 3000;
    let mut engine = engine(network);
    for stream in [Stream::Node, Stream::Edge] {
        if network.layers > 0 {
            // Hidden values without a ReLU on the way to them: constants.
            set(&mut engine, Role::FeedForward(0, stream, 1, WeightOrBias::Weight), |_, _| 0.0);
            set(&mut engine, Role::FeedForward(0, stream, 1, WeightOrBias::Bias), |at, _| 0.3 + 0.05 * at as f64);
        }
    }
    let expected = engine.predict(batch, AttentionScope::Sparse);
    let (mut sums, mut squares) = (vec![0.0; expected.len()], vec![0.0; expected.len()]);
    for key in 0..KEYS {
        engine.set_dropout_key(key as u64);
        for (at, value) in train(&mut engine, batch).into_iter().enumerate() {
            sums[at] += value;
            squares[at] += value * value;
        }
    }
    for (at, &expected) in expected.iter().enumerate() {
        let mean = sums[at] / KEYS as f64;
        let deviation = (squares[at] / KEYS as f64 - mean * mean).max(0.0).sqrt();
        let off = (mean - expected).abs();
        assert!(deviation > 1e-3, "[{at}] never changes");
        let standard_error = deviation / (KEYS as f64).sqrt();
        assert!(off < 5.0 * standard_error, "[{at}]: {mean} on average, {expected} undropped, ±{standard_error:.1e}");
    }
}

#[test]
fn dropout_keeps_the_mean_of_embedded_features_and_leaves_encodings_alone() {
    let base = network(6, 3, false);
    let node = Input { laplacian: 2, ..base.node.clone() };
    let network = Network { layers: 0, input_dropout: 0.3, node, reads: HeadInput::Nodes, head: vec![2], ..base };
    mean_over_keys_is_the_undropped_value(&network, &batch(&network, &[Shape::full(3)], Loss::Mse, 0.0, 17));
    // Only encodings reach the output: nothing to drop.
    let mut engine = engine(&network);
    set(&mut engine, Role::Embedding(Stream::Node, 0), |_, _| 0.0);
    let batch = batch(&network, &[Shape::full(3)], Loss::Mse, 0.0, 17);
    let expected = engine.predict(&batch, AttentionScope::Sparse);
    assert_eq!(train(&mut engine, &batch), expected);
}

#[test]
fn dropout_keeps_the_mean_of_attended_and_hidden_values_of_both_streams() {
    for reads in [HeadInput::Nodes, HeadInput::Edges] {
        let network =
            Network { layers: 1, norm: Norm::None, dropout: 0.3, reads, head: vec![2], ..network(6, 3, true) };
        let batch = batch(&network, &[Shape::new(2, &[(0, 1), (1, 1), (1, 0)])], Loss::Mse, 0.0, 17);
        mean_over_keys_is_the_undropped_value(&network, &batch);
    }
}

#[test]
fn symmetric_edges_share_one_representation_in_every_layer() {
    let (width, graphs) = (6, [Shape::full(4), Shape::new(3, &[(0, 1), (1, 0), (1, 2), (2, 1)])]);
    for norm in NORMS {
        let symmetric = Network { norm, symmetric_edges: true, ..network(width, 3, true) };
        let batch = batch(&symmetric, &graphs, Loss::Mse, 0.0, 17);
        let ends: Vec<(u32, u32)> = batch.in_src().iter().copied().zip(batch.in_dst().iter().copied()).collect();
        let reverse = |&(s, t): &(u32, u32)| ends.iter().position(|&edge| edge == (t, s)).unwrap();
        let categories = batch.edge().categorical;
        assert!((0..ends.len()).any(|e| categories[e] != categories[reverse(&ends[e])]), "features differ");
        let differences = |network: &Network| -> Vec<f64> {
            let mut engine = engine(network);
            train(&mut engine, &batch);
            let layers = (0..=network.layers).map(|index| {
                let rows = engine.hidden_edges(index);
                let row = |edge: usize| &rows[edge * width..(edge + 1) * width];
                let pairs = (0..ends.len()).flat_map(|e| row(e).iter().zip(row(reverse(&ends[e]))));
                pairs.fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()))
            });
            layers.collect()
        };
        let found = differences(&symmetric);
        assert!(found.iter().all(|&d| d < 1e-12), "{norm:?}: {found:?}");
        let found = differences(&Network { symmetric_edges: false, ..symmetric });
        assert!(found.iter().all(|&d| d > 1e-2), "{norm:?}: {found:?}");
    }
}

/// What the head's first layer reads, written out from the streams of the last training pass.
fn head_input(engine: &Engine<f64>, batch: &GraphBatch) -> Vec<Vec<f64>> {
    let network = engine.network();
    let width = network.channels.width();
    let layers: Vec<usize> = match network.jump {
        Jump::Last => vec![network.layers],
        _ => (1..=network.layers).collect(),
    };
    let streams: Vec<Vec<f64>> =
        layers
            .into_iter()
            .map(|layer| {
                if network.reads == HeadInput::Edges { engine.hidden_edges(layer) } else { engine.hidden_nodes(layer) }
            })
            .collect();
    let row = |at: usize| -> Vec<f64> {
        let rows = streams.iter().map(|stream| &stream[at * width..(at + 1) * width]);
        match network.jump {
            Jump::Sum => (0..width).map(|c| rows.clone().map(|row| row[c]).sum()).collect(),
            _ => rows.flatten().copied().collect(),
        }
    };
    match network.reads {
        HeadInput::Nodes => (0..batch.num_nodes()).map(row).collect(),
        HeadInput::Edges => (0..batch.num_edges()).map(row).collect(),
        HeadInput::Pairs => {
            let ends = batch.in_src().iter().zip(batch.in_dst());
            ends.map(|(&s, &t)| [row(s as usize), row(t as usize)].concat()).collect()
        }
        HeadInput::Products => {
            let product = |s: usize, t: usize| row(s).iter().zip(row(t)).map(|(a, b)| a * b).collect();
            batch.in_src().iter().zip(batch.in_dst()).map(|(&s, &t)| product(s as usize, t as usize)).collect()
        }
        HeadInput::Graphs(readout) => {
            let pool = |graph: usize| {
                let rows: Vec<Vec<f64>> = batch.nodes_of(graph).map(row).collect();
                let column = |c: usize| rows.iter().map(move |row| row[c]);
                let one = |c: usize| match readout {
                    _ if rows.is_empty() => 0.0,
                    Readout::Sum => column(c).sum(),
                    Readout::Mean => column(c).sum::<f64>() / rows.len() as f64,
                    Readout::Max => column(c).fold(f64::NEG_INFINITY, f64::max),
                };
                (0..row(0).len()).map(one).collect()
            };
            (0..batch.num_graphs()).map(pool).collect()
        }
    }
}

#[test]
fn the_head_reads_the_layers_and_rows_that_it_is_told_to() {
    let places = [
        HeadInput::Graphs(Readout::Mean),
        HeadInput::Graphs(Readout::Sum),
        HeadInput::Graphs(Readout::Max),
        HeadInput::Nodes,
        HeadInput::Edges,
        HeadInput::Pairs,
        HeadInput::Products,
    ];
    for reads in places {
        for jump in JUMPS {
            for (width, layers, norm) in [(6, 3, Norm::Layer), (7, 1, Norm::Batch), (6, 2, Norm::Batch)] {
                let name = format!("{reads:?}, {jump:?}, {layers} layers");
                let heads = if width == 6 { 3 } else { 1 };
                let network = Network { reads, jump, layers, norm, head: vec![2], ..network(width, heads, true) };
                let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 17);
                let mut engine = engine(&network);
                let found = train(&mut engine, &batch);
                let (weight, bias) =
                    (of(&engine, Role::Head(0, WeightOrBias::Weight)), of(&engine, Role::Head(0, WeightOrBias::Bias)));
                let streams = if jump == Jump::Concat { layers } else { 1 };
                let inputs = streams * width * if reads == HeadInput::Pairs { 2 } else { 1 };
                let shape = engine.parameters().list()[index_of(&engine, Role::Head(0, WeightOrBias::Weight))].shape();
                assert_eq!(shape, [2, inputs], "{name}");
                let expected: Vec<f64> =
                    head_input(&engine, &batch).iter().flat_map(|x| affine(&weight, &bias, x)).collect();
                assert_near(&name, &found, &expected, 1e-10);
                // Prediction keeps other buffers, but with the same statistics it must give the
                // same.
                if norm == Norm::Layer {
                    assert_near(&name, &engine.predict(&batch, AttentionScope::Sparse), &expected, 1e-10);
                }
            }
        }
    }
}

#[test]
fn pairs_are_ordered_and_may_be_any() {
    let network = Network { reads: HeadInput::Pairs, norm: Norm::Layer, ..network(6, 3, true) };
    let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 17);
    let mut engine = engine(&network);
    let of_edges = engine.predict(&batch, AttentionScope::Sparse);
    let (source, target) = (batch.in_src().to_vec(), batch.in_dst().to_vec());
    engine.set_pairs(Some((&source, &target)));
    assert_eq!(engine.predict(&batch, AttentionScope::Sparse), of_edges);
    engine.set_pairs(Some((&target, &source)));
    let swapped = engine.predict(&batch, AttentionScope::Sparse);
    for (edge, (s, t)) in source.iter().zip(&target).enumerate() {
        let same = of_edges[2 * edge..2 * edge + 2] == swapped[2 * edge..2 * edge + 2];
        assert_eq!(same, s == t, "pair {edge}");
    }
    // Backwards, and each pair twice: every row follows its own pair only.
    let twice = |list: &[u32]| -> Vec<u32> { list.iter().rev().flat_map(|&node| [node, node]).collect() };
    engine.set_pairs(Some((&twice(&source), &twice(&target))));
    let rows: Vec<f64> = of_edges.chunks_exact(2).rev().flat_map(|row| [row[0], row[1], row[0], row[1]]).collect();
    assert_near("pairs", &engine.predict(&batch, AttentionScope::Sparse), &rows, 1e-12);
    engine.set_pairs(Some((&[], &[])));
    assert!(engine.predict(&batch, AttentionScope::Sparse).is_empty());
    engine.set_pairs(None);
    assert_eq!(engine.predict(&batch, AttentionScope::Sparse), of_edges);
}

/// One graph of edges (source, target, category) in the order of a file; node categories are 0, 1,
/// 2, …
fn one_graph(nodes: usize, edges: &[(u32, u32, u32)], level: Level) -> GraphBatch {
    let features = FeatureLayout { categorical: 1, ..Default::default() };
    let target = TargetLayout { level, kind: TargetKind::Float, columns: 2 };
    let mut store = GraphStore::new(Layout { node: features.clone(), edge: features, target: Some(target) });
    let column = |of: fn(&(u32, u32, u32)) -> u32| -> Vec<u32> { edges.iter().map(of).collect() };
    let (src, dst, category) = (column(|e| e.0), column(|e| e.1), column(|e| e.2));
    let node: Vec<u32> = (0..nodes as u32).collect();
    let labels = vec![0.5; 2 * level.rows(nodes, edges.len())];
    let parts = GraphParts {
        num_nodes: nodes,
        src: &src,
        dst: &dst,
        node: FeatureRows { categorical: &node, ..Default::default() },
        edge: FeatureRows { categorical: &category, ..Default::default() },
        target: Some(TargetRows::Float(&labels)),
    };
    store.push(parts).unwrap();
    let mut batch = GraphBatch::new();
    batch.assemble(&store, &[0]).unwrap();
    batch
}

/// W·x + b
fn affine(weight: &[f64], bias: &[f64], x: &[f64]) -> Vec<f64> {
    let dot = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    weight.chunks_exact(x.len()).zip(bias).map(|(row, b)| dot(row) + b).collect()
}

#[test]
fn outputs_of_edges_come_in_in_order() {
    let network = Network { layers: 0, reads: HeadInput::Edges, head: vec![2], ..network(6, 3, true) };
    // By target, then as in the file: categories 2, 0, 1, 0.
    let batch = one_graph(3, &[(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 0)], Level::Edge);
    let mut engine = engine(&network);
    let (weight, bias) =
        (of(&engine, Role::Head(0, WeightOrBias::Weight)), of(&engine, Role::Head(0, WeightOrBias::Bias)));
    let embedding = of(&engine, Role::Embedding(Stream::Edge, 0));
    let rows = [2, 0, 1, 0].map(|category: usize| &embedding[category * 6..(category + 1) * 6]);
    let expected: Vec<f64> = rows.iter().flat_map(|x| affine(&weight, &bias, x)).collect();
    assert_near("edges", &engine.predict(&batch, AttentionScope::Sparse), &expected, 1e-12);
}

/// One layer without normalisation, as the paper has it: nodes and edges after it, edges in
/// in-order.
fn layer(engine: &Engine<f64>, ends: &[(usize, usize)], x: &[Vec<f64>], e: &[Vec<f64>]) -> [Vec<Vec<f64>>; 2] {
    let network = engine.network();
    let (width, per_head) = (network.channels.width(), network.channels.per_head());
    let zeros = vec![0.0; width];
    let linear = |role: Role, rows: &[Vec<f64>]| -> Vec<Vec<f64>> {
        rows.iter().map(|x| affine(&of(engine, role), &zeros, x)).collect()
    };
    let (q, k, v) = (
        linear(Role::Branch(0, "attention.Q.weight"), x),
        linear(Role::Branch(0, "attention.K.weight"), x),
        linear(Role::Branch(0, "attention.V.weight"), x),
    );
    let p = linear(Role::Branch(0, "attention.proj_e.weight"), e);
    let mut score = vec![vec![0.0; width]; ends.len()];
    let mut sums = vec![vec![0.0; width]; x.len()];
    let mut z = vec![vec![1e-6; width / per_head]; x.len()];
    for (edge, &(s, t)) in ends.iter().enumerate() {
        for (head, z) in z[t].iter_mut().enumerate() {
            let channels = head * per_head..(head + 1) * per_head;
            let products: Vec<f64> = channels.clone().map(|c| q[t][c] * k[s][c] / (per_head as f64).sqrt()).collect();
            let whole: f64 = products.iter().sum();
            for (c, product) in channels.clone().zip(products) {
                score[edge][c] = p[edge][c] * if network.gate == Gate::Scalar { whole } else { product };
            }
            let logit: f64 = score[edge][channels.clone()].iter().sum();
            let weight = match network.clamp {
                Clamp::Logits => logit.clamp(-5.0, 5.0).exp(),
                Clamp::Exponentials => logit.exp().min(5.0),
            };
            *z += weight;
            channels.for_each(|c| sums[t][c] += weight * v[s][c]);
        }
    }
    let attended = sums.iter().zip(&z);
    let attended = attended.map(|(row, z)| row.iter().enumerate().map(|(c, v)| v / z[c / per_head]).collect());
    let attended: Vec<Vec<f64>> = attended.collect();
    let add = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
    let half = |stream: Stream, rows: &[Vec<f64>], inputs: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let part = |[weight, bias]: [Role; 2], x: &[f64]| affine(&of(engine, weight), &of(engine, bias), x);
        let of_half =
            |number| [WeightOrBias::Weight, WeightOrBias::Bias].map(|part| Role::FeedForward(0, stream, number, part));
        let output = match stream {
            Stream::Node => ["O_h.weight", "O_h.bias"],
            Stream::Edge => ["O_e.weight", "O_e.bias"],
        };
        let output = output.map(|name| Role::Branch(0, name));
        let out = |(row, input): (&Vec<f64>, &Vec<f64>)| {
            let middle = add(input, &part(output, row));
            let mut hidden = part(of_half(1), &middle);
            hidden.iter_mut().for_each(|v| *v = v.max(0.0));
            add(&middle, &part(of_half(2), &hidden))
        };
        rows.iter().zip(inputs).map(out).collect()
    };
    [half(Stream::Node, &attended, x), half(Stream::Edge, &score, e)]
}

#[test]
fn gates_and_clamps_follow_the_formulas_on_two_nodes() {
    let ends = [(1, 0), (0, 0), (0, 1), (1, 1)];
    let categories = [1, 0, 2, 1];
    let listed: Vec<(u32, u32, u32)> =
        ends.iter().zip(categories).map(|(&(s, t), c)| (s as u32, t as u32, c as u32)).collect();
    let batch = one_graph(2, &listed, Level::Node);
    let mut seen: Vec<Vec<f64>> = Vec::new();
    for gate in [Gate::PerChannel, Gate::Scalar] {
        for clamp in [Clamp::Logits, Clamp::Exponentials] {
            let base = network(6, 2, true);
            let channels = Channels::new(6, 2);
            let network =
                Network { channels, layers: 1, norm: Norm::None, reads: HeadInput::Nodes, gate, clamp, ..base };
            let mut engine = engine(&network);
            // Logits far beyond what either clamp lets through, for some edges and heads.
            set(&mut engine, Role::Branch(0, "attention.Q.weight"), |_, v| 60.0 * v);
            train(&mut engine, &batch);
            let embedded =
                |stream: Stream, row: usize| of(&engine, Role::Embedding(stream, 0))[row * 6..(row + 1) * 6].to_vec();
            let x = [0, 1].map(|node| embedded(Stream::Node, node));
            let e = categories.map(|category| embedded(Stream::Edge, category));
            let [nodes, edges] = layer(&engine, &ends, &x, &e);
            assert_near(&format!("{gate:?}, {clamp:?}, nodes"), &engine.hidden_nodes(1), &nodes.concat(), 1e-10);
            assert_near(&format!("{gate:?}, {clamp:?}, edges"), &engine.hidden_edges(1), &edges.concat(), 1e-10);
            let nodes = engine.hidden_nodes(1);
            assert!(seen.iter().all(|other| other != &nodes), "{gate:?}, {clamp:?}: as another option has it");
            seen.push(nodes);
        }
    }
}
