//! Layers of every kind except attention: gradients, shapes, instruction sets, threads, large
//! graphs, and one node by hand.

mod support;

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::cpu::{Adam, Engine, Isa};
use graph_transformer_nn::{Branch, HeadInput, Input, Jump, Loss, Network, Norm, Readout, Real, Role, Stream};
use gt_graph::GraphBatch;
use support::{
    KINDS, Rng, Shape, WIDTHS, assert_close, batch, check, check_engine, check_mixed, fill, mixed, network_of,
    random_graphs,
};

#[test]
fn gradients_fit_for_every_norm_and_residual() {
    for kind in KINDS {
        for norm in [Norm::Batch, Norm::Layer, Norm::None] {
            for residual in [true, false] {
                let network = Network { norm, residual, ..network_of(kind, 6, 3) };
                check_mixed(&format!("{kind:?}, {norm:?}, residual {residual}"), &network, Loss::Mse, 0.0);
            }
        }
    }
}

#[test]
fn gradients_fit_for_every_place_and_jump() {
    for kind in KINDS {
        for jump in [Jump::Last, Jump::Concat, Jump::Sum] {
            for reads in [
                HeadInput::Graphs(Readout::Max),
                HeadInput::Nodes,
                HeadInput::Pairs,
                HeadInput::Products,
                HeadInput::Edges,
            ] {
                if reads == HeadInput::Edges && kind != Branch::GatedGcn {
                    continue;
                }
                let network = Network { jump, reads, ..network_of(kind, 6, 2) };
                check_mixed(&format!("{kind:?}, {jump:?}, {reads:?}"), &network, Loss::Mse, 0.1);
            }
        }
    }
}

#[test]
fn gradients_fit_with_dropout_and_every_depth() {
    for kind in KINDS {
        for layers in [0, 1, 3] {
            let edge = Input { constant: true, ..Default::default() };
            let network = Network { layers, dropout: 0.3, input_dropout: 0.2, edge, ..network_of(kind, 6, 3) };
            let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 17);
            let mut engine = Engine::<f64>::new(network, Isa::Portable);
            fill(&mut engine, 11);
            engine.set_dropout_key(5);
            let name = format!("{kind:?}, {layers} layers");
            check_engine(&name, &mut engine, &batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap(), 20);
        }
    }
}

#[test]
fn gradients_fit_for_every_width_and_number_of_heads() {
    for kind in KINDS {
        for (width, heads) in WIDTHS {
            let network = network_of(kind, width, heads);
            let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 19);
            let name = format!("{kind:?}, {width}/{heads}");
            let largest =
                check(&name, &network, &batch, AttentionScope::Sparse, Loss::Mse, if width > 16 { 3 } else { 40 });
            assert!(largest > 1e-3, "{name}: largest gradient {largest:e}");
        }
    }
}

#[test]
fn gradients_fit_for_every_kind_of_batch() {
    let batches = [
        ("one node", vec![Shape::new(1, &[])]),
        ("one node with a loop", vec![Shape::new(1, &[(0, 0)])]),
        ("two nodes and an edge", vec![Shape::new(2, &[(0, 1)])]),
        ("no edges", vec![Shape::new(4, &[]), Shape::new(2, &[])]),
        ("an empty graph first and last", vec![Shape::new(0, &[]), Shape::full(4), Shape::new(0, &[])]),
        ("no graph", vec![]),
        ("repeated edges", vec![Shape::new(2, &[(0, 1), (0, 1), (0, 1), (1, 0), (1, 1), (1, 1)])]),
    ];
    for kind in KINDS {
        for (name, graphs) in &batches {
            let network = network_of(kind, 6, 3);
            for edges in [AttentionScope::Sparse, AttentionScope::Full] {
                let batch = batch(&network, graphs, Loss::Mse, 0.0, 23);
                check(&format!("{kind:?}, {name}, {edges:?}"), &network, &batch, edges, Loss::Mse, 20);
            }
        }
    }
}

