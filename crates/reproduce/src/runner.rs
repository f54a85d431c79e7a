//! Trains the runs of a plan, several in parallel. A run's result does not depend on the others.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gt_nn::backend::Device;
use gt_nn::cuda::{CudaDevice, Precision};
use gt_train::{EpochRecord, Machine, Observer, Purpose, RunDirectory, Stop, TrainError, Trainer};

use crate::clock::Clock;
use crate::error::{ReproduceError, Result};
use crate::event::{RunEvent, RunsProgress};
use crate::limits::Limits;
use crate::paper::Paper;
use crate::plan::{Job, move_run};
use crate::record::{Record, ResultsFolder, RunContext, Sitting};
use crate::shared_data::{PreparedData, SharedData};

/// Least time between two epochs that a run reports.
const EPOCH_INTERVAL: Duration = Duration::from_secs(15);
/// File with the sittings of an unfinished run.
const SITTINGS: &str = "sittings.json";
/// The device of runs on the CPU, as records name it.
const CPU: &str = "CPU";

/// What all runs of a plan share.
pub struct Runner<'a> {
    /// Where records and unfinished runs lie.
    pub folder: &'a ResultsFolder,
    /// The data sets.
    pub data: &'a SharedData,
    /// The printed numbers.
    pub paper: &'a Paper,
    /// When to stop.
    pub limits: &'a Limits,
    /// Number of the CUDA device; none for the CPU.
    pub gpu: Option<usize>,
    /// Precision of products on a GPU.
    pub precision: Precision,
    /// Folder for compiled kernels.
    pub kernel_cache: Option<PathBuf>,
    /// Number of parallel runs.
    pub jobs: usize,
    /// Settings that differ from the published configurations, for the records.
    pub settings: Vec<String>,
    /// Whether the directories of finished runs are kept.
    pub keep_runs: bool,
    /// Version of the program, for the records.
    pub version: String,
    /// Called with everything that happens, from several threads.
    pub observe: &'a (dyn Fn(RunEvent<'_>) + Sync),
}

/// Outcome of each run of a plan, by name.
#[derive(Default)]
pub struct PlanOutcome {
    /// Runs that are finished.
    pub finished: Vec<String>,
    /// Runs that are left, whether they have begun or not.
    pub left: Vec<String>,
    /// Runs that another process is training, or has just finished.
    pub elsewhere: Vec<String>,
    /// Runs that failed, and why.
    pub failed: Vec<(String, ReproduceError)>,
}

/// How a run ended.
enum RunEnd {
    Finished(Box<Record>),
    Stopped,
    Elsewhere,
}

impl Runner<'_> {
    /// Trains the runs in their order, until all are finished or a limit is reached.
    /// A run that fails does not stop the others.
    pub fn run(&self, jobs: &[Job]) -> PlanOutcome {
        let all: f64 = jobs.iter().map(|job| job.estimate).sum();
        let (queue, state) = (Mutex::new(jobs.iter()), Mutex::new((PlanOutcome::default(), 0.0)));
        let (clock, start) = (Clock::new(), Instant::now());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            while let Some(job) = next() {
                let end = match self.limits.is_reached() {
                    true => Ok(RunEnd::Stopped),
                    false => catch_panic(|| self.train_run(job, &clock)),
                };
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let (outcome, done) = &mut *state;
                match end {
                    Ok(RunEnd::Finished(record)) => {
                        outcome.finished.push(job.name());
                        *done += job.estimate;
                        let progress = RunsProgress {
                            finished: outcome.finished.len(),
                            planned: jobs.len(),
                            seconds_left: start.elapsed().as_secs_f64() * (all - *done) / *done,
                        };
                        let paper = self.paper.cell(&record.preset).map(|cell| cell.test);
                        (self.observe)(RunEvent::Finished { record: &record, paper, progress });
                    }
                    Ok(RunEnd::Stopped) => outcome.left.push(job.name()),
                    Ok(RunEnd::Elsewhere) => outcome.elsewhere.push(job.name()),
                    Err(error) => {
                        (self.observe)(RunEvent::Failed { run: &job.name(), error: &error });
                        outcome.failed.push((job.name(), error));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            // Where the system starts no more threads, fewer runs are parallel.
            (1..self.jobs.min(jobs.len())).for_each(|_| {
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            });
            work();
        });
        state.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    /// One run, from the beginning or from its checkpoint.
    fn train_run(&self, job: &Job, clock: &Clock) -> Result<RunEnd> {
        let name = job.name();
        let path = self.folder.unfinished(&name);
        let run = match RunDirectory::open(&path) {
            Ok(run) => run,
            Err(TrainError::Busy(_)) => return Ok(RunEnd::Elsewhere),
            // Another process has finished the run, and is removing its directory.
            Err(_) if self.folder.record(&name).exists() => return Ok(RunEnd::Elsewhere),
            Err(error) => return Err(error.into()),
        };
        // Another process may have finished the run since the plan was made.
        if self.folder.record(&name).exists() {
            return Ok(RunEnd::Elsewhere);
        }
        let prepared = self.data.prepare(&job.cell, &job.config)?;
        if self.limits.is_interrupted() {
            return Ok(RunEnd::Stopped);
        }
        let PreparedData { data, used, .. } = &*prepared;
        let mut config = job.config.clone();
        config.data.file.clone_from(&used.name);
        let device = self.open_device()?;
        let backend = prepared.place(&device)?.backend(data, &config, Purpose::Training)?;
        let halt = AtomicBool::new(false);
        let mut watch = RunWatch {
            run: &name,
            metric: data.metric.name(),
            limits: self.limits,
            halt: &halt,
            reported: None,
            observe: self.observe,
        };
        let trainer = Trainer::new(data, &config, &run, backend, &mut watch)?;
        let (device, precision) = match &device {
            Device::Cuda { device, precision, .. } => (device.name(), *precision),
            Device::Cpu => (CPU, Precision::F32),
        };
        let parameters = trainer.parameters();
        let (graphs, epochs) = (data.graphs.len(), config.train.epochs);
        (self.observe)(RunEvent::Started { run: &name, graphs, parameters, epochs, device });
        let mut sittings = Sittings::open(&run, self.begin_sitting(device, precision))?;
        let at_work = clock.begin();
        let outcome = trainer.run(&halt, &mut watch)?;
        sittings.count(outcome.seconds, at_work.share());
        drop(at_work);
        if outcome.stop == Stop::Interrupted {
            sittings.write(&run)?;
            run.trim()?;
            return Ok(RunEnd::Stopped);
        }
        let context = RunContext {
            cell: job.cell.clone(),
            seed: job.seed,
            changes: self.settings.clone(),
            data: used.clone(),
            parameters,
            metric: data.metric.name(),
            sittings: sittings.0,
            version: self.version.clone(),
            config: serde_json::to_value(&config)?,
        };
        let record = Record::new(context, &outcome, &run.history()?)?;
        self.folder.write(&record, &name)?;
        self.put_away(run, &path, &name)?;
        Ok(RunEnd::Finished(Box::new(record)))
    }

    /// The device of all runs.
    fn open_device(&self) -> Result<Device> {
        let Some(number) = self.gpu else { return Ok(Device::Cpu) };
        let device = CudaDevice::open(number).map_err(TrainError::Device)?;
        Ok(Device::Cuda { device, precision: self.precision, cache: self.kernel_cache.clone() })
    }

    fn begin_sitting(&self, device: &str, precision: Precision) -> Sitting {
        Sitting {
            device: device.to_owned(),
            precision: precision.name().to_owned(),
            jobs: self.jobs,
            seconds: 0.0,
            device_seconds: 0.0,
            machine: Machine::here(),
        }
    }

    /// Removes the directory of a run that has its record, or moves it to the kept ones.
    fn put_away(&self, run: RunDirectory, path: &Path, name: &str) -> Result<()> {
        if !self.keep_runs {
            // Another process may be looking at the directory; the next plan removes what is left.
            let _ = fs::remove_dir_all(path);
            return Ok(());
        }
        let moved = move_run(path, &self.folder.kept(name));
        drop(run);
        moved
    }
}

/// Turns a panic of one run into an error, so that the other runs continue.
fn catch_panic(run: impl FnOnce() -> Result<RunEnd>) -> Result<RunEnd> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(ReproduceError::Panicked))
}

