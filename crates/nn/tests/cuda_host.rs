//! The host side of the CUDA engine without a GPU: memory is freed, failures are typed errors.
//!
//! The driver is the stand-in of `cuda-recorder`.
#![cfg(target_os = "linux")]

mod support;

use graph_transformer_nn::AttentionScope;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use graph_transformer_nn::cpu::Adam;
use graph_transformer_nn::cuda::{
    CudaDevice, CudaEngine, CudaError, CudaLabels, CudaTask, OnGpu, Pass, Precision, ResidentData,
};
use graph_transformer_nn::{Branch, Loss, Network, Weights};
use gt_cuda_recorder::{Failure, Recorder};
use gt_graph::GraphStore;
use support::{KINDS, all_of, network, network_of, random_graphs, store};

/// Results of the driver.
const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const NO_DEVICE: i32 = 100;
const UNSUPPORTED_VERSION: i32 = 222;
const ILLEGAL_ADDRESS: i32 = 700;
const LAUNCH_FAILED: i32 = 719;

/// Graphs per batch, and passes launch as many batches.
const BATCH: usize = 3;
const BATCHES: usize = 2;

/// A network and its data.
struct Case {
    network: Network,
    graphs: GraphStore,
}

impl Case {
    fn new(network: Network) -> Self {
        let graphs = store(&network, &random_graphs(3, BATCH * BATCHES, 2, 9), Loss::L1, 0.0, 5);
        Self { network, graphs }
    }

    /// A single layer with edges, which calls whatever a network calls.
    fn small() -> Self {
        Self::new(Network { layers: 1, ..network(8, 2, true) })
    }

    fn engine(&self, device: &CudaDevice, cache: Option<&Path>) -> Result<(CudaEngine, Arc<ResidentData>), CudaError> {
        let data = ResidentData::new(device, &self.graphs, &self.network, AttentionScope::Sparse)?;
        let task = CudaTask {
            network: self.network.clone(),
            loss: Loss::L1,
            batch: BATCH,
            rows: self.graphs.len(),
            listed: self.graphs.len(),
            signs_per_graph: false,
            precision: Precision::F32,
        };
        Ok((CudaEngine::new(device, &data, task, cache)?, data))
    }

    /// Data, labels, an engine, a pass of training, a pass of inference, and the parameters back.
    /// Returns what holds memory of the device.
    fn live(&self, device: &CudaDevice) -> Result<Held, CudaError> {
        let (mut engine, data) = self.engine(device, None)?;
        let rows = self.graphs.rows(self.network.reads.level());
        let labels = CudaLabels::new(device, rows, all_of(&self.graphs).target().unwrap())?;
        engine.prepare()?;
        engine.load(&Weights::zeros(&self.network), None)?;
        let order: Vec<u32> = (0..self.graphs.len() as u32).collect();
        let adam = Adam { lr: 1e-3, ..Default::default() };
        for train in [Some((adam, 0)), None] {
            engine.begin(Pass { order: &order, from: 0, signs: &[], labels: &labels, train })?;
            engine.launch(BATCHES)?;
            engine.wait()?;
            engine.finish()?;
        }
        engine.gradients()?;
        engine.optimizer()?;
        engine.weights()?;
        Ok((engine, data, labels))
    }

    fn open_and_live(&self) -> Result<Held, CudaError> {
        self.live(&CudaDevice::open(0)?)
    }
}

/// What a run holds on the device until its end.
type Held = (CudaEngine, Arc<ResidentData>, CudaLabels);

/// The driver saw no pointer outside its allocation, and no freed memory in use.
fn assert_no_misuse(recorder: &Recorder) {
    let recording = recorder.take();
    assert_eq!(recording.lines_of("misuse").next(), None);
}

#[test]
fn everything_is_given_back() {
    let kinds = KINDS.map(|kind| network_of(kind, 16, 2));
    for network in kinds.into_iter().chain([network(16, 2, true), network(16, 2, false)]) {
        let recorder = Recorder::start();
        let case = Case::new(network);
        let device = CudaDevice::open(0).unwrap();
        assert_eq!(device.name(), "NVIDIA H200");
        let (before, _) = device.memory().unwrap();
        let (engine, data) = case.engine(&device, None).unwrap();
        // What the engine says it holds is what is gone.
        let (now, _) = device.memory().unwrap();
        assert_eq!(before - now, engine.bytes() + data.bytes());
        drop((engine, data));
        assert_eq!(device.memory().unwrap().0, before);
        case.live(&device).unwrap();
        assert_eq!(device.memory().unwrap().0, before);
        drop(device);
        assert_eq!(recorder.held(), "", "{:?}", case.network.branches);
        assert_no_misuse(&recorder);
    }
}