#[test]
fn gradients_fit_for_batches_of_several_parts() {
    for kind in KINDS {
        let network = network_of(kind, 6, 3);
        let batch = batch(&network, &random_graphs(25, 80, 5, 40), Loss::Mse, 0.1, 27);
        check(&format!("{kind:?}"), &network, &batch, AttentionScope::Sparse, Loss::Mse, 3);
    }
}

fn filled<T: Real>(network: &Network, isa: Isa) -> Engine<T> {
    let mut engine = Engine::new(network.clone(), isa);
    fill(&mut engine, 79);
    let mut rng = Rng(83);
    for (layer, stream) in (0..network.layers).flat_map(|layer| [(layer, Stream::Node), (layer, Stream::Edge)]) {
        let mut draw = |base: f64| -> Vec<T> {
            let each = (0..network.channels.width()).map(|_| f64::from((base + 0.5 * rng.symmetric()) as f32));
            each.map(T::from_f64).collect()
        };
        let (mean, var) = (draw(0.0), draw(1.0));
        engine.set_running(layer, stream, 1, &mean, &var);
    }
    engine
}

fn gradients<T: Real>(engine: &Engine<T>) -> Vec<T> {
    (0..engine.parameters().list().len()).flat_map(|index| engine.gradient(index)).collect()
}

fn train<T: Real>(engine: &mut Engine<T>, batch: &GraphBatch) -> f64 {
    engine.train(batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap())
}

#[test]
fn instruction_sets_agree_on_outputs_losses_and_gradients() {
    for kind in KINDS {
        for (width, heads) in WIDTHS {
            let network = Network { layers: 1, reads: HeadInput::Nodes, ..network_of(kind, width, heads) };
            let batch = batch(&network, &random_graphs(103, 20, 5, 30), Loss::Mse, 0.1, 107);
            let mut exact = filled::<f64>(&network, Isa::Portable);
            let inferred = exact.predict(&batch, AttentionScope::Sparse);
            let loss = train(&mut exact, &batch);
            for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable].into_iter().filter(|isa| isa.available()) {
                let what = format!("{kind:?}, {width}/{heads}, {}", isa.name());
                let mut engine = filled::<f32>(&network, isa);
                assert_close(&what, &engine.predict(&batch, AttentionScope::Sparse), &inferred, 2e-5);
                assert_close(&what, &[train(&mut engine, &batch)], &[loss], 2e-5);
                assert_close(&what, &engine.outputs(), &exact.outputs(), 2e-5);
                assert_close(&what, &gradients(&engine), &gradients(&exact), 1e-4);
            }
        }
    }
}

#[test]
fn batches_of_other_sizes_leave_no_trace() {
    for kind in KINDS {
        let network = network_of(kind, 12, 3);
        let make = |graphs: &[Shape]| batch(&network, graphs, Loss::Mse, 0.0, 113);
        let (large, small) = (make(&random_graphs(127, 120, 10, 40)), make(&mixed()));
        let (mut used, mut new) = (filled::<f32>(&network, Isa::detect()), filled(&network, Isa::detect()));
        used.train(&large, AttentionScope::Full, Loss::Mse, large.target().unwrap());
        for (layer, stream) in (0..2).flat_map(|layer| [(layer, Stream::Node), (layer, Stream::Edge)]) {
            let (mean, var) = used.running(layer, stream, 1);
            new.set_running(layer, stream, 1, &mean, &var);
        }
        assert_eq!(
            used.predict(&small, AttentionScope::Sparse),
            new.predict(&small, AttentionScope::Sparse),
            "{kind:?}"
        );
        assert_eq!(train(&mut used, &small), train(&mut new, &small), "{kind:?}");
        assert_eq!(gradients(&used), gradients(&new), "{kind:?}");
    }
}

