//! The training loop: the published protocol, with checkpoints, interrupts and further limits.
//!
//! An epoch takes batches in an order drawn from the seed, one step each, then validates and tests.
//! The learning rate follows the schedule, which depends on the value of `train.select` on the
//! validation split. Training ends when
//! the rate is too small, at the epoch or time limit, or at an interrupt. Everything random derives
//! from the seed and the step's number. So a run that resumes from a checkpoint ends with the same
//! bytes as an uninterrupted run.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use gt_graph::Split;
use gt_models::config::{Encoding, MetricForm};
use gt_models::{Config, Model, load_optimizer, save_optimizer, weights_sha256};
use gt_nn::backend::{Backend, BadStep, NotFinite, PassEvent, PassOutputs, PassPlan};
use gt_nn::cuda::CudaError;
use gt_nn::{Norm, Weights};
use serde::{Deserialize, Serialize};

use crate::backend::{Purpose, Resident};
use crate::checkpoint::{self, Files, Writer};
use crate::error::{CheckpointProblem, Remedy, Result, RunProblem, TrainError};
use crate::evaluate::{Scores, outputs_from_bytes, outputs_to_bytes, score};
use crate::init::Init;
use crate::metrics::Detail;
use crate::outcome::{Best, EpochRecord, Observer, Outcome, Stop};
use crate::pass::training_pass;
use crate::prepared::Prepared;
use crate::resume;
use crate::run::{self, RunDirectory};
use crate::schedule::ScheduleState;
use crate::tensorboard::EventFile;

/// The progress of a run, in addition to its weights and moments.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    /// Complete epochs.
    epoch: usize,
    /// Batches done of the next one.
    batch: usize,
    /// Steps in all.
    steps: u64,
    schedule: ScheduleState,
    best: Option<Best>,
    /// Seconds in all sittings.
    seconds: f64,
    /// Seconds of the epoch begun.
    epoch_seconds: f64,
    stop: Option<Stop>,
    /// Skipped steps of the epoch begun.
    #[serde(default)]
    skipped: usize,
    /// The data of the run.
    data: String,
    /// The encodings of the last sitting.
    encodings: String,
    /// Instruction set or GPU of the last sitting.
    device: String,
}

/// A run of training: its data, backend, directory and progress.
pub struct Trainer<'a> {
    data: &'a Prepared,
    config: &'a Config,
    run: &'a RunDirectory,
    /// The model with the best weights so far; before the first epoch, with the initial weights of
    /// the run. The backend has the current weights.
    model: Model,
    backend: Box<dyn Backend + 'a>,
    state: State,
    /// Outputs of the epoch that has begun.
    outputs: PassOutputs,
    /// `metrics.jsonl`, of which a resumed run keeps what the checkpoint knows.
    metrics: String,
    predictions: Option<(Split, PassOutputs)>,
    events: Option<EventFile>,
    writer: Writer,
    saved: Instant,
    checkpoint: u64,
}

