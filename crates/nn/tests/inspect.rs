//! What can be seen of a network in inference: its attention and its nodes after the last layer.

mod support;

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::cpu::{Attention, Engine, Isa};
use graph_transformer_nn::{Clamp, Gate, HeadInput, Jump, Loss, Network, Norm, Readout, Role, Stream, WeightOrBias};
use gt_graph::GraphBatch;
use support::{Rng, Shape, WIDTHS, batch, fill, mixed, network};

fn engine(network: &Network) -> Engine<f64> {
    let mut engine = Engine::new(network.clone(), Isa::Portable);
    fill(&mut engine, 11);
    engine
}

fn of(engine: &Engine<f64>, role: Role) -> Vec<f64> {
    engine.parameter(engine.parameters().list().iter().position(|parameter| parameter.role() == role).unwrap())
}

/// Rows of W·x, without bias.
fn linear(weight: &[f64], x: &[f64], width: usize) -> Vec<f64> {
    let dot = |row: &[f64], x: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    x.chunks_exact(width).flat_map(|x| weight.chunks_exact(width).map(move |row| dot(row, x))).collect()
}

/// The weights of a network of one layer, from its definition.
fn reference(engine: &Engine<f64>, batch: &GraphBatch, found: &Attention<f64>, edges: AttentionScope) -> Vec<f64> {
    let network = engine.network();
    let (width, heads, per_head) = (network.channels.width(), network.channels.heads(), network.channels.per_head());
    let embed = |stream: Stream, categories: &[u32]| -> Vec<f64> {
        let table = of(engine, Role::Embedding(stream, 0));
        categories.iter().flat_map(|&c| table[c as usize * width..][..width].to_vec()).collect()
    };
    let x = embed(Stream::Node, batch.node().categorical);
    let (q, k) = (
        linear(&of(engine, Role::Branch(0, "attention.Q.weight")), &x, width),
        linear(&of(engine, Role::Branch(0, "attention.K.weight")), &x, width),
    );
    let none = vec![0; found.source.len()];
    let kinds = if edges == AttentionScope::Full { &none } else { batch.edge().categorical };
    let p = match network.edge_stream {
        true => linear(&of(engine, Role::Branch(0, "attention.proj_e.weight")), &embed(Stream::Edge, kinds), width),
        false => vec![1.0; found.source.len() * width],
    };
    let guard = if network.edge_stream { 1e-6 } else { 0.0 };
    let mut weights = Vec::new();
    let mut sums = vec![guard; batch.num_nodes() * heads];
    for (edge, (&s, &t)) in found.source.iter().zip(&found.target).enumerate() {
        for head in 0..heads {
            let channels = head * per_head..(head + 1) * per_head;
            let products: Vec<f64> = channels
                .clone()
                .map(|c| q[t as usize * width + c] * k[s as usize * width + c] / (per_head as f64).sqrt())
                .collect();
            let whole: f64 = products.iter().sum();
            let scalar = network.edge_stream && network.gate == Gate::Scalar;
            let score = |(c, product): (usize, &f64)| p[edge * width + c] * if scalar { whole } else { *product };
            let logit: f64 = channels.zip(&products).map(score).sum();
            let weight = match network.clamp {
                Clamp::Logits => logit.clamp(-5.0, 5.0).exp(),
                Clamp::Exponentials => logit.exp().min(5.0),
            };
            sums[t as usize * heads + head] += weight;
            weights.push(weight);
        }
    }
    let sum = |at: usize| sums[found.target[at / heads] as usize * heads + at % heads];
    weights.iter().enumerate().map(|(at, weight)| weight / sum(at)).collect()
}

