//! The directory of a run: its lock, configuration and metrics.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use gt_data::write_bytes;
use gt_models::Config;

use crate::checkpoint;
use crate::error::{Result, RunProblem, TrainError};
use crate::outcome::EpochRecord;
use crate::report::Report;
use crate::tensorboard;

/// The complete configuration; the first file of a run.
pub(crate) const CONFIG: &str = "config.toml";
pub(crate) const METRICS: &str = "metrics.jsonl";
const CHECKPOINTS: &str = "checkpoint";
/// The last model.
pub(crate) const MODEL: &str = "model.safetensors";
/// The best model on the validation split.
pub(crate) const BEST: &str = "best.safetensors";
const LOCK: &str = ".lock";

/// Whether a run writes a file or folder of this name.
fn is_run_file(name: &str) -> bool {
    [CONFIG, METRICS, CHECKPOINTS, MODEL, BEST, RunDirectory::INIT, Report::FILE].contains(&name)
        || tensorboard::is_ours(name)
}

/// A directory that this process alone writes to.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// The outermost folder that was not there before.
    made: Option<PathBuf>,
    /// Whether the lock file was not there before.
    made_lock: bool,
    /// Whether this process has written a file.
    written: AtomicBool,
    /// Locked while this process lives; the operating system releases the lock at any kind of exit.
    _lock: File,
}

impl RunDirectory {
    /// The copy of the model of `train.init`.
    pub(crate) const INIT: &str = "init.safetensors";

    /// The copy of the model that the run started from, if it started from one.
    pub fn init(&self) -> Option<PathBuf> {
        Some(self.path.join(Self::INIT)).filter(|path| path.is_file())
    }

    /// Opens the directory for a new run. Other files may be there, but none with a name that the
    /// run would write.
    ///
    /// # Errors
    /// If there is such a file, the directory cannot be made, or another process is writing to it.
    pub fn begin(path: &Path) -> Result<Self> {
        Self::begin_without(path, |name| is_run_file(name) || name.starts_with(".gt-"))
    }

    /// Opens a directory for a new run that has it for itself.
    ///
    /// # Errors
    /// If anything is there, the directory cannot be made, or another process is writing to it.
    pub fn begin_alone(path: &Path) -> Result<Self> {
        Self::begin_without(path, |name| name != LOCK)
    }

