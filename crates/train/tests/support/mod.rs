//! Runs as tests need them.

#![allow(dead_code)] // Not every file of tests uses everything.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use graph_transformer_train::{EpochRecord, Observer, Outcome, Prepared, Purpose, Resident, RunDirectory, Trainer};
use gt_data::Dataset;
use gt_models::{Config, Model};
use gt_nn::backend::Backend;

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

/// A data set, ready for training.
pub fn prepare(dataset: &Dataset, config: &Config) -> Prepared {
    Prepared::for_training(dataset.clone(), config, None).unwrap()
}

/// A network on the CPU.
pub fn cpu<'a>(data: &'a Prepared, config: &Config) -> Box<dyn Backend + 'a> {
    Resident::Cpu.backend(data, config, Purpose::Training).unwrap()
}

/// The last model of a run.
pub fn last_model(folder: &Path) -> Model {
    Model::open(folder.join("model.safetensors")).unwrap()
}

/// One sitting; interrupted after some batches, if any.
pub fn sit(
    dataset: &Dataset,
    config: &Config,
    folder: &Path,
    after: usize,
) -> (Outcome, Vec<String>, Vec<EpochRecord>) {
    let data = prepare(dataset, config);
    let run = RunDirectory::open(folder).unwrap();
    let flag = AtomicBool::new(false);
    let after = if after == 0 { usize::MAX } else { after };
    let mut observer = Interrupter { flag: &flag, after, notes: vec![], epochs: vec![] };
    let trainer = Trainer::new(&data, config, &run, cpu(&data, config), &mut observer).unwrap();
    let outcome = trainer.run(&flag, &mut observer).unwrap();
    (outcome, observer.notes, observer.epochs)
}

/// Bytes of a file of a run.
pub fn file(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}