/// The sittings of a run so far; the present one is the last.
struct Sittings(Vec<Sitting>);

impl Sittings {
    /// Continues the list in the run's directory. A damaged list is replaced: it is worth less than
    /// the run.
    fn open(run: &RunDirectory, now: Sitting) -> Result<Self> {
        let text = fs::read(run.path().join(SITTINGS)).unwrap_or_default();
        let mut all = Self(serde_json::from_slice(&text).unwrap_or_default());
        let before = all.0.last().map_or((0.0, 0.0), |last| (last.seconds, last.device_seconds));
        all.0.push(Sitting { seconds: before.0, device_seconds: before.1, ..now });
        all.write(run)?;
        Ok(all)
    }

    /// Sets the seconds of the run so far; `share` of the new ones are device seconds.
    fn count(&mut self, seconds: f64, share: f64) {
        if let Some(now) = self.0.last_mut() {
            now.device_seconds += (seconds - now.seconds).max(0.0) * share;
            now.seconds = seconds;
        }
    }

    fn write(&self, run: &RunDirectory) -> Result<()> {
        Ok(run.write(SITTINGS, &serde_json::to_vec(&self.0)?)?)
    }
}

/// Reports a run to the caller, and stops the run at the limits.
struct RunWatch<'a> {
    run: &'a str,
    metric: &'static str,
    limits: &'a Limits,
    halt: &'a AtomicBool,
    /// When the last epoch was reported.
    reported: Option<Instant>,
    observe: &'a (dyn Fn(RunEvent<'_>) + Sync),
}

impl Observer for RunWatch<'_> {
    fn batch(&mut self, _: usize, _: usize, _: usize, _: f64) {
        if self.limits.is_exceeded() {
            self.halt.store(true, Ordering::Relaxed);
        }
    }

    fn epoch(&mut self, record: &EpochRecord) {
        if self.limits.is_reached() {
            self.halt.store(true, Ordering::Relaxed);
        }
        if self.reported.is_none_or(|at| at.elapsed() >= EPOCH_INTERVAL) {
            self.reported = Some(Instant::now());
            (self.observe)(RunEvent::Epoch { run: self.run, metric: self.metric, record });
        }
    }

    fn note(&mut self, text: &str) {
        (self.observe)(RunEvent::Note { run: self.run, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_time_is_counted_over_all_sittings() {
        let sitting = |seconds, device_seconds| Sitting {
            device: "H200".into(),
            precision: "f32".into(),
            jobs: 2,
            seconds,
            device_seconds,
            machine: Machine::here(),
        };
        let mut sittings = Sittings(vec![sitting(0.0, 0.0)]);
        sittings.count(10.0, 1.0);
        sittings.0.push(sitting(10.0, 10.0));
        sittings.count(18.0, 0.5);
        let last = sittings.0.last().unwrap();
        assert_eq!((last.seconds, last.device_seconds), (18.0, 14.0));
    }
}