#[test]
fn training_has_the_same_bits_on_any_number_of_threads() {
    for kind in KINDS {
        let network = network_of(kind, 40, 4);
        // Several parts, and a graph that is cut.
        let graphs = [random_graphs(1, 300, 10, 40), vec![Shape::random(&mut Rng(9), 6_000, 12_000)]];
        let batches = graphs.map(|graphs| batch(&network, &graphs, Loss::Mse, 0.1, 31));
        let bits = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut engine = filled::<f32>(&network, Isa::detect());
                let mut bits = Vec::new();
                for batch in batches.iter().chain(&batches) {
                    bits.push(train(&mut engine, batch).to_bits());
                    bits.push(engine.step(&Adam { lr: 3e-3, ..Default::default() }).to_bits());
                }
                let count = engine.parameters().list().len();
                bits.extend((0..count).flat_map(|index| engine.parameter(index)).map(|v| u64::from(v.to_bits())));
                bits
            })
        };
        let one = bits(1);
        for threads in [2, 3] {
            assert!(bits(threads) == one, "{kind:?}, {threads} threads");
        }
    }
}

/// The parameters of a layer, each row of a weight in turn.
/// Weight and bias of A (the node itself), B (what a neighbour sends), C (the edge), D (its source)
/// and E (its target).
const GATED_TERMS: [[&str; 2]; 5] = [
    ["A.weight", "A.bias"],
    ["B.weight", "B.bias"],
    ["C.weight", "C.bias"],
    ["D.weight", "D.bias"],
    ["E.weight", "E.bias"],
];

fn of(engine: &Engine<f64>, role: Role) -> Vec<f64> {
    let place = engine.parameters().list().iter().position(|p| p.role() == role).unwrap();
    engine.parameter(place)
}

fn linear(weight: &[f64], bias: &[f64], x: &[f64]) -> Vec<f64> {
    let rows = weight.chunks_exact(x.len()).zip(bias);
    rows.map(|(w, b)| w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + b).collect()
}

