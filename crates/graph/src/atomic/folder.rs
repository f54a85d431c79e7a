//! Folders whose entries have reached the disk.

use std::io;
use std::path::Path;

/// The folder of a path; `.` for a name alone.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Brings the names in a folder to the disk. File systems that have no such operation are left
/// alone, and so are folders that may be written but not read.
///
/// # Errors
/// If the disk cannot be written.
#[cfg(unix)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match std::fs::File::open(folder).and_then(|opened| opened.sync_all()) {
        Err(e) if matches!(e.kind(), InvalidInput | PermissionDenied | Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Brings the names in a folder to the disk; this system does so itself.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Creates a folder and the folders above it, and brings their names to the disk.
///
/// # Errors
/// If a folder cannot be created.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    std::fs::create_dir_all(path)?;
    missing.into_iter().rev().try_for_each(|folder| sync_folder(folder_of(folder)))
}
