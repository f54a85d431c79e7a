//! Checkpoints: complete or not there.
//!
//! A checkpoint is a folder `checkpoint/NUMBER` with model, moments, best model, state and
//! collected outputs. A manifest of their hashes is written last. Two checkpoints are kept. A run
//! resumes from the newest checkpoint whose hashes agree. If there are checkpoints and none is
//! whole, that is an error, not a new beginning.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use gt_data::{prepare_bytes, write_bytes};
use gt_graph::commit_all;
use serde::{Deserialize, Serialize};

use crate::error::{CheckpointProblem, Result, RunProblem, TrainError};
use crate::fingerprint::of_bytes;

/// Files of a checkpoint by name.
pub(crate) type Files = BTreeMap<&'static str, Vec<u8>>;

#[derive(Serialize, Deserialize)]
struct Manifest {
    /// SHA-256 of each file.
    files: BTreeMap<String, String>,
}

const MANIFEST: &str = "manifest.json";

/// Checkpoint numbers in a folder, ascending, whether complete or not.
fn numbers(folder: &Path) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    match fs::read_dir(folder) {
        Ok(entries) => {
            for entry in entries {
                let name = entry.map_err(|e| TrainError::io(folder, e))?.file_name();
                numbers.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
            }
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(TrainError::io(folder, e)),
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The folder of a checkpoint.
pub(crate) fn place(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}"))
}

/// Writes a checkpoint and removes those before the last one.
pub(crate) fn write(folder: &Path, number: u64, files: &Files) -> Result<()> {
    let here = place(folder, number);
    // A checkpoint with this number or a higher one was interrupted or damaged: the run has resumed
    // from an earlier one.
    for stale in numbers(folder)?.into_iter().filter(|&found| found >= number).map(|found| place(folder, found)) {
        fs::remove_dir_all(&stale).map_err(|e| TrainError::io(&stale, e))?;
    }
    let written = write_files(&here, files);
    if written.is_err() {
        let _ = fs::remove_dir_all(&here);
        return written;
    }
    let old = numbers(folder)?;
    let keep = old.len().saturating_sub(2);
    for number in &old[..keep] {
        let _ = fs::remove_dir_all(place(folder, *number));
    }
    Ok(())
}

fn write_files(here: &Path, files: &Files) -> Result<()> {
    gt_graph::create_folder(here).map_err(|e| TrainError::io(here, e))?;
    let mut manifest = Manifest { files: BTreeMap::new() };
    let mut complete = Vec::new();
    for (name, bytes) in files {
        complete.push(prepare_bytes(&here.join(name), bytes)?);
        manifest.files.insert((*name).to_owned(), of_bytes(bytes));
    }
    commit_all(complete).map_err(|(path, e)| TrainError::io(&path, e))?;
    let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    // The names are on the disk now, and older checkpoints may go.
    Ok(write_bytes(&here.join(MANIFEST), &text)?)
}

/// A checkpoint that was read.
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The problems of newer checkpoints.
    pub(crate) passed_over: Vec<CheckpointProblem>,
}

/// The newest checkpoint that is whole; none if the first was never completed.
///
/// # Errors
/// If there were checkpoints and all are damaged.
pub(crate) fn newest(folder: &Path) -> Result<Option<Found>> {
    let numbers = numbers(folder)?;
    let mut passed_over = Vec::new();
    for &number in numbers.iter().rev() {
        match read(&place(folder, number)) {
            Ok(files) => return Ok(Some(Found { number, files, passed_over })),
            Err(problem) => passed_over.push(problem),
        }
    }
    if numbers.is_empty() || numbers == [1] && !place(folder, 1).join(MANIFEST).exists() {
        return Ok(None);
    }
    Err(TrainError::run(folder, RunProblem::NoWholeCheckpoint(passed_over)))
}

fn read(here: &Path) -> Result<BTreeMap<String, Vec<u8>>, CheckpointProblem> {
    let path = here.join(MANIFEST);
    let text = fs::read(&path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => CheckpointProblem::NeverCompleted(here.into()),
        _ => CheckpointProblem::unreadable(&path, e),
    })?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| CheckpointProblem::unreadable(&path, e))?;
    let mut files = BTreeMap::new();
    for (name, expected) in manifest.files {
        // A damaged name must not lead out of the folder.
        if Path::new(&name).file_name().is_none_or(|file| file != name.as_str()) {
            return Err(CheckpointProblem::Damaged(path));
        }
        let path = here.join(&name);
        let bytes = fs::read(&path).map_err(|e| CheckpointProblem::unreadable(&path, e))?;
        if of_bytes(&bytes) != expected {
            return Err(CheckpointProblem::Damaged(path));
        }
        files.insert(name, bytes);
    }
    Ok(files)
}

