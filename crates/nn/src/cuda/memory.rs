//! Memory that kernels use: arrays that live as long as their owner, addressed by plain pointers as
//! the kernels' structures hold them.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits, result, sys};

use super::abi::Pointer;
use super::error::{CudaError, OnGpu, Result};

/// Hands out arrays and keeps them.
#[derive(Debug)]
pub(crate) struct Memory {
    stream: Arc<CudaStream>,
    /// The purpose of the arrays, for messages.
    part: OnGpu,
    place: Place,
    held: Vec<Held>,
    bytes: usize,
}

/// Where arrays lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In GPU memory.
    Gpu,
    /// In page-locked host memory, which kernels read across the bus.
    Host,
}

/// An array, freed with its owner.
#[derive(Debug)]
enum Held {
    Gpu { _slice: CudaSlice<u8> },
    Host { _pinned: Pinned },
}

#[derive(Debug)]
struct Pinned {
    address: *mut c_void,
    context: Arc<CudaContext>,
}

// SAFETY: the address is only kept to be freed, by the last owner.
unsafe impl Send for Pinned {}
// SAFETY: likewise.
unsafe impl Sync for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Kernels may still read it. A failure here means that the GPU is gone.
        let _ = self.context.bind_to_thread();
        let _ = self.context.synchronize();
        // SAFETY: it comes from `malloc_host` and is freed once.
        let _ = unsafe { result::free_host(self.address) };
    }
}

impl Memory {
    pub(crate) fn new(stream: &Arc<CudaStream>, part: OnGpu) -> Self {
        Self::at(stream, part, Place::Gpu)
    }

    pub(crate) fn at(stream: &Arc<CudaStream>, part: OnGpu, place: Place) -> Self {
        Self { stream: Arc::clone(stream), part, place, held: Vec::new(), bytes: 0 }
    }

    /// The memory that holds the arrays.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Bytes handed out.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// An array of zeros; a null address for a length of zero.
    pub(crate) fn zeros<T>(&mut self, count: usize) -> Result<Pointer> {
        if count == 0 {
            return Ok(0);
        }
        let bytes = count * size_of::<T>();
        let (pointer, held) = match self.place {
            Place::Gpu => {
                let slice = self.stream.alloc_zeros::<u8>(bytes).map_err(|error| self.explain(error, bytes))?;
                let pointer = slice.device_ptr(&self.stream).0;
                (pointer, Held::Gpu { _slice: slice })
            }
            Place::Host => {
                let (pointer, pinned) = self.pinned(bytes).map_err(|error| self.explain(error, bytes))?;
                (pointer, Held::Host { _pinned: pinned })
            }
        };
        self.held.push(held);
        self.bytes += bytes;
        Ok(pointer)
    }

    /// Locked memory of zeros, and its address for kernels.
    fn pinned(&self, bytes: usize) -> std::result::Result<(Pointer, Pinned), cudarc::driver::DriverError> {
        let context = self.stream.context();
        context.bind_to_thread()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let mut pointer = 0;
        // SAFETY: the memory is as long as what is zeroed, and freed by `Pinned` alone.
        let pinned = unsafe {
            let address = result::malloc_host(bytes, flags)?;
            std::ptr::write_bytes(address.cast::<u8>(), 0, bytes);
            Pinned { address, context: Arc::clone(context) }
        };
        // SAFETY: the memory was mapped for the GPU when it was allocated.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&mut pointer, pinned.address, 0) }.result()?;
        Ok((pointer, pinned))
    }

    /// An array with contents.
    pub(crate) fn with<T: DeviceRepr>(&mut self, values: &[T]) -> Result<Pointer> {
        let pointer = self.zeros::<T>(values.len())?;
        self.write(pointer, values)?;
        Ok(pointer)
    }

    fn explain(&self, error: cudarc::driver::DriverError, wanted: usize) -> CudaError {
        match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let free = self.stream.context().mem_get_info().map_or(0, |(free, _)| free);
                CudaError::Memory { part: self.part, held: self.bytes, wanted, free }
            }
            _ => error.into(),
        }
    }

    /// Writes values, in the stream's order.
    pub(crate) fn write<T: DeviceRepr>(&self, to: Pointer, values: &[T]) -> Result<()> {
        if !values.is_empty() {
            self.stream.context().bind_to_thread()?;
            // SAFETY: callers write no more than they allocated. A copy from ordinary memory has
            // left it when the call returns.
            unsafe { result::memcpy_htod_async(to, values, self.stream.cu_stream()) }?;
        }
        Ok(())
    }

    /// Reads values, after everything that was launched before.
    pub(crate) fn read<T: DeviceRepr + ValidAsZeroBits + Copy + Default>(
        &self,
        from: Pointer,
        count: usize,
    ) -> Result<Vec<T>> {
        let mut values = vec![T::default(); count];
        if count > 0 {
            self.stream.context().bind_to_thread()?;
            // SAFETY: callers read no more than they allocated; the stream is waited for before the
            // values are looked at.
            unsafe { result::memcpy_dtoh_async(&mut values, from, self.stream.cu_stream()) }?;
            self.stream.synchronize()?;
        }
        Ok(values)
    }
}

/// The address of an element; 0 for a null base.
pub(crate) fn at<T>(base: Pointer, index: usize) -> Pointer {
    if base == 0 { 0 } else { base + (index * size_of::<T>()) as Pointer }
}
