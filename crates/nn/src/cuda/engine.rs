//! A network on a GPU: parameters, buffers for the largest batch, and the launches of a step. The
//! launches are captured once for the usual and once for the largest batch, and then replayed.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaGraph, CudaStream, sys};

use super::abi;
use super::buffers::Buffers;
use super::device::{CudaDevice, Precision};
use super::error::{CpuOnly, CudaError, Result};
use super::kind::check_layers;
use super::labels::CudaLabels;
use super::launches::Launches;
use super::memory::at;
use super::program::Program;
use super::resident::{ResidentData, Size};
use crate::cpu::Adam;
use crate::loss::Loss;
use crate::network::{HeadInput, Network};
use crate::parameters::Parameters;
use crate::weights::{OptimizerState, Weights, gather};

/// The network and the largest passes that a GPU prepares for.
#[derive(Clone, Debug)]
pub struct CudaTask {
    /// The network.
    pub network: Network,
    /// What is minimised.
    pub loss: Loss,
    /// Graphs per batch.
    pub batch: usize,
    /// Most rows that the head predicts in one pass over a part of the data.
    pub rows: usize,
    /// Most graphs in one pass.
    pub listed: usize,
    /// Whether every graph has signs of its own, not every batch.
    pub signs_per_graph: bool,
    /// Precision of products.
    pub precision: Precision,
}

/// One pass over a list of graphs.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    /// The graphs, batch after batch.
    pub order: &'a [u32],
    /// Batches done already.
    pub from: usize,
    /// Signs of the Laplacian coordinates, per batch or per graph; empty to take them as they are.
    pub signs: &'a [f32],
    /// Labels.
    pub labels: &'a CudaLabels,
    /// How to step, and what dropout's keys count up from; none to evaluate.
    pub train: Option<(Adam, u64)>,
}

/// The results of a pass.
#[derive(Clone, Debug)]
pub struct PassResult {
    /// Outputs of all batches, `[rows, outputs]`.
    pub outputs: Vec<f32>,
    /// Loss of each batch.
    pub losses: Vec<f64>,
    /// The first batch whose loss or gradient was not finite; no parameter was changed from there
    /// on, running statistics were.
    pub bad: Option<usize>,
}

/// A network on a device.
pub struct CudaEngine {
    task: CudaTask,
    stream: Arc<CudaStream>,
    buffers: Buffers,
    launches: Launches,
    train: Vec<Captured>,
    evaluate: Vec<Captured>,
    /// Batches of the pass under way: begun at, launched up to.
    pass: (usize, usize),
    /// The size of each batch of the pass.
    sizes: Vec<Size>,
    training: bool,
}

/// A step's launches, for batches up to a size.
///
/// A block without work still waits for a free SM. With a single capture, sized for the largest
/// graphs in one batch, every batch would pay for that.
struct Captured {
    size: Size,
    graph: CudaGraph,
}

// SAFETY: the graphs are used through `&mut self` alone, as the driver demands.
unsafe impl Send for CudaEngine {}

impl CudaEngine {
    /// Prepares a device for a network and a data set. `cache` is a folder for compiled kernels.
    ///
    /// # Errors
    /// If the network needs an operation that only the CPU supports, kernels cannot be compiled, or
    /// memory does not suffice.
    pub fn new(
        device: &CudaDevice,
        data: &Arc<ResidentData>,
        task: CudaTask,
        cache: Option<&std::path::Path>,
    ) -> Result<Self> {
        check(&task.network)?;
        // A thread that finds its kernels ready has not met the device yet.
        device.context.bind_to_thread()?;
        let program = Program::of(device, &task.network, task.precision, data.usual(task.batch), cache)?;
        // Everything waits for the main stream, and only the optimiser for the other.
        let (least, greatest) = cudarc::driver::result::stream::get_priority_range()?;
        let stream = device.context.new_stream_with_priority(greatest)?;
        let side = device.context.new_stream_with_priority(least)?;
        let buffers = Buffers::new(&stream, &program, data, &task)?;
        let launches = Launches::new(&stream, &side, program, &task, buffers.capacity)?;
        let (train, evaluate, sizes) = Default::default();
        Ok(Self { task, stream, buffers, launches, train, evaluate, pass: (0, 0), sizes, training: false })
    }

