//! The runs, several side by side. What one of them does depends on nothing that runs beside it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use gt_nn::cuda::Precision;
use gt_train::{Card, EpochRecord, Machine, Observer, RunDirectory, Stop, TrainError, Training};

use super::clock::Clock;
use super::data::{Data, Ready};
use super::limits::Limits;
use super::page::counted;
use super::paper::Paper;
use super::plan::{Job, put_away};
use super::record::{Folder, Made, Record, Sitting};
use crate::cache::kernel_cache;
use crate::console;
use crate::device::DeviceChoice;
use crate::progress::Progress;

/// How often a run tells of its epochs.
const TELLING: Duration = Duration::from_secs(15);
/// The sittings of an unfinished run.
const SITTINGS: &str = "sittings.json";

/// Everything that runs share.
pub struct Runner<'a> {
    pub folder: &'a Folder,
    pub data: &'a Data,
    pub paper: &'a Paper,
    pub limits: &'a Limits,
    pub device: DeviceChoice,
    pub precision: Precision,
    /// Runs side by side.
    pub jobs: usize,
    pub settings: Vec<String>,
    /// Whether the directories of finished runs are kept.
    pub keep_runs: bool,
}

/// What became of a call.
#[derive(Default)]
pub struct Outcome {
    pub finished: Vec<String>,
    /// Runs that are left, begun or not.
    pub left: Vec<String>,
    /// Runs that another process is at, or has made since the plan was.
    pub elsewhere: Vec<String>,
    /// Runs that could not be made, and why.
    pub failed: Vec<(String, String)>,
}

/// How a run ended.
enum End {
    Finished(Box<Record>),
    Stopped,
    Elsewhere,
}

impl Runner<'_> {
    /// Makes the runs, in their order, until all are made or the limits are reached. One that fails does not keep the others from being made.
    pub fn run(&self, jobs: &[Job]) -> Outcome {
        let all: f64 = jobs.iter().map(|job| job.estimate).sum();
        let (queue, state) = (Mutex::new(jobs.iter()), Mutex::new((Outcome::default(), 0.0)));
        let (clock, start) = (Clock::new(), Instant::now());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            while let Some(job) = next() {
                let end = if self.limits.reached() { Ok(End::Stopped) } else { guarded(|| self.one(job, &clock)) };
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let (outcome, done) = &mut *state;
                match end {
                    Ok(End::Finished(record)) => {
                        outcome.finished.push(job.name());
                        *done += job.estimate;
                        let left = start.elapsed().as_secs_f64() * (all - *done) / *done;
                        self.tell(&record, outcome.finished.len(), jobs.len(), left);
                    }
                    Ok(End::Stopped) => outcome.left.push(job.name()),
                    Ok(End::Elsewhere) => outcome.elsewhere.push(job.name()),
                    Err(error) => {
                        console::say!("{}: failed: {error:#}", job.name());
                        outcome.failed.push((job.name(), format!("{error:#}")));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            (0..self.jobs.clamp(1, jobs.len().max(1))).for_each(|_| {
                scope.spawn(work);
            });
        });
        state.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    /// One run, from the beginning or from where it stands.
    fn one(&self, job: &Job, clock: &Clock) -> Result<End> {
        let name = job.name();
        let path = self.folder.unfinished(&name);
        let run = match RunDirectory::open(&path) {
            Ok(run) => run,
            Err(TrainError::Busy(_)) => return Ok(End::Elsewhere),
            // It is being put away.
            Err(_) if self.folder.record(&name).exists() => return Ok(End::Elsewhere),
            Err(error) => return Err(error.into()),
        };
        // Another process may have made it since the plan was.
        if self.folder.record(&name).exists() {
            return Ok(End::Elsewhere);
        }
        let ready = self.data.ready(&job.cell, &job.config)?;
        if self.limits.interrupted() {
            return Ok(End::Stopped);
        }
        let Ready { task, used, .. } = &*ready;
        let mut config = job.config.clone();
        config.data.file.clone_from(&used.name);
        let device = self.device.open()?;
        let card = match &device {
            Some(device) => {
                let data = ready.on_card(device)?;
                Some(Card::new(&data, self.precision, task, &config, kernel_cache().as_deref())?)
            }
            None => None,
        };
        let halt = AtomicBool::new(false);
        let progress = Progress::new(&name, &config, task, Some(format!("{name}: ")), true);
        let mut watch = Watch { progress, limits: self.limits, halt: &halt, told: None };
        let mut training = Training::new(task, &config, &run, &mut watch)?;
        let (device, precision) = match &device {
            Some(device) => (device.name(), self.precision),
            None => ("processor", Precision::F32),
        };
        if let Some(card) = card {
            training = training.on(card)?;
        }
        run.write("config.toml", config.to_toml().as_bytes())?;
        let parameters = training.parameters();
        watch.progress.start(parameters, device);
        let mut sittings = Sittings::open(&run, self.sitting(device, precision))?;
        let at_work = clock.begin();
        let outcome = training.run(&halt, &mut watch)?;
        sittings.count(outcome.seconds, at_work.share());
        drop(at_work);
        if outcome.stop == Stop::Interrupted {
            sittings.write(&run)?;
            run.trim()?;
            return Ok(End::Stopped);
        }
        let made = Made {
            cell: job.cell.clone(),
            seed: job.seed,
            changes: self.settings.clone(),
            data: used.clone(),
            parameters,
            metric: task.metric.name(),
            sittings: sittings.0,
            config: serde_json::to_value(&config)?,
        };
        let record = Record::new(made, &outcome, &run.history()?)?;
        self.folder.write(&record, &name)?;
        self.put_away(run, &path, &name)?;
        Ok(End::Finished(Box::new(record)))
    }

    fn sitting(&self, device: &str, precision: Precision) -> Sitting {
        Sitting {
            device: device.to_owned(),
            precision: precision.name().to_owned(),
            jobs: self.jobs,
            seconds: 0.0,
            device_seconds: 0.0,
            machine: Machine::here(),
        }
    }

    /// The directory of a run that has its record.
    fn put_away(&self, run: RunDirectory, path: &Path, name: &str) -> Result<()> {
        if !self.keep_runs {
            // Another process that looks whether the run is free may be in the way; the next plan removes what is left.
            let _ = fs::remove_dir_all(path);
            return Ok(());
        }
        let moved = put_away(path, &self.folder.kept(name));
        drop(run);
        moved
    }

    fn tell(&self, record: &Record, finished: usize, all: usize, left: f64) {
        let paper = self.paper.cell(&record.preset).map_or(String::new(), |cell| {
            format!(" (paper {} ± {})", cell.test.mean, cell.test.deviation.unwrap_or_default())
        });
        let left = match finished {
            _ if finished == all => String::new(),
            _ => format!(", about {} left", minutes(left)),
        };
        console::say!(
            "{}-{}: test {:.4}{paper}, {} of {:.2} s; {finished} of {all} runs done{left}",
            record.cell,
            record.seed,
            record.last.test.paper,
            counted(record.epochs, "epoch"),
            record.s_per_epoch
        );
    }
}

/// A run that breaks off must not take the others along.
fn guarded(run: impl FnOnce() -> Result<End>) -> Result<End> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(anyhow!("the training broke off")))
}

