//! `gt train`

mod planned;
mod result;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Result, anyhow};
use clap::Args;
use gt_train::{Observer, Prepared, Purpose, Resident, Stop, Trainer};

use self::planned::PlannedRun;
use self::result::{Done, write_report};
use super::config_args::ConfigArgs;
use super::configured_data::ConfiguredData;
use super::data_notes::print_training_notes;
use crate::cache::encoding_cache;
use crate::console;
use crate::device::{DeviceChoice, PrecisionName};
use crate::interrupt::{Interrupted, interrupt};
use crate::progress::Progress;

/// Train a model. Without CONFIG, --preset and --data, a small CLUSTER set is generated and a small
/// model is trained on it, in about a minute.
#[derive(Args)]
#[command(
    after_help = "The data decides what is predicted: its targets, of graphs, nodes or edges. --set data.task=links predicts instead which nodes are joined.\n\n\
Examples:\n  gt train --preset zinc   (after gt data fetch zinc)\n  gt train --data mine.jsonl --set model.layers=4 --out runs/mine\n  \
gt train --data cora.parquet --set data.task=links --set model.layers=2 --set optimizer.lr=5e-3"
)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigArgs,
    /// Data set (Parquet, JSON lines, NAME_nodes.csv); overrules data.file
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Seed of everything random; overrules train.seed
    #[arg(long, value_parser = crate::commands::seeds::parse_seed())]
    seed: Option<u64>,
    /// Train once with each of these seeds, and print mean and deviation; with --out, in folders
    /// named by the seed
    #[arg(long, value_delimiter = ',', value_name = "A,B,…", value_parser = crate::commands::seeds::parse_seed(), conflicts_with_all = ["seed", "resume"])]
    seeds: Vec<u64>,
    /// Train the seeds in parallel, on one GPU or on the CPU's cores; the results equal those of
    /// sequential runs
    #[arg(long, requires = "seeds")]
    parallel: bool,
    /// Directory of the run [default: runs/NAME-SEED, counted up]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Resume the run in --out with the run's config.toml and data; --data names a new location of
    /// the data
    #[arg(long, requires = "out", conflicts_with_all = ["config", "preset", "set", "seed"])]
    resume: bool,
    /// Where to compute: auto (a CUDA GPU if one is usable), cpu, cuda or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Precision of products on a GPU
    #[arg(long, value_enum, default_value = "f32")]
    precision: PrecisionName,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let mut runs = match &self.out {
            Some(out) if self.resume => vec![self.reopen(out)?],
            _ => self.begin()?,
        };
        let config = &runs[0].config;
        let ConfiguredData { dataset, file } = ConfiguredData::load(config)?;
        let has_targets = dataset.schema().target.is_some();
        let cache = encoding_cache();
        let data = Prepared::for_training(dataset, config, cache.as_ref()).map_err(|e| e.in_file(file.as_deref()))?;
        print_training_notes(&data, data.links.is_some() && has_targets);
        let interrupt = interrupt();
        let resident = self.place(&data)?;
        if self.seeds.is_empty() {
            return self.print(&data, &self.train(&runs.remove(0), &data, &resident, &interrupt)?);
        }
        let ended: Vec<Result<Done>> = if self.parallel {
            std::thread::scope(|scope| {
                let (this, data, resident, interrupt) = (&self, &data, &resident, &*interrupt);
                let threads: Vec<_> =
                    runs.iter().map(|run| scope.spawn(move || this.train(run, data, resident, interrupt))).collect();
                threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(anyhow!("a training broke off")))).collect()
            })
        } else {
            runs.iter().map(|run| self.train(run, &data, &resident, &interrupt)).collect()
        };
        let (mut done, mut broken) = (Vec::new(), Vec::new());
        ended.into_iter().for_each(|run| match run {
            Ok(run) => done.push(run),
            Err(error) => broken.push(error),
        });
        done.iter().try_for_each(|done| self.print(&data, done))?;
        match broken_off(broken) {
            Some(error) => Err(error),
            None => self.print_together(&data, &done),
        }
    }

    /// One run to its end.
    fn train(
        &self,
        PlannedRun { run, config, name }: &PlannedRun,
        data: &Prepared,
        resident: &Resident,
        interrupt: &AtomicBool,
    ) -> Result<Done> {
        let label = (!self.seeds.is_empty()).then(|| format!("seed {}: ", config.train.seed));
        let mut progress = Progress::new(name, config, data, label, self.parallel);
        let on_gpu = match resident.is_gpu() {
            true => {
                self.device.or_cpu(resident.backend(data, config, Purpose::Training), |note| progress.note(note))?
            }
            false => None,
        };
        data.ensure_memory(on_gpu.is_some())?;
        let (device, backend) = match on_gpu {
            Some(backend) => (backend.name().to_owned(), backend),
            None => {
                let threads = format!("{} threads of the CPU", rayon::current_num_threads());
                (threads, Resident::Cpu.backend(data, config, Purpose::Training)?)
            }
        };
        let trainer = Trainer::new(data, config, run, backend, &mut progress)?;
        // Only now is it known that a run can resume with it.
        run.write("config.toml", config.to_toml().as_bytes())?;
        let parameters = trainer.parameters();
        progress.start(parameters, &device);
        let outcome = trainer.run(interrupt, &mut progress);
        progress.finish();
        let outcome = outcome?;
        let report = write_report(run, data, config, parameters, &outcome);
        if outcome.stop == Stop::Interrupted {
            return Err(Interrupted(self.to_resume(run.path())).into());
        }
        Ok(Done { run: run.path().to_owned(), seed: config.train.seed, parameters, outcome, report })
    }

    /// The command that resumes a run as it was begun.
    fn to_resume(&self, run: &Path) -> String {
        let mut words = ["train", "--resume", "--out"].map(OsString::from).to_vec();
        words.push(run.into());
        if self.device != DeviceChoice::Auto {
            words.extend(["--device".into(), self.device.to_string().into()]);
        }
        if self.precision != PrecisionName::F32 {
            words.extend(["--precision".into(), self.precision.precision().name().into()]);
        }
        console::command(words)
    }

    /// The data where the device can reach it, for all seeds.
    fn place(&self, data: &Prepared) -> Result<Resident> {
        let device = self.device.device(self.precision)?;
        let placed = self.device.or_cpu(data.place(&device), |note| console::say!("{note}"))?;
        Ok(placed.unwrap_or(Resident::Cpu))
    }
}

/// The error if not all seeds finished: the first failure, or the commands that resume the
/// interrupted runs.
fn broken_off(errors: Vec<anyhow::Error>) -> Option<anyhow::Error> {
    let lines = errors.iter().filter_map(|error| error.downcast_ref::<Interrupted>()).map(|Interrupted(line)| &**line);
    let lines = lines.collect::<Vec<_>>().join("`, `");
    let interrupted = (!lines.is_empty()).then(|| Interrupted(lines).into());
    errors.into_iter().find(|error| !error.is::<Interrupted>()).or(interrupted)
}