    /// Opens the directory for a new run, unless a file is in the way. A run that has begun is left
    /// to the caller. The check comes first, so that a refused call leaves nothing behind.
    fn begin_without(path: &Path, in_the_way: impl Fn(&str) -> bool) -> Result<Self> {
        if path.is_dir() && !Self::has_begun_in(path) {
            gt_graph::remove_leftovers(path);
            let names = entries(path)?.into_iter().filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()));
            if let Some(name) = names.filter(|name| in_the_way(name)).min() {
                return Err(TrainError::run(path, RunProblem::Occupied(name)));
            }
        }
        Self::open(path)
    }

    /// The directory of the run that a file belongs to, whether the file exists or not. Files of
    /// other programs in such a directory belong to no run.
    pub fn owner(file: &Path) -> Option<PathBuf> {
        let file = gt_graph::final_path(file).ok()?;
        let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is_run = |folder: &Path| {
            folder.join(CONFIG).is_file() && [METRICS, CHECKPOINTS].iter().any(|name| folder.join(name).exists())
        };
        if is_run(folder) && is_run_file(file.file_name()?.to_str()?) {
            return Some(folder.into());
        }
        let folder = folder.canonicalize().ok()?;
        let checkpoints = folder.ancestors().find(|folder| folder.ends_with(CHECKPOINTS))?;
        checkpoints.parent().filter(|run| is_run(run)).map(Path::to_path_buf)
    }

    /// Creates or opens the directory, and locks it against other processes.
    ///
    /// # Errors
    /// If it cannot be made or another process is writing to it.
    pub fn open(path: &Path) -> Result<Self> {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = path.ancestors().take_while(missing).last().map(Path::to_path_buf);
        if made.is_none() && !path.is_dir() {
            return Err(TrainError::run(path, RunProblem::NotADirectory));
        }
        gt_graph::create_folder(path).map_err(|e| TrainError::io(path, e))?;
        let lock = path.join(LOCK);
        let made_lock = !lock.exists();
        let file = File::options().create(true).truncate(false).write(true).open(&lock);
        let file = file.map_err(|e| TrainError::io(&lock, e))?;
        match file.try_lock() {
            Ok(()) => {
                gt_graph::remove_leftovers(path);
                Ok(Self { path: path.into(), made, made_lock, written: AtomicBool::new(false), _lock: file })
            }
            Err(fs::TryLockError::WouldBlock) => Err(TrainError::Busy(path.into())),
            Err(fs::TryLockError::Error(e)) => Err(TrainError::io(&lock, e)),
        }
    }

    /// Opens the directory of a run that has begun, and locks it against other processes.
    ///
    /// # Errors
    /// If no run has begun there, or another process is writing to it.
    pub fn reopen(path: &Path) -> Result<Self> {
        if !Self::has_begun_in(path) && !path.is_file() {
            return Err(TrainError::run(path, RunProblem::NotBegun));
        }
        Self::open(path)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a run has begun here.
    pub fn has_begun(&self) -> bool {
        Self::has_begun_in(&self.path)
    }

    /// Whether a run has begun in a directory, whether it exists or not.
    fn has_begun_in(path: &Path) -> bool {
        [CONFIG, CHECKPOINTS].iter().any(|name| path.join(name).exists())
    }

    /// The configuration of the run that has begun here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn config(&self) -> Result<Config> {
        let file = self.path.join(CONFIG);
        let text = fs::read_to_string(&file).map_err(|e| TrainError::io(&file, e))?;
        Config::from_toml(&text).map_err(|e| TrainError::from(e).in_file(Some(&file)))
    }

    /// Whether the run in a directory has ended: its newest checkpoint has a reason for the end. A
    /// directory without checkpoints holds finished models.
    ///
    /// # Errors
    /// If there are checkpoints, and none is whole.
    pub fn is_finished(path: &Path) -> Result<bool> {
        let Some(newest) = checkpoint::newest(&path.join(CHECKPOINTS))? else { return Ok(true) };
        let state = newest.files.get("state.json").and_then(|text| serde_json::from_slice(text).ok());
        Ok(state.is_some_and(|state: serde_json::Value| !state["stop"].is_null()))
    }

    /// Writes a file; it is complete or not there.
    ///
    /// # Errors
    /// If it cannot be written; whatever stood there before is then untouched.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.written.store(true, Ordering::Relaxed);
        Ok(write_bytes(&self.path.join(name), bytes)?)
    }

    /// Removes all files that resuming does not need: the files of a finished run, and all
    /// checkpoints but the newest whole one. The rest is small enough to carry to another machine.
    ///
    /// # Errors
    /// If no checkpoint is whole, or something cannot be removed.
    pub fn trim(&self) -> Result<()> {
        let Some(newest) = checkpoint::newest(&self.checkpoints())? else { return Ok(()) };
        let kept = checkpoint::place(&self.checkpoints(), newest.number);
        for folder in entries(&self.checkpoints())?.into_iter().filter(|path| *path != kept) {
            fs::remove_dir_all(&folder).map_err(|e| TrainError::io(&folder, e))?;
        }
        let surplus = |name: &str| [MODEL, BEST, Report::FILE].contains(&name) || tensorboard::is_ours(name);
        for file in entries(&self.path)? {
            if file.file_name().and_then(|name| name.to_str()).is_some_and(surplus) {
                fs::remove_file(&file).map_err(|e| TrainError::io(&file, e))?;
            }
        }
        Ok(())
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    fn metrics(&self) -> PathBuf {
        self.path.join(METRICS)
    }

    /// Appends the line of an epoch.
    pub(crate) fn add_metrics(&self, line: &str) -> Result<()> {
        let file = self.metrics();
        let appended =
            File::options().create(true).append(true).open(&file).and_then(|mut f| f.write_all(line.as_bytes()));
        appended.map_err(|e| TrainError::io(&file, e))
    }

    /// The epochs so far; a last line that was cut off is left out.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn history(&self) -> Result<Vec<EpochRecord>> {
        let file = self.metrics();
        match fs::read_to_string(&file) {
            Ok(text) => Ok(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(TrainError::io(&file, e)),
        }
    }
}

/// The entries of a folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let all = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    all.map_err(|e| TrainError::io(folder, e))
}

impl Drop for RunDirectory {
    /// A directory that was made for a run which never began is not left behind.
    fn drop(&mut self) {
        if self.made_lock && !self.written.load(Ordering::Relaxed) {
            let _ = fs::remove_file(self.path.join(LOCK));
        }
        let Some(made) = self.made.as_ref().filter(|_| !self.has_begun()) else { return };
        let _ = fs::remove_file(self.path.join(LOCK));
        let folders = self.path.ancestors().take_while(|folder| folder.starts_with(made));
        // Up to the first folder that is in use meanwhile.
        let _ = folders.map(fs::remove_dir).find(|removed| removed.is_err());
    }
}