/// A time as one plans with it.
pub fn minutes(seconds: f64) -> String {
    match seconds / 60.0 {
        few if few < 1.5 => format!("{:.0} s", seconds.max(0.0)),
        some if some < 90.0 => format!("{some:.0} min"),
        many => format!("{:.1} h", many / 60.0),
    }
}

/// The sittings of a run so far, the present one last.
struct Sittings(Vec<Sitting>);

impl Sittings {
    /// Takes up the list that the run's directory has, if it is whole: what it tells is worth less than the run.
    fn open(run: &RunDirectory, now: Sitting) -> Result<Self> {
        let text = fs::read(run.path().join(SITTINGS)).unwrap_or_default();
        let mut all = Self(serde_json::from_slice(&text).unwrap_or_default());
        let before = all.0.last().map_or((0.0, 0.0), |last| (last.seconds, last.device_seconds));
        all.0.push(Sitting { seconds: before.0, device_seconds: before.1, ..now });
        all.write(run)?;
        Ok(all)
    }

    /// The run has had so many seconds in all; what is new of it was this run's by a share.
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

/// Tells of a run now and then, and stops it when the limits say so.
struct Watch<'a> {
    progress: Progress,
    limits: &'a Limits,
    halt: &'a AtomicBool,
    told: Option<Instant>,
}

impl Observer for Watch<'_> {
    fn batch(&mut self, _: usize, _: usize, _: usize, _: f64) {
        if self.limits.exceeded() {
            self.halt.store(true, Ordering::Relaxed);
        }
    }

    fn epoch(&mut self, record: &EpochRecord) {
        if self.limits.reached() {
            self.halt.store(true, Ordering::Relaxed);
        }
        if self.told.is_none_or(|told| told.elapsed() >= TELLING) {
            self.told = Some(Instant::now());
            self.progress.epoch(record);
        }
    }

    fn note(&mut self, text: &str) {
        self.progress.note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_time_is_counted_over_all_sittings() {
        let sitting = |seconds, device_seconds| Sitting {
            device: "card".into(),
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

    #[test]
    fn times_are_rounded_as_one_plans() {
        let cases = [(5.0, "5 s"), (89.0, "89 s"), (600.0, "10 min"), (7200.0, "2.0 h"), (-1.0, "0 s")];
        cases.iter().for_each(|(seconds, text)| assert_eq!(minutes(*seconds), *text));
    }
}
