//! Files under construction and complete files without a name.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::folder::{folder_of, sync_folder};
use super::leftovers::Temporary;
use super::target::Target;

/// A file under construction that does not have its name yet. Dropping the value removes the file.
///
/// A symbolic link stays, and the file that it points to is replaced. A device or pipe is written
/// at once and never replaced.
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
    path: PathBuf,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Bytes in a temporary file, and the final path.
    Temporary(Temporary, PathBuf),
    /// A device or pipe.
    Stream(File),
}

impl PartialFile {
    /// Begins a file in the folder of `path`.
    ///
    /// # Errors
    /// If the folder is not there or cannot be written to. If `path` is a folder, a socket or a
    /// block device.
    pub fn create(path: &Path) -> io::Result<Self> {
        let content = match Target::of(path)? {
            Target::Stream => Content::Stream(File::options().write(true).open(path)?),
            Target::File(target) => Content::Temporary(Temporary::create(folder_of(&target))?, target),
        };
        Ok(Self(CompleteFile { path: path.into(), content }))
    }

    /// A handle to write through.
    ///
    /// # Errors
    /// If the operating system has no more handles.
    pub fn handle(&self) -> io::Result<File> {
        match &self.0.content {
            Content::Temporary(temporary, _) => temporary.file().try_clone(),
            Content::Stream(file) => file.try_clone(),
        }
    }

    /// Brings everything that was written to the disk.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn complete(self) -> io::Result<CompleteFile> {
        if let Content::Temporary(temporary, _) = &self.0.content {
            temporary.file().sync_all()?;
        }
        Ok(self.0)
    }
}

impl CompleteFile {
    /// Gives the file its name and brings the name to the disk. A file that had the name before is
    /// replaced.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn commit(self) -> io::Result<()> {
        self.rename()?.map_or(Ok(()), |folder| sync_folder(&folder))
    }

    /// The name that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name and returns its folder, unless it is a stream.
    fn rename(self) -> io::Result<Option<PathBuf>> {
        match self.content {
            Content::Temporary(temporary, target) => {
                temporary.rename(&target)?;
                Ok(Some(folder_of(&target).to_owned()))
            }
            Content::Stream(_) => Ok(None),
        }
    }
}

/// Gives several files their names, in their order, and then brings the names to the disk. The
/// error comes with the path of its file; the files after it are removed.
///
/// # Errors
/// If the operating system refuses.
pub fn commit_all(files: impl IntoIterator<Item = CompleteFile>) -> Result<(), (PathBuf, io::Error)> {
    let mut folders = BTreeSet::new();
    for file in files {
        let path = file.path.clone();
        folders.extend(file.rename().map_err(|error| (path, error))?);
    }
    folders.into_iter().try_for_each(|folder| sync_folder(&folder).map_err(|error| (folder, error)))
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

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("far")).unwrap();
        fs::write(path("far/file"), "old").unwrap();
        symlink("far/file", path("link")).unwrap();
        symlink("link", path("link-to-link")).unwrap();
        write_atomic(&path("link-to-link"), b"new").unwrap();
        assert_eq!(fs::read(path("far/file")).unwrap(), b"new");
        symlink("far/none", path("dangling")).unwrap();
        write_atomic(&path("dangling"), b"first").unwrap();
        assert_eq!(fs::read(path("far/none")).unwrap(), b"first");
        for link in ["link", "link-to-link", "dangling"] {
            assert!(path(link).is_symlink(), "{link}");
        }
        symlink("circle", path("circle")).unwrap();
        assert!(write_atomic(&path("circle"), b"").is_err());
    }

    #[test]
    fn a_pipe_is_written_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write_atomic(&pipe, b"42").unwrap();
        assert_eq!(reader.join().unwrap(), b"42");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        write_atomic(Path::new("/dev/null"), b"42").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn folders_and_sockets_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [folder.path(), &socket] {
            assert!(PartialFile::create(path).is_err(), "{}", path.display());
        }
        assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
