//! Complete files, with errors that name the file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use gt_graph::{CompleteFile, PartialFile};

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

/// Writes a file through `fill`. The file has its name only when everything has reached the disk.
pub(crate) fn write_atomic(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    commit(prepare(path, fill)?)
}

/// Writes bytes to a file. The file has its name only when everything has reached the disk.
///
/// # Errors
/// If the file cannot be written. A file that had the name before is then untouched.
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomic(path, |out| out.write_all(bytes).map_err(|e| DataError::io(path, e)))
}
