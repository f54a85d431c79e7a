//! Prepared data on a device, and backends for networks that train on it.

use std::path::PathBuf;
use std::sync::Arc;

use gt_graph::Split;
use gt_models::config::SignFlip;
use gt_models::{Config, initial_weights};
use gt_nn::Frozen;
use gt_nn::backend::{Backend, Cpu, Cuda, CudaDataset, CudaSettings, Device};
use gt_nn::cpu::Isa;
use gt_nn::cuda::{CpuOnly, CudaError, Precision};

use crate::error::{Result, TrainError};
use crate::prepared::Prepared;

/// What a backend is for. A GPU does more kinds of evaluation than of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Training passes, and evaluation between them.
    Training,
    /// Evaluation alone.
    Evaluation,
}

/// Prepared data where a device can reach it. Runs that differ in their seeds share it.
#[derive(Clone, Debug)]
pub enum Resident {
    /// In the computer's memory.
    Cpu,
    /// On a GPU.
    Cuda {
        /// The data.
        data: Arc<CudaDataset>,
        /// Precision of products.
        precision: Precision,
        /// Folder for compiled kernels.
        cache: Option<PathBuf>,
    },
}

impl Prepared {
    /// Puts the data where a device can reach it.
    ///
    /// # Errors
    /// If only the CPU supports the task ([`TrainError::Device`]), or the data does not fit.
    pub fn place(&self, device: &Device) -> Result<Resident> {
        match device {
            Device::Cpu => Ok(Resident::Cpu),
            Device::Cuda { .. } if self.links.is_some() => Err(TrainError::Device(CpuOnly::Links.into())),
            Device::Cuda { device, precision, cache } => {
                let data = CudaDataset::new(device, self, &self.network, self.loss, &Split::ALL)?;
                Ok(Resident::Cuda { data, precision: *precision, cache: cache.clone() })
            }
        }
    }
}

impl Resident {
    /// Whether the data is on a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self, Self::Cuda { .. })
    }

    /// A network with the initial weights of the configuration's seed.
    ///
    /// # Errors
    /// If the configuration needs an operation that only the CPU supports ([`TrainError::Device`]),
    /// or the device fails. Also if a training on the CPU does not fit into memory.
    pub fn backend<'a>(&self, data: &'a Prepared, config: &Config, purpose: Purpose) -> Result<Box<dyn Backend + 'a>> {
        if !self.is_gpu() && purpose == Purpose::Training {
            data.ensure_memory(config, 1)?;
        }
        let weights = initial_weights(&data.network, config.train.seed);
        let Self::Cuda { data: resident, precision, cache } = self else {
            let cpu = Cpu::new(data, &weights, data.loss, Isa::detect());
            return Ok(Box::new(cpu.with_frozen(&data.frozen)));
        };
        let lacking = |what| Err(TrainError::Device(CudaError::Unsupported(what)));
        if purpose == Purpose::Training && config.train.accumulate > 1 {
            return lacking(CpuOnly::Accumulate);
        }
        if purpose == Purpose::Training && data.frozen != Frozen::default() {
            return lacking(CpuOnly::Freeze);
        }
        if purpose == Purpose::Training && !data.hidden.is_empty() {
            return lacking(CpuOnly::HiddenValues);
        }
        if purpose == Purpose::Training && config.train.skip_bad_steps {
            return lacking(CpuOnly::SkipBadSteps);
        }
        let settings = CudaSettings {
            loss: data.loss,
            batch: config.train.batch,
            signs_per_graph: config.train.sign_flip == SignFlip::Graph,
            precision: *precision,
            cache: cache.as_deref(),
        };
        let passes = Split::ALL.map(|split| data.graphs_of(split));
        Ok(Box::new(Cuda::new(resident, &weights, &settings, &passes)?))
    }
}