impl<'a> Trainer<'a> {
    /// Starts a run from its seed, or resumes it from the newest checkpoint in its directory. The
    /// configuration is written once it is known that a run can resume with it, before any other
    /// file, so that a killed process leaves a run that can be resumed.
    ///
    /// # Errors
    /// If the run began with another configuration or other data, or if there are checkpoints but
    /// none is whole.
    pub fn new(
        data: &'a Prepared,
        config: &'a Config,
        run: &'a RunDirectory,
        backend: Box<dyn Backend + 'a>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let state = State {
            epoch: 0,
            batch: 0,
            steps: 0,
            schedule: ScheduleState::new(config.optimizer.lr),
            best: None,
            seconds: 0.0,
            epoch_seconds: 0.0,
            stop: None,
            skipped: 0,
            data: data.fingerprint.clone(),
            encodings: data.encodings_sha256.clone(),
            device: backend.name().to_owned(),
        };
        let mut trainer = Self {
            data,
            config,
            run,
            model: data.model(config, backend.weights()?),
            backend,
            state,
            outputs: PassOutputs::default(),
            metrics: String::new(),
            predictions: None,
            events: None,
            writer: Writer::new(run.checkpoints()),
            saved: Instant::now(),
            checkpoint: 0,
        };
        let mut init = None;
        match checkpoint::newest(&run.checkpoints())? {
            Some(found) => {
                found.passed_over.iter().for_each(|text| observer.note(&format!("{text}; taking the one before")));
                trainer.restore(&found, observer)?;
                let State { epoch, batch, .. } = trainer.state;
                observer.note(&format!("resuming after {epoch} epochs and {batch} batches"));
            }
            None if [run::MODEL, run::BEST].iter().any(|name| run.path().join(name).exists()) => {
                return Err(TrainError::run(&run.checkpoints(), RunProblem::NoCheckpoint));
            }
            None => {
                if run.has_begun() {
                    observer.note("no checkpoint had been completed; starting from the beginning");
                }
                init = trainer.start_from(observer)?;
            }
        }
        run.write(run::CONFIG, config.to_toml().as_bytes())?;
        if let Some(init) = init {
            run.write(RunDirectory::INIT, &init.to_bytes())?;
        }
        run.write(run::METRICS, trainer.metrics.as_bytes())?;
        trainer.events = Some(EventFile::open(run.path(), data.metric, data.form, &run.history()?)?);
        Ok(trainer)
    }

    /// Loads the weights of `train.init`, and returns the model, of which a resumed run needs a
    /// copy.
    fn start_from(&mut self, observer: &mut dyn Observer) -> Result<Option<&'a Init>> {
        let Some(init) = &self.data.init else { return Ok(None) };
        let (weights, note) = init.apply(self.backend.weights()?)?;
        self.backend.load(&weights, None)?;
        self.model.weights = weights;
        observer.note(&note);
        Ok(Some(init))
    }

    fn restore(&mut self, found: &checkpoint::Found, observer: &mut dyn Observer) -> Result<()> {
        let path = |name: &str| checkpoint::place(&self.run.checkpoints(), found.number).join(name);
        let file = |name: &str| found.files.get(name).ok_or_else(|| CheckpointProblem::Missing(path(name)));
        let model = Model::from_bytes(file("model.safetensors")?)
            .map_err(|e| CheckpointProblem::unreadable(&path("model.safetensors"), e))?;
        let state: State = serde_json::from_slice(file("state.json")?)
            .map_err(|e| CheckpointProblem::unreadable(&path("state.json"), e))?;
        let same_data = state.data == self.state.data;
        let changes = resume::compare(self.run.path(), &model, &self.model, same_data)?;
        changes.iter().for_each(|change| observer.note(&change.to_string()));
        let encodings = std::mem::replace(&mut self.state, state).encodings;
        if self.state.encodings != encodings {
            observer.note(
                "the encodings differ from those of the run so far, as another machine or version of gt computes \
                 them; the results will not be bit-identical",
            );
            self.state.encodings = encodings;
        }
        if self.state.stop == Some(Stop::Hours) && !self.time_is_up() {
            self.state.stop = None;
        }
        let network = &self.data.network;
        let optimizer = load_optimizer(network, file("moments.safetensors")?);
        let optimizer = optimizer.map_err(|e| CheckpointProblem::unreadable(&path("moments.safetensors"), e))?;
        self.backend.load(&model.weights, Some(&optimizer))?;
        let best = file("best.safetensors")?;
        if !best.is_empty() {
            let best = Model::from_bytes(best);
            let best = best.map_err(|e| CheckpointProblem::unreadable(&path("best.safetensors"), e))?;
            self.model.weights = best.weights;
        }
        self.outputs = outputs_from_bytes(self.data.target().kind, file("collected.bin")?)
            .ok_or_else(|| CheckpointProblem::Damaged(path("collected.bin")))?;
        self.metrics = String::from_utf8(file("metrics.jsonl")?.clone())
            .map_err(|e| CheckpointProblem::unreadable(&path("metrics.jsonl"), e))?;
        self.checkpoint = found.number;
        Ok(())
    }

    /// The bytes of a model file with these weights.
    fn pack(&mut self, weights: Weights) -> Vec<u8> {
        let best = std::mem::replace(&mut self.model.weights, weights);
        let bytes = self.model.to_bytes();
        self.model.weights = best;
        bytes
    }

    /// The bytes of the best model's file; none before the first epoch.
    fn pack_best(&self) -> Vec<u8> {
        if self.state.best.is_some() { self.model.to_bytes() } else { Vec::new() }
    }

    /// Number of parameters of the network.
    pub fn parameters(&self) -> usize {
        self.model.weights.parameters().count()
    }

    /// Trains until a stop condition or `interrupt`, and writes the run's model files.
    ///
    /// # Errors
    /// If a loss or gradient is not finite, a GPU stops working, or a file cannot be written.
    /// Earlier checkpoints stay intact.
    pub fn run(mut self, interrupt: &AtomicBool, observer: &mut dyn Observer) -> Result<Outcome> {
        let now = self.backend.name().to_owned();
        let before = std::mem::replace(&mut self.state.device, now.clone());
        if before != now {
            let text = format!("the run was on {before} and continues on {now}; the results will not be bit-identical");
            observer.note(&text);
        }
        match self.advance(interrupt, observer) {
            Err(TrainError::Device(cause @ CudaError::Lost(_))) => {
                // Checkpoints handed to the writer are whole, even if the GPU failed.
                self.writer.finish()?;
                // A run that has reached its end is in no further epoch.
                let epoch = self.state.epoch + usize::from(self.state.stop.is_none());
                Err(TrainError::Lost { cause, epoch, checkpoint: self.last_checkpoint() })
            }
            ended => ended,
        }
    }

    /// Runs epochs until a stop condition, and returns the outcome.
    fn advance(&mut self, interrupt: &AtomicBool, observer: &mut dyn Observer) -> Result<Outcome> {
        let mut stop = self.state.stop;
        while stop.is_none() {
            let start = Instant::now();
            let whole = self.epoch(interrupt, observer)?;
            stop = self.state.stop.or((!whole).then_some(Stop::Interrupted));
            // Another epoch like this one would put more work at risk than is allowed.
            let due = (self.saved.elapsed() + start.elapsed()).as_secs_f64() >= self.config.train.checkpoint_seconds;
            if due || stop.is_some() {
                self.save()?;
            }
        }
        self.writer.finish()?;
        self.outcome(stop.unwrap_or(Stop::Interrupted))
    }

    /// One epoch, from wherever it stands; false if it was interrupted.
    fn epoch(&mut self, interrupt: &AtomicBool, observer: &mut dyn Observer) -> Result<bool> {
        let Config { train, schedule, .. } = self.config;
        let epoch = self.state.epoch;
        let start = Instant::now();
        let before = self.state.epoch_seconds;
        let lr = self.state.schedule.rate(schedule, epoch, train.epochs);
        observer.begin(epoch + 1, lr);
        let plan = training_pass(self.data, self.config, (epoch, self.state.batch), lr, self.dropout_key());
        let whole = self.steps(plan, interrupt, observer)?;
        let train_seconds = before + start.elapsed().as_secs_f64();
        if !whole {
            self.state.epoch_seconds = train_seconds;
            self.state.seconds += start.elapsed().as_secs_f64();
            return Ok(false);
        }
        self.finish_epoch(lr, start, train_seconds, observer)?;
        Ok(!self.is_stopped(interrupt))
    }

    /// The steps of an epoch; false if they were interrupted.
    fn steps(&mut self, plan: PassPlan, interrupt: &AtomicBool, observer: &mut dyn Observer) -> Result<bool> {
        let epoch = self.state.epoch + 1;
        let (order, batches) = (&plan.order, plan.order.batches());
        let accumulate = plan.training.map_or(1, |steps| steps.accumulate);
        self.backend.begin(plan.clone())?;
        let writer = &self.writer;
        let mut last_skipped = None;
        let outcome = self.backend.finish(&mut |event| {
            match event {
                PassEvent::Batch { number, loss } => observer.batch(epoch, number + 1, batches, loss),
                PassEvent::Skipped(BadStep { batch, what }) => {
                    // Several batches of one step can be bad.
                    let step = Some(batch / accumulate);
                    self.state.skipped += usize::from(step != last_skipped);
                    last_skipped = step;
                    observer.note(&format!(
                        "epoch {epoch}, batch {}: the {what} is not finite (graphs {}); the step is skipped",
                        batch + 1,
                        shortened(order.batch(batch))
                    ));
                }
            }
            if interrupt.load(Ordering::Relaxed) || writer.has_failed() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        self.outputs.append(outcome.outputs);
        self.state.batch = outcome.done;
        self.state.steps += outcome.steps;
        if let Some(BadStep { batch, what }) = outcome.bad {
            let graphs = shortened(order.batch(batch));
            let (remedy, checkpoint) = (self.remedy(&plan, batch)?, self.last_checkpoint());
            return Err(TrainError::NotFinite { epoch, batch: batch + 1, what, graphs, remedy, checkpoint });
        }
        let steps = batches.div_ceil(accumulate);
        if outcome.done == batches && steps > 0 && self.state.skipped == steps {
            return Err(TrainError::AllSkipped { epoch, steps, remedy: self.remedy(&plan, batches - 1)? });
        }
        Ok(outcome.done == batches && !self.is_stopped(interrupt))
    }

    /// What to change after a step that was not finite. The same step on the initial weights shows
    /// whether the data, the network or the earlier steps are the cause. The CPU computes the step,
    /// because a GPU does not report which quantity is not finite.
    fn remedy(&self, plan: &PassPlan, batch: usize) -> Result<Remedy> {
        let Config { model, .. } = self.config;
        let mut again = plan.clone();
        let steps = again.training.as_mut().expect("the pass trains");
        steps.skip_bad_steps = false;
        again.from = batch - batch % steps.accumulate;
        let mut cpu = Resident::Cpu.backend(self.data, self.config, Purpose::Training)?;
        cpu.begin(again)?;
        let bad = cpu.finish(&mut |_| ControlFlow::Break(()))?.bad;
        Ok(match bad {
            None => Remedy::SmallerRate,
            Some(BadStep { what: NotFinite::Gradient, .. }) if model.norm == Norm::Batch => {
                Remedy::AlikeRows { encoding: matches!(model.encoding, Encoding::None | Encoding::Wl) }
            }
            Some(_) => Remedy::LargeValues,
        })
    }

    /// Dropout's key of the next step.
    fn dropout_key(&self) -> u64 {
        self.config.train.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.state.steps)
    }

    /// Where the newest checkpoint lies.
    fn last_checkpoint(&self) -> Option<PathBuf> {
        (self.checkpoint > 0).then(|| checkpoint::place(&self.run.checkpoints(), self.checkpoint))
    }

    /// Whether to stop now: the user interrupted, or a checkpoint could not be saved, which the
    /// next attempt reports.
    fn is_stopped(&self, interrupt: &AtomicBool) -> bool {
        interrupt.load(Ordering::Relaxed) || self.writer.has_failed()
    }

    fn time_is_up(&self) -> bool {
        let hours = self.config.train.hours;
        hours > 0.0 && self.state.seconds >= hours * 3600.0
    }

    /// Validation, test, schedule, best model.
    fn finish_epoch(&mut self, lr: f64, start: Instant, train_seconds: f64, observer: &mut dyn Observer) -> Result<()> {
        // While a GPU goes through a split, the one before is scored here.
        self.begin(Split::Val)?;
        let trained = score(self.data, &mut std::mem::take(&mut self.outputs), Detail::Quick);
        let mut outputs = self.finish()?;
        let tested = self.data.labels_in(Split::Test) > 0;
        if tested {
            self.begin(Split::Test)?;
        }
        let val = score(self.data, &mut outputs, Detail::All);
        let test = if tested {
            outputs = self.finish()?;
            Some(score(self.data, &mut outputs, Detail::All))
        } else {
            None
        };
        self.predictions = Some((if tested { Split::Test } else { Split::Val }, outputs));
        let selection = self.data.selection;
        let cost = selection.cost(&val);
        let (chosen, decides) = (selection.name(), selection.decided_by(&val));
        if self.state.epoch == 0 && chosen != decides {
            observer.note(&format!(
                "{chosen} is not defined for the labels of the validation split; the {decides} decides"
            ));
        }
        if selection.is_better(&val, self.state.best.as_ref().map(|best| &best.val)) {
            self.state.best =
                Some(Best { epoch: self.state.epoch + 1, train: None, val: val.clone(), test: test.clone() });
            self.model.weights = self.backend.weights()?;
        }
        let spent = start.elapsed().as_secs_f64();
        self.state.epoch += 1;
        self.state.batch = 0;
        self.state.skipped = 0;
        self.state.seconds += spent;
        let seconds = self.state.epoch_seconds + spent;
        self.state.epoch_seconds = 0.0;
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let record =
            EpochRecord { epoch: self.state.epoch, lr, train: trained, val, test, train_seconds, seconds, time };
        let line = serde_json::to_string(&record).expect("a record is plain data") + "\n";
        self.metrics += &line;
        self.run.add_metrics(&line)?;
        self.events.iter().try_for_each(|events| events.add(&record))?;
        observer.epoch(&record);
        let too_small = self.state.schedule.finish_epoch(&self.config.schedule, cost);
        self.state.stop = self.reason_to_end(too_small);
        Ok(())
    }

    /// Why the epoch that has just ended is the last one, if it is.
    fn reason_to_end(&self, rate_is_too_small: bool) -> Option<Stop> {
        let train = &self.config.train;
        let since_best = self.state.epoch - self.state.best.as_ref().map_or(0, |best| best.epoch);
        if rate_is_too_small {
            Some(Stop::MinLr)
        } else if self.state.epoch >= train.epochs {
            Some(Stop::Epochs)
        } else if train.early_stop > 0 && since_best >= train.early_stop {
            Some(Stop::EarlyStop)
        } else {
            self.time_is_up().then_some(Stop::Hours)
        }
    }

    /// The name of the value that decides which model is the best.
    fn decided_by(&self) -> &'static str {
        let selection = self.data.selection;
        self.state.best.as_ref().map_or(selection.name(), |best| selection.decided_by(&best.val))
    }

    /// Lets the device start on a split, in the order of the data.
    fn begin(&mut self, split: Split) -> Result<()> {
        let graphs = self.data.graphs_of(split);
        Ok(self.backend.begin(PassPlan::evaluation(split, graphs, self.config.train.batch))?)
    }

    /// Outputs and labels of the split that the device was started on.
    fn finish(&mut self) -> Result<PassOutputs> {
        Ok(self.backend.finish(&mut |_| ControlFlow::Continue(()))?.outputs)
    }

    /// Scores of a split; predictions for the last split but training are kept for the report.
    fn evaluate(&mut self, split: Split) -> Result<Scores> {
        self.begin(split)?;
        let mut outputs = self.finish()?;
        let scores = score(self.data, &mut outputs, Detail::All);
        if split != Split::Train {
            self.predictions = Some((split, outputs));
        }
        Ok(scores)
    }

    /// Hands a checkpoint to the writer.
    fn save(&mut self) -> Result<()> {
        let weights = self.backend.weights()?;
        if !weights.is_finite() {
            let State { epoch: epochs, batch: batches, .. } = self.state;
            return Err(TrainError::run(self.run.path(), RunProblem::NotFinite { epochs, batches }));
        }
        let state = serde_json::to_vec_pretty(&self.state).expect("a state is plain data");
        let files = Files::from([
            ("model.safetensors", self.pack(weights)),
            ("moments.safetensors", save_optimizer(&self.data.network, &self.backend.optimizer()?)),
            ("best.safetensors", self.pack_best()),
            ("collected.bin", outputs_to_bytes(&self.outputs)),
            ("metrics.jsonl", self.metrics.clone().into_bytes()),
            ("state.json", state),
        ]);
        // If the GPU stops while it is read, the last checkpoint is the one before.
        self.checkpoint += 1;
        self.saved = Instant::now();
        self.writer.write(self.checkpoint, files)
    }

    /// Writes the model files and scores the last model on all splits.
    fn outcome(&mut self, stop: Stop) -> Result<Outcome> {
        let weights = self.backend.weights()?;
        let digest = weights_sha256(&weights);
        let model = self.pack(weights);
        self.run.write(run::MODEL, &model)?;
        if self.state.best.is_some() {
            self.run.write(run::BEST, &self.pack_best())?;
        }
        let mut last = Vec::new();
        let mut best = self.state.best.clone();
        if stop != Stop::Interrupted {
            for split in Split::ALL {
                if self.data.labels_in(split) > 0 {
                    last.push((split, self.evaluate(split)?));
                }
            }
            if let Some(best) = &mut best {
                if best.epoch != self.state.epoch {
                    self.backend.load(&self.model.weights, None)?;
                }
                best.train = Some(self.evaluate(Split::Train)?);
                // The report shows the predictions of the model that is the result of the run.
                if self.data.form == MetricForm::Exact {
                    let tested = self.data.labels_in(Split::Test) > 0;
                    self.evaluate(if tested { Split::Test } else { Split::Val })?;
                }
            }
        }
        Ok(Outcome {
            select: self.decided_by(),
            stop,
            epochs: self.state.epoch,
            seconds: self.state.seconds,
            last,
            best,
            weights_sha256: digest,
            device: self.backend.name().to_owned(),
            predictions: self.predictions.take(),
        })
    }
}

/// The first few numbers.
fn shortened(graphs: &[usize]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = graphs.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if graphs.len() > SHOWN { format!(", … {} in all", graphs.len()) } else { String::new() };
    shown.join(", ") + &more
}
