//! Temporary files: their names, their locks, and those of dead processes.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Temporary files of this process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// Folders that this process has searched for temporary files of dead processes.
static SEARCHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn guard(paths: &'static Mutex<BTreeSet<PathBuf>>) -> MutexGuard<'static, BTreeSet<PathBuf>> {
    paths.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all files under construction. A program that ends without dropping its values, as after
/// a signal, calls this.
pub fn remove_unfinished() {
    guard(&UNFINISHED).iter().for_each(|path| drop(fs::remove_file(path)));
}

/// A temporary file of this process. Dropping the value removes the file.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    /// Creates and locks a temporary file in a folder.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        if guard(&SEARCHED).insert(folder.into()) {
            remove_leftovers(folder);
        }
        loop {
            let path = folder.join(new_name());
            let created = File::options().read(true).write(true).create_new(true).open(&path);
            let file = match created {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            };
            guard(&UNFINISHED).insert(path.clone());
            let temporary = Self { path, file };
            if temporary.lock() {
                return Ok(temporary);
            }
        }
    }

    /// Locks the file against [`remove_leftovers`] of other processes. Returns false if another
    /// process was faster, and removes the file. A file system without locks protects nothing, and
    /// no process can remove anything there.
    fn lock(&self) -> bool {
        match self.file.try_lock() {
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(_)) => true,
            Ok(()) => self.path.exists(),
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its final name.
    pub(super) fn rename(self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)
    }
}

impl Drop for Temporary {
    /// After a successful rename there is nothing to remove.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        guard(&UNFINISHED).remove(&self.path);
    }
}

const PREFIX: &str = ".gt-";
const SUFFIX: &str = ".partial";

fn new_name() -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let number = (now.as_nanos() as u64).wrapping_add(NAMES.fetch_add(1, Ordering::Relaxed));
    format!("{PREFIX}{}-{:08x}{SUFFIX}", std::process::id(), number as u32)
}

/// Whether this program gives temporary files such names.
fn is_temporary(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX)).and_then(|n| n.split_once('-'));
    numbers.is_some_and(|(process, number)| {
        process.parse::<u32>().is_ok() && number.len() == 8 && number.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Removes the temporary files of dead processes from a folder. Those of living processes are
/// locked and stay. Nothing happens in a folder that cannot be read or written.
#[cfg(unix)]
pub fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(is_temporary);
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(file) = File::options().write(true).open(entry.path()) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes nothing: locks of this system would keep the writer itself from its file.
#[cfg(not(unix))]
pub fn remove_leftovers(_: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_temporary_files_are_taken_for_such() {
        assert!(is_temporary(&new_name()));
        assert_ne!(new_name(), new_name());
        for name in [".gt-mine.partial", ".gt-1-mine.partial", ".gt-1-0123456.partial", ".gt-x-01234567.partial", "a"] {
            assert!(!is_temporary(name), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn temporary_files_of_the_dead_go_and_those_of_the_living_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let living = Temporary::create(folder.path()).unwrap();
        for name in [".gt-77-0123abcd.partial", ".gt-mine.partial", "report.html"] {
            fs::write(path(name), "left").unwrap();
        }
        std::os::unix::fs::symlink(path("report.html"), path(".gt-77-0123abce.partial")).unwrap();
        remove_leftovers(folder.path());
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let mut expected = vec![
            living.path.file_name().unwrap().to_str().unwrap().to_owned(),
            ".gt-77-0123abce.partial".into(),
            ".gt-mine.partial".into(),
            "report.html".into(),
        ];
        expected.sort();
        assert_eq!(names, expected);
        drop(living);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
