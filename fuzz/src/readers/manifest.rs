//! Manifests of checkpoints.

use std::fs::create_dir_all;
use std::path::Path;

use gt_train::RunDirectory;

use super::accepted;

/// The file that a manifest may list, and its contents.
pub const STATE: (&str, &[u8]) = ("state.json", b"{\"stop\": \"epochs\"}");

/// Looks for a whole checkpoint in a run.
pub fn run(bytes: &[u8], folder: &Path) -> bool {
    let here = folder.join("checkpoint/00000001");
    if !here.is_dir() {
        create_dir_all(&here).unwrap_or_else(|error| panic!("{}: {error}", here.display()));
        super::write(&here.join(STATE.0), STATE.1);
    }
    super::write(&here.join("manifest.json"), bytes);
    accepted(RunDirectory::is_finished(folder))
}
