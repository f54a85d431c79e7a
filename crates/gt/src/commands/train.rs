//! `gt train`

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use gt_graph::Split;
use gt_models::config::MetricForm;
use gt_models::{Config, PublishedSet};
use gt_reproduce::mean_and_deviation;
use gt_train::{Observer, Outcome, Prepared, Purpose, Report, Resident, RunDirectory, Scores, Stop, Trainer};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::config_args::{ConfigArgs, ConfigSource};
use super::configured_data::{ConfiguredData, set_data_file};
use super::data_notes::print_training_notes;
use crate::cache::{encoding_cache, fetched_zinc};
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
    #[arg(long, value_parser = super::seeds::parse_seed())]
    seed: Option<u64>,
    /// Train once with each of these seeds, and print mean and deviation; with --out, in folders
    /// named by the seed
    #[arg(long, value_delimiter = ',', value_name = "A,B,…", value_parser = super::seeds::parse_seed(), conflicts_with_all = ["seed", "resume"])]
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

/// A small model for the embedded CLUSTER set.
const EMBEDDED: &str = "[model]\nlayers = 6\nwidth = 64\nheads = 8\nencoding = \"laplacian\"\nencoding_size = 10\n\n[optimizer]\nlr = 1e-3\n\n\
                        [schedule]\nname = \"cosine\"\nmin_lr = 1e-5\nwarmup = 1\n\n[train]\nbatch = 16\nepochs = 36\n";

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

    /// Directory, configuration and name of the run to resume.
    fn reopen(&self, out: &Path) -> Result<PlannedRun> {
        let run = RunDirectory::reopen(out)?;
        let mut config = run.config()?;
        if let Some(data) = &self.data {
            set_data_file(&mut config, data)?;
        }
        Ok(PlannedRun { run, config, name: out.display().to_string() })
    }

    /// Directory, configuration and name of a new run, or of one per seed.
    fn begin(&self) -> Result<Vec<PlannedRun>> {
        let source = match (self.config.source()?, &self.data) {
            (Some(source), _) => source,
            (None, Some(_)) => ConfigSource::Text(""),
            (None, None) => ConfigSource::Text(EMBEDDED),
        };
        let mut config = source.load(self.config.settings())?;
        let name = match (&source, &self.data) {
            (ConfigSource::File(file), _) => file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            (ConfigSource::Preset(preset), _) => preset.name(),
            (ConfigSource::Text(_), Some(_)) => "run".to_owned(),
            (ConfigSource::Text(_), None) => "cluster-small".to_owned(),
        };
        if let Some(data) = &self.data {
            set_data_file(&mut config, data)?;
        }
        if let Some(seed) = self.seed {
            config.train.seed = seed;
        }
        let needs_zinc = matches!(&source, ConfigSource::Preset(preset) if preset.set == PublishedSet::Zinc);
        if let Some(file) = fetched_zinc().filter(|_| needs_zinc && config.data.file.is_empty()) {
            set_data_file(&mut config, &file)?;
        }
        ensure!(
            !config.data.file.is_empty() || matches!(source, ConfigSource::Text(_)),
            "there is no data: name a file by --data or data.file (gt data fetch zinc, gt data sbm pattern|cluster make the paper's)"
        );
        let seeds = if self.seeds.is_empty() { vec![config.train.seed] } else { self.seeds.clone() };
        super::seeds::check_distinct(&seeds)?;
        let prepare = |seed: u64| {
            let directory = match &self.out {
                Some(out) if self.seeds.is_empty() => out.clone(),
                Some(out) => out.join(seed.to_string()),
                None => choose_directory(&name, seed),
            };
            let run = RunDirectory::open(&directory)?;
            ensure!(
                !run.has_begun(),
                "{}: a run has begun there; resume it with --resume, or choose another --out",
                directory.display()
            );
            let mut config = config.clone();
            config.train.seed = seed;
            Ok(PlannedRun { run, config, name: name.clone() })
        };
        seeds.into_iter().map(prepare).collect()
    }

    /// Prints mean and deviation over the seeds, as papers report them.
    fn print_together(&self, data: &Prepared, done: &[Done]) -> Result<()> {
        let (mut scores, mut best) = (Map::new(), Map::new());
        let forms = data.form.shown();
        let mut text = format!("\n{} seeds   ({}{})\n", done.len(), data.metric.name(), result_name(data.form));
        for split in Split::ALL {
            let mean_of = |model: fn(&Outcome, Split) -> Option<&Scores>, form: MetricForm| {
                let values = done.iter().filter_map(|done| model(&done.outcome, split));
                let values: Vec<f64> = values.map(|scores| scores.metric.of(form)).collect();
                (!values.is_empty()).then(|| mean_and_deviation(&values))
            };
            let json_of = |model: fn(&Outcome, Split) -> Option<&Scores>| {
                let form = |form| mean_of(model, form).map(|(mean, sd)| json!({"mean": mean, "sd": sd}));
                Some(json!({"paper": form(MetricForm::Paper)?, "exact": form(MetricForm::Exact)?}))
            };
            scores.extend(json_of(Outcome::last_scores).map(|json| (split.name().to_owned(), json)));
            best.extend(json_of(Outcome::best_scores).map(|json| (split.name().to_owned(), json)));
            let model = match data.form {
                MetricForm::Exact => Outcome::best_scores,
                MetricForm::Paper => Outcome::last_scores,
            };
            let cells = forms.iter().filter_map(|form| mean_of(model, *form));
            let cells: String = cells.map(|(mean, sd)| format!(" {mean:10.4} ± {sd:.4}")).collect();
            if !cells.is_empty() {
                text += &format!("{:8}{cells}\n", split.name());
            }
        }
        if !self.json {
            return console::print(&text);
        }
        let seeds: Vec<u64> = done.iter().map(|done| done.seed).collect();
        console::print_json(&json!({"seeds": seeds, "metric": data.metric.name(), "last": scores, "best": best}))
    }

    fn print(&self, data: &Prepared, Done { run, parameters, outcome, report, .. }: &Done) -> Result<()> {
        let scores = |scores: &Scores| serde_json::to_value(scores.metric).unwrap_or(Value::Null);
        let last: Map<String, Value> =
            outcome.last.iter().map(|(split, of)| (split.name().to_owned(), scores(of))).collect();
        let best = outcome.best.as_ref().map(|best| BestLine {
            epoch: best.epoch,
            val: scores(&best.val),
            test: best.test.as_ref().map(scores),
        });
        if self.json {
            return console::print_json(&Line {
                run: run.display().to_string(),
                params: *parameters,
                epochs: outcome.epochs,
                stop: outcome.stop,
                s_per_epoch: outcome.seconds / outcome.epochs.max(1) as f64,
                metric: data.metric.name(),
                select: outcome.select,
                last: Value::Object(last),
                best,
                weights_sha256: outcome.weights.clone(),
                report: report.as_ref().map(|file| file.display().to_string()),
            });
        }
        let forms = data.form.shown();
        let mut text = format!("\n{}\n", outcome.stop.sentence());
        if let Some(best) = &outcome.best {
            text += &format!("The best {} on the validation split is that of epoch {}.\n", outcome.select, best.epoch);
        }
        let columns = |model: &str| -> String {
            let name = |form: &MetricForm| match (data.form, form) {
                (MetricForm::Exact, _) => format!("{model:>14}"),
                (_, MetricForm::Paper) => format!("{:>14}", format!("{model}, paper")),
                (_, MetricForm::Exact) => format!("{:>14}", format!("{model}, exact")),
            };
            forms.iter().map(name).collect()
        };
        text += &format!("{:8}{}{}   ({})\n", "", columns("last"), columns("best"), data.metric.name());
        for (split, last) in &outcome.last {
            let cells = [Some(last), outcome.best_scores(*split)].into_iter().flatten();
            let cells: String =
                cells.flat_map(|scores| forms.iter().map(|form| format!("{:14.4}", scores.metric.of(*form)))).collect();
            text += &format!("{:8}{cells}\n", split.name());
        }
        text += &format!("run: {}\n", run.display());
        if let Some(file) = report {
            text += &format!("report: {}\n", file.display());
        }
        console::print(&text)
    }
}

