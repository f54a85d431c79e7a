//! Files that are either complete or not there.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

/// A file under construction that does not bear its name yet; dropping it removes it.
#[derive(Debug)]
pub struct PartialFile {
    out: BufWriter<NamedTempFile>,
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
        Ok(Self { out: BufWriter::with_capacity(1 << 18, temporary), path: path.into(), _listed: listed })
    }

    /// Brings everything that was written down to the disk.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn sync(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().as_file().sync_all()
    }

    /// Brings everything to the disk and gives the file its name, in place of whatever bore it before.
    ///
    /// # Errors
    /// If the disk is full, or the operating system refuses.
    pub fn commit(mut self) -> io::Result<()> {
        self.sync()?;
        let Self { out, path, _listed } = self;
        let temporary = out.into_inner().map_err(|error| error.into_error())?;
        temporary.persist(&path).map(drop).map_err(|error| error.error)
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
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
    let mut file = PartialFile::create(path)?;
    file.write_all(bytes)?;
    file.commit()
}
