//! Complete files, with errors that name the file.

use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use gt_graph::{CompleteFile, PartialFile, commit_all};

use crate::error::{DataError, Result};

/// Writes a file through `fill` and flushes the file to the disk. The file does not have its final
/// name yet.
pub(crate) fn prepare(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<CompleteFile> {
    let io = |e| DataError::io(path, e);
    let partial = PartialFile::create(path).map_err(io)?;
    let mut out = BufWriter::with_capacity(1 << 18, partial.handle().map_err(io)?);
    fill(&mut out)?;
    out.into_inner().map_err(|e| io(e.into_error()))?;
    partial.complete().map_err(io)
}

/// Gives a complete file its final name.
pub(crate) fn commit(file: CompleteFile) -> Result<()> {
    let path = file.path().to_owned();
    file.commit().map_err(|e| DataError::io(&path, e))
}

/// Checks that a path can be one of a set of files.
///
/// # Errors
/// If the path is that of a folder, pipe or device.
pub(crate) fn check_member(path: &Path) -> Result<()> {
    if gt_graph::is_stream(path) {
        return Err(DataError::io(path, Error::other("tables are a set of files; a pipe cannot hold one of them")));
    }
    if path.is_dir() { Err(DataError::io(path, ErrorKind::IsADirectory.into())) } else { Ok(()) }
}

/// Gives the files of one data set their names. `seal` is the last, and `open_seal` bears its name
/// until then. So after a kill or an error in between, the set has an open seal, and a reader knows
/// that the files may not belong together. An error leaves no file of a set that was not there
/// before.
pub(crate) fn commit_set(files: Vec<CompleteFile>, seal: CompleteFile, open_seal: CompleteFile) -> Result<()> {
    let paths: Vec<PathBuf> = files.iter().chain([&seal]).map(|file| file.path().to_owned()).collect();
    let is_new = paths.iter().all(|path| !path.exists());
    let committed = commit(open_seal)
        .and_then(|()| commit_all(files).map_err(|(path, error)| DataError::io(&path, error)))
        .and_then(|()| commit(seal));
    if committed.is_err() && is_new {
        paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
    committed
}

/// Writes a file through `fill`. The file has its name only when everything has reached the disk.
pub(crate) fn write_atomic(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    commit(prepare(path, fill)?)
}

/// Writes bytes to the disk, in a file that does not have its final name yet.
///
/// # Errors
/// If the file cannot be written.
pub fn prepare_bytes(path: &Path, bytes: &[u8]) -> Result<CompleteFile> {
    prepare(path, |out| out.write_all(bytes).map_err(|e| DataError::io(path, e)))
}

/// Writes bytes to a file. The file has its name only when everything has reached the disk.
///
/// # Errors
/// If the file cannot be written. A file that had the name before is then untouched.
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    commit(prepare_bytes(path, bytes)?)
}
