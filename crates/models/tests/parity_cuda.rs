//! The models on a card against the PyTorch oracle, as `parity.rs` does on the processor. Hidden states stay on the card; everything else is compared.
//!
//! `GT_FIXTURES=DIR` takes the model files of another folder, `GT_CACHE=DIR` keeps compiled kernels.

mod support;

use std::path::PathBuf;

use gt_nn::cpu::{Adam, Edges, Engine, Isa};
use gt_nn::cuda::{CudaDevice, CudaEngine, CudaError, CudaLabels, CudaTask, Pass, PassResult, Precision, ResidentData};
use gt_testing::{Resource, say, skip};
use rayon::prelude::*;
use support::comparison::{Comparison, adam};
use support::{Fixture, fixtures};

/// Of the largest entry of a family.
const TOLERANCE: f64 = 1e-4;

/// A fixture's model and batch on a card.
struct Card {
    engine: CudaEngine,
    labels: CudaLabels,
    order: Vec<u32>,
}

impl Card {
    fn new(device: &CudaDevice, fixture: &Fixture, edges: Edges) -> Result<Self, CudaError> {
        let (store, batch, network) = (fixture.store(), fixture.batch(), fixture.network());
        let rows = store.rows(network.reads.level());
        let data = ResidentData::new(device, &store, &network, edges)?;
        let labels = CudaLabels::new(device, rows, batch.target().unwrap())?;
        let task = CudaTask {
            network,
            loss: fixture.loss(),
            batch: store.len(),
            rows,
            listed: store.len(),
            signs_per_graph: false,
            precision: Precision::F32,
        };
        let cache = std::env::var_os("GT_CACHE").map(|folder| PathBuf::from(folder).join("kernels"));
        let engine = CudaEngine::new(device, &data, task, cache.as_deref())?;
        Ok(Self { engine, labels, order: (0..store.len() as u32).collect() })
    }

    /// One pass over the batch; `host` then holds parameters, gradients and statistics.
    fn pass(&mut self, train: Option<Adam>, host: &mut Engine<f32>) -> Result<PassResult, CudaError> {
        let Self { engine, labels, order } = self;
        engine.begin(Pass { order, from: 0, signs: &[], labels, train: train.map(|adam| (adam, 0)) })?;
        engine.launch(1)?;
        let result = engine.finish()?;
        assert_eq!(result.bad, None, "not finite");
        engine.store(host)?;
        Ok(result)
    }
}

fn run(device: &CudaDevice, fixture: &Fixture, edges: Edges) -> Result<Vec<String>, CudaError> {
    let mut card = Card::new(device, fixture, edges)?;
    let mut host = fixture.engine::<f32>(Isa::detect());
    let mut check = Comparison::new(fixture, format!("{} {edges:?}", device.name()), TOLERANCE);
    card.engine.load(&host)?;
    // A step of length 0 leaves parameters as they are and lets gradients and statistics be seen.
    let first = card.pass(Some(Adam { lr: 0.0, ..adam() }), &mut host)?;
    check.first_pass(&host, &first.outputs, first.losses[0]);
    check.inference(&card.pass(None, &mut host)?.outputs);
    card.engine.load(&fixture.engine::<f32>(Isa::detect()))?;
    for _ in 0..3 {
        card.pass(Some(adam()), &mut host)?;
    }
    let outputs = card.pass(None, &mut host)?.outputs;
    check.three_steps(&host, &outputs);
    Ok(check.finish())
}

#[test]
fn parity_on_a_card_in_single_precision() {
    let device = match CudaDevice::open(0) {
        Ok(device) => device,
        Err(error) => return skip(Resource::Cuda, error),
    };
    let fixtures = fixtures();
    let cases = fixtures.iter().flat_map(|fixture| {
        let edges = [Edges::Sparse, Edges::Full].into_iter().take(if fixture.is_full() { 2 } else { 1 });
        edges.map(move |edges| (fixture, edges))
    });
    // Each has kernels of its own to compile, which takes longer than everything else.
    let complaints: Vec<Vec<String>> = cases
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|(fixture, edges)| {
            run(&device, fixture, edges).unwrap_or_else(|error| panic!("{} {edges:?}: {error}", fixture.name))
        })
        .collect();
    let (compared, complaints) = (complaints.len(), complaints.concat());
    say(format_args!("{compared} comparisons on {}", device.name()));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(compared > 0, "no fixture was compared");
}
