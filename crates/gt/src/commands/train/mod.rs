//! `gt train`

mod defaults;
mod planned;
mod result;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use gt_data::Dataset;
use gt_models::Config;
use gt_models::config::Encoding;
use gt_train::{FoldPredictions, Observer, Prepared, Purpose, Resident, Stop, Trainer};

use self::defaults::fill_defaults;
pub use self::planned::Plan;
use self::planned::{PlannedRun, Several};
use self::result::{Done, write_report};
use super::config_args::ConfigArgs;
use super::configured_data::ConfiguredData;
use super::data_args::DataArgs;
use super::data_notes::{join_notes, print_replaced_encodings, training_notes};
use crate::cache::encoding_cache;
use crate::console;
use crate::device::{DeviceChoice, PrecisionName};
use crate::interrupt::{Interrupted, interrupt};
use crate::progress::Progress;
use crate::understood::FileFacts;

/// Train a model. Without CONFIG, --preset and --data, a small CLUSTER set is generated and a small
/// model is trained on it, in about a minute.
#[derive(Args)]
#[command(
    after_help = "The data decides what is predicted: its targets, of graphs, nodes or edges. --target names other columns, and --task links predicts instead which nodes are joined. The options of columns set keys of the section `data`.\n\n\
Examples:\n  gt train --preset zinc   (after gt data fetch zinc)\n  gt train --data mine.jsonl --set model.layers=4 --out runs/mine\n  gt train --data mine.jsonl --folds 5 --out runs/mine-folds\n  \
gt train --data mine.jsonl --task regression --ignore edge_attr --out runs/numbers\n  \
gt train --data cora.parquet --task links --set model.layers=2 --set optimizer.lr=5e-3"
)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigArgs,
    /// Data set (Parquet, JSON lines, NAME_nodes.csv); overrules data.file
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Start with the weights of this model file or run: all whose names and shapes fit. Without
    /// CONFIG and --preset, section `model` is that of the model; overrules train.init
    #[arg(long, value_name = "MODEL", conflicts_with = "resume")]
    init: Option<PathBuf>,
    /// Which weights of --init: all that fit, or those of the encoder (all but the head);
    /// overrules train.init_layers
    #[arg(long, value_enum, value_name = "WHICH", requires = "init")]
    init_layers: Option<InitLayersName>,
    /// Seed of everything random; overrules train.seed
    #[arg(long, value_parser = crate::commands::seeds::parse_seed())]
    seed: Option<u64>,
    /// Train once with each of these seeds, and print mean and deviation; the runs are in folders
    /// of --out named by the seed
    #[arg(long, value_delimiter = ',', value_name = "A,B,…", value_parser = crate::commands::seeds::parse_seed(), conflicts_with_all = ["seed", "resume", "folds"])]
    seeds: Vec<u64>,
    /// Cross-validate: train K times, each time with another fold as the test part, in the folders
    /// fold-1 … fold-K of --out; print mean and deviation of the scores, and write
    /// out_of_fold.csv. The folds are those of the file (gt data split --folds K), or drawn from
    /// data.split_seed
    #[arg(long, value_name = "K", conflicts_with = "resume")]
    folds: Option<usize>,
    /// Train the seeds or folds in parallel, on one GPU or on the CPU's cores; the results equal
    /// those of sequential runs
    #[arg(long)]
    parallel: bool,
    /// Directory of the run, or of the folders of the runs [default: runs/NAME-SEED,
    /// runs/NAME-seeds or runs/NAME-folds, counted up]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Resume the run in --out with the run's config.toml and data, or all runs of --seeds or
    /// --folds there; --data names a new location of the data
    #[arg(long, requires = "out", conflicts_with_all = ["config", "preset", "set", "seed", "task", "target", "features", "ignore", "categorical", "continuous"])]
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
    #[command(flatten)]
    columns: DataArgs,
}

