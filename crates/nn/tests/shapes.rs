//! Every width, instruction set and size of graph gives the same numbers; no batch leaves a trace
//! in the next.

mod support;

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::cpu::{Engine, Isa};
use graph_transformer_nn::{HeadInput, Input, Loss, Network, Norm, Readout, Real, Stream};
use gt_graph::GraphBatch;
use gt_testing::{Resource, skip};
use support::{Rng, Shape, WIDTHS, assert_close, batch, fill, mixed, network, random_graphs};

const TOLERANCE: f64 = 2e-5;

/// The instruction sets of this machine; says which ones are missing.
fn isas() -> Vec<Isa> {
    let (here, missing): (Vec<Isa>, Vec<Isa>) =
        [Isa::Avx512, Isa::Avx2, Isa::Portable].into_iter().partition(|isa| isa.available());
    missing.iter().for_each(|isa| skip(Resource::Simd, format_args!("this machine has no {}", isa.name())));
    here
}

fn filled<T: Real>(network: &Network, isa: Isa) -> Engine<T> {
    let mut engine = Engine::new(network.clone(), isa);
    fill(&mut engine, 79);
    // Statistics of no batch at all, so that inference does not pass them by.
    let mut rng = Rng(83);
    for layer in 0..network.layers {
        for (stream, number) in [(Stream::Node, 1), (Stream::Node, 2), (Stream::Edge, 1), (Stream::Edge, 2)] {
            let mut draw = |base: f64| -> Vec<T> {
                (0..network.channels.width())
                    .map(|_| T::from_f64(f64::from((base + 0.5 * rng.symmetric()) as f32)))
                    .collect()
            };
            let (mean, var) = (draw(0.0), draw(1.0));
            engine.set_running(layer, stream, number, &mean, &var);
        }
    }
    engine
}

/// Inference in single precision on every instruction set against double precision.
fn agree(what: &str, network: &Network, batch: &GraphBatch) {
    let expected = filled::<f64>(network, Isa::Portable).predict(batch, AttentionScope::Sparse);
    assert!(expected.iter().all(|v| v.is_finite()), "{what}");
    for isa in isas() {
        let found = filled::<f32>(network, isa).predict(batch, AttentionScope::Sparse);
        assert_close(&format!("{what}, {}", isa.name()), &found, &expected, TOLERANCE);
    }
}

fn on_nodes(width: usize, heads: usize, edge_stream: bool) -> Network {
    // With a single channel, normalising it over itself would leave only β.
    let norm = if width > 1 && heads % 2 == 1 { Norm::Layer } else { Norm::Batch };
    Network { norm, reads: HeadInput::Nodes, ..network(width, heads, edge_stream) }
}

fn gradients<T: Real>(engine: &Engine<T>) -> Vec<T> {
    (0..engine.parameters().list().len()).flat_map(|index| engine.gradient(index)).collect()
}

#[test]
fn instruction_sets_agree_for_every_width_and_number_of_heads() {
    let batches = [
        ("mixed graphs", mixed()),
        ("one node", vec![Shape::new(1, &[])]),
        ("no edges", vec![Shape::new(5, &[]), Shape::new(1, &[])]),
        ("an empty graph", vec![Shape::new(0, &[])]),
        ("no graph", vec![]),
        ("a block's worth and more", random_graphs(89, 12, 5, 130)),
    ];
    for (width, heads) in WIDTHS {
        for edge_stream in [true, false] {
            for (name, graphs) in &batches {
                let what = format!("{width}/{heads}, edge stream {edge_stream}, {name}");
                let on_nodes = on_nodes(width, heads, edge_stream);
                agree(&what, &on_nodes, &batch(&on_nodes, graphs, Loss::Mse, 0.0, 97));
                let on_graphs = Network { reads: HeadInput::Graphs(Readout::Mean), ..on_nodes };
                agree(&what, &on_graphs, &batch(&on_graphs, graphs, Loss::Mse, 0.0, 97));
            }
        }
    }
}

#[test]
fn instruction_sets_agree_on_a_hub_of_ten_thousand_edges() {
    for (width, heads) in [(7, 7), (16, 2), (64, 8), (40, 20)] {
        for edge_stream in [true, false] {
            let network = on_nodes(width, heads, edge_stream);
            let batch = batch(&network, &[Shape::hub(10_000)], Loss::Mse, 0.0, 101);
            assert_eq!(batch.in_offsets()[1], 10_000);
            agree(&format!("{width}/{heads}, edge stream {edge_stream}"), &network, &batch);
        }
    }
}

