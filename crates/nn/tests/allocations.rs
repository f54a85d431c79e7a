//! A step of training allocates nothing once its batches have been seen.

mod support;

use graph_transformer_nn::AttentionScope;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use graph_transformer_nn::cpu::{Adam, Engine, Isa};
use graph_transformer_nn::{Branch, Gate, HeadInput, Input, Jump, Loss, Network, Norm, Readout};
use support::{KINDS, Shape, batch, fill, network, network_of, random_graphs};

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every request goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM_UP: usize = 3;
const STEPS: usize = 20;

/// Molecules: an edge stream, one number per graph.
fn zinc() -> (Network, Loss, Vec<Shape>) {
    let base = network(16, 4, true);
    let node = Input { categorical: vec![28], laplacian: 8, ..Default::default() };
    let head = vec![8, 4, 1];
    (Network { node, head, reads: HeadInput::Graphs(Readout::Mean), ..base }, Loss::L1, random_graphs(3, 64, 12, 37))
}

/// Communities: no edge stream, a class per node.
fn cluster() -> (Network, Loss, Vec<Shape>) {
    let base = network(16, 4, false);
    let node = Input { categorical: vec![7], laplacian: 10, ..Default::default() };
    let loss = Loss::CrossEntropy { weighted: true };
    (Network { node, head: vec![8, 6], reads: HeadInput::Nodes, ..base }, loss, random_graphs(4, 24, 60, 190))
}

/// Allocations of steps that go through the batches in turn, after as many rounds of them.
fn count(network: &Network, loss: Loss, batches: &[Vec<Shape>]) -> usize {
    let batches: Vec<_> = batches.iter().map(|graphs| batch(network, graphs, loss, 0.1, 17)).collect();
    let mut engine = Engine::<f32>::new(network.clone(), Isa::detect());
    fill(&mut engine, 29);
    let adam = Adam { clip: 1.0, weight_decay: 1e-3, ..Default::default() };
    let mut step = |number: usize| {
        let batch = &batches[number % batches.len()];
        engine.set_dropout_key(number as u64);
        let value = engine.train(batch, AttentionScope::Sparse, loss, batch.target().unwrap());
        value + engine.step(&adam)
    };
    let warm_up = WARM_UP * batches.len();
    (0..warm_up).for_each(|number| assert!(step(number).is_finite()));
    let before = COUNT.load(Ordering::Relaxed);
    let total: f64 = (warm_up..warm_up + STEPS).map(step).sum();
    let after = COUNT.load(Ordering::Relaxed);
    assert!(total.is_finite());
    after - before
}

// One test only: others would allocate in parallel.
#[test]
fn a_step_of_training_allocates_nothing() {
    let before = COUNT.load(Ordering::Relaxed);
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(COUNT.load(Ordering::Relaxed) > before, "the allocator does not count");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut found = Vec::new();
    pool.install(|| {
        for (kind, (base, loss, graphs)) in [("ZINC", zinc()), ("CLUSTER", cluster())] {
            let large = vec![Shape::random(&mut support::Rng(9), 6_000, 12_000)];
            let orders = [
                ("the same batch", vec![graphs.clone()]),
                ("two in turn", vec![graphs.clone(), graphs[..graphs.len() / 3].to_vec()]),
                ("a large graph in turn", vec![graphs.clone(), large]),
            ];
            for norm in [Norm::Batch, Norm::Layer] {
                let network = Network { norm, dropout: 0.1, input_dropout: 0.1, ..base.clone() };
                for (order, batches) in &orders {
                    found.push((format!("{kind}, {norm:?}, {order}"), count(&network, loss, batches)));
                }
            }
            let (name, batches) = &orders[1];
            let options =
                Network { gate: Gate::Scalar, symmetric_edges: true, jump: Jump::Concat, dropout: 0.1, ..base };
            found.push((format!("{kind}, all options, {name}"), count(&options, loss, batches)));
        }
        for kind in KINDS {
            let network = Network { dropout: 0.1, jump: Jump::Concat, ..network_of(kind, 16, 4) };
            let graphs = random_graphs(3, 64, 12, 37);
            let large = vec![Shape::random(&mut support::Rng(9), 6_000, 12_000)];
            let batches = [graphs.clone(), graphs[..20].to_vec(), large];
            found.push((format!("{kind:?}"), count(&network, Loss::Mse, &batches)));
        }
        let batches = [random_graphs(3, 64, 12, 37), random_graphs(4, 20, 12, 37)];
        for branch in Branch::ALL.into_iter().filter(|branch| *branch != Branch::Attention) {
            let several = network(16, 4, true).with_branches(&[Branch::Attention, branch], true);
            found.push((format!("attention and {branch:?}"), count(&several, Loss::Mse, &batches)));
            let alone = network(16, 4, branch.needs_edge_stream()).with_branches(&[branch], true);
            found.push((format!("{branch:?} and a feed-forward half"), count(&alone, Loss::Mse, &batches)));
        }
    });
    assert!(found.iter().all(|(_, allocations)| *allocations == 0), "{found:#?}");
}
