//! The memory of a pass is known before the pass begins, and inference divides batches that do not
//! fit.

mod support;

use std::ops::ControlFlow;

use graph_transformer_nn::backend::{
    Backend, Cpu, DataSource, GraphSource, GraphTooLarge, PassOutputs, PassPlan, TrainingPlan, divide_batches,
};
use graph_transformer_nn::cpu::{Adam, BatchSize, Engine, GraphSize, Isa, PassMemory};
use graph_transformer_nn::{
    AttentionScope, Branch, FreeMemory, HeadInput, Input, Jump, LimitedBy, Loss, Network, Norm, Readout, Weights,
};
use gt_graph::{GraphParts, GraphStore, Layout, Split};
use gt_testing::PeakMemory;
use support::{KINDS, Rng, Shape, batch, fill, network, network_of, random_graphs, store};

#[global_allocator]
static MEMORY: PeakMemory = PeakMemory::new();

/// Weights at random, and running statistics that have moved.
fn weights(network: &Network) -> Weights {
    let mut engine = Engine::<f32>::new(network.clone(), Isa::detect());
    fill(&mut engine, 29);
    let batch = batch(network, &random_graphs(5, 8, 5, 20), Loss::Mse, 0.0, 3);
    engine.train(&batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
    engine.weights()
}

fn plan(graphs: usize, batch: usize, train: bool) -> PassPlan {
    let training =
        TrainingPlan { adam: Adam::default(), dropout_key: 0, accumulate: 1, skip_bad_steps: false, draws: (0, 1) };
    PassPlan { training: train.then_some(training), ..PassPlan::evaluation(Split::Train, (0..graphs).collect(), batch) }
}

fn outputs(cpu: &mut Cpu<'_>, plan: PassPlan) -> PassOutputs {
    cpu.begin(plan).unwrap();
    cpu.finish(&mut |_| ControlFlow::Continue(())).unwrap().outputs
}

/// Bytes that a pass takes at its peak, divided by the estimate for its largest batch.
fn share(network: &Network, graphs: &GraphStore, scope: AttentionScope, batch: usize, train: bool) -> f64 {
    let source = GraphSource::new(graphs, scope);
    let plan = plan(graphs.len(), batch, train);
    let sizes = |number: usize| -> BatchSize {
        plan.order.batch(number).iter().map(|&graph| GraphSize::new(&graphs.graph(graph), scope)).collect()
    };
    let memory = PassMemory::new(network, train);
    let estimate = (0..plan.order.batches()).map(|number| memory.bytes(&sizes(number))).fold(0.0, f64::max);
    let mut cpu = Cpu::new(&source, &weights(network), Loss::Mse, Isa::detect());
    let (_, peak) = MEMORY.measure(|| outputs(&mut cpu, plan));
    peak as f64 / estimate
}

/// Networks of every kind and with every option that changes what is kept.
fn networks() -> Vec<(String, Network)> {
    let wide = |network: Network| Network { layers: 3, ..network };
    let input = Input { categorical: vec![5, 3], continuous: 2, laplacian: 8, ..Default::default() };
    let mut all = vec![
        ("attention".to_owned(), wide(network(64, 8, false))),
        ("edges".into(), wide(network(64, 8, true))),
        ("padded".into(), Network { norm: Norm::Layer, ..wide(network(70, 7, true)) }),
        ("inputs".into(), Network { node: input, ..wide(network(32, 4, false)) }),
        (
            "words".into(),
            Network {
                node: Input { multi_hot: Some(40), random_walk: 6, roles: Some(9), ..Default::default() },
                ..wide(network(32, 4, false))
            },
        ),
        ("symmetric".into(), Network { symmetric_edges: true, ..wide(network(64, 8, true)) }),
        ("all layers".into(), Network { jump: Jump::Concat, reads: HeadInput::Nodes, ..wide(network(64, 8, true)) }),
        ("largest".into(), Network { reads: HeadInput::Graphs(Readout::Max), ..wide(network(64, 8, false)) }),
        ("edge head".into(), Network { reads: HeadInput::Edges, ..wide(network(64, 8, true)) }),
        ("pair head".into(), Network { reads: HeadInput::Pairs, ..wide(network(64, 8, false)) }),
    ];
    let sum = |branches: &[Branch], edge_stream, feed_forward| {
        wide(network(64, 8, edge_stream).with_branches(branches, feed_forward))
    };
    all.extend([
        ("gine".into(), sum(&[Branch::Gine], false, true)),
        ("attention and gine".into(), sum(&[Branch::Attention, Branch::Gine], true, true)),
        ("shared edges".into(), sum(&[Branch::Attention, Branch::Gine], false, true)),
        ("gates and means".into(), sum(&[Branch::GatedGcn, Branch::GcnMean], true, false)),
    ]);
    all.extend(KINDS.map(|kind| (format!("{kind:?}"), wide(network_of(kind, 64, 8)))));
    all
}

/// Sets of small graphs, of graphs that are cut, and of both.
fn sets() -> [(&'static str, Vec<Shape>, usize); 4] {
    let mut rng = Rng(9);
    let mut large = |nodes: usize| Shape::random(&mut rng, nodes, 3 * nodes);
    let cut = vec![large(5_000), large(6_000)];
    let hub = vec![large(3_000), Shape::hub(5_000)];
    let mixed = random_graphs(3, 60, 10, 40).into_iter().chain([large(5_000)]).collect();
    [("small", random_graphs(3, 600, 20, 60), 200), ("cut", cut, 1), ("hub", hub, 2), ("mixed", mixed, 61)]
}

#[test]
fn the_estimate_of_a_pass_is_close_to_its_memory_and_not_below() {
    let _alone = MEMORY.alone();
    let mut wrong = Vec::new();
    for (name, network) in networks() {
        for (set, shapes, batch) in sets() {
            let graphs = store(&network, &shapes, Loss::Mse, 0.1, 17);
            for train in [true, false] {
                let share = share(&network, &graphs, AttentionScope::Sparse, batch, train);
                if !(0.6..1.05).contains(&share) {
                    wrong.push(format!("{name}, {set}, train {train}: {share:.3}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "measured bytes per estimated byte: {wrong:#?}");
}

#[test]
fn fully_connected_graphs_are_estimated_as_closely() {
    let _alone = MEMORY.alone();
    for edge_stream in [false, true] {
        let network = Network { layers: 3, ..network(32, 4, edge_stream) };
        for (shapes, batch) in [(random_graphs(3, 64, 20, 60), 32), (random_graphs(4, 3, 150, 200), 3)] {
            let graphs = store(&network, &shapes, Loss::Mse, 0.1, 17);
            for train in [true, false] {
                let share = share(&network, &graphs, AttentionScope::Full, batch, train);
                assert!((0.6..1.05).contains(&share), "edges {edge_stream}, train {train}, batch {batch}: {share:.3}");
            }
        }
    }
}

#[test]
fn divided_batches_give_the_bytes_of_whole_batches() {
    let _alone = MEMORY.alone();
    let bits = |outputs: &PassOutputs| -> (Vec<u32>, Vec<u64>) {
        let losses = outputs.losses.iter().map(|loss| loss.to_bits()).collect();
        (outputs.values.iter().map(|value| value.to_bits()).collect(), losses)
    };
    for (name, network) in networks() {
        let weights = weights(&network);
        for (set, shapes, _) in sets() {
            let shapes = if set == "small" { shapes[..100].to_vec() } else { shapes };
            let graphs = store(&network, &shapes, Loss::Mse, 0.1, 17);
            for scope in [AttentionScope::Sparse, AttentionScope::Full] {
                // Only edges of the data have labels.
                let full = scope == AttentionScope::Full;
                if full && (set != "small" || network.reads == HeadInput::Edges) {
                    continue;
                }
                let source = GraphSource::new(&graphs, scope);
                let memory = PassMemory::new(&network, false);
                let bytes =
                    |graph: usize| memory.bytes(&BatchSize::from_iter([GraphSize::new(&graphs.graph(graph), scope)]));
                let largest = (0..graphs.len()).map(bytes).fold(0.0, f64::max);
                let whole = outputs(
                    &mut Cpu::new(&source, &weights, Loss::Mse, Isa::detect()),
                    plan(graphs.len(), graphs.len(), false),
                );
                for free in [1.0001 * largest, 3.0 * largest] {
                    let free = FreeMemory { bytes: free, limit: 1e12, by: LimitedBy::ControlGroup };
                    let cpu = Cpu::new(&source, &weights, Loss::Mse, Isa::detect());
                    let divided = outputs(&mut cpu.with_free_memory(free), plan(graphs.len(), graphs.len(), false));
                    assert_eq!((whole.rows.len(), &divided.rows), (1, &whole.rows));
                    assert!(
                        bits(&divided) == bits(&whole) && divided.labels.rows() == whole.labels.rows(),
                        "{name}, {set}"
                    );
                }
            }
        }
    }
}

/// Graphs without edges, of some nodes each.
fn edgeless(nodes: &[usize]) -> GraphStore {
    let mut store = GraphStore::new(Layout::default());
    nodes.iter().for_each(|&num_nodes| store.push(GraphParts { num_nodes, ..Default::default() }).unwrap());
    store
}

#[test]
fn batches_are_divided_where_they_do_not_fit_and_nowhere_else() {
    let _alone = MEMORY.alone();
    let store = edgeless(&[100, 5_000, 5_000, 100, 100, 100, 5_000]);
    let source = GraphSource::new(&store, AttentionScope::Sparse);
    let plan = PassPlan::evaluation(Split::Test, (0..7).collect(), 4);
    let network = Network { node: Input { constant: true, ..Default::default() }, ..network(16, 2, false) };
    let memory = PassMemory::new(&network, false);
    let large = memory.bytes(&BatchSize::from_iter([source.size(&plan, 1), source.size(&plan, 3)]));
    let free = |bytes| Some(FreeMemory { bytes, limit: 1e12, by: LimitedBy::ControlGroup });
    let divided = |free, held| {
        let (order, _) = divide_batches(&source, &plan, &memory, held, free)?;
        Ok((0..order.batches()).map(|number| order.batch(number).to_vec()).collect::<Vec<_>>())
    };
    let whole = vec![vec![0, 1, 2, 3], vec![4, 5, 6]];
    assert_eq!(divided(None, 0.0), Ok(whole.clone()));
    assert_eq!(divided(free(1e12), 0.0), Ok(whole));
    let pieces = vec![vec![0, 1], vec![2, 3], vec![4, 5, 6]];
    assert_eq!(divided(free(1.05 * large), 0.0), Ok(pieces.clone()));
    // Memory that earlier passes hold counts as free.
    assert_eq!(divided(free(0.55 * large), 0.5 * large), Ok(pieces));
    let error: GraphTooLarge = divided(free(0.5 * large), 0.0).unwrap_err();
    assert_eq!((error.graph, error.nodes, error.by), (1, 5_000, LimitedBy::ControlGroup));
    assert!(error.needed > error.free && error.to_string().contains("graph 1: "), "{error}");
}
