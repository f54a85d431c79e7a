//! Which device a command runs on.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, ensure};
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

    /// The same for a precision, which only cards can choose.
    ///
    /// # Errors
    /// Also if the precision is not the processor's and there is no card.
    pub fn open_for(self, precision: PrecisionName) -> Result<Option<CudaDevice>> {
        let device = self.open()?;
        ensure!(
            device.is_some() || precision == PrecisionName::F32,
            "--precision {} is for cards, and none is used; the processor computes in f32",
            precision.precision().name()
        );
        Ok(device)
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

/// Folder for compiled kernels.
pub fn kernel_cache() -> Option<PathBuf> {
    Some(cache_folder()?.join("kernels"))
}

/// Folder for what can be made or fetched again: `GT_CACHE`, or in the user's cache folder.
pub fn cache_folder() -> Option<PathBuf> {
    match std::env::var_os("GT_CACHE") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(choose_base_strategy().ok()?.cache_dir().join("graph-transformer")),
    }
}
