//! The device's state, and the common part of all calls.

use std::collections::BTreeMap;
use std::fmt::{Arguments, Write};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::capture::Capture;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::resources::Resources;

/// A result of the driver; 0 is success.
pub type Code = i32;

pub const INVALID_VALUE: Code = 1;
pub const OUT_OF_MEMORY: Code = 2;
pub const INVALID_HANDLE: Code = 400;

/// A call that is to fail.
pub struct Failure {
    /// Name of the driver function; empty for any function.
    pub function: String,
    pub nth: u64,
    pub error: Code,
    pub lasting: bool,
}

/// One device, its only context, and the recording.
pub struct State {
    pub text: String,
    pub machine: Machine,
    pub memory: Memory,
    pub resources: Resources,
    pub capture: Option<Capture>,
    pub failure: Option<Failure>,
    calls: BTreeMap<&'static str, u64>,
    /// The result of every call after the loss of the device.
    lost: Option<Code>,
}

impl State {
    pub fn new() -> Self {
        Self {
            text: String::new(),
            machine: Machine::new(),
            memory: Memory::new(),
            resources: Resources::new(),
            capture: None,
            failure: None,
            calls: BTreeMap::new(),
            lost: None,
        }
    }

    /// Writes a line of the recording.
    pub fn write(&mut self, line: Arguments<'_>) {
        writeln!(self.text, "{line}").expect("text has no end");
    }

    /// Calls of a function so far, or of all.
    pub fn calls(&self, function: &str) -> u64 {
        if function.is_empty() { self.calls.values().sum() } else { self.calls.get(function).copied().unwrap_or(0) }
    }

    /// The device memory of a copy or memset. An invalid range is recorded as misuse.
    pub fn bytes(&mut self, address: u64, size: usize) -> Result<&mut [u8], Code> {
        if !self.memory.holds(address, size) {
            let place = self.memory.describe(address);
            self.write(format_args!("misuse {size} bytes from {place} on"));
            return Err(INVALID_VALUE);
        }
        self.memory.range(address, size)
    }

    /// Counts a call, and returns the failure that a test has set for it.
    fn enter(&mut self, function: &'static str) -> Result<(), Code> {
        *self.calls.entry(function).or_default() += 1;
        if let Some(error) = self.lost {
            return Err(error);
        }
        let Some(Failure { function: of, nth, error, lasting }) = &self.failure else { return Ok(()) };
        let (error, nth, lasting) = (*error, *nth, *lasting);
        if (of.is_empty() || of == function) && self.calls(of) == nth {
            self.lost = lasting.then_some(error);
            if let Some(capture) = &mut self.capture {
                capture.broken = true;
            }
            self.write(format_args!("fail {function} {error}"));
            return Err(error);
        }
        Ok(())
    }
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::from_environment()));

/// The state, for one call.
pub fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A driver's function.
pub fn call(function: &'static str, act: impl FnOnce(&mut State) -> Result<(), Code>) -> Code {
    let mut state = lock();
    state.enter(function).and_then(|()| act(&mut state)).err().unwrap_or(0)
}

/// A driver function that releases a resource, even if the call fails.
pub fn give_back(function: &'static str, act: impl FnOnce(&mut State) -> Result<(), Code>) -> Code {
    let mut state = lock();
    let entered = state.enter(function);
    let given = act(&mut state);
    if given.is_err() {
        state.write(format_args!("misuse {function} of what is not there"));
    }
    entered.and(given).err().unwrap_or(0)
}
