//! The machine that the driver reports, and settings of child processes.

use crate::state::{Code, Failure, State};

/// Settings of a process that does not call `recorder_start`, such as a program under test.
///
/// Words `driver=11020`, `capability=7.5`, `memory=BYTES` and `fail=FUNCTION,NTH,ERROR,LASTING`,
/// separated by blanks. Words that cannot be read change nothing.
pub const SETTINGS: &str = "GT_CUDA_STAND_IN";

/// Properties of the driver and the device.
pub struct Machine {
    /// Driver version in the driver's own format: 13,000 for 13.0.
    pub driver_version: i32,
    /// Compute capability.
    pub capability: (i32, i32),
}

impl Machine {
    /// CUDA 13.0 and an H200.
    pub const fn new() -> Self {
        Self { driver_version: 13_000, capability: (9, 0) }
    }
}

impl State {
    /// A state with the settings of the environment.
    pub fn from_environment() -> Self {
        let mut state = Self::new();
        let text = std::env::var(SETTINGS).unwrap_or_default();
        for (key, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
            let _ = state.set(key, value);
        }
        state
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "driver" => self.machine.driver_version = value.parse().ok()?,
            "capability" => {
                let (major, minor) = value.split_once('.')?;
                self.machine.capability = (major.parse().ok()?, minor.parse().ok()?);
            }
            "memory" => self.memory.total = value.parse().ok()?,
            "fail" => {
                let [function, nth, error, lasting] = value.split(',').collect::<Vec<_>>().try_into().ok()?;
                let (nth, error): (u64, Code) = (nth.parse().ok()?, error.parse().ok()?);
                self.failure = Some(Failure { function: function.into(), nth, error, lasting: lasting.parse().ok()? });
            }
            _ => return None,
        }
        Some(())
    }
}