#[test]
fn memory_that_runs_out_is_reported_with_what_did_not_fit() {
    let case = Case::small();
    let recorder = Recorder::start();
    case.open_and_live().unwrap();
    let allocations = recorder.calls("cuMemAllocAsync");
    drop(recorder);
    let mut parts = Vec::new();
    for nth in 1..=allocations {
        let recorder = Recorder::start();
        let device = CudaDevice::open(0).unwrap();
        let (free, _) = device.memory().unwrap();
        recorder.fail(Failure { function: "cuMemAllocAsync", nth, error: OUT_OF_MEMORY, lasting: false });
        match case.live(&device) {
            Err(CudaError::Memory { part, wanted, free: left, .. }) => {
                assert!(wanted > 0 && left <= free, "{nth}: {wanted} {left}");
                parts.push(part);
            }
            other => panic!("{nth}: {:?}", other.map(drop)),
        }
        assert_eq!(device.memory().unwrap().0, free, "{nth}");
        // The device is as good as before.
        case.live(&device).unwrap_or_else(|error| panic!("{nth}: {error}"));
        drop(device);
        assert_eq!(recorder.held(), "", "{nth}");
        assert_no_misuse(&recorder);
    }
    for part in [OnGpu::Data, OnGpu::Labels, OnGpu::Network] {
        assert!(parts.contains(&part), "{part:?}");
    }
}

#[test]
fn data_that_does_not_fit_lies_in_the_computers_memory() {
    let network = Network { layers: 1, ..network(8, 2, false) };
    let graphs = store(&network, &random_graphs(3, 6_000, 8, 9), Loss::L1, 0.0, 5);
    let memory = 4 * graphs.bytes() - 1;
    let case = Case { network, graphs };
    let recorder = Recorder::start();
    recorder.set_memory(memory);
    let device = CudaDevice::open(0).unwrap();
    let (engine, data) = case.engine(&device, None).unwrap();
    assert!(!data.is_on_gpu() && data.bytes() == 0);
    assert_eq!(memory - device.memory().unwrap().0, engine.bytes());
    drop((engine, data, device));
    assert_eq!(recorder.held(), "");
    let allocations = recorder.calls("cuMemHostAlloc");
    assert!(allocations > 4);
    drop(recorder);
    for function in ["cuMemHostAlloc", "cuMemHostGetDevicePointer_v2"] {
        for nth in 1..=allocations {
            let recorder = Recorder::start();
            recorder.set_memory(memory);
            recorder.fail(Failure { function, nth, error: OUT_OF_MEMORY, lasting: false });
            let device = CudaDevice::open(0).unwrap();
            match ResidentData::new(&device, &case.graphs, &case.network, AttentionScope::Sparse) {
                Err(CudaError::Memory { part: OnGpu::Data, .. }) => {}
                other => panic!("{function} {nth}: {other:?}"),
            }
            drop(device);
            assert_eq!(recorder.held(), "", "{function} {nth}");
            assert_no_misuse(&recorder);
        }
    }
}

/// Calls that free memory or destroy an object. The result of a run stands when one of them fails.
const RELEASES: [&str; 8] = [
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
    "cuModuleUnload",
    "cuStreamDestroy_v2",
    "cuEventDestroy_v2",
    "cuDevicePrimaryCtxRelease_v2",
];

/// Lets every call of a run fail in turn. Each failure ends the run with an error that `judge`
/// accepts, unless the call frees something or comes after the last result. Everything is freed in
/// any case.
fn fail_everywhere(error: i32, lasting: bool, judge: impl Fn(&CudaError) -> bool) {
    let case = Case::small();
    for nth in 1.. {
        let recorder = Recorder::start();
        recorder.fail(Failure { function: "", nth, error, lasting });
        let held = case.open_and_live();
        let worked = recorder.calls("");
        let result = held.map(drop);
        let recording = recorder.take();
        let Some(failed) = recording.lines_of("fail").next() else {
            // The run has fewer calls than that.
            assert!(nth > recorder.calls("cuLaunchKernel") && recorder.calls("cuLaunchKernel") > 0);
            return result.unwrap();
        };
        let released =
            RELEASES.iter().any(|name| failed.strip_prefix("fail ").is_some_and(|call| call.starts_with(name)));
        let stands = released || nth > worked;
        assert!(result.as_ref().map_or_else(&judge, |()| stands), "call {nth}: {failed}: {result:?}");
        assert_eq!(recording.lines_of("misuse").next(), None, "call {nth}: {failed}");
        // cudarc asks for an attribute between taking the context and owning it.
        let early = failed.starts_with("fail cuDeviceGetAttribute") && recorder.calls("cuDeviceGetAttribute") == 1;
        assert_eq!(recorder.held(), if early { "1 contexts" } else { "" }, "call {nth}: {failed}");
    }
}

