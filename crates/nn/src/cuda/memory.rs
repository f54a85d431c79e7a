//! Memory on the card: arrays that live as long as their owner, addressed by plain pointers as the kernels' structures hold them.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits, result, sys};

use super::abi::Pointer;
use super::error::{CudaError, OnCard, Result};

/// Hands out arrays and keeps them.
#[derive(Debug)]
pub(crate) struct Memory {
    stream: Arc<CudaStream>,
    /// What the arrays are for.
    part: OnCard,
    held: Vec<CudaSlice<u8>>,
    bytes: usize,
}

impl Memory {
    pub(crate) fn new(stream: &Arc<CudaStream>, part: OnCard) -> Self {
        Self { stream: Arc::clone(stream), part, held: Vec::new(), bytes: 0 }
    }

    /// Bytes handed out.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// An array of zeros; no address where nothing is asked for.
    pub(crate) fn zeros<T>(&mut self, count: usize) -> Result<Pointer> {
        if count == 0 {
            return Ok(0);
        }
        let bytes = count * size_of::<T>();
        let slice = self.stream.alloc_zeros::<u8>(bytes).map_err(|error| self.explain(error, bytes))?;
        let (pointer, _) = slice.device_ptr(&self.stream);
        self.held.push(slice);
        self.bytes += bytes;
        Ok(pointer)
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
            // SAFETY: callers write no more than they asked for. A copy from ordinary memory has left it when the call returns.
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
            // SAFETY: callers read no more than they asked for; the stream is waited for before the values are looked at.
            unsafe { result::memcpy_dtoh_async(&mut values, from, self.stream.cu_stream()) }?;
            self.stream.synchronize()?;
        }
        Ok(values)
    }
}

/// The address of an element, or none of none.
pub(crate) fn at<T>(base: Pointer, index: usize) -> Pointer {
    if base == 0 { 0 } else { base + (index * size_of::<T>()) as Pointer }
}
