//! Exclusive use of the stand-ins by one test.

use std::ffi::{CString, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Recording;
use crate::library::{Library, Sink};

/// A failure of a later call.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The driver function that fails, such as `cuLaunchKernel`; empty for any function.
    pub function: &'static str,
    /// Which of its calls fails, from 1 on, counted from the recorder's start.
    pub nth: u64,
    /// The driver's result.
    pub error: i32,
    /// Whether every later call fails too, as after the loss of a device.
    pub lasting: bool,
}

/// The stand-ins, as one test uses them: other tests of the process wait until it is dropped.
pub struct Recorder {
    library: Library,
    _turn: MutexGuard<'static, ()>,
}

impl Recorder {
    /// Waits for its turn and begins with an unused device.
    pub fn start() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        // A test that failed leaves nothing that the next one would see.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let library = Library::get();
        (library.start)();
        Self { library, _turn: turn }
    }

    /// Makes a later call fail. Replaces an earlier setting.
    pub fn fail(&self, failure: Failure) {
        let function = name(failure.function);
        // SAFETY: the name ends with a zero.
        unsafe { (self.library.fail)(function.as_ptr(), failure.nth, failure.error, failure.lasting) }
    }

    /// Sets the device memory.
    pub fn set_memory(&self, bytes: usize) {
        (self.library.set_memory)(bytes as u64);
    }

    /// Sets the driver version in the driver's own format: 11,020 for 11.2.
    pub fn set_driver_version(&self, version: i32) {
        (self.library.set_driver_version)(version);
    }

    /// Sets the compute capability of the device.
    pub fn set_capability(&self, major: i32, minor: i32) {
        (self.library.set_capability)(major, minor);
    }

    /// Number of calls of a driver function since the start; of all functions for an empty name.
    pub fn calls(&self, function: &str) -> u64 {
        let function = name(function);
        // SAFETY: the name ends with a zero.
        unsafe { (self.library.calls)(function.as_ptr()) }
    }

    /// Calls recorded since the previous `take`, or since the start.
    pub fn take(&self) -> Recording {
        Recording::new(text(self.library.take))
    }

    /// Resources that the program has not given back, a line each.
    ///
    /// These are allocations, streams, events, modules, graphs and the context.
    pub fn held(&self) -> String {
        text(self.library.held)
    }
}

fn name(function: &str) -> CString {
    CString::new(function).expect("functions have no zero in their names")
}

fn text(from: unsafe extern "C" fn(Sink, *mut c_void)) -> String {
    let mut text = String::new();
    // SAFETY: `append` is given the text that its second argument points at.
    unsafe { from(append, (&raw mut text).cast()) };
    text
}

extern "C" fn append(to: *mut c_void, text: *const u8, length: usize) {
    // SAFETY: `to` is the string of `text`, and the driver's text is as long as it says.
    let (to, text) = unsafe { (&mut *to.cast::<String>(), std::slice::from_raw_parts(text, length)) };
    to.push_str(&String::from_utf8_lossy(text));
}
