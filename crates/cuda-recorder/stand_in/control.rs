//! Functions that tests call, in addition to the driver functions.

use std::ffi::{c_char, c_void};

use crate::CURRENT;
use crate::pointers::text_at;
use crate::state::{Code, Failure, State, lock};

type Sink = extern "C" fn(to: *mut c_void, text: *const u8, length: usize);

#[unsafe(no_mangle)]
extern "C" fn recorder_start() {
    *lock() = State::new();
    // Calls of a test must not depend on the test that used this thread before.
    CURRENT.set(0);
}

#[unsafe(no_mangle)]
extern "C" fn recorder_fail(function: *const c_char, nth: u64, error: Code, lasting: bool) {
    lock().failure = Some(Failure { function: text_at(function).to_owned(), nth, error, lasting });
}

#[unsafe(no_mangle)]
extern "C" fn recorder_set_memory(bytes: u64) {
    lock().memory.total = bytes as usize;
}

#[unsafe(no_mangle)]
extern "C" fn recorder_set_driver_version(version: i32) {
    lock().machine.driver_version = version;
}

#[unsafe(no_mangle)]
extern "C" fn recorder_set_capability(major: i32, minor: i32) {
    lock().machine.capability = (major, minor);
}

#[unsafe(no_mangle)]
extern "C" fn recorder_calls(function: *const c_char) -> u64 {
    lock().calls(text_at(function))
}

#[unsafe(no_mangle)]
extern "C" fn recorder_take(sink: Sink, to: *mut c_void) {
    let text = std::mem::take(&mut lock().text);
    sink(to, text.as_ptr(), text.len());
}

#[unsafe(no_mangle)]
extern "C" fn recorder_held(sink: Sink, to: *mut c_void) {
    let state = lock();
    let lines: Vec<String> = state.memory.held().chain(state.resources.held()).collect();
    let text = lines.join("\n");
    sink(to, text.as_ptr(), text.len());
}
