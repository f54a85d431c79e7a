//! Every saved input of the fuzz targets ends in a result or an error, within a memory bound.
//!
//! `fuzz/README.md` describes how inputs are found and saved. `GT_BLESS=1` writes the seeds again.

#[path = "../../../../fuzz/src/readers/mod.rs"]
mod readers;
mod seeds;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::{Path, PathBuf};

use gt_testing::PeakMemory;
use readers::{MEMORY_LIMIT, READERS, Run};

#[global_allocator]
static MEMORY: PeakMemory = PeakMemory::new();

/// The folder of the fuzz targets.
fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files of a folder, in order; none if it does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs a reader on a saved input. Returns whether the reader accepted the input.
fn replay(name: &str, run: Run, input: &Path, folder: &Path) -> bool {
    let bytes = std::fs::read(input).unwrap();
    let (result, peak) = MEMORY.measure(|| catch_unwind(AssertUnwindSafe(|| run(&bytes, folder))));
    let accepted = result.unwrap_or_else(|_| panic!("{name}: the reader panicked on {}", input.display()));
    assert!(peak <= MEMORY_LIMIT, "{name}: {} used {peak} bytes at once", input.display());
    accepted
}

#[test]
fn every_saved_input_ends_in_a_result_or_an_error() {
    let _alone = MEMORY.alone();
    if std::env::var_os("GT_BLESS").is_some() {
        seeds::write(&fuzz().join("seeds"));
    }
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        if !gt_data::panic_is_contained() {
            usual(panic);
        }
    }));
    for (name, run) in READERS {
        let folder = tempfile::tempdir().unwrap();
        let replay_all = |kind: &str| -> Vec<bool> {
            let inputs = files(&fuzz().join(kind).join(name));
            inputs.iter().map(|input| replay(name, run, input, folder.path())).collect()
        };
        let seeds = replay_all("seeds");
        // An input that is refused at its first byte proves nothing.
        assert!(seeds.contains(&true), "{name}: the reader refuses all {} seeds", seeds.len());
        let found = replay_all("corpus");
        assert!(found.len() >= 10, "{name}: its corpus has {} inputs", found.len());
        replay_all("regressions");
    }
}

#[test]
fn every_target_has_a_reader_and_saved_inputs() {
    let names = |folder: &str| -> BTreeSet<OsString> {
        files(&fuzz().join(folder)).iter().map(|path| path.file_stem().unwrap().to_owned()).collect()
    };
    let readers: BTreeSet<OsString> = READERS.iter().map(|(name, _)| (*name).into()).collect();
    for folder in ["targets", "seeds", "corpus"] {
        assert_eq!(names(folder), readers, "fuzz/{folder}");
    }
    assert!(names("regressions").is_subset(&readers));
    assert!(names("dictionaries").is_subset(&readers));
}
