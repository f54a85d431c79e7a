//! Watches a training through an observer, and stops as soon as the validation loss is low enough.
//!
//! `cargo run --release --example custom_loop`

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

use graph_transformer::data::{SbmSet, SbmSizes};
use graph_transformer::models::Config;
use graph_transformer::nn::backend::Device;
use graph_transformer::train::{EpochRecord, Observer, Prepared, Purpose, RunDirectory, Trainer};

/// Prints every epoch, and stops at a validation loss.
struct StopAt<'a> {
    loss: f64,
    stop: &'a AtomicBool,
}

impl Observer for StopAt<'_> {
    fn epoch(&mut self, record: &EpochRecord) {
        println!("epoch {:2}: validation loss {:.4}", record.epoch, record.val.loss.exact);
        if record.val.loss.exact < self.loss {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dataset = SbmSet::Cluster.generate(41, SbmSizes { train: 60, val: 20, test: 20 })?;
    let config = Config::from_toml(
        "[model]\nlayers = 2\nwidth = 16\nheads = 4\nencoding = \"laplacian\"\nencoding_size = 6\n\
         [optimizer]\nlr = 5e-3\n[train]\nbatch = 10\nepochs = 12",
    )?;
    let data = Prepared::for_training(dataset, &config, None)?;
    let backend = data.place(&Device::Cpu)?.backend(&data, &config, Purpose::Training)?;

    let folder = tempfile::tempdir()?;
    let run = RunDirectory::open(folder.path())?;
    let stop = AtomicBool::new(false);
    let mut observer = StopAt { loss: 1.6, stop: &stop };
    let outcome = Trainer::new(&data, &config, &run, backend, &mut observer)?.run(&stop, &mut observer)?;
    println!("{} after {} epochs", outcome.stop.sentence(), outcome.epochs);
    Ok(())
}
