//! Which device a command runs on.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use gt_nn::backend::Device;
use gt_nn::cuda::{CudaDevice, CudaError, Precision};

use crate::cache::kernel_cache;
use crate::console;

/// The device that the user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is one that works, else the CPU.
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

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl DeviceChoice {
    /// The GPU, or none for the CPU.
    ///
    /// # Errors
    /// If a GPU was requested by name and cannot be used.
    pub fn open(self) -> Result<Option<CudaDevice>> {
        match self {
            Self::Cpu => Ok(None),
            Self::Cuda(number) => Ok(Some(CudaDevice::open(number)?)),
            Self::Auto => Ok(or_none(CudaDevice::open(0), console::warn)),
        }
    }

    /// The GPU that computes in a precision, or none for the CPU.
    ///
    /// # Errors
    /// Also if the precision is not the CPU's and there is no GPU.
    pub fn open_for(self, precision: PrecisionName) -> Result<Option<CudaDevice>> {
        let gpu = self.open()?;
        ensure!(
            gpu.is_some() || precision == PrecisionName::F32,
            "--precision {} is for GPUs, and none is used; the CPU computes in f32",
            precision.precision().name()
        );
        Ok(gpu)
    }

    /// The device that networks compute on.
    ///
    /// # Errors
    /// As [`DeviceChoice::open_for`].
    pub fn device(self, precision: PrecisionName) -> Result<Device> {
        let gpu = self.open_for(precision)?;
        Ok(gpu.map_or(Device::Cpu, |device| Device::Cuda {
            device,
            precision: precision.precision(),
            cache: kernel_cache(),
        }))
    }

    /// The result of a GPU. With `auto`, an error of the GPU is reported through `note`, and the
    /// result is `None` for the CPU.
    ///
    /// # Errors
    /// If a GPU was requested by name and cannot be used.
    pub fn or_cpu<T>(self, made: gt_train::Result<T>, note: impl FnOnce(&str)) -> gt_train::Result<Option<T>> {
        match made {
            Err(error) if self == Self::Auto => match error.device() {
                Some(cause) => {
                    note(&format!("the CPU is used, not the GPU: {cause}"));
                    Ok(None)
                }
                None => Err(error),
            },
            made => made.map(Some),
        }
    }
}

/// Where a trained model is used.
#[derive(Args)]
pub struct DeviceArgs {
    /// Where to compute: cpu, auto (a CUDA GPU if one is usable), cuda or cuda:N; a GPU compiles
    /// kernels first and pays off on large data
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Precision of products on a GPU
    #[arg(long, value_enum, default_value = "f32")]
    precision: PrecisionName,
}

impl DeviceArgs {
    /// The CPU, for commands that have no choice.
    pub fn cpu() -> Self {
        Self { device: DeviceChoice::Cpu, precision: PrecisionName::F32 }
    }

    /// Opens the device, and computes on it. With `auto`, the CPU does what a GPU cannot.
    ///
    /// # Errors
    /// If a GPU was requested by name and cannot be used, or the work fails.
    pub fn compute<T>(&self, work: impl Fn(&Device) -> gt_train::Result<T>) -> Result<T> {
        let device = self.device.device(self.precision)?;
        if device.is_gpu()
            && let Some(result) = self.device.or_cpu(work(&device), console::warn)?
        {
            return Ok(result);
        }
        Ok(work(&Device::Cpu)?)
    }
}

/// A GPU, or none; one that is there and cannot be used is reported.
fn or_none<T>(opened: Result<T, CudaError>, note: impl FnOnce(&str)) -> Option<T> {
    match opened {
        Ok(device) => Some(device),
        Err(CudaError::NoDriver | CudaError::NoDevice { .. }) => None,
        Err(error) => {
            note(&format!("the CPU is used: {error}"));
            None
        }
    }
}

/// Precision of products on a GPU.
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

#[cfg(test)]
mod tests {
    use gt_graph::Split;
    use gt_nn::cuda::OnGpu;
    use gt_train::{DataProblem, TrainError};

    use super::*;

    fn troubles() -> [CudaError; 7] {
        [
            CudaError::TooOld { name: "Old GPU".into(), major: 7, minor: 5 },
            CudaError::OldDriver { found: "11.2".into() },
            CudaError::Rejected("CUDA_ERROR_NO_BINARY_FOR_GPU".into()),
            CudaError::Memory { part: OnGpu::Network, held: 0, wanted: 1 << 30, free: 0 },
            CudaError::Full("CUDA_ERROR_OUT_OF_MEMORY".into()),
            CudaError::Lost("CUDA_ERROR_DEVICE_UNAVAILABLE".into()),
            CudaError::NoCompiler,
        ]
    }

    #[test]
    fn auto_reports_why_a_gpu_cannot_be_used_and_takes_the_cpu() {
        for trouble in troubles() {
            let cause = trouble.to_string();
            let mut noted = String::new();
            assert!(or_none::<()>(Err(trouble), |note| noted = note.into()).is_none());
            assert_eq!(noted, format!("the CPU is used: {cause}"));
        }
        for nothing in [CudaError::NoDriver, CudaError::NoDevice { asked: 0, found: 0 }] {
            assert!(or_none::<()>(Err(nothing), |note| panic!("{note}")).is_none());
        }
        assert!(or_none(Ok(()), |note| panic!("{note}")).is_some());
    }

    #[test]
    fn auto_lets_the_cpu_do_what_a_gpu_cannot_and_a_gpu_by_name_is_an_error() {
        for (auto, named) in troubles().into_iter().zip(troubles()) {
            let cause = auto.to_string();
            let mut noted = String::new();
            let made = DeviceChoice::Auto.or_cpu::<()>(Err(TrainError::Device(auto)), |note| noted = note.into());
            assert!(made.unwrap().is_none());
            assert_eq!(noted, format!("the CPU is used, not the GPU: {cause}"));
            let made = DeviceChoice::Cuda(0).or_cpu::<()>(Err(TrainError::Device(named)), |note| panic!("{note}"));
            assert_eq!(made.unwrap_err().to_string(), cause);
        }
        // What is wrong with the data is wrong on every device.
        let data = TrainError::Data(DataProblem::NoLabels(Split::Val));
        assert!(DeviceChoice::Auto.or_cpu::<()>(Err(data), |note| panic!("{note}")).is_err());
    }
}
