//! Devices that take a network through passes over a data set.
//!
//! Training, evaluation and prediction are passes ([`PassPlan`]) over graphs of a [`DataSource`].
//! [`Cpu`] and [`Cuda`] run them behind one trait, so that every loop above is written once.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use graph_transformer_nn::backend::{Backend, Cpu, GraphSource, PassPlan};
//! use graph_transformer_nn::cpu::Isa;
//! use graph_transformer_nn::{AttentionScope, Channels, Loss, Network, Weights};
//! use gt_graph::{Graph, GraphParts, Split};
//!
//! let parts = GraphParts { num_nodes: 2, src: &[0, 1], dst: &[1, 0], ..Default::default() };
//! let graph = Graph::new(parts)?;
//! let source = GraphSource::new(graph.as_store(), AttentionScope::Sparse);
//! let weights = Weights::zeros(&Network::new(Channels::new(8, 2), 1));
//! let mut cpu = Cpu::new(&source, &weights, Loss::L1, Isa::detect());
//! cpu.begin(PassPlan::evaluation(Split::Test, vec![0], 1))?;
//! let outcome = cpu.finish(&mut |_| ControlFlow::Continue(()))?;
//! assert_eq!(outcome.outputs.values.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cpu;
mod cuda;
mod pairs;
mod pass;
mod pieces;
mod source;

use std::ops::ControlFlow;
use std::path::PathBuf;

use gt_graph::GraphError;

use crate::cuda::{CudaDevice, CudaError, Precision};
use crate::weights::{OptimizerState, Weights};

pub use cpu::Cpu;
pub use cuda::{Cuda, CudaDataset, CudaSettings};
pub use pairs::PairQueries;
pub use pass::{BadStep, NotFinite, PassEvent, PassOrder, PassOutcome, PassOutputs, PassPlan, SignFlips, TrainingPlan};
pub use pieces::{GraphTooLarge, divide_batches};
pub use source::{DataSource, GraphSource, Labels, PreparedBatch, labels_by_batches};

/// Why a device could not run a pass.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// A batch of graphs cannot be put together.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A graph does not fit into memory.
    #[error(transparent)]
    Memory(#[from] GraphTooLarge),
    /// A GPU cannot do it, or failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

/// A device with a network and a data set. The unit of work is a pass.
///
/// [`Backend::begin`] may let the device run ahead; [`Backend::finish`] waits for it.
pub trait Backend: Send {
    /// The name of the device, for messages.
    fn name(&self) -> &str;

    /// Loads weights and the optimizer's state; without a state, the optimizer starts before its
    /// first step.
    ///
    /// # Errors
    /// If the device fails.
    fn load(&mut self, weights: &Weights, optimizer: Option<&OptimizerState>) -> Result<(), BackendError>;

    /// Parameters and running statistics.
    ///
    /// # Errors
    /// If the device fails.
    fn weights(&self) -> Result<Weights, BackendError>;

    /// The optimizer's state.
    ///
    /// # Errors
    /// If the device fails.
    fn optimizer(&self) -> Result<OptimizerState, BackendError>;

    /// Gradients of the last training step, each parameter in the layout of files.
    ///
    /// # Errors
    /// If the device fails.
    fn gradients(&self) -> Result<Vec<Vec<f32>>, BackendError>;

    /// Starts a pass.
    ///
    /// # Errors
    /// If the device fails.
    fn begin(&mut self, plan: PassPlan) -> Result<(), BackendError>;

    /// Takes the pass that was started to its end, or to the next complete step after `report` says
    /// stop.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If no pass was started.
    fn finish(&mut self, report: &mut dyn FnMut(PassEvent) -> ControlFlow<()>) -> Result<PassOutcome, BackendError>;
}

/// Runs a whole pass without looking at its steps.
///
/// # Errors
/// If the device fails.
pub fn run(backend: &mut dyn Backend, plan: PassPlan) -> Result<PassOutcome, BackendError> {
    backend.begin(plan)?;
    backend.finish(&mut |_| ControlFlow::Continue(()))
}

/// Where a network computes.
#[derive(Clone, Debug)]
pub enum Device {
    /// The CPU, with the newest instruction set that it has.
    Cpu,
    /// A CUDA device.
    Cuda {
        /// The GPU.
        device: CudaDevice,
        /// Precision of products.
        precision: Precision,
        /// Folder for compiled kernels.
        cache: Option<PathBuf>,
    },
}

impl Device {
    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self, Self::Cuda { .. })
    }
}
