//! Runs as tests need them.

#![allow(dead_code)] // Not every file of tests uses everything.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use graph_transformer_train::{EpochRecord, Observer, Outcome, RunDirectory, Task, Training};
use gt_data::Dataset;
use gt_models::Config;

/// Interrupts after a number of batches.
pub struct Interrupter<'a> {
    pub flag: &'a AtomicBool,
    pub after: usize,
    pub notes: Vec<String>,
    pub epochs: Vec<EpochRecord>,
}

impl Observer for Interrupter<'_> {
    fn batch(&mut self, _: usize, _: usize, _: usize, _: f64) {
        self.after = self.after.saturating_sub(1);
        if self.after == 0 {
            self.flag.store(true, Ordering::Relaxed);
        }
    }

    fn epoch(&mut self, record: &EpochRecord) {
        self.epochs.push(record.clone());
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// One sitting; interrupted after some batches, if any.
pub fn sit(
    dataset: &Dataset,
    config: &Config,
    folder: &Path,
    after: usize,
) -> (Outcome, Vec<String>, Vec<EpochRecord>) {
    let task = Task::new(dataset, config, None).unwrap();
    let run = RunDirectory::open(folder).unwrap();
    let flag = AtomicBool::new(false);
    let after = if after == 0 { usize::MAX } else { after };
    let mut observer = Interrupter { flag: &flag, after, notes: vec![], epochs: vec![] };
    let training = Training::new(&task, config, &run, &mut observer).unwrap();
    let outcome = training.run(&flag, &mut observer).unwrap();
    (outcome, observer.notes, observer.epochs)
}

/// Bytes of a file of a run.
pub fn file(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}