/// Weights to start with.
#[derive(Clone, Copy, ValueEnum)]
enum InitLayersName {
    All,
    Encoder,
}

/// Data that is ready for training, where the device can reach it.
struct PlacedData {
    data: Prepared,
    resident: Resident,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let mut plan = match &self.out {
            Some(out) if self.resume => self.reopen(out)?,
            _ => self.begin()?,
        };
        ensure!(!self.parallel || plan.several.is_some(), "--parallel is for several runs: pass --seeds or --folds");
        let ConfiguredData { dataset, file } = ConfiguredData::load(&plan.runs[0].config)?;
        fill_defaults(&mut plan, &dataset)?;
        let file = file.as_deref();
        let interrupt = interrupt();
        match plan.several {
            None => {
                let placed = self.prepare(dataset, file, &plan, &plan.runs[0].config)?;
                self.print(&self.train(&plan, &plan.runs[0], &placed, &interrupt)?)
            }
            Some(Several::Seeds) => {
                let placed = self.prepare(dataset, file, &plan, &plan.runs[0].config)?;
                self.train_all(&plan, &interrupt, |run| self.train(&plan, run, &placed, &interrupt))
            }
            // Every fold has its own split, and so its own labels and scaling.
            Some(Several::Folds) => {
                print_notes_of_folds(&dataset, file, &plan)?;
                self.train_all(&plan, &interrupt, |run| {
                    let placed = self.prepare(dataset.clone(), file, &plan, &run.config)?;
                    self.train(&plan, run, &placed, &interrupt)
                })
            }
        }
    }

    /// Trains all runs of a plan, and prints each result and their means.
    fn train_all(
        &self,
        plan: &Plan,
        interrupt: &AtomicBool,
        train: impl Fn(&PlannedRun) -> Result<Done> + Sync,
    ) -> Result<()> {
        let ended: Vec<Result<Done>> = if self.parallel {
            std::thread::scope(|scope| {
                let train = &train;
                let start = |run| std::thread::Builder::new().spawn_scoped(scope, move || train(run));
                let threads: Vec<_> = plan.runs.iter().map(start).collect();
                let end = |thread: io::Result<ScopedJoinHandle<'_, Result<Done>>>| match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    Err(error) => Err(anyhow!("cannot start a thread: {error}; leave out --parallel")),
                };
                threads.into_iter().map(end).collect()
            })
        } else {
            let wanted = plan.runs.iter().take_while(|_| !interrupt.load(Ordering::Relaxed));
            wanted.map(train).collect()
        };
        let (mut done, mut broken) = (Vec::new(), Vec::new());
        ended.into_iter().for_each(|run| match run {
            Ok(run) => done.push(run),
            Err(error) => broken.push(error),
        });
        done.iter().try_for_each(|done| self.print(done))?;
        match broken.into_iter().find(|error| !error.is::<Interrupted>()) {
            Some(error) => Err(error),
            None if done.len() < plan.runs.len() => Err(Interrupted(self.to_resume(&plan.out)).into()),
            None => self.print_together(plan, &done),
        }
    }

    /// Makes the data ready for a run, and prints what a training should know.
    fn prepare(&self, dataset: Dataset, file: Option<&Path>, plan: &Plan, config: &Config) -> Result<PlacedData> {
        let (has_targets, facts) = (dataset.schema().target.is_some(), FileFacts::new(&dataset, config.data.rare));
        let config = from_copied_init(plan, config);
        let data = Prepared::for_training(dataset, &config, encoding_cache().as_ref());
        let data = data.map_err(|e| e.in_file(file))?;
        if plan.several != Some(Several::Folds) {
            training_notes(&data, &facts, has_targets).iter().for_each(|line| console::say!("{line}"));
        }
        if plan.several != Some(Several::Folds) || config.data.fold == Some(1) {
            print_replaced_encodings(&data);
        }
        let device = self.device.device(self.precision)?;
        let placed = self.device.or_cpu(data.place(&device), |note| console::say!("{note}"))?;
        Ok(PlacedData { data, resident: placed.unwrap_or(Resident::Cpu) })
    }

    /// One run to its end.
    fn train(
        &self,
        plan: &Plan,
        PlannedRun { run, config, name, label }: &PlannedRun,
        PlacedData { data, resident }: &PlacedData,
        interrupt: &AtomicBool,
    ) -> Result<Done> {
        let mut progress = Progress::new(name, config, data, label.clone(), self.parallel);
        let on_gpu = match resident.is_gpu() {
            true => {
                self.device.or_cpu(resident.backend(data, config, Purpose::Training), |note| progress.note(note))?
            }
            false => None,
        };
        match &on_gpu {
            Some(_) => data.ensure_memory_on_gpu()?,
            None => data.ensure_memory(config, if self.parallel { plan.runs.len() } else { 1 })?,
        }
        let (device, backend) = match on_gpu {
            Some(backend) => (backend.name().to_owned(), backend),
            None => {
                let threads = format!("{} threads of the CPU", rayon::current_num_threads());
                (threads, Resident::Cpu.backend(data, config, Purpose::Training)?)
            }
        };
        plan.list_members()?;
        let trainer = Trainer::new(data, config, run, backend, &mut progress)?;
        let parameters = trainer.parameters();
        progress.start(parameters, &device);
        let outcome = trainer.run(interrupt, &mut progress);
        progress.finish();
        let outcome = outcome?;
        let report = write_report(run, data, config, parameters, &outcome);
        if outcome.stop == Stop::Interrupted {
            return Err(Interrupted(self.to_resume(run.path())).into());
        }
        let tested = config.data.fold.and_then(|fold| FoldPredictions::new(data, &outcome, fold));
        Ok(Done {
            run: run.path().to_owned(),
            seed: config.train.seed,
            metric: data.metric,
            form: data.form,
            parameters,
            outcome,
            report,
            selecting: config.train.select.metric(),
            tested,
        })
    }

    /// The command that resumes a run, or all runs of a folder, as they were begun.
    fn to_resume(&self, run: &Path) -> String {
        let mut words = ["train", "--resume", "--out"].map(OsString::from).to_vec();
        words.push(run.into());
        if self.parallel {
            words.push("--parallel".into());
        }
        if self.device != DeviceChoice::Auto {
            words.extend(["--device".into(), self.device.to_string().into()]);
        }
        if self.precision != PrecisionName::F32 {
            words.extend(["--precision".into(), self.precision.precision().name().into()]);
        }
        console::command(words)
    }
}

