//! A GPU: its context and its properties.

use std::path::Path;
use std::sync::Arc;

use cudarc::driver::{CudaContext, sys};

use super::error::{CudaError, OLDEST_DRIVER, Result, version};
use super::kind::check_layers;
use super::program::{Programs, Shape, machine_code, options};
use super::resident::Size;
use crate::network::Network;

/// How products are computed; everything else is in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32: on tensor cores, every factor as a sum of two rounded numbers.
    #[default]
    F32,
    /// Factors with 10 bits of mantissa, on tensor cores. Weights are rounded to the nearest
    /// number. The other factor is rounded to one of its two neighbours, at most 2/3 of their
    /// distance away.
    Tf32,
    /// Factors rounded to bf16, on tensor cores.
    Bf16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::Tf32, Self::Bf16];

    /// The name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }
}

/// A CUDA device, ready for use.
#[derive(Clone, Debug)]
pub struct CudaDevice {
    pub(crate) context: Arc<CudaContext>,
    name: String,
    /// Compute capability, as the compiler names it.
    pub(crate) architecture: String,
    /// Bytes of shared memory that a block may use.
    pub(crate) shared_memory: usize,
    /// Number of streaming multiprocessors (SMs).
    pub(crate) sms: usize,
    pub(crate) programs: Arc<Programs>,
}

impl CudaDevice {
    /// Opens a device.
    ///
    /// # Errors
    /// If there is no driver, no such device, or one of them is too old.
    pub fn open(ordinal: usize) -> Result<Self> {
        // SAFETY: only tries to load the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        let mut driver = 0;
        // SAFETY: writes one number.
        unsafe { sys::cuDriverGetVersion(&raw mut driver) }.result()?;
        if driver < OLDEST_DRIVER {
            return Err(CudaError::OldDriver { found: version(driver) });
        }
        let found = match CudaContext::device_count() {
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => 0,
            count => count?.max(0) as usize,
        };
        if ordinal >= found {
            return Err(CudaError::NoDevice { asked: ordinal, found });
        }
        let context = CudaContext::new(ordinal)?;
        // SAFETY: every stream here is ordered by its own launches and explicit events.
        unsafe { context.disable_event_tracking() };
        let (major, minor) = context.compute_capability()?;
        let name = context.name()?;
        if major < 8 {
            return Err(CudaError::TooOld { name, major, minor });
        }
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared_memory = context.attribute(attribute)? as usize;
        let sms = context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize;
        let architecture = format!("sm_{major}{minor}");
        Ok(Self { context, name, architecture, shared_memory, sms, programs: Arc::default() })
    }

    /// Name of the GPU.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles the kernels of a network into a cache, unless they are there. Several threads may
    /// do so at once.
    pub(crate) fn prepare(&self, network: &Network, precision: Precision, usual: Size, cache: &Path) -> Result<()> {
        check_layers(network)?;
        let shape = Shape::of(network, precision, self, usual);
        machine_code(&options(network, shape, precision, &self.architecture), Some(cache)).map(|_| ())
    }

    /// Bytes per second between chip and memory, if the driver reports the bus: two transfers per
    /// clock over the whole bus.
    pub fn bandwidth(&self) -> Option<f64> {
        let attribute = |attribute| self.context.attribute(attribute).ok().filter(|&value| value > 0).map(f64::from);
        let kilohertz = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let bits = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        Some(2.0 * 1e3 * kilohertz * bits / 8.0)
    }

    /// Free and total memory, bytes.
    ///
    /// # Errors
    /// If the driver does not say.
    pub fn memory(&self) -> Result<(usize, usize)> {
        Ok(self.context.mem_get_info()?)
    }
}
