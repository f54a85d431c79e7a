//! Checkpoints: complete or not there.
//!
//! A checkpoint is a folder `checkpoint/NUMBER` with model, moments, best model, state and collected outputs, and a manifest of their hashes that is written
//! last. Two are kept. The newest whose hashes agree is the one to go on from.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use gt_data::write_bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Result, TrainError};

/// Files of a checkpoint by name.
pub(crate) type Files = BTreeMap<&'static str, Vec<u8>>;

#[derive(Serialize, Deserialize)]
struct Manifest {
    /// SHA-256 of each file.
    files: BTreeMap<String, String>,
}

const MANIFEST: &str = "manifest.json";

/// SHA-256 in hexadecimal.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checkpoint numbers in a folder, ascending, whether complete or not.
fn numbers(folder: &Path) -> Vec<u64> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u64> = entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

fn place(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}"))
}

/// Writes a checkpoint and removes those before the last one.
pub(crate) fn write(folder: &Path, number: u64, files: &Files) -> Result<()> {
    let here = place(folder, number);
    // What is left of an interrupted write has no manifest and counts for nothing.
    if here.exists() {
        fs::remove_dir_all(&here).map_err(|e| TrainError::io(&here, &e))?;
    }
    let written = write_files(&here, files);
    if written.is_err() {
        let _ = fs::remove_dir_all(&here);
        return written;
    }
    let old = numbers(folder);
    let keep = old.len().saturating_sub(2);
    for number in &old[..keep] {
        let _ = fs::remove_dir_all(place(folder, *number));
    }
    Ok(())
}

fn write_files(here: &Path, files: &Files) -> Result<()> {
    fs::create_dir_all(here).map_err(|e| TrainError::io(here, &e))?;
    let mut manifest = Manifest { files: BTreeMap::new() };
    for (name, bytes) in files {
        write_bytes(&here.join(name), bytes)?;
        manifest.files.insert((*name).to_owned(), hash(bytes));
    }
    let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    Ok(write_bytes(&here.join(MANIFEST), &text)?)
}

/// A checkpoint that was read.
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// What was wrong with newer ones.
    pub(crate) passed_over: Vec<String>,
}

/// The newest checkpoint that is whole.
pub(crate) fn newest(folder: &Path) -> Option<Found> {
    let mut passed_over = Vec::new();
    for number in numbers(folder).into_iter().rev() {
        match read(&place(folder, number)) {
            Ok(files) => return Some(Found { number, files, passed_over }),
            Err(problem) => passed_over.push(format!("{}: {problem}", place(folder, number).display())),
        }
    }
    None
}

fn read(here: &Path) -> std::result::Result<BTreeMap<String, Vec<u8>>, String> {
    let text = fs::read(here.join(MANIFEST)).map_err(|_| "it was never completed".to_owned())?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| format!("its manifest is damaged: {e}"))?;
    let mut files = BTreeMap::new();
    for (name, expected) in manifest.files {
        let bytes = fs::read(here.join(&name)).map_err(|e| format!("{name}: {e}"))?;
        if hash(&bytes) != expected {
            return Err(format!("{name} is damaged"));
        }
        files.insert(name, bytes);
    }
    Ok(files)
}

/// Writes checkpoints on a thread of its own.
pub(crate) struct Writer {
    jobs: Option<SyncSender<(u64, Files)>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Writer {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let (jobs, work) = sync_channel::<(u64, Files)>(0);
        let thread = std::thread::spawn(move || {
            for (number, files) in work {
                write(&folder, number, &files)?;
            }
            Ok(())
        });
        Self { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Hands a checkpoint over; waits only while the one before is still being written.
    pub(crate) fn write(&mut self, number: u64, files: Files) -> Result<()> {
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((number, files)).is_ok());
        if sent { Ok(()) } else { self.finish() }
    }

    /// Waits until everything is on disk; tells what went wrong.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.jobs = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Files {
        Files::from([("a", text.as_bytes().to_vec()), ("b", b"same".to_vec())])
    }

    #[test]
    fn two_are_kept_and_the_newest_whole_one_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(folder.path().into());
        for number in 1..=4 {
            writer.write(number, files(&format!("checkpoint {number}"))).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(numbers(folder.path()), [3, 4]);
        let found = newest(folder.path()).unwrap();
        assert_eq!((found.number, &found.files["a"][..]), (4, &b"checkpoint 4"[..]));
        // A flipped bit, then a missing manifest.
        fs::write(place(folder.path(), 4).join("a"), "checkpoint 5").unwrap();
        let found = newest(folder.path()).unwrap();
        assert_eq!(found.number, 3);
        assert!(found.passed_over[0].ends_with("a is damaged"), "{:?}", found.passed_over);
        fs::remove_file(place(folder.path(), 3).join(MANIFEST)).unwrap();
        assert!(newest(folder.path()).is_none());
    }
}