#[test]
fn a_device_that_is_lost_at_any_call_is_reported_as_lost() {
    fail_everywhere(ILLEGAL_ADDRESS, true, |error| matches!(error, CudaError::Lost(_)));
}

#[test]
fn any_call_that_fails_once_is_reported_as_what_it_is() {
    fail_everywhere(OUT_OF_MEMORY, false, |error| matches!(error, CudaError::Memory { .. } | CudaError::Full(_)));
    fail_everywhere(INVALID_VALUE, false, |error| matches!(error, CudaError::Driver(_)));
}

#[test]
fn layers_that_only_the_cpu_computes_are_refused_before_anything_is_stored() {
    let recorder = Recorder::start();
    let device = CudaDevice::open(0).unwrap();
    for (branches, named) in [
        (&[Branch::Gine][..], "a model with the branch gine (model.branches) is not available on CUDA devices"),
        (&[Branch::Attention, Branch::Gcn], "a model with several branches (model.branches) is not available"),
    ] {
        let case = Case::new(network(8, 2, false).with_branches(branches, true));
        match case.engine(&device, None) {
            Err(error @ CudaError::Unsupported(_)) => {
                assert!(error.to_string().starts_with(named) && error.to_string().ends_with("use --device cpu"));
            }
            other => panic!("{branches:?}: {:?}", other.map(drop)),
        }
    }
    assert_eq!(recorder.calls("cuMemAllocAsync"), 0);
    drop(device);
    assert_eq!(recorder.held(), "");
}

#[test]
fn a_launch_that_fails_ends_the_run() {
    let case = Case::small();
    let recorder = Recorder::start();
    case.open_and_live().unwrap();
    let functions = ["cuLaunchKernel", "cuGraphInstantiateWithFlags", "cuGraphUpload", "cuGraphLaunch"];
    let launches = functions.map(|function| (function, recorder.calls(function)));
    drop(recorder);
    for (function, calls) in launches {
        assert!(calls > 0, "{function}");
        for nth in 1..=calls {
            let recorder = Recorder::start();
            recorder.fail(Failure { function, nth, error: LAUNCH_FAILED, lasting: true });
            match case.open_and_live() {
                Err(CudaError::Lost(text)) => assert!(text.contains("unspecified launch failure"), "{text}"),
                other => panic!("{function} {nth}: {:?}", other.map(drop)),
            }
            assert_eq!(recorder.held(), "", "{function} {nth}");
        }
    }
}

#[test]
fn a_machine_without_a_device_says_so() {
    let recorder = Recorder::start();
    recorder.fail(Failure { function: "cuDeviceGetCount", nth: 1, error: NO_DEVICE, lasting: false });
    assert!(matches!(CudaDevice::open(0), Err(CudaError::NoDevice { asked: 0, found: 0 })));
    assert!(matches!(CudaDevice::open(1), Err(CudaError::NoDevice { asked: 1, found: 1 })));
    assert_eq!(recorder.held(), "");
}

#[test]
fn a_driver_or_a_device_that_is_too_old_is_named_with_its_version() {
    let recorder = Recorder::start();
    recorder.set_driver_version(11_060);
    assert!(matches!(CudaDevice::open(0), Err(CudaError::OldDriver { found }) if found == "11.6"));
    recorder.set_driver_version(11_070);
    recorder.set_capability(7, 5);
    match CudaDevice::open(0) {
        Err(CudaError::TooOld { name, major: 7, minor: 5 }) => assert_eq!(name, "NVIDIA H200"),
        other => panic!("{other:?}"),
    }
    assert_eq!(recorder.held(), "");
    recorder.set_capability(8, 0);
    CudaDevice::open(0).unwrap();
}

/// A folder for compiled kernels, empty at first and gone afterwards.
struct Cache(PathBuf);

impl Cache {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn files(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.0).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn kernels_that_the_driver_refuses_are_compiled_anew_if_they_were_kept() {
    let (case, cache, recorder) = (Case::small(), Cache::new("kernels"), Recorder::start());
    let device = CudaDevice::open(0).unwrap();
    let refuse = |nth| Failure { function: "cuModuleLoadData", nth, error: UNSUPPORTED_VERSION, lasting: false };
    let engine = |cache| case.engine(&device, cache).map(|_| ());
    recorder.fail(refuse(1));
    assert!(matches!(engine(None), Err(CudaError::Rejected(_))));
    engine(Some(&cache.0)).unwrap();
    let [kept] = &cache.files()[..] else { panic!("{:?}", cache.files()) };
    // The driver sees that an image is damaged.
    std::fs::write(kept, b"damaged\0").unwrap();
    engine(Some(&cache.0)).unwrap();
    assert!(std::fs::read(kept).unwrap().starts_with(b"recorded kernels"));
    drop(device);
    assert_eq!(recorder.held(), "");
}
