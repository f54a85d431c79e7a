//! Files that are either complete or not there.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

/// A file under construction that does not have its name yet. Dropping the value removes the file.
///
/// ```
/// use std::io::Write;
///
/// use graph_transformer_graph::PartialFile;
///
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("answer.txt");
/// let file = PartialFile::create(&path)?;
/// file.handle()?.write_all(b"42")?;
/// assert!(!path.exists());
/// file.complete()?.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"42");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PartialFile(CompleteFile);

/// A complete file that does not have its name yet. Dropping the value removes the file.
#[derive(Debug)]
pub struct CompleteFile {
    temporary: NamedTempFile,
    path: PathBuf,
    _listed: Listed,
}

/// Files under construction in this process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all files under construction. A program that ends without dropping its values, as after
/// a signal, calls this.
pub fn remove_unfinished() {
    unfinished().iter().for_each(|path| drop(std::fs::remove_file(path)));
}

/// An entry in the list of temporary files, as long as it lives.
#[derive(Debug)]
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

impl PartialFile {
    /// Begins a file in the folder of `path`.
    ///
    /// # Errors
    /// If the folder is not there or cannot be written to.
    pub fn create(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".gt-").suffix(".partial");
        // Temporary files are private by default; a data file should be as readable as any other.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.tempfile_in(folder)?;
        let listed = Listed::new(temporary.path());
        Ok(Self(CompleteFile { temporary, path: path.into(), _listed: listed }))
    }

    /// A handle to write through.
    ///
    /// # Errors
    /// If the operating system has no more handles.
    pub fn handle(&self) -> io::Result<File> {
        self.0.temporary.as_file().try_clone()
    }

    /// Brings everything that was written to the disk.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn complete(self) -> io::Result<CompleteFile> {
        self.0.temporary.as_file().sync_all()?;
        Ok(self.0)
    }
}

impl CompleteFile {
    /// Gives the file its name. A file that had the name before is replaced.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn commit(self) -> io::Result<()> {
        let Self { temporary, path, _listed } = self;
        temporary.persist(&path).map(drop).map_err(|error| error.error)
    }

    /// The name that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes a file; it appears under its name only when everything has reached the disk.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let file = folder.path().join("answer.txt");
/// graph_transformer_graph::write_atomic(&file, b"42")?;
/// assert_eq!(std::fs::read(&file)?, b"42");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the file cannot be written; whatever stood at `path` before is then untouched.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = PartialFile::create(path)?;
    file.handle()?.write_all(bytes)?;
    file.complete()?.commit()
}
