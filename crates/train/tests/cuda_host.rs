//! Trainings, evaluations and predictions on a GPU that fails, without a GPU.
//!
//! The driver is the stand-in of `cuda-recorder`. Kernels compute nothing, so losses are 0 and
//! parameters stay as they are.
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use graph_transformer_train::{
    Observer, Outcome, Prepared, Purpose, Query, QueryOptions, Resident, RunDirectory, Stop, TrainError, Trainer,
    evaluate, query,
};
use gt_cuda_recorder::{Failure, Recorder};
use gt_data::{Dataset, SbmSet, SbmSizes};
use gt_graph::Split;
use gt_models::{Config, Model, ModelError};
use gt_nn::backend::{BackendError, Device};
use gt_nn::cuda::{CudaDevice, CudaError, OnGpu, Precision};
use support::{file, prepare, sit};

/// Results of the driver.
const OUT_OF_MEMORY: i32 = 2;
const ILLEGAL_ADDRESS: i32 = 700;
const LAUNCH_FAILED: i32 = 719;

/// Any function of the driver.
const ANY: &str = "";

fn clusters() -> Dataset {
    SbmSet::Cluster.generate(5, SbmSizes { train: 6, val: 2, test: 2 }).unwrap()
}

/// Three batches an epoch, and a checkpoint after each epoch.
fn config() -> Config {
    Config::from_toml(
        "[model]\nlayers = 1\nwidth = 8\nheads = 2\n[optimizer]\nlr = 1e-3\n\
         [train]\nbatch = 2\nepochs = 3\ncheckpoint_seconds = 0\n",
    )
    .unwrap()
}

/// The stand-in's device.
fn gpu() -> Device {
    Device::Cuda { device: CudaDevice::open(0).unwrap(), precision: Precision::F32, cache: None }
}

/// Counts the driver's calls before each epoch.
struct Watcher<'a> {
    recorder: &'a Recorder,
    function: &'static str,
    calls: Vec<u64>,
}

impl<'a> Watcher<'a> {
    fn new(recorder: &'a Recorder, function: &'static str) -> Self {
        Self { recorder, function, calls: Vec::new() }
    }
}

impl Observer for Watcher<'_> {
    fn begin(&mut self, _: usize, _: f64) {
        self.calls.push(self.recorder.calls(self.function));
    }
}

/// One sitting on the stand-in's device; everything on the device is given back when it ends.
fn train_on_gpu(
    data: &Prepared,
    config: &Config,
    folder: &Path,
    observer: &mut dyn Observer,
) -> Result<Outcome, TrainError> {
    let run = RunDirectory::open(folder).unwrap();
    let backend = data.place(&gpu())?.backend(data, config, Purpose::Training)?;
    Trainer::new(data, config, &run, backend, observer)?.run(&AtomicBool::new(false), observer)
}

/// The numbers of a function's calls during an epoch, from 1.
fn calls_in_epoch(data: &Prepared, config: &Config, epoch: usize, function: &'static str) -> std::ops::Range<u64> {
    let recorder = Recorder::start();
    let folder = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::new(&recorder, function);
    let outcome = train_on_gpu(data, config, folder.path(), &mut watcher).unwrap();
    assert_eq!((outcome.stop, outcome.device.as_str()), (Stop::Epochs, "NVIDIA H200, f32"));
    assert_eq!(recorder.held(), "");
    watcher.calls[epoch - 1] + 1..watcher.calls[epoch] + 1
}

