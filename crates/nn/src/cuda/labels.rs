//! Labels of a whole data set in GPU memory; parts of a split hold copies of their own, with the
//! other parts' labels missing.

use gt_graph::{Level, TargetRows};

use super::abi;
use super::device::CudaDevice;
use super::engine::CudaTask;
use super::error::{OnGpu, Result};
use super::memory::Memory;
use crate::channels::padded;
use crate::loss::Loss;

/// Labels on a device.
#[derive(Debug)]
pub struct CudaLabels {
    memory: Memory,
    floats: abi::Pointer,
    classes: abi::Pointer,
    rows: usize,
    values: usize,
}

impl CudaLabels {
    /// Labels of all rows of a data set, edges of each graph sorted by target.
    ///
    /// # Errors
    /// If they do not fit.
    pub fn new(device: &CudaDevice, rows: usize, labels: TargetRows<'_>) -> Result<Self> {
        let stream = device.context.default_stream();
        let mut memory = Memory::new(&stream, OnGpu::Labels);
        let (floats, classes) = match labels {
            TargetRows::Float(values) => (memory.with(values)?, 0),
            TargetRows::Class(values) => (0, memory.with(values)?),
        };
        stream.synchronize()?;
        Ok(Self { memory, floats, classes, rows, values: labels.len() })
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    pub(crate) fn labels(&self, task: &CudaTask) -> abi::Labels {
        let width = task.network.outputs();
        let kind = match task.loss {
            Loss::L1 => 0,
            Loss::Mse => 1,
            Loss::CrossEntropy { weighted: false } => 2,
            Loss::CrossEntropy { weighted: true } => 3,
            Loss::Bce => 4,
        };
        let level = match task.network.reads.level() {
            Level::Graph => 0,
            Level::Node => 1,
            Level::Edge => 2,
        };
        abi::Labels {
            floats: self.floats,
            classes: self.classes,
            columns: (self.values / self.rows.max(1)) as i32,
            level,
            kind,
            width: width as i32,
            padded: padded(width) as i32,
            ..Default::default()
        }
    }
}