/// The configuration of a run. A resumed run reads the copy of the model that was made when the
/// first run began.
fn from_copied_init<'a>(plan: &Plan, config: &'a Config) -> Cow<'a, Config> {
    let mut config = Cow::Borrowed(config);
    if let Some(init) = plan.runs.iter().find_map(|planned| planned.run.init()) {
        config.to_mut().train.init = init.to_string_lossy().into_owned();
    }
    config
}

/// Prints what a training should know about the data of each fold, before the first fold is
/// trained.
fn print_notes_of_folds(dataset: &Dataset, file: Option<&Path>, plan: &Plan) -> Result<()> {
    let mut folds = Vec::new();
    for run in &plan.runs {
        let mut config = from_copied_init(plan, &run.config).into_owned();
        let facts = FileFacts::new(dataset, config.data.rare);
        // Notes need no encodings, and show the numbers of the file.
        config.model.encoding = Encoding::None;
        config.data.standardize_inputs = false;
        config.train.freeze.clear();
        let data = Prepared::for_training(dataset.clone(), &config, None).map_err(|e| e.in_file(file))?;
        folds.push((config.data.fold.unwrap_or_default(), training_notes(&data, &facts, true)));
    }
    join_notes(&folds, "fold").iter().for_each(|line| console::say!("{line}"));
    Ok(())
}