#[test]
fn attention_is_the_softmax_of_its_definition() {
    for (width, heads) in WIDTHS {
        for (edge_stream, gate, clamp) in [
            (false, Gate::PerChannel, Clamp::Logits),
            (false, Gate::PerChannel, Clamp::Exponentials),
            (true, Gate::PerChannel, Clamp::Logits),
            (true, Gate::Scalar, Clamp::Exponentials),
        ] {
            let network = Network { layers: 1, gate, clamp, ..network(width, heads, edge_stream) };
            let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 17);
            for edges in [AttentionScope::Sparse, AttentionScope::Full] {
                let mut engine = engine(&network);
                let found = engine.attention(&batch, edges);
                let expected = reference(&engine, &batch, &found, edges);
                assert_eq!((found.layers.len(), found.layers[0].len()), (1, expected.len()));
                for (at, (found, expected)) in found.layers[0].iter().zip(&expected).enumerate() {
                    assert!((found - expected).abs() < 1e-12, "{width}/{heads} {edges:?} [{at}]: {found}, {expected}");
                }
            }
        }
    }
}

#[test]
fn weights_into_a_node_add_up_to_one_in_every_layer_and_head() {
    let graphs = [mixed(), vec![Shape::random(&mut Rng(3), 6_000, 14_000)]];
    for (graphs, edge_stream) in graphs.iter().flat_map(|graphs| [(graphs, false), (graphs, true)]) {
        let network = network(24, 3, edge_stream);
        let batch = batch(&network, graphs, Loss::Mse, 0.0, 17);
        let mut engine = Engine::<f32>::new(network, Isa::detect());
        fill(&mut engine, 5);
        let found = engine.attention(&batch, AttentionScope::Sparse);
        assert_eq!((&found.source[..], &found.target[..]), (batch.in_src(), batch.in_dst()));
        assert_eq!(found.layers.len(), 2);
        for layer in &found.layers {
            let mut sums = vec![0.0; batch.num_nodes() * 3];
            for (&target, weights) in found.target.iter().zip(layer.chunks_exact(3)) {
                weights.iter().enumerate().for_each(|(head, w)| sums[target as usize * 3 + head] += f64::from(*w));
            }
            for (at, sum) in sums.iter().enumerate() {
                let into = batch.in_offsets()[at / 3 + 1] - batch.in_offsets()[at / 3];
                let expected = f64::from(u8::from(into > 0));
                // exp(−5) is the least sum there can be, against a guard of 1e-6.
                assert!((sum - expected).abs() < 2e-4, "node {}, head {}: {sum}", at / 3, at % 3);
            }
        }
    }
}

#[test]
fn the_head_makes_predictions_of_embeddings() {
    let shapes = [mixed(), vec![Shape::random(&mut Rng(3), 6_000, 14_000), Shape::new(2, &[(0, 1)])]];
    for norm in [Norm::Batch, Norm::Layer, Norm::None] {
        for (graphs, edge_stream, jump) in
            shapes.iter().flat_map(|g| [(g, false, Jump::Last), (g, true, Jump::Last), (g, false, Jump::Sum)])
        {
            let reads = HeadInput::Graphs(Readout::Mean);
            let network = Network { norm, reads, jump, head: vec![2], ..network(12, 3, edge_stream) };
            let batch = batch(&network, graphs, Loss::Mse, 0.0, 17);
            let mut engine = engine(&network);
            let predicted = engine.predict(&batch, AttentionScope::Sparse);
            let nodes = engine.embed(&batch, AttentionScope::Sparse);
            assert_eq!(nodes.len(), batch.num_nodes() * 12);
            assert_eq!(engine.predict(&batch, AttentionScope::Sparse), predicted, "looking changes nothing");
            if jump != Jump::Last {
                continue;
            }
            let (weight, bias) =
                (of(&engine, Role::Head(0, WeightOrBias::Weight)), of(&engine, Role::Head(0, WeightOrBias::Bias)));
            for graph in 0..batch.num_graphs() {
                let own = batch.nodes_of(graph);
                let mut mean = vec![0.0; 12];
                for row in nodes[own.start * 12..own.end * 12].chunks_exact(12) {
                    mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value / own.len() as f64);
                }
                for (output, value) in linear(&weight, &mean, 12).iter().zip(&bias).map(|(x, b)| x + b).enumerate() {
                    let expected = predicted[graph * 2 + output];
                    assert!((value - expected).abs() < 1e-9, "{norm:?}, graph {graph}: {value}, {expected}");
                }
            }
        }
    }
}