/// Writes checkpoints on a thread of its own, or at once where the system starts no more threads.
/// Dropping it waits for the last one.
pub(crate) struct Writer {
    folder: PathBuf,
    jobs: Option<SyncSender<(u64, Files)>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Writer {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let (jobs, work) = sync_channel::<(u64, Files)>(0);
        let own = folder.clone();
        let write_all = move || {
            for (number, files) in work {
                write(&own, number, &files)?;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().spawn(write_all).ok();
        Self { folder, jobs: thread.is_some().then_some(jobs), thread }
    }

    /// Hands a checkpoint over; waits only while the one before is still being written.
    pub(crate) fn write(&mut self, number: u64, files: Files) -> Result<()> {
        if self.thread.is_none() {
            return write(&self.folder, number, &files);
        }
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((number, files)).is_ok());
        if sent { Ok(()) } else { self.finish() }
    }

    /// Whether a checkpoint could not be written; [`Writer::write`] and [`Writer::finish`] return
    /// the reason.
    pub(crate) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Waits until everything is on disk, and returns the first error.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.jobs = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        // Callers that need the error have called `finish`.
        let _ = self.thread.take().map(JoinHandle::join);
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
        assert_eq!(numbers(folder.path()).unwrap(), [3, 4]);
        let found = newest(folder.path()).unwrap().unwrap();
        assert_eq!((found.number, &found.files["a"][..]), (4, &b"checkpoint 4"[..]));
        // A flipped bit, then a missing manifest.
        fs::write(place(folder.path(), 4).join("a"), "checkpoint 5").unwrap();
        let found = newest(folder.path()).unwrap().unwrap();
        assert_eq!(found.number, 3);
        let damaged = |problem: &CheckpointProblem| matches!(problem, CheckpointProblem::Damaged(at) if at.ends_with("00000004/a"));
        assert!(damaged(&found.passed_over[0]), "{:?}", found.passed_over);
        fs::remove_file(place(folder.path(), 3).join(MANIFEST)).unwrap();
        match newest(folder.path()).err().unwrap() {
            TrainError::Run { problem: RunProblem::NoWholeCheckpoint(problems), .. } => {
                assert!(damaged(&problems[0]), "{problems:?}");
                assert!(matches!(&problems[1], CheckpointProblem::NeverCompleted(at) if at.ends_with("00000003")));
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn no_byte_of_a_checkpoint_changes_unnoticed() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 1, &files("values")).unwrap();
        for name in ["a", "b", MANIFEST] {
            let path = place(folder.path(), 1).join(name);
            let bytes = fs::read(&path).unwrap();
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x20;
                fs::write(&path, &damaged).unwrap();
                assert!(read(&place(folder.path(), 1)).is_err(), "{name}, byte {at}");
            }
            fs::write(&path, &bytes).unwrap();
        }
    }

    #[test]
    fn a_manifest_names_no_file_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 1, &files("values")).unwrap();
        let path = place(folder.path(), 1).join(MANIFEST);
        let text = fs::read_to_string(&path).unwrap();
        for elsewhere in ["/dev/zero", "../a", ".."] {
            fs::write(&path, text.replace("\"a\"", &format!("{elsewhere:?}"))).unwrap();
            let problem = read(&place(folder.path(), 1)).unwrap_err();
            assert!(matches!(&problem, CheckpointProblem::Damaged(at) if *at == path), "{problem}");
        }
    }

    #[test]
    fn a_first_checkpoint_that_was_never_completed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(newest(&folder.path().join("nowhere")).unwrap().is_none());
        fs::create_dir(place(folder.path(), 1)).unwrap();
        assert!(newest(folder.path()).unwrap().is_none());
        fs::rename(place(folder.path(), 1), place(folder.path(), 2)).unwrap();
        assert!(newest(folder.path()).is_err(), "the second comes after a complete first one");
    }

    #[test]
    fn going_on_from_an_older_one_leaves_no_newer_one_behind() {
        let folder = tempfile::tempdir().unwrap();
        for number in [5, 6, 7] {
            write(folder.path(), number, &files("old")).unwrap();
        }
        write(folder.path(), 6, &files("new")).unwrap();
        assert_eq!(numbers(folder.path()).unwrap(), [6]);
        assert_eq!(newest(folder.path()).unwrap().unwrap().files["a"], b"new");
    }

    #[test]
    fn a_writer_that_fails_says_so_and_why() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let mut writer = Writer::new(file.join("checkpoint"));
        writer.write(1, files("lost")).unwrap();
        while !writer.has_failed() {
            std::thread::yield_now();
        }
        let error = writer.write(2, files("lost too")).unwrap_err().to_string();
        assert!(error.contains("Not a directory"), "{error}");
    }
}
