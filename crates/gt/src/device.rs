//! Which device a command runs on.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use gt_nn::cuda::{CudaDevice, CudaError, Precision};
use gt_train::TrainError;

use crate::cache::kernel_cache;
use crate::console;

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
    /// The card, or none for the processor.
    ///
    /// # Errors
    /// If a card was asked for by name and cannot be used.
    pub fn open(self) -> Result<Option<CudaDevice>> {
        match self {
            Self::Cpu => Ok(None),
            Self::Cuda(number) => Ok(Some(CudaDevice::open(number)?)),
            Self::Auto => Ok(or_none(CudaDevice::open(0), console::warn)),
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

    /// What a card made, or none: with `auto` one that cannot is told of, and the processor has to.
    ///
    /// # Errors
    /// If a card was asked for by name and cannot.
    pub fn or_processor<T>(
        self,
        card: &str,
        made: gt_train::Result<T>,
        note: impl FnOnce(&str),
    ) -> gt_train::Result<Option<T>> {
        match made {
            Err(TrainError::Device(error)) if self == Self::Auto => {
                note(&format!("the processor is used, not {card}: {error}"));
                Ok(None)
            }
            made => made.map(Some),
        }
    }
}

/// Where a trained model is used.
#[derive(Args)]
pub struct Using {
    /// Where to compute: cpu, auto (a CUDA card if there is one that can), cuda or cuda:N; a card has kernels to compile first and pays off on large data
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Precision of products on a card
    #[arg(long, value_enum, default_value = "f32")]
    precision: PrecisionName,
}

impl Using {
    /// The card, or none for the processor.
    ///
    /// # Errors
    /// If a card was asked for and cannot be used.
    pub fn open(&self) -> Result<Option<CudaDevice>> {
        self.device.open_for(self.precision)
    }

    /// What the card computes, with its precision and a folder for kernels; none where the processor has to.
    ///
    /// # Errors
    /// If a card was asked for by name and cannot.
    pub fn compute<T>(
        &self,
        device: Option<&CudaDevice>,
        on_card: impl FnOnce(&CudaDevice, Precision, Option<&Path>) -> gt_train::Result<T>,
    ) -> gt_train::Result<Option<T>> {
        let Some(device) = device else { return Ok(None) };
        let made = on_card(device, self.precision.precision(), kernel_cache().as_deref());
        self.device.or_processor(device.name(), made, console::warn)
    }
}

/// A card, or none; one that is there and cannot be used is told of.
fn or_none<T>(opened: Result<T, CudaError>, note: impl FnOnce(&str)) -> Option<T> {
    match opened {
        Ok(device) => Some(device),
        Err(CudaError::NoDriver | CudaError::NoDevice { .. }) => None,
        Err(error) => {
            note(&format!("the processor is used: {error}"));
            None
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

#[cfg(test)]
mod tests {
    use gt_nn::cuda::OnCard;

    use super::*;

    fn troubles() -> [CudaError; 7] {
        [
            CudaError::TooOld { name: "Old card".into(), major: 7, minor: 5 },
            CudaError::OldDriver { found: "11.2".into() },
            CudaError::Rejected("CUDA_ERROR_NO_BINARY_FOR_GPU".into()),
            CudaError::Memory { part: OnCard::Network, held: 0, wanted: 1 << 30, free: 0 },
            CudaError::Full("CUDA_ERROR_OUT_OF_MEMORY".into()),
            CudaError::Lost("CUDA_ERROR_DEVICE_UNAVAILABLE".into()),
            CudaError::NoCompiler,
        ]
    }

    #[test]
    fn auto_tells_why_a_card_cannot_be_used_and_takes_the_processor() {
        for trouble in troubles() {
            let sentence = trouble.to_string();
            let mut noted = String::new();
            assert!(or_none::<()>(Err(trouble), |note| noted = note.into()).is_none());
            assert_eq!(noted, format!("the processor is used: {sentence}"));
        }
        for nothing in [CudaError::NoDriver, CudaError::NoDevice { asked: 0, found: 0 }] {
            assert!(or_none::<()>(Err(nothing), |note| panic!("{note}")).is_none());
        }
        assert!(or_none(Ok(()), |note| panic!("{note}")).is_some());
    }

    #[test]
    fn auto_lets_the_processor_do_what_a_card_cannot_and_a_card_by_name_is_an_error() {
        for (auto, named) in troubles().into_iter().zip(troubles()) {
            let sentence = auto.to_string();
            let mut noted = String::new();
            let made = DeviceChoice::Auto.or_processor::<()>("H200", Err(auto.into()), |note| noted = note.into());
            assert!(made.unwrap().is_none());
            assert_eq!(noted, format!("the processor is used, not H200: {sentence}"));
            let made = DeviceChoice::Cuda(0).or_processor::<()>("H200", Err(named.into()), |note| panic!("{note}"));
            assert_eq!(made.unwrap_err().to_string(), sentence);
        }
        // What is wrong with the data is wrong on every device.
        let data = TrainError::Data("it has no graphs".into());
        assert!(DeviceChoice::Auto.or_processor::<()>("H200", Err(data), |note| panic!("{note}")).is_err());
    }
}
