//! Training is a function of the data alone: the number of threads changes no bit.

mod support;

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::Loss;
use graph_transformer_nn::cpu::{Adam, Engine, Isa};
use graph_transformer_nn::{Network, Norm, Stream};
use support::{Shape, batch, fill, network, random_graphs};

const STEPS: usize = 20;

/// Losses, norms, parameters and running statistics after some steps, as bits.
fn train(threads: usize, network: &Network, graphs: &[Vec<Shape>], edges: AttentionScope) -> Vec<u64> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut engine = Engine::<f32>::new(network.clone(), Isa::detect());
        fill(&mut engine, 29);
        let batches: Vec<_> = graphs.iter().map(|graphs| batch(network, graphs, Loss::L1, 0.1, 31)).collect();
        let adam = Adam { lr: 3e-3, weight_decay: 1e-2, clip: 0.5, ..Default::default() };
        let mut bits = Vec::new();
        for step in 0..STEPS {
            let batch = &batches[step % batches.len()];
            let loss = engine.train(batch, edges, Loss::L1, batch.target().unwrap());
            assert!(loss.is_finite());
            bits.extend([loss.to_bits(), engine.step(&adam).to_bits()]);
        }
        let count = engine.parameters().list().len();
        bits.extend((0..count).flat_map(|index| engine.parameter(index)).map(|v| u64::from(v.to_bits())));
        for (layer, stream) in [(0, Stream::Node), (1, Stream::Node), (0, Stream::Edge), (1, Stream::Edge)] {
            let (mean, var) = engine.running(layer, stream, 2);
            bits.extend(mean.into_iter().chain(var).map(|v| u64::from(v.to_bits())));
        }
        bits
    })
}

fn same_on_any_number_of_threads(network: &Network, graphs: &[Vec<Shape>], edges: AttentionScope) {
    let one = train(1, network, graphs, edges);
    for threads in [2, 3, 8] {
        let many = train(threads, network, graphs, edges);
        let first = one.iter().zip(&many).position(|(a, b)| a != b);
        assert_eq!((first, one.len()), (None, many.len()), "{threads} threads");
    }
}

/// Batches of several parts, and of quite different size.
fn graphs(of: [usize; 3], least: usize, most: usize) -> Vec<Vec<Shape>> {
    of.into_iter().enumerate().map(|(seed, count)| random_graphs(seed as u64, count, least, most)).collect()
}

#[test]
fn sparse_training_has_the_same_bits_on_any_number_of_threads() {
    same_on_any_number_of_threads(&network(40, 4, false), &graphs([300, 40, 170], 10, 40), AttentionScope::Sparse);
}

#[test]
fn sparse_training_with_edge_stream_has_the_same_bits_on_any_number_of_threads() {
    same_on_any_number_of_threads(&network(40, 4, true), &graphs([300, 40, 170], 10, 40), AttentionScope::Sparse);
}

#[test]
fn full_training_has_the_same_bits_on_any_number_of_threads() {
    same_on_any_number_of_threads(&network(16, 2, false), &graphs([200, 30, 110], 10, 40), AttentionScope::Full);
}

#[test]
fn full_training_with_edge_stream_has_the_same_bits_on_any_number_of_threads() {
    same_on_any_number_of_threads(&network(16, 2, true), &graphs([40, 10, 25], 10, 20), AttentionScope::Full);
}

#[test]
fn training_with_layer_norm_has_the_same_bits_on_any_number_of_threads() {
    let network = Network { norm: Norm::Layer, ..network(12, 3, true) };
    same_on_any_number_of_threads(&network, &graphs([150, 20, 60], 10, 40), AttentionScope::Sparse);
}
