//! What a path of an output names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::folder_of;

/// Where the bytes of an output go.
#[derive(Debug)]
pub(super) enum Target {
    /// A file, whether it exists or not. Symbolic links are followed.
    File(PathBuf),
    /// A device or pipe, which is written and not replaced.
    Stream,
}

impl Target {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(about) if about.is_file() => final_path(path).map(Self::File),
            Ok(about) if about.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(about) if is_writable_stream(&about) => Ok(Self::Stream),
            Ok(_) => Err(io::Error::other("it is no file and no pipe, so it is not replaced")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => final_path(path).map(Self::File),
            Err(e) => Err(e),
        }
    }
}

#[cfg(unix)]
fn is_writable_stream(about: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    about.file_type().is_fifo() || about.file_type().is_char_device()
}

#[cfg(not(unix))]
fn is_writable_stream(_: &fs::Metadata) -> bool {
    false
}

/// Whether a path names a device or pipe, which is written and not replaced.
pub fn is_stream(path: &Path) -> bool {
    matches!(Target::of(path), Ok(Target::Stream))
}

/// The path of the file that an output replaces or creates: the end of all symbolic links.
///
/// # Errors
/// If the links form a circle, or a link such as `/dev/stdout` leads to a file that another program
/// has opened. A new file would then not be the one that the other program sees.
pub fn final_path(path: &Path) -> io::Result<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        if folder_of(&path).canonicalize().is_ok_and(|folder| folder.starts_with("/proc")) {
            let text = format!("it is the open file {}; name the file itself, or write to a pipe", next.display());
            return Err(io::Error::other(text));
        }
        path = folder_of(&path).join(next);
    }
    Err(io::Error::other("too many symbolic links"))
}

/// The identity of a file, whether it exists or not. Symbolic and hard links of one file have one
/// identity.
///
/// ```
/// use graph_transformer_graph::FileId;
///
/// let folder = tempfile::tempdir()?;
/// let (file, other) = (folder.path().join("a"), folder.path().join("b"));
/// assert_eq!(FileId::of(&file), FileId::of(&folder.path().join(".").join("a")));
/// assert_ne!(FileId::of(&file), FileId::of(&other));
/// std::fs::write(&file, "")?;
/// std::fs::hard_link(&file, &other)?;
/// assert_eq!(FileId::of(&file), FileId::of(&other));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileId(Identity);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// An existing file or folder.
    Existing(Inode),
    /// A name that is free in an existing folder.
    Free(Inode, std::ffi::OsString),
}

impl FileId {
    /// The identity of the file at a path. None for devices and pipes, and where there is no folder
    /// for the file.
    pub fn of(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(about) if about.is_file() || about.is_dir() => Some(Self(Identity::Existing(inode(path, &about)?))),
            Ok(_) => None,
            Err(_) => {
                let path = final_path(path).ok()?;
                let folder = folder_of(&path);
                let about = fs::metadata(folder).ok()?;
                Some(Self(Identity::Free(inode(folder, &about)?, path.file_name()?.to_owned())))
            }
        }
    }
}

/// Device and number of a file.
#[cfg(unix)]
type Inode = (u64, u64);

#[cfg(unix)]
fn inode(_: &Path, about: &fs::Metadata) -> Option<Inode> {
    use std::os::unix::fs::MetadataExt;
    Some((about.dev(), about.ino()))
}

#[cfg(not(unix))]
type Inode = PathBuf;

#[cfg(not(unix))]
fn inode(path: &Path, _: &fs::Metadata) -> Option<Inode> {
    path.canonicalize().ok()
}