    /// Captures the launches of both kinds of passes, so that what the driver refuses shows before
    /// one begins.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn prepare(&mut self) -> Result<()> {
        if self.train.is_empty() {
            self.train = self.capture(true)?;
        }
        if self.evaluate.is_empty() {
            self.evaluate = self.capture(false)?;
        }
        Ok(())
    }

    /// Bytes on the device, without the data set.
    pub fn bytes(&self) -> usize {
        self.buffers.memory.bytes()
    }

    /// Loads weights and the optimizer's state; without a state, the optimizer starts before its
    /// first step.
    ///
    /// # Errors
    /// If the device fails.
    pub fn load(&mut self, weights: &Weights, optimizer: Option<&OptimizerState>) -> Result<()> {
        let Buffers { memory, flat, .. } = &self.buffers;
        memory.write(flat.values, &weights.values)?;
        let zeros = vec![0.0f32; if optimizer.is_none() { weights.values.len() } else { 0 }];
        memory.write(flat.first, optimizer.map_or(&zeros, |state| &state.first))?;
        memory.write(flat.second, optimizer.map_or(&zeros, |state| &state.second))?;
        let running: Vec<f32> =
            weights.running.iter().flat_map(|pair| pair.mean.iter().chain(&pair.variance)).copied().collect();
        memory.write(flat.running, &running)?;
        memory.write(flat.steps(), &[optimizer.map_or(0, |state| state.steps)])?;
        self.launches.copy_all(&self.buffers)?;
        self.stream.synchronize()?;
        Ok(())
    }

    /// Parameters and running statistics.
    ///
    /// # Errors
    /// If the device fails.
    pub fn weights(&self) -> Result<Weights> {
        let Buffers { memory, flat, .. } = &self.buffers;
        let mut weights = Weights::zeros(&self.task.network);
        weights.values = memory.read::<f32>(flat.values, weights.values.len())?;
        if weights.running.is_empty() {
            return Ok(weights);
        }
        let width = self.task.network.channels.padded_width();
        let running = memory.read::<f32>(flat.running, flat.sites * 2 * width)?;
        for (pair, values) in weights.running.iter_mut().zip(running.chunks_exact(2 * width)) {
            let (mean, variance) = values.split_at(width);
            pair.mean.copy_from_slice(mean);
            pair.variance.copy_from_slice(variance);
        }
        Ok(weights)
    }

    /// The optimizer's state.
    ///
    /// # Errors
    /// If the device fails.
    pub fn optimizer(&self) -> Result<OptimizerState> {
        let Buffers { memory, flat, .. } = &self.buffers;
        let mut state = OptimizerState::new(&self.task.network);
        let size = state.first.len();
        state.first = memory.read::<f32>(flat.first, size)?;
        state.second = memory.read::<f32>(flat.second, size)?;
        state.steps = memory.read::<u32>(flat.steps(), 1)?[0];
        Ok(state)
    }

    /// Gradients of the last step, each parameter in the layout of files.
    ///
    /// # Errors
    /// If the device fails.
    pub fn gradients(&self) -> Result<Vec<Vec<f32>>> {
        let Buffers { memory, flat, .. } = &self.buffers;
        let layout = Parameters::new(&self.task.network);
        let arranged = memory.read::<f32>(flat.gradient, layout.size())?;
        Ok(layout.list().iter().map(|parameter| gather(parameter, &arranged)).collect())
    }

    /// Begins a pass.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If the pass is larger than what the engine was made for.
    pub fn begin(&mut self, pass: Pass<'_>) -> Result<()> {
        let Pass { order, from, signs, labels, train } = pass;
        assert!(order.len() <= self.task.listed, "{} graphs in a pass of {}", order.len(), self.task.listed);
        let Buffers { memory, flat, batch, .. } = &self.buffers;
        memory.write(batch.order, order)?;
        memory.write(self.buffers.input.node.signs, signs)?;
        memory.write(self.buffers.labels, &[labels.labels(&self.task)])?;
        let steps = memory.read::<u32>(flat.steps(), 1)?[0];
        let (adam, key) = train.unwrap_or_default();
        memory.write(
            flat.control,
            &[abi::Control {
                next: from as i32,
                batch_size: self.task.batch.min(order.len()).max(1) as i32,
                listed: order.len() as i32,
                bad_batch: -1,
                steps,
                dropout_base: key.wrapping_sub(u64::from(steps)),
                lr: adam.lr as f32,
                beta1: adam.beta1 as f32,
                beta2: adam.beta2 as f32,
                adam_epsilon: adam.epsilon as f32,
                weight_decay: adam.weight_decay as f32,
                clip: adam.clip as f32,
                decoupled: i32::from(adam.decoupled),
                train: i32::from(train.is_some()),
                signs: i32::from(!signs.is_empty()),
                ..Default::default()
            }],
        )?;
        self.training = train.is_some();
        if !self.training {
            self.launches.use_running(&self.buffers)?;
        }
        self.pass = (from, from);
        let Buffers { capacity, data, .. } = &self.buffers;
        self.sizes = order.chunks(self.task.batch).map(|graphs| data.size_of(graphs)).collect();
        assert!(self.sizes.iter().all(|size| capacity.holds(*size)), "a batch larger than {capacity:?}");
        let captured = if self.training { &self.train } else { &self.evaluate };
        if captured.is_empty() {
            let captured = self.capture(self.training)?;
            *if self.training { &mut self.train } else { &mut self.evaluate } = captured;
        }
        Ok(())
    }

    /// Captures a step for nearly every batch, and one for all.
    fn capture(&self, train: bool) -> Result<Vec<Captured>> {
        let Buffers { capacity, data, .. } = &self.buffers;
        let mut sizes = vec![data.roomy(self.task.batch), *capacity];
        sizes.dedup();
        sizes.into_iter().map(|size| Ok(Captured { size, graph: self.capture_for(size, train)? })).collect()
    }

    fn capture_for(&self, size: Size, train: bool) -> Result<CudaGraph> {
        self.stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let launched = self.launches.for_size(size).step(&self.buffers, train);
        let own_priorities = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        let graph = self.stream.end_capture(own_priorities);
        launched?;
        let graph = graph?.ok_or_else(|| CudaError::Driver("a step without launches".into()))?;
        graph.upload()?;
        Ok(graph)
    }

    /// Launches the next batches of the pass.
    ///
    /// # Errors
    /// If the device fails.
    pub fn launch(&mut self, batches: usize) -> Result<()> {
        let captured = if self.training { &self.train } else { &self.evaluate };
        for batch in self.sizes.iter().skip(self.pass.1).take(batches) {
            if let Some(step) = captured.iter().find(|step| step.size.holds(*batch)) {
                step.graph.launch()?;
            }
        }
        self.pass.1 += batches;
        Ok(())
    }

    /// Waits for everything that was launched.
    ///
    /// # Errors
    /// If the device fails.
    pub fn wait(&self) -> Result<()> {
        Ok(self.stream.synchronize()?)
    }

    /// Losses of batches of the pass that are done.
    ///
    /// # Errors
    /// If the device fails.
    pub fn losses(&self, batches: Range<usize>) -> Result<Vec<f64>> {
        self.buffers.memory.read(at::<f64>(self.buffers.losses, batches.start), batches.len())
    }

    /// Waits, and returns the results of all batches of the pass that were launched.
    ///
    /// # Errors
    /// If the device fails.
    pub fn finish(&mut self) -> Result<PassResult> {
        let Buffers { memory, flat, outputs, .. } = &self.buffers;
        let control: abi::Control = memory.read(flat.control, 1)?[0];
        let (from, to) = self.pass;
        let rows: usize = self.sizes[from..to].iter().map(|batch| batch.read(self.task.network.reads)).sum();
        Ok(PassResult {
            outputs: memory.read(*outputs, rows * self.task.network.outputs())?,
            losses: self.losses(from..to)?,
            bad: (control.bad_batch >= 0).then_some(control.bad_batch as usize),
        })
    }
}

/// The part of a network that only the CPU supports.
fn check(network: &Network) -> Result<()> {
    check_layers(network)?;
    let lacking = [
        (network.reads == HeadInput::Products, CpuOnly::Products),
        (network.symmetric_edges, CpuOnly::SymmetricEdges),
        (network.channels.padded_width() > 512, CpuOnly::Channels),
        (network.head.len() > 8 || network.head.is_empty(), CpuOnly::HeadLayers),
        (network.layers == 0, CpuOnly::NoLayers),
        (network.node.categorical.len().max(network.edge.categorical.len()) > 8, CpuOnly::CategoricalColumns),
    ];
    match lacking.into_iter().find(|(needed, _)| *needed) {
        Some((_, lacking)) => Err(lacking.into()),
        None => Ok(()),
    }
}