/// Which models the mean over seeds is about.
fn result_name(form: MetricForm) -> &'static str {
    match form {
        MetricForm::Exact => ", best models",
        MetricForm::Paper => ", last models; paper, exact",
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

/// A run that may begin or resume.
struct PlannedRun {
    run: RunDirectory,
    config: Config,
    name: String,
}

/// A run that finished without interruption.
struct Done {
    run: PathBuf,
    seed: u64,
    parameters: usize,
    outcome: Outcome,
    report: Option<PathBuf>,
}

/// The result as programs read it.
#[derive(Serialize)]
struct Line {
    run: String,
    params: usize,
    epochs: usize,
    stop: Stop,
    s_per_epoch: f64,
    metric: &'static str,
    /// The value that decides which model is the best.
    select: &'static str,
    last: Value,
    best: Option<BestLine>,
    weights_sha256: String,
    report: Option<String>,
}

#[derive(Serialize)]
struct BestLine {
    epoch: usize,
    val: Value,
    test: Option<Value>,
}

/// Writes the report and returns its path. A report that cannot be written is a warning: the run is
/// still valid.
fn write_report(
    run: &RunDirectory,
    data: &Prepared,
    config: &Config,
    parameters: usize,
    outcome: &Outcome,
) -> Option<PathBuf> {
    let report = Report::new(run, data, config, parameters, outcome);
    match report.and_then(|report| run.write(Report::FILE, report.to_html().as_bytes())) {
        Ok(()) => Some(run.path().join(Report::FILE)),
        Err(error) => {
            console::warn(&format!("there is no report: {error}"));
            None
        }
    }
}

/// The first directory for a run of this name that does not exist yet.
fn choose_directory(name: &str, seed: u64) -> PathBuf {
    let first = PathBuf::from("runs").join(format!("{name}-{seed}"));
    let others = (2..).map(|count| PathBuf::from("runs").join(format!("{name}-{seed}-{count}")));
    std::iter::once(first).chain(others).find(|path| !path.exists()).unwrap_or_else(|| PathBuf::from("runs"))
}
