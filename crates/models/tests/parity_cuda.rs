//! The models on a GPU against the PyTorch oracle, as `parity.rs` does on the CPU. Hidden states
//! stay on the GPU; everything else is compared.
//!
//! `GT_FIXTURES=DIR` takes the model files of another folder, `GT_CACHE=DIR` keeps compiled
//! kernels.

mod support;

use gt_nn::AttentionScope;
use std::path::PathBuf;

use gt_graph::Split;
use gt_nn::backend::{
    Backend, BackendError, Cuda, CudaDataset, CudaSettings, GraphSource, PassOutputs, PassPlan, TrainingPlan, run,
};
use gt_nn::cpu::Adam;
use gt_nn::cuda::{CudaDevice, Precision};
use gt_testing::{Resource, say, skip};
use rayon::prelude::*;
use support::comparison::{Comparison, adam};
use support::{Fixture, fixtures};

/// Largest error, relative to the largest entry of a family of tensors.
const TOLERANCE: f64 = 1e-4;

/// One pass over the batch of a fixture.
fn pass(backend: &mut dyn Backend, graphs: usize, train: Option<Adam>) -> Result<PassOutputs, BackendError> {
    let step = |adam| TrainingPlan { adam, dropout_key: 0, accumulate: 1, skip_bad_steps: false, draws: (0, 0) };
    let plan = PassPlan::evaluation(Split::Train, (0..graphs).collect(), graphs);
    let outcome = run(backend, PassPlan { training: train.map(step), ..plan })?;
    assert_eq!(outcome.bad, None, "not finite");
    Ok(outcome.outputs)
}

fn compare(device: &CudaDevice, fixture: &Fixture, edges: AttentionScope) -> Result<Vec<String>, BackendError> {
    let store = fixture.store();
    let (graphs, loss) = (store.len(), fixture.loss());
    let source = GraphSource::new(&store, edges);
    let cache = std::env::var_os("GT_CACHE").map(|folder| PathBuf::from(folder).join("kernels"));
    let settings = CudaSettings {
        loss,
        batch: graphs,
        signs_per_graph: false,
        precision: Precision::F32,
        cache: cache.as_deref(),
    };
    let data = CudaDataset::new(device, &source, &fixture.network(), loss, &[Split::Train])?;
    let mut gpu = Cuda::new(&data, &fixture.weights(), &settings, &[(0..graphs).collect()])?;
    let mut check = Comparison::new(fixture, format!("{} {edges:?}", device.name()), TOLERANCE);
    // A step of length 0 leaves parameters as they are and lets gradients and statistics be seen.
    let first = pass(&mut gpu, graphs, Some(Adam { lr: 0.0, ..adam() }))?;
    check.first_pass(&gpu.weights()?, &gpu.gradients()?, &first.values, first.losses[0]);
    check.inference(&pass(&mut gpu, graphs, None)?.values);
    gpu.load(&fixture.weights(), None)?;
    for _ in 0..3 {
        pass(&mut gpu, graphs, Some(adam()))?;
    }
    let outputs = pass(&mut gpu, graphs, None)?.values;
    check.three_steps(&gpu.weights()?, &outputs);
    Ok(check.finish())
}

#[test]
fn parity_on_a_gpu_in_single_precision() {
    let device = match CudaDevice::open(0) {
        Ok(device) => device,
        Err(error) => return skip(Resource::Cuda, error),
    };
    let fixtures = fixtures();
    let cases = fixtures.iter().flat_map(|fixture| {
        let edges =
            [AttentionScope::Sparse, AttentionScope::Full].into_iter().take(if fixture.is_full() { 2 } else { 1 });
        edges.map(move |edges| (fixture, edges))
    });
    // Each has kernels of its own to compile, which takes longer than everything else.
    let complaints: Vec<Vec<String>> = cases
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|(fixture, edges)| {
            compare(&device, fixture, edges).unwrap_or_else(|error| panic!("{} {edges:?}: {error}", fixture.name))
        })
        .collect();
    let (compared, complaints) = (complaints.len(), complaints.concat());
    say(format_args!("{compared} comparisons on {}", device.name()));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(compared > 0, "no fixture was compared");
}
