//! The two shared libraries, loaded under the names that programs look for.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::sync::OnceLock;

/// Callback that receives text from the driver.
pub(crate) type Sink = extern "C" fn(to: *mut c_void, text: *const u8, length: usize);

/// Functions for tests in the driver's library, in addition to the driver functions.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    pub(crate) start: extern "C" fn(),
    pub(crate) fail: unsafe extern "C" fn(function: *const c_char, nth: u64, error: i32, lasting: bool),
    pub(crate) set_memory: extern "C" fn(bytes: u64),
    pub(crate) set_driver_version: extern "C" fn(version: i32),
    pub(crate) set_capability: extern "C" fn(major: i32, minor: i32),
    pub(crate) calls: unsafe extern "C" fn(function: *const c_char) -> u64,
    pub(crate) take: unsafe extern "C" fn(sink: Sink, to: *mut c_void),
    pub(crate) held: unsafe extern "C" fn(sink: Sink, to: *mut c_void),
}

impl Library {
    /// The libraries, loaded once per process.
    ///
    /// Code that loads `libcuda.so` or `libnvrtc.so` afterwards gets these two: the loader first
    /// compares a name with the inner names of libraries in memory.
    pub(crate) fn get() -> Self {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        *LIBRARY.get_or_init(|| {
            open("libnvrtc.so");
            let driver = open("libcuda.so");
            // SAFETY: the types are those of the functions in `stand_in/control.rs`.
            unsafe {
                Self {
                    start: find(driver, c"recorder_start"),
                    fail: find(driver, c"recorder_fail"),
                    set_memory: find(driver, c"recorder_set_memory"),
                    set_driver_version: find(driver, c"recorder_set_driver_version"),
                    set_capability: find(driver, c"recorder_set_capability"),
                    calls: find(driver, c"recorder_calls"),
                    take: find(driver, c"recorder_take"),
                    held: find(driver, c"recorder_held"),
                }
            }
        })
    }
}

/// The folder of both libraries.
pub(crate) fn folder() -> &'static Path {
    Path::new(env!("OUT_DIR"))
}

fn open(name: &str) -> *mut c_void {
    let path = CString::new(format!("{}/{name}", folder().display())).expect("paths have no zero");
    // SAFETY: the stand-in initialises nothing but the standard library.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{path:?} cannot be loaded");
    handle
}

/// A function of a library, of the type that the caller expects.
///
/// # Safety
/// `F` must be the type of a pointer to that function.
unsafe fn find<F: Copy>(library: *mut c_void, name: &CStr) -> F {
    // SAFETY: the library stays loaded; the name ends with a zero.
    let function = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!function.is_null(), "the stand-in has no {name:?}");
    assert_eq!(size_of::<F>(), size_of_val(&function));
    // SAFETY: the sizes are equal, and the caller vouches for the type.
    unsafe { std::mem::transmute_copy(&function) }
}
