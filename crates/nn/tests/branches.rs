//! Layers that sum up several branches, and branches with and without a feed-forward half.

mod support;

use graph_transformer_nn::cpu::{Engine, Isa};
use graph_transformer_nn::{AttentionScope, Branch, EdgeUse, HeadInput, Input, Jump, Loss, Network, Norm, Readout};
use gt_graph::GraphBatch;
use support::{Rng, Shape, assert_close, batch, check, check_engine, fill, mixed, network, random_graphs};

/// Branches, whether edges have a stream, and whether a feed-forward half follows.
type Form = (Vec<Branch>, bool, bool);

/// Every branch alone, with and without a feed-forward half; every branch next to attention; and a
/// sum of terms of both kinds.
fn forms() -> Vec<Form> {
    let mut forms = vec![
        (vec![Branch::GatedGcn, Branch::GcnMean], true, false),
        (vec![Branch::Gat, Branch::Gcn], false, true),
        (vec![Branch::Gcn, Branch::GatedGcn, Branch::Attention], true, false),
    ];
    for branch in Branch::ALL {
        for edge_stream in [false, true] {
            let needed = branch.facts().edges == EdgeUse::Required;
            let updated = needed || branch.facts().edges == EdgeUse::Optional;
            let fits = if edge_stream { updated } else { !needed };
            if fits {
                forms.extend([false, true].map(|feed_forward| (vec![branch], edge_stream, feed_forward)));
            }
            if branch != Branch::Attention && (edge_stream || !needed) {
                forms.push((vec![Branch::Attention, branch], edge_stream, true));
            }
        }
    }
    forms
}

fn of((branches, edge_stream, feed_forward): &Form, width: usize, heads: usize) -> Network {
    network(width, heads, *edge_stream).with_branches(branches, *feed_forward)
}

#[test]
fn gradients_fit_for_every_norm_and_residual() {
    for form in &forms() {
        for norm in [Norm::Batch, Norm::Layer, Norm::None] {
            for residual in [true, false] {
                let network = Network { norm, residual, ..of(form, 6, 3) };
                let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 17);
                let name = format!("{form:?}, {norm:?}, residual {residual}");
                let largest = check(&name, &network, &batch, AttentionScope::Sparse, Loss::Mse, 6);
                assert!(largest > 1e-3, "{name}: largest gradient {largest:e}");
            }
        }
    }
}

#[test]
fn gradients_fit_with_dropout_jumps_and_every_head() {
    for form in &forms() {
        for (jump, reads) in [
            (Jump::Concat, HeadInput::Graphs(Readout::Sum)),
            (Jump::Sum, HeadInput::Pairs),
            (Jump::Last, HeadInput::Edges),
        ] {
            if reads == HeadInput::Edges && !form.1 {
                continue;
            }
            let network = Network { jump, reads, dropout: 0.3, input_dropout: 0.2, ..of(form, 6, 3) };
            let batch = batch(&network, &mixed(), Loss::Mse, 0.1, 17);
            let mut engine = Engine::<f64>::new(network, Isa::Portable);
            fill(&mut engine, 11);
            engine.set_dropout_key(5);
            let name = format!("{form:?}, {jump:?}, {reads:?}");
            check_engine(&name, &mut engine, &batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap(), 6);
        }
    }
}

#[test]
fn gradients_fit_for_every_kind_of_batch() {
    let batches = [
        ("one node", vec![Shape::new(1, &[])]),
        ("one node with a loop", vec![Shape::new(1, &[(0, 0)])]),
        ("no edges", vec![Shape::new(4, &[]), Shape::new(2, &[])]),
        ("an empty graph first and last", vec![Shape::new(0, &[]), Shape::full(4), Shape::new(0, &[])]),
        ("no graph", vec![]),
        ("repeated edges", vec![Shape::new(2, &[(0, 1), (0, 1), (0, 1), (1, 0), (1, 1), (1, 1)])]),
    ];
    for form in &forms() {
        for (name, graphs) in &batches {
            let network = of(form, 6, 3);
            for edges in [AttentionScope::Sparse, AttentionScope::Full] {
                let batch = batch(&network, graphs, Loss::Mse, 0.0, 23);
                check(&format!("{form:?}, {name}, {edges:?}"), &network, &batch, edges, Loss::Mse, 4);
            }
        }
    }
}

#[test]
fn gradients_fit_for_any_width() {
    for form in &forms() {
        for (width, heads) in [(1, 1), (7, 7), (40, 20)] {
            let network = of(form, width, heads);
            let batch = batch(&network, &random_graphs(25, 5, 4, 10), Loss::Mse, 0.1, 27);
            check(&format!("{form:?}, {width}/{heads}"), &network, &batch, AttentionScope::Sparse, Loss::Mse, 2);
        }
    }
}

