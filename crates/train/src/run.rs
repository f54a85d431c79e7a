//! A run's directory: who may write it, its configuration, its metrics.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use gt_data::write_bytes;
use gt_models::Config;

use crate::error::{Result, TrainError};
use crate::training::EpochRecord;

/// A directory that this process alone writes to.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// Held as long as we live; the operating system lets go of it however we end.
    _lock: File,
}

impl RunDirectory {
    /// Makes the directory, or takes one that is there, and keeps others out.
    ///
    /// # Errors
    /// If it cannot be made or another process is writing to it.
    pub fn open(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(|e| TrainError::io(path, &e))?;
        let lock = path.join(".lock");
        let file = File::options().create(true).truncate(false).write(true).open(&lock);
        let file = file.map_err(|e| TrainError::io(&lock, &e))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path: path.into(), _lock: file }),
            Err(fs::TryLockError::WouldBlock) => Err(TrainError::run(path, "another process is training in it")),
            Err(fs::TryLockError::Error(e)) => Err(TrainError::io(&lock, &e)),
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a run has begun here.
    pub fn has_begun(&self) -> bool {
        self.path.join("config.toml").exists()
    }

    /// The configuration of the run that has begun here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn config(&self) -> Result<Config> {
        let file = self.path.join("config.toml");
        let text = fs::read_to_string(&file).map_err(|e| TrainError::io(&file, &e))?;
        Config::from_toml(&text).map_err(|e| TrainError::run(&file, e.to_string()))
    }

    /// Writes a file; it is complete or not there.
    ///
    /// # Errors
    /// If it cannot be written; whatever stood there before is then untouched.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        Ok(write_bytes(&self.path.join(name), bytes)?)
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoint")
    }

    fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// Appends an epoch.
    pub(crate) fn add_metrics(&self, record: &EpochRecord) -> Result<()> {
        let file = self.metrics();
        let line = serde_json::to_string(record).expect("a record is plain data") + "\n";
        let appended =
            File::options().create(true).append(true).open(&file).and_then(|mut f| f.write_all(line.as_bytes()));
        appended.map_err(|e| TrainError::io(&file, &e))
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
            Err(e) => Err(TrainError::io(&file, &e)),
        }
    }

    /// Leaves only the first epochs: those after the checkpoint are trained again.
    pub(crate) fn cut_metrics(&self, epochs: usize) -> Result<()> {
        let history = self.history()?;
        let kept = history.iter().filter(|record| record.epoch <= epochs);
        let text: String =
            kept.map(|record| serde_json::to_string(record).expect("a record is plain data") + "\n").collect();
        self.write("metrics.jsonl", text.as_bytes())
    }
}