#[test]
fn a_gpu_lost_in_the_middle_of_an_epoch_leaves_a_checkpoint_that_the_cpu_resumes() {
    let (dataset, config) = (clusters(), config());
    let data = prepare(&dataset, &config);
    let launches = calls_in_epoch(&data, &config, 2, "cuGraphLaunch");
    // Three batches of training, and one each of validation and test.
    assert_eq!(launches.clone().count(), 5);
    for nth in launches {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::start();
        recorder.fail(Failure { function: "cuGraphLaunch", nth, error: LAUNCH_FAILED, lasting: true });
        let checkpoint = match train_on_gpu(&data, &config, folder.path(), &mut ()).unwrap_err() {
            TrainError::Lost { cause: CudaError::Lost(_), epoch: 2, checkpoint: Some(checkpoint) } => checkpoint,
            other => panic!("launch {nth}: {other:?}"),
        };
        assert_eq!(recorder.held(), "", "launch {nth}");
        assert_eq!(checkpoint, folder.path().join("checkpoint/00000001"));
        let kept = file(&checkpoint, "model.safetensors");
        Model::from_bytes(&kept).unwrap();
        let (outcome, notes, epochs) = sit(&dataset, &config, folder.path(), 0);
        assert_eq!((outcome.stop, outcome.epochs), (Stop::Epochs, 3));
        assert_eq!(epochs.iter().map(|epoch| epoch.epoch).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(notes[0], "resuming after 1 epochs and 0 batches", "{notes:?}");
        let moved = "the run was on NVIDIA H200, f32 and continues on ";
        assert!(notes[1].starts_with(moved) && notes[1].ends_with("will not be bit-identical"), "{notes:?}");
        assert!(file(folder.path(), "model.safetensors") != kept, "the CPU has trained");
    }
}

#[test]
fn a_gpu_lost_at_any_call_names_the_last_checkpoint_that_is_whole() {
    let (dataset, config) = (clusters(), config());
    let data = prepare(&dataset, &config);
    // The second epoch, and the checkpoint after it.
    for nth in calls_in_epoch(&data, &config, 2, ANY) {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::start();
        recorder.fail(Failure { function: ANY, nth, error: ILLEGAL_ADDRESS, lasting: true });
        match train_on_gpu(&data, &config, folder.path(), &mut ()).unwrap_err() {
            TrainError::Lost { cause: CudaError::Lost(_), epoch: 2 | 3, checkpoint: Some(checkpoint) } => {
                assert_eq!(checkpoint, folder.path().join("checkpoint/00000001"), "call {nth}");
            }
            other => panic!("call {nth}: {other:?}"),
        }
        assert_eq!(recorder.held(), "", "call {nth}");
    }
}

#[test]
fn a_gpu_lost_before_the_first_checkpoint_or_after_the_last_epoch_is_reported_as_such() {
    let (dataset, config) = (clusters(), config());
    let data = prepare(&dataset, &config);
    let first = calls_in_epoch(&data, &config, 1, "cuGraphLaunch").start;
    // Five launches an epoch; scores of the last model follow.
    for (nth, in_epoch, number) in [(first, 1, None), (first + 15, 3, Some(3))] {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::start();
        recorder.fail(Failure { function: "cuGraphLaunch", nth, error: LAUNCH_FAILED, lasting: true });
        match train_on_gpu(&data, &config, folder.path(), &mut ()).unwrap_err() {
            TrainError::Lost { cause: CudaError::Lost(_), epoch, checkpoint } => {
                let expected = number.map(|number| folder.path().join(format!("checkpoint/{number:08}")));
                assert_eq!((epoch, checkpoint), (in_epoch, expected));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(recorder.held(), "");
    }
}

#[test]
fn memory_that_runs_out_before_the_first_step_is_an_error_of_the_device() {
    let (dataset, config) = (clusters(), config());
    let data = prepare(&dataset, &config);
    let place =
        || data.place(&gpu()).and_then(|resident| resident.backend(&data, &config, Purpose::Training).map(drop));
    let recorder = Recorder::start();
    place().unwrap();
    let allocations = recorder.calls("cuMemAllocAsync");
    drop(recorder);
    let mut parts = Vec::new();
    for nth in 1..=allocations {
        let recorder = Recorder::start();
        recorder.fail(Failure { function: "cuMemAllocAsync", nth, error: OUT_OF_MEMORY, lasting: false });
        let error = place().unwrap_err();
        // `--device auto` takes the CPU for such an error.
        assert!(matches!(error.device(), Some(CudaError::Memory { .. })), "{nth}: {error:?}");
        match error {
            TrainError::Device(CudaError::Memory { part, .. }) => parts.push(part),
            other => panic!("{nth}: {other:?}"),
        }
        assert_eq!(recorder.held(), "", "{nth}");
    }
    parts.dedup();
    assert_eq!(parts, [OnGpu::Data, OnGpu::Labels, OnGpu::Network]);
}

#[test]
fn a_gpu_with_too_little_memory_leaves_the_work_to_the_cpu() {
    let (dataset, config) = (clusters(), config());
    let data = prepare(&dataset, &config);
    let recorder = Recorder::start();
    // The data set moves to the computer's memory, labels cannot.
    recorder.set_memory(100);
    match data.place(&gpu()).unwrap_err() {
        TrainError::Device(CudaError::Memory { part: OnGpu::Labels, free, .. }) => assert!(free <= 100),
        other => panic!("{other:?}"),
    }
    assert_eq!(recorder.held(), "");
    let folder = tempfile::tempdir().unwrap();
    let (outcome, notes, _) = sit(&dataset, &config, folder.path(), 0);
    assert_eq!((outcome.epochs, notes.len()), (3, 0));
}

#[test]
fn predictions_and_scores_on_a_gpu_that_fails_are_typed_errors() {
    let (dataset, config) = (clusters(), config());
    let model = Model::new(config.clone(), dataset.schema().clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    gt_data::write(&dataset, &path).unwrap();
    let functions = ["cuLaunchKernel", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuStreamSynchronize"];
    for function in functions {
        let recorder = Recorder::start();
        let whole = model.predict_on(&gpu(), dataset.graphs()).unwrap();
        assert_eq!(whole.len(), dataset.graphs().num_nodes());
        let calls = recorder.calls(function);
        assert!(calls > 0, "{function}");
        drop(recorder);
        for nth in 1..=calls {
            let recorder = Recorder::start();
            let fail = || recorder.fail(Failure { function, nth, error: LAUNCH_FAILED, lasting: true });
            fail();
            match model.predict_on(&gpu(), dataset.graphs()).unwrap_err() {
                ModelError::Backend(BackendError::Cuda(CudaError::Lost(text))) => {
                    assert!(text.contains("unspecified launch failure"), "{text}");
                }
                other => panic!("{function} {nth}: {other:?}"),
            }
            assert_eq!(recorder.held(), "", "{function} {nth}");
        }
        let recorder = Recorder::start();
        recorder.fail(Failure { function, nth: calls, error: LAUNCH_FAILED, lasting: true });
        let out = folder.path().join("out.csv");
        let error = query(&model.clone().into(), &path, &out, &Query::Predictions(gpu()), &QueryOptions::default())
            .unwrap_err();
        assert!(matches!(error, TrainError::Model(ModelError::Backend(_))), "{error:?}");
        assert!(matches!(error.device(), Some(CudaError::Lost(_))), "{error:?}");
        assert!(!out.exists(), "an output is complete or not there");
        assert_eq!(recorder.held(), "", "{function}");
    }
    let data = Prepared::for_model(dataset, &model, None).unwrap();
    let recorder = Recorder::start();
    let resident = data.place(&gpu()).unwrap();
    assert!(matches!(resident, Resident::Cuda { .. }));
    let mut backend = resident.backend(&data, &config, Purpose::Evaluation).unwrap();
    let nth = recorder.calls("cuGraphLaunch") + 1;
    recorder.fail(Failure { function: "cuGraphLaunch", nth, error: LAUNCH_FAILED, lasting: true });
    match evaluate(&data, backend.as_mut(), Split::Val, 2) {
        Err(TrainError::Device(CudaError::Lost(_))) => {}
        other => panic!("{:?}", other.map(|scores| scores.loss.exact)),
    }
    drop((backend, resident));
    assert_eq!(recorder.held(), "");
}