/// Two edges into node 2, one into node 1, none into node 0; no normalisation.
#[test]
fn equations_hold_on_three_nodes() {
    let ends: [(usize, usize); 3] = [(0, 2), (1, 2), (0, 1)];
    let shape = Shape::new(3, &ends.map(|(s, t)| (s as u32, t as u32)));
    for kind in KINDS {
        let network = Network { layers: 1, norm: Norm::None, reads: HeadInput::Nodes, ..network_of(kind, 3, 3) };
        let batch = batch(&network, std::slice::from_ref(&shape), Loss::Mse, 0.0, 5);
        let mut engine = Engine::<f64>::new(network, Isa::Portable);
        fill(&mut engine, 7);
        train(&mut engine, &batch);
        let (h, found) = (engine.hidden_nodes(0), engine.hidden_nodes(1));
        let h: Vec<&[f64]> = h.chunks_exact(3).collect();
        let into = |node: usize| ends.iter().filter(move |(_, t)| *t == node).map(|&(s, _)| s);
        let x: Vec<Vec<f64>> = match kind {
            Branch::Gcn | Branch::GcnMean => {
                // Out-degrees 2, 1, 0 and in-degrees 0, 1, 2; the weight is published [in, out].
                let weight = of(&engine, Role::Branch(0, "conv.weight"));
                let turned: Vec<f64> = (0..9).map(|at| weight[at % 3 * 3 + at / 3]).collect();
                let bias = of(&engine, Role::Branch(0, "conv.bias"));
                let (out, ins) = ([2f64, 1.0, 1.0], [1f64, 1.0, 2.0]);
                let divisor = |s: usize, t: usize| match kind {
                    Branch::GcnMean => ins[t],
                    _ => (out[s] * ins[t]).sqrt(),
                };
                let sum = |node: usize| -> Vec<f64> {
                    (0..3).map(|c| into(node).map(|s| h[s][c] / divisor(s, node)).sum()).collect()
                };
                (0..3).map(|node| linear(&turned, &bias, &sum(node))).collect()
            }
            Branch::Gat => {
                // The only layer is the last: one head over all channels.
                let weight = of(&engine, Role::Branch(0, "gatconv.fc.weight"));
                let z: Vec<Vec<f64>> = h.iter().map(|h| linear(&weight, &[0.0; 3], h)).collect();
                let (a, b) =
                    (of(&engine, Role::Branch(0, "gatconv.attn_l")), of(&engine, Role::Branch(0, "gatconv.attn_r")));
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                let power = |s: usize, t: usize| {
                    let logit = dot(&a, &z[s]) + dot(&b, &z[t]);
                    (if logit > 0.0 { logit } else { 0.2 * logit }).exp()
                };
                let mean = |node: usize, c: usize| {
                    let all: f64 = into(node).map(|s| power(s, node)).sum();
                    into(node).map(|s| power(s, node) / all * z[s][c]).sum()
                };
                (0..3).map(|node| (0..3).map(|c| mean(node, c)).collect()).collect()
            }
            _ => {
                let e = engine.hidden_edges(0);
                // In-order: the edge into node 1, then those into node 2 as they are listed.
                let order = [(0, 1), (0, 2), (1, 2)];
                let term = |[weight, bias]: [&'static str; 2], x: &[f64]| {
                    let part = |name| of(&engine, Role::Branch(0, name));
                    linear(&part(weight), &part(bias), x)
                };
                let [a, b, c, d, e_of_target] = GATED_TERMS;
                let gate = |edge: usize| -> Vec<f64> {
                    let (s, t) = order[edge];
                    let e = &e[edge * 3..edge * 3 + 3];
                    let sum = |at: usize| term(c, e)[at] + term(d, h[s])[at] + term(e_of_target, h[t])[at];
                    (0..3).map(sum).collect()
                };
                let after = engine.hidden_edges(1);
                for edge in 0..3 {
                    let expected: Vec<f64> =
                        gate(edge).iter().zip(&e[edge * 3..]).map(|(g, e)| e + g.max(0.0)).collect();
                    assert_close("edges", &after[edge * 3..edge * 3 + 3], &expected, 1e-12);
                }
                let open = |edge: usize, c: usize| 1.0 / (1.0 + (-gate(edge)[c]).exp());
                let own = |node: usize, c: usize| {
                    let edges = || (0..3).filter(move |&edge| order[edge].1 == node);
                    let sum: f64 = edges().map(|edge| open(edge, c)).sum();
                    let sent: f64 = edges().map(|edge| open(edge, c) * term(b, h[order[edge].0])[c]).sum();
                    term(a, h[node])[c] + sent / (sum + 1e-6)
                };
                (0..3).map(|node| (0..3).map(|c| own(node, c)).collect()).collect()
            }
        };
        let activated = |x: f64| match kind {
            Branch::Gat if x < 0.0 => x.exp() - 1.0,
            _ => x.max(0.0),
        };
        let expected: Vec<f64> = (0..9).map(|at| h[at / 3][at % 3] + activated(x[at / 3][at % 3])).collect();
        assert_close(&format!("{kind:?}"), &found, &expected, 1e-12);
    }
}

#[test]
fn additive_weights_into_a_node_add_up_to_one_in_every_layer_and_head() {
    let network = network_of(Branch::Gat, 6, 3);
    let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 17);
    let mut engine = filled::<f64>(&network, Isa::Portable);
    let found = engine.attention(&batch, AttentionScope::Sparse);
    assert_eq!(found.layers.iter().map(|layer| layer.len() / found.source.len()).collect::<Vec<_>>(), [3, 1]);
    for (layer, heads) in found.layers.iter().zip([3, 1]) {
        let mut sums = vec![0.0; batch.num_nodes() * heads];
        for (edge, &target) in found.target.iter().enumerate() {
            (0..heads).for_each(|head| sums[target as usize * heads + head] += layer[edge * heads + head]);
        }
        let into = |node: usize| batch.in_offsets()[node + 1] > batch.in_offsets()[node];
        for (place, sum) in sums.iter().enumerate() {
            let expected = if into(place / heads) { 1.0 } else { 0.0 };
            assert!((sum - expected).abs() < 1e-12, "{place}: {sum}");
        }
    }
}