#[test]
fn instruction_sets_agree_on_losses_and_gradients() {
    for (width, heads) in WIDTHS {
        for edge_stream in [true, false] {
            // Smooth in its parameters but for ReLU; enough rows that the statistics are well
            // conditioned.
            let network = Network { layers: 1, ..on_nodes(width, heads, edge_stream) };
            let batch = batch(&network, &random_graphs(103, 20, 5, 30), Loss::Mse, 0.1, 107);
            let mut exact = filled::<f64>(&network, Isa::Portable);
            let loss = exact.train(&batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
            for isa in isas() {
                let what = format!("{width}/{heads}, edge stream {edge_stream}, {}", isa.name());
                let mut engine = filled::<f32>(&network, isa);
                let found = engine.train(&batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
                assert_close(&what, &[found], &[loss], TOLERANCE);
                assert_close(&what, &engine.outputs(), &exact.outputs(), TOLERANCE);
                // A ReLU whose input is within rounding of 0 may fall on either side; then a single
                // row differs.
                assert_close(&what, &gradients(&engine), &gradients(&exact), 5.0 * TOLERANCE);
            }
        }
    }
}

#[test]
fn computed_pairs_equal_stored_pairs() {
    let sizes = [4, 1, 0, 2, 9, 3, 40];
    for (width, heads) in WIDTHS {
        for edge_stream in [true, false] {
            for constant in [true, false] {
                let edge = if constant {
                    Input { constant, ..Default::default() }
                } else {
                    Input { categorical: vec![1], ..Default::default() }
                };
                let network = Network { edge, ..network(width, heads, edge_stream) };
                let graphs: Vec<Shape> = sizes.iter().map(|&nodes| Shape::full(nodes)).collect();
                let batch = batch(&network, &graphs, Loss::Mse, 0.0, 109);
                let (mut stored, mut computed) =
                    (filled::<f64>(&network, Isa::Portable), filled(&network, Isa::Portable));
                let what = format!("{width}/{heads}, edge stream {edge_stream}, constant {constant}");
                assert_eq!(
                    stored.predict(&batch, AttentionScope::Sparse),
                    computed.predict(&batch, AttentionScope::Full),
                    "{what}"
                );
                let target = batch.target().unwrap();
                let a = stored.train(&batch, AttentionScope::Sparse, Loss::Mse, target);
                let b = computed.train(&batch, AttentionScope::Full, Loss::Mse, target);
                assert_close(&what, &[b], &[a], 1e-12);
                assert_close(&what, &gradients::<f64>(&computed), &gradients(&stored), 1e-10);
            }
        }
    }
}

/// A new engine with the same parameters and statistics.
fn fresh<T: Real>(engine: &Engine<T>, isa: Isa) -> Engine<T> {
    let network = engine.network().clone();
    let mut copy = Engine::new(network.clone(), isa);
    for index in 0..engine.parameters().list().len() {
        copy.set_parameter(index, &engine.parameter(index));
    }
    copy.refresh();
    for layer in 0..network.layers {
        for (stream, number) in [(Stream::Node, 1), (Stream::Node, 2), (Stream::Edge, 1), (Stream::Edge, 2)] {
            let (mean, var) = engine.running(layer, stream, number);
            copy.set_running(layer, stream, number, &mean, &var);
        }
    }
    copy
}

#[test]
fn batches_of_other_sizes_leave_no_trace() {
    for isa in isas() {
        for norm in [Norm::Batch, Norm::Layer, Norm::None] {
            for (edge_stream, reads) in
                [(true, HeadInput::Graphs(Readout::Mean)), (false, HeadInput::Nodes), (true, HeadInput::Nodes)]
            {
                let network = Network { norm, reads, ..network(12, 3, edge_stream) };
                let make = |graphs: &[Shape]| batch(&network, graphs, Loss::Mse, 0.0, 113);
                let large = make(&random_graphs(127, 120, 10, 40));
                let others = [make(&mixed()), make(&[Shape::new(1, &[])]), make(&random_graphs(131, 50, 2, 30))];
                let mut used = filled::<f32>(&network, isa);
                for (number, other) in others.iter().enumerate() {
                    let what = format!("{}, {norm:?}, {edge_stream}, {reads:?}, batch {number}", isa.name());
                    used.train(&large, AttentionScope::Sparse, Loss::Mse, large.target().unwrap());
                    let mut new = fresh(&used, isa);
                    let expected = new.predict(other, AttentionScope::Sparse);
                    assert_eq!(used.clone().predict(other, AttentionScope::Sparse), expected, "{what}: a clone");
                    assert_eq!(used.predict(other, AttentionScope::Sparse), expected, "{what}: after training");
                    assert_eq!(
                        used.predict(other, AttentionScope::Full),
                        new.predict(other, AttentionScope::Full),
                        "{what}: all pairs"
                    );
                    used.train(&large, AttentionScope::Sparse, Loss::Mse, large.target().unwrap());
                    let mut new = fresh(&used, isa);
                    let target = other.target().unwrap();
                    let loss = new.train(other, AttentionScope::Sparse, Loss::Mse, target);
                    assert_eq!(used.train(other, AttentionScope::Sparse, Loss::Mse, target), loss, "{what}: loss");
                    assert_eq!(gradients(&used), gradients(&new), "{what}: gradients");
                }
            }
        }
    }
}

#[test]
fn prediction_neither_depends_on_neighbours_in_the_batch_nor_moves_statistics() {
    let network = network(16, 2, true);
    let graphs = random_graphs(137, 30, 5, 20);
    let all = batch(&network, &graphs, Loss::Mse, 0.0, 139);
    let mut engine = filled::<f64>(&network, Isa::Portable);
    let before = engine.running(0, Stream::Node, 1);
    let together = engine.predict(&all, AttentionScope::Sparse);
    let store = all.split();
    let mut one = GraphBatch::new();
    for graph in 0..store.len() {
        one.assemble(&store, &[graph]).unwrap();
        let alone = engine.predict(&one, AttentionScope::Sparse);
        assert_close(&format!("graph {graph}"), &alone, &together[2 * graph..2 * graph + 2], 1e-12);
    }
    assert_eq!(engine.running(0, Stream::Node, 1), before);
}
