//! Every gradient of the engine against central finite differences, in double precision.

mod support;

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::{HeadInput, Input, Loss, Network, Norm, Readout};
use support::{Rng, Shape, WIDTHS, batch, check, check_mixed, mixed, network, random_graphs};

#[test]
fn gradients_fit_for_every_norm_residual_and_edge_stream() {
    for norm in [Norm::Batch, Norm::Layer, Norm::None] {
        for residual in [true, false] {
            for edge_stream in [true, false] {
                let network = Network { norm, residual, ..network(6, 3, edge_stream) };
                let name = format!("{norm:?}, residual {residual}, edge stream {edge_stream}");
                check_mixed(&name, &network, Loss::Mse, 0.0);
            }
        }
    }
}

#[test]
fn gradients_fit_for_every_readout_level_and_loss_with_missing_labels() {
    let losses =
        [Loss::L1, Loss::Mse, Loss::CrossEntropy { weighted: false }, Loss::CrossEntropy { weighted: true }, Loss::Bce];
    let places = [
        HeadInput::Graphs(Readout::Mean),
        HeadInput::Graphs(Readout::Sum),
        HeadInput::Graphs(Readout::Max),
        HeadInput::Nodes,
        HeadInput::Pairs,
        HeadInput::Products,
    ];
    for (number, loss) in losses.into_iter().enumerate() {
        for reads in places {
            for missing in [0.0, 0.3] {
                let norm = [Norm::Batch, Norm::Layer][number % 2];
                let network = Network { layers: 1, norm, reads, head: vec![5, 3], ..network(4, 2, number % 2 == 0) };
                check_mixed(&format!("{loss:?}, {reads:?}, missing {missing}"), &network, loss, missing);
            }
        }
    }
}

#[test]
fn gradients_fit_for_every_input() {
    let nodes = [
        Input { categorical: vec![4, 3, 2], ..Default::default() },
        Input { continuous: 3, ..Default::default() },
        Input { multi_hot: Some(7), ..Default::default() },
        Input { laplacian: 2, ..Default::default() },
        Input { random_walk: 5, ..Default::default() },
        Input { categorical: vec![3], roles: Some(4), ..Default::default() },
        Input { constant: true, ..Default::default() },
        Input {
            categorical: vec![4, 2],
            continuous: 17,
            multi_hot: Some(5),
            laplacian: 3,
            random_walk: 4,
            roles: Some(3),
            constant: false,
            bias: true,
        },
    ];
    let edges = [
        Input { constant: true, ..Default::default() },
        Input { categorical: vec![3, 2], continuous: 2, multi_hot: Some(4), ..Default::default() },
    ];
    for node in &nodes {
        for edge in &edges {
            let network = Network {
                layers: 1,
                norm: Norm::Layer,
                reads: HeadInput::Graphs(Readout::Sum),
                node: node.clone(),
                edge: edge.clone(),
                ..network(6, 2, true)
            };
            let name = format!("{node:?}, {edge:?}");
            check_mixed(&name, &network, Loss::Mse, 0.0);
            let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 17);
            check(&name, &network, &batch, AttentionScope::Full, Loss::Mse, 4);
        }
    }
}

#[test]
fn gradients_fit_for_any_depth() {
    for (layers, head) in [(0, vec![2]), (0, vec![5, 4, 17]), (1, vec![1]), (3, vec![20, 3, 2])] {
        for edge_stream in [true, false] {
            let network = Network { layers, head: head.clone(), ..network(6, 2, edge_stream) };
            check_mixed(
                &format!("{layers} layers, head {head:?}, edge stream {edge_stream}"),
                &network,
                Loss::Mse,
                0.0,
            );
        }
    }
}

#[test]
fn gradients_fit_for_every_width_and_number_of_heads() {
    for (width, heads) in WIDTHS {
        for edge_stream in [true, false] {
            let wide = width > 16;
            let network = Network { norm: [Norm::Batch, Norm::Layer][heads % 2], ..network(width, heads, edge_stream) };
            // Layer normalisation of a single channel leaves nothing to learn from.
            let network = if width == 1 { Network { norm: Norm::Batch, ..network } } else { network };
            let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 19);
            let name = format!("{width}/{heads}, edge stream {edge_stream}");
            let largest = check(&name, &network, &batch, AttentionScope::Sparse, Loss::Mse, if wide { 3 } else { 40 });
            assert!(largest > 1e-3, "{name}: largest gradient {largest:e}");
        }
    }
}

#[test]
fn gradients_fit_for_every_kind_of_batch() {
    let batches = [
        ("one graph", vec![Shape::random(&mut Rng(3), 7, 20)]),
        ("one node", vec![Shape::new(1, &[])]),
        ("one node with a loop", vec![Shape::new(1, &[(0, 0)])]),
        ("two nodes and an edge", vec![Shape::new(2, &[(0, 1)])]),
        ("no edges", vec![Shape::new(4, &[]), Shape::new(2, &[])]),
        ("an empty graph first and last", vec![Shape::new(0, &[]), Shape::full(4), Shape::new(0, &[])]),
        ("only an empty graph", vec![Shape::new(0, &[])]),
        ("no graph", vec![]),
        ("repeated edges", vec![Shape::new(2, &[(0, 1), (0, 1), (0, 1), (1, 0), (1, 1), (1, 1)])]),
    ];
    for (name, graphs) in &batches {
        for norm in [Norm::Batch, Norm::Layer] {
            for (edge_stream, readout) in [(true, Readout::Mean), (false, Readout::Max)] {
                let network = Network { norm, reads: HeadInput::Graphs(readout), ..network(6, 3, edge_stream) };
                for edges in [AttentionScope::Sparse, AttentionScope::Full] {
                    let batch = batch(&network, graphs, Loss::Mse, 0.0, 23);
                    let name = format!("{name}, {norm:?}, edge stream {edge_stream}, {edges:?}");
                    check(&name, &network, &batch, edges, Loss::Mse, 20);
                }
            }
        }
    }
}

#[test]
fn gradients_fit_for_batches_of_several_parts() {
    let graphs = random_graphs(25, 80, 5, 40);
    for (norm, edge_stream) in [(Norm::Batch, true), (Norm::Batch, false), (Norm::Layer, true)] {
        let network = Network { norm, reads: HeadInput::Graphs(Readout::Sum), ..network(6, 3, edge_stream) };
        let batch = batch(&network, &graphs, Loss::Mse, 0.1, 27);
        let largest = check(&format!("{norm:?}"), &network, &batch, AttentionScope::Sparse, Loss::Mse, 3);
        assert!(largest > 1e-3, "{norm:?}: largest gradient {largest:e}");
    }
}
