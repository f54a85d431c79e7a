//! Fuzz targets: one per reader, over the readers' public entry points.
//!
//! `fuzz/README.md` describes the commands. The functions in [`readers`] know nothing of a fuzzer:
//! the test `corpus` of the program includes the same file, and replays the saved inputs.

pub mod readers;

use std::panic::{set_hook, take_hook};
use std::path::PathBuf;
use std::sync::OnceLock;

use gt_testing::PeakMemory;

#[doc(hidden)]
pub use libfuzzer_sys;
use readers::{MEMORY_LIMIT, Run};

/// Counts the memory of every execution. The limits of libFuzzer itself need a sanitizer's hooks.
#[global_allocator]
static MEMORY: PeakMemory = PeakMemory::new();

/// The folder for the files of one fuzzing process, which lies in memory.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Prepares a process that fuzzes a reader.
///
/// # Panics
/// If the folder for files cannot be created.
pub fn prepare() {
    // libFuzzer's hook aborts at any panic. Panics that end as an error are no crash.
    let abort = take_hook();
    set_hook(Box::new(move |panic| {
        if !gt_data::panic_is_contained() {
            abort(panic);
        }
    }));
    // A pool without threads of its own: no hand-over between threads, and no threads to wait for.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    pool.build_global().expect("the pool has not been used");
    let folder = std::env::var_os("GT_FUZZ_FOLDER").expect("GT_FUZZ_FOLDER names a folder in memory; see fuzz/run");
    FOLDER.set(folder.into()).expect("a process is prepared once");
}

/// Runs a reader on an input, and checks its memory.
///
/// # Panics
/// If the reader panics or exceeds [`MEMORY_LIMIT`].
pub fn execute(run: Run, bytes: &[u8]) {
    let folder = FOLDER.get().expect("the process is prepared");
    let (_, peak) = MEMORY.measure(|| run(bytes, folder));
    assert!(peak <= MEMORY_LIMIT, "{peak} bytes were in use at once, for an input of {} bytes", bytes.len());
}

/// Defines the entry points of a fuzz target.
#[macro_export]
macro_rules! target {
    ($run:path) => {
        use $crate::libfuzzer_sys;

        libfuzzer_sys::fuzz_target!(init: $crate::prepare(), |bytes: &[u8]| {
            $crate::execute($run, bytes);
        });
    };
}
