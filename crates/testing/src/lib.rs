//! Support for the tests of all crates: counted skips, and peak memory.
//!
//! A test that lacks a [`Resource`] calls [`skip`], which prints the reason. Two environment
//! variables change what a skip does:
//!
//! - `GT_REQUIRE=shared,browser` turns skips for lack of these resources into failures.
//! - `GT_SKIPS=FILE` appends one line per skip: resource, tab, test. `.ci/test` counts the lines.

mod memory;
mod policy;
mod resource;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

pub use memory::PeakMemory;
pub use resource::Resource;

use policy::Policy;

/// Reports that the calling test cannot run, wholly or in part, for lack of a resource.
///
/// # Panics
/// If `GT_REQUIRE` names the resource or is no list of resources, or if the file that `GT_SKIPS`
/// names cannot be written.
#[track_caller]
pub fn skip(resource: Resource, reason: impl Display) {
    let test = test_name();
    Policy::from_environment().skip(&test, resource, &reason);
    say(format_args!("skipped: {test} ({resource}): {reason}"));
}

/// The path of a file or folder in `shared/`, next to the checkout; `None` and a skip without it.
///
/// # Panics
/// If the file is missing, under the conditions of [`skip`].
#[track_caller]
pub fn shared(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(file);
    match path.canonicalize() {
        Ok(path) => Some(path),
        Err(error) => {
            skip(Resource::Shared, format_args!("shared/{file}, next to the checkout: {error}"));
            None
        }
    }
}

/// Writes a line past the test harness, which hides the output of passing tests.
pub fn say(text: impl Display) {
    // One write, since several tests run at a time.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// The running test after its binary, as `pairs::edges_are_found`.
///
/// The harness names a thread after its test.
fn test_name() -> String {
    let binary = std::env::current_exe().ok();
    let binary = binary.as_deref().and_then(Path::file_stem).unwrap_or_default().to_string_lossy();
    let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _hash)| name);
    format!("{binary}::{}", std::thread::current().name().unwrap_or("unnamed"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_is_named_with_its_binary() {
        let name = std::thread::spawn(super::test_name).join().unwrap();
        assert_eq!(name, "graph_transformer_testing::unnamed");
    }
}
