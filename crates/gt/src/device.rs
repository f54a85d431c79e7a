//! Which device a command runs on.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use clap::ValueEnum;
use etcetera::{BaseStrategy, choose_base_strategy};
use gt_nn::cuda::{CudaDevice, Precision};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A card if there is one that works, else the processor.
    Auto,
    Cpu,
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "auto" => Ok(Self::Auto),
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda(0)),
            Some(("cuda", number)) => {
                number.parse().map(Self::Cuda).map_err(|_| format!("`{number}` is no number of a device"))
            }
            _ => Err("devices are auto, cpu, cuda and cuda:N".into()),
        }
    }
}

impl DeviceChoice {
    /// The card, or none for the processor.
    ///
    /// # Errors
    /// If a card was asked for by name and cannot be used.
    pub fn open(self) -> Result<Option<CudaDevice>> {
        match self {
            Self::Cpu => Ok(None),
            Self::Cuda(number) => Ok(Some(CudaDevice::open(number)?)),
            Self::Auto => Ok(CudaDevice::open(0).ok()),
        }
    }
}

/// Precision of products on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrecisionName {
    F32,
    Tf32,
    Bf16,
}

impl PrecisionName {
    pub fn precision(self) -> Precision {
        match self {
            Self::F32 => Precision::F32,
            Self::Tf32 => Precision::Tf32,
            Self::Bf16 => Precision::Bf16,
        }
    }
}

/// Folder for compiled kernels: in `GT_CACHE`, or in the user's cache folder.
pub fn kernel_cache() -> Option<PathBuf> {
    let base = match std::env::var_os("GT_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => choose_base_strategy().ok()?.cache_dir().join("graph-transformer"),
    };
    Some(base.join("kernels"))
}
