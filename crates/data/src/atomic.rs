//! Files that are either complete or not there.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::error::{DataError, Result};

/// A complete file that does not bear its name yet; dropping it removes it.
pub struct Prepared {
    temporary: NamedTempFile,
    path: PathBuf,
    _listed: Listed,
}

/// Temporary files of this process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files that are just being written; for a program that ends without dropping anything, as after a signal.
pub fn remove_unfinished() {
    unfinished().iter().for_each(|path| drop(std::fs::remove_file(path)));
}

/// A place in the list of temporary files, as long as it lives.
struct Listed(PathBuf);

impl Listed {
    fn new(path: &Path) -> Self {
        unfinished().insert(path.into());
        Self(path.into())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        unfinished().remove(&self.0);
    }
}

/// A file that is being written and does not bear its name; dropping it removes it.
pub(crate) struct Partial(Prepared);

impl Partial {
    /// Begins a file next to `path`.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".gt-").suffix(".partial");
        // Temporary files are private by default; a data file should be as readable as any other.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.tempfile_in(folder).map_err(|e| DataError::io(path, e))?;
        let listed = Listed::new(temporary.path());
        Ok(Self(Prepared { temporary, path: path.into(), _listed: listed }))
    }

    /// The file under a handle of its own.
    pub(crate) fn file(&self) -> Result<File> {
        self.0.temporary.as_file().try_clone().map_err(|e| DataError::io(&self.0.path, e))
    }

    /// Makes sure that everything has reached the disk.
    pub(crate) fn complete(self) -> Result<Prepared> {
        self.0.temporary.as_file().sync_all().map_err(|e| DataError::io(&self.0.path, e))?;
        Ok(self.0)
    }
}

impl Prepared {
    /// Writes a file next to `path` through `fill`, down to the disk.
    ///
    /// # Errors
    /// If `fill` fails or the disk is full; nothing is left behind.
    pub fn write(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<Self> {
        let partial = Partial::new(path)?;
        let mut out = BufWriter::with_capacity(1 << 18, partial.file()?);
        fill(&mut out)?;
        out.into_inner().map_err(|e| DataError::io(path, e.into_error()))?;
        partial.complete()
    }

    /// Gives the file its name, in place of whatever bore it before.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn commit(self) -> Result<()> {
        let Self { temporary, path, _listed } = self;
        temporary.persist(&path).map_err(|e| DataError::io(&path, e.error))?;
        Ok(())
    }
}

/// Writes a file through `fill`; it appears under its name only when everything has reached the disk.
///
/// # Errors
/// If `fill` fails or the disk is full; whatever stood at `path` before is then untouched.
pub fn write_atomic(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    Prepared::write(path, fill)?.commit()
}

/// Writes bytes in the same way.
///
/// # Errors
/// As for [`write_atomic`].
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomic(path, |out| out.write_all(bytes).map_err(|e| DataError::io(path, e)))
}