#[test]
fn gradients_fit_for_batches_of_several_parts() {
    // Feed-forward halves know no edges and no parts. Without them, fewer values lie at a kink.
    for form in forms().iter().filter(|(_, _, feed_forward)| !feed_forward) {
        let network = of(form, 6, 3);
        let batch = batch(&network, &random_graphs(25, 24, 5, 30), Loss::Mse, 0.1, 27);
        check(&format!("{form:?}"), &network, &batch, AttentionScope::Sparse, Loss::Mse, 3);
    }
}

/// Outputs, loss and all gradients, as bits.
fn bits(network: &Network, batch: &GraphBatch, threads: usize) -> Vec<u32> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut engine = Engine::<f32>::new(network.clone(), Isa::detect());
        fill(&mut engine, 29);
        engine.set_dropout_key(3);
        let loss = engine.train(batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
        let gradients = (0..engine.parameters().list().len()).flat_map(|index| engine.gradient(index));
        let mut values: Vec<f32> = gradients.collect();
        values.extend(engine.outputs());
        values.push(loss as f32);
        values.extend(engine.predict(batch, AttentionScope::Sparse));
        values.into_iter().map(f32::to_bits).collect()
    })
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let small = random_graphs(3, 100, 5, 40);
    let large = vec![Shape::random(&mut Rng(9), 6_000, 12_000)];
    for form in &forms() {
        for graphs in [&small, &large] {
            let network = Network { dropout: 0.1, ..of(form, 16, 4) };
            let batch = batch(&network, graphs, Loss::Mse, 0.0, 31);
            let one = bits(&network, &batch, 1);
            for threads in [2, 3, 8] {
                assert!(bits(&network, &batch, threads) == one, "{form:?}, {threads} threads");
            }
        }
    }
}

/// A large graph is cut into blocks, which small ones are not. Many small graphs and one large graph
/// that consists of them give the same outputs and gradients.
#[test]
fn cut_graphs_give_what_whole_ones_give() {
    let parts = random_graphs(3, 300, 5, 40);
    let mut union = Shape::new(0, &[]);
    for part in &parts {
        let first = union.nodes as u32;
        union.edges.extend(part.edges.iter().map(|&(source, target)| (first + source, first + target)));
        union.nodes += part.nodes;
    }
    let constant = || Input { constant: true, ..Default::default() };
    for form in &forms() {
        let network = Network { reads: HeadInput::Nodes, node: constant(), edge: constant(), ..of(form, 6, 3) };
        let run = |graphs: &[Shape]| {
            let batch = batch(&network, graphs, Loss::Mse, 0.0, 31);
            let mut engine = Engine::<f64>::new(network.clone(), Isa::Portable);
            fill(&mut engine, 11);
            engine.train(&batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
            let gradients = (0..engine.parameters().list().len()).flat_map(|index| engine.gradient(index));
            (gradients.collect::<Vec<f64>>(), engine.predict(&batch, AttentionScope::Sparse))
        };
        let (whole, cut) = (run(&parts), run(std::slice::from_ref(&union)));
        assert_close(&format!("{form:?}, gradients"), &cut.0, &whole.0, 1e-9);
        assert_close(&format!("{form:?}, outputs"), &cut.1, &whole.1, 1e-9);
    }
}

/// One layer without normalisation: its output is the sum of what each branch gives alone.
#[test]
fn a_layer_adds_its_branches_up() {
    let base = Network { layers: 1, norm: Norm::None, ..network(6, 3, true) };
    let run = |branches: &[Branch]| {
        let network = base.clone().with_branches(branches, false);
        let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 17);
        let mut engine = Engine::<f64>::new(network, Isa::Portable);
        // A parameter has the same values in every network.
        for index in 0..engine.parameters().list().len() {
            let parameter = &engine.parameters().list()[index];
            let seed = format!("{:?}", parameter.role())
                .bytes()
                .fold(7, |seed: u64, b| seed.wrapping_mul(31).wrapping_add(u64::from(b)));
            let mut rng = Rng(seed);
            let values: Vec<f64> = (0..parameter.len()).map(|_| rng.symmetric()).collect();
            engine.set_parameter(index, &values);
        }
        engine.refresh();
        engine.train(&batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
        [engine.hidden_nodes(1), engine.hidden_edges(1)]
    };
    let [attention, gated] = [Branch::Attention, Branch::GatedGcn].map(|branch| run(&[branch]));
    let both = run(&[Branch::Attention, Branch::GatedGcn]);
    for stream in 0..2 {
        let sum: Vec<f64> = attention[stream].iter().zip(&gated[stream]).map(|(a, b)| a + b).collect();
        assert_close("the sum", &both[stream], &sum, 1e-12);
    }
}
