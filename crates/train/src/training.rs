//! The training loop: the published protocol, and what people expect beside it.
//!
//! An epoch: batches in an order drawn from the seed, a step each, then validation and test. The learning rate follows the schedule, which looks at the
//! validation loss; training ends when the rate has become too small, at the epoch or time limit, or when it is told to. Everything random derives from the
//! seed and the step's number, so a run that goes on from a checkpoint ends with the same bytes as one that was never stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gt_models::{Config, ModelHeader, initialise, load_moments, load_weights, save_moments};
use gt_nn::cpu::{Engine, Isa};
use serde::{Deserialize, Serialize};

use crate::batches::{self, Order, Signs};
use crate::checkpoint::{self, Files, Writer};
use crate::error::{Result, TrainError};
use crate::evaluate::{Collected, Scores, evaluate};
use crate::run::RunDirectory;
use crate::schedule::ScheduleState;
use crate::task::{Part, Task};

/// One epoch, as `metrics.jsonl` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// From 1.
    pub epoch: usize,
    /// Learning rate.
    pub lr: f64,
    /// Training part, as the steps saw it.
    pub train: Scores,
    /// Validation part.
    pub val: Scores,
    /// Test part, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Scores>,
    /// Seconds of the steps.
    pub train_seconds: f64,
    /// Seconds of everything.
    pub seconds: f64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The learning rate fell below its limit.
    MinLr,
    /// All epochs are done.
    Epochs,
    /// The time is up.
    Hours,
    /// No better validation loss for too long.
    EarlyStop,
    /// It was told to; it can be resumed.
    Interrupted,
}

/// The epoch with the best validation loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// From 1.
    pub epoch: usize,
    /// Validation part.
    pub val: Scores,
    /// Test part.
    pub test: Option<Scores>,
}

/// How far a run has come, beside its weights and moments.
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
}

/// What a run ended with.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why it ended.
    pub stop: Stop,
    /// Epochs in all.
    pub epochs: usize,
    /// Seconds in all sittings.
    pub seconds: f64,
    /// The last model on all parts, evaluated after training.
    pub last: Vec<(Part, Scores)>,
    /// The model with the best validation loss.
    pub best: Option<Best>,
    /// SHA-256 of the last weights.
    pub weights: String,
}

/// Told what happens.
pub trait Observer {
    /// A batch is done.
    fn batch(&mut self, _epoch: usize, _done: usize, _all: usize, _loss: f64) {}
    /// An epoch is done.
    fn epoch(&mut self, _record: &EpochRecord) {}
    /// Something that a person should know.
    fn note(&mut self, _text: &str) {}
}

/// Seconds between checkpoints, unless an epoch takes longer.
const CHECKPOINT_SECONDS: f64 = 10.0;

/// A run: everything that it needs and where it stands.
pub struct Training<'a> {
    task: &'a Task,
    config: &'a Config,
    run: &'a RunDirectory,
    header: ModelHeader,
    engine: Engine<f32>,
    state: State,
    best_model: Vec<u8>,
    collected: Collected,
    writer: Writer,
    saved: Instant,
    checkpoint: u64,
}

impl<'a> Training<'a> {
    /// Starts a run from its seed, or goes on from the newest checkpoint in its directory.
    ///
    /// # Errors
    /// If the checkpoint is of another configuration, or cannot be read.
    pub fn new(task: &'a Task, config: &'a Config, run: &'a RunDirectory, observer: &mut dyn Observer) -> Result<Self> {
        let mut header = ModelHeader::new(config.clone(), task.shape.clone());
        header.schema = serde_json::to_value(&task.schema).expect("a schema is plain data");
        header.scaling.clone_from(&task.scaling);
        if let Some(links) = &task.links {
            // What the data decided stays decided for other data.
            header.config.links.directed = Some(links.directed());
        }
        let mut engine = Engine::new(task.network.clone(), Isa::detect());
        initialise(&mut engine, config.train.seed);
        let mut training = Self {
            task,
            config,
            run,
            header,
            engine,
            state: State {
                epoch: 0,
                batch: 0,
                steps: 0,
                schedule: ScheduleState::new(config.optimizer.lr),
                best: None,
                seconds: 0.0,
                epoch_seconds: 0.0,
                stop: None,
            },
            best_model: Vec::new(),
            collected: Collected::new(task),
            writer: Writer::new(run.checkpoints()),
            saved: Instant::now(),
            checkpoint: 0,
        };
        if let Some(found) = checkpoint::newest(&run.checkpoints()) {
            found.passed_over.iter().for_each(|problem| observer.note(&format!("{problem}; taking the one before")));
            training.restore(&found)?;
            let State { epoch, batch, .. } = training.state;
            observer.note(&format!("going on after {epoch} epochs and {batch} batches"));
        }
        run.cut_metrics(training.state.epoch)?;
        Ok(training)
    }

    fn restore(&mut self, found: &checkpoint::Found) -> Result<()> {
        let damaged = |what: &str, e: String| TrainError::run(&self.run.checkpoints(), format!("{what}: {e}"));
        let file = |name: &str| {
            found.files.get(name).ok_or_else(|| damaged(name, "it is not in the newest checkpoint".into()))
        };
        self.state = serde_json::from_slice(file("state.json")?).map_err(|e| damaged("state.json", e.to_string()))?;
        load_weights(&mut self.engine, file("model.safetensors")?).map_err(|e| damaged("model", e.to_string()))?;
        load_moments(&mut self.engine, file("moments.safetensors")?).map_err(|e| damaged("moments", e.to_string()))?;
        self.best_model = file("best.safetensors")?.clone();
        self.collected = Collected::from_bytes(self.task, file("collected.bin")?)
            .ok_or_else(|| damaged("collected.bin", "it is damaged".into()))?;
        self.checkpoint = found.number;
        Ok(())
    }

    /// Parameters of the network.
    pub fn parameters(&self) -> usize {
        self.engine.parameters().count()
    }

    /// Trains until something says stop, `interrupt` included, and writes the run's model files.
    ///
    /// # Errors
    /// If a loss or gradient is not finite, or a file cannot be written. The checkpoints before are intact.
    pub fn run(mut self, interrupt: &AtomicBool, observer: &mut dyn Observer) -> Result<Outcome> {
        while self.state.stop.is_none() {
            if !self.epoch(interrupt, observer)? {
                self.save()?;
                self.writer.finish()?;
                return self.outcome(Stop::Interrupted);
            }
            let due = self.saved.elapsed().as_secs_f64() >= CHECKPOINT_SECONDS;
            if due || self.state.stop.is_some() {
                self.save()?;
            }
        }
        self.writer.finish()?;
        self.outcome(self.state.stop.unwrap_or(Stop::Epochs))
    }

    /// One epoch, from wherever it stands; false if it was interrupted.
    fn epoch(&mut self, interrupt: &AtomicBool, observer: &mut dyn Observer) -> Result<bool> {
        let Config { train, schedule, .. } = self.config;
        let epoch = self.state.epoch;
        let start = Instant::now();
        let before = self.state.epoch_seconds;
        let lr = self.state.schedule.rate(schedule, epoch, train.epochs);
        let order = Order::shuffled(self.task.graphs_of(Part::Train), train.batch, train.seed, epoch);
        let signs = Signs { flip: train.sign_flip, seed: train.seed, epoch };
        let adam = self.config.optimizer.adam(lr);
        let (task, from) = (self.task, self.state.batch);
        let mut whole = true;
        batches::for_each(task, Part::Train, &order, signs, from, |number, ready| {
            self.engine.set_dropout_key(train.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.state.steps));
            let labels = ready.labels.rows();
            let loss = ready.train(&mut self.engine, task);
            let bad = |what| TrainError::NotFinite {
                epoch: epoch + 1,
                batch: number + 1,
                what,
                graphs: shortened(order.graphs(number)),
            };
            let last = number + 1 == order.len();
            if train.accumulate > 1 {
                self.engine.accumulate(number % train.accumulate == 0);
            }
            let mut skip = false;
            if !loss.is_finite() {
                if !train.skip_bad_steps {
                    return Err(bad("loss"));
                }
                skip = true;
            }
            let stepping = (number + 1) % train.accumulate == 0 || last;
            if stepping {
                let gathered = number % train.accumulate + 1;
                let norm = self.engine.gather_gradients(gathered);
                if !norm.is_finite() && !train.skip_bad_steps {
                    return Err(bad("gradient"));
                }
                skip |= !norm.is_finite();
                if skip {
                    observer.note(&format!("{}; the step is left out", bad("gradient")));
                } else {
                    self.engine.step(&adam);
                }
                self.state.steps += 1;
            }
            self.collected.add(task, &ready.outputs(&self.engine), labels, loss);
            self.state.batch = number + 1;
            observer.batch(epoch + 1, number + 1, order.len(), loss);
            // Half a step cannot be kept, so an interruption waits for its end.
            whole = last || !stepping || !interrupt.load(Ordering::Relaxed);
            Ok(whole)
        })?;
        let train_seconds = before + start.elapsed().as_secs_f64();
        if !whole {
            self.state.epoch_seconds = train_seconds;
            self.state.seconds += start.elapsed().as_secs_f64();
            return Ok(false);
        }
        self.finish_epoch(lr, start, train_seconds, observer)?;
        Ok(!interrupt.load(Ordering::Relaxed) || self.state.stop.is_some())
    }

    /// Validation, test, schedule, best model.
    fn finish_epoch(&mut self, lr: f64, start: Instant, train_seconds: f64, observer: &mut dyn Observer) -> Result<()> {
        let Config { train, schedule, .. } = self.config;
        let trained = self.collected.scores(self.task);
        self.collected = Collected::new(self.task);
        let val = evaluate(&mut self.engine, self.task, Part::Val, train.batch)?;
        let tested = self.task.labels(Part::Test) > 0;
        let test = if tested { Some(evaluate(&mut self.engine, self.task, Part::Test, train.batch)?) } else { None };
        let loss = val.loss.paper;
        if self.state.best.as_ref().is_none_or(|best| loss < best.val.loss.paper) {
            self.state.best = Some(Best { epoch: self.state.epoch + 1, val: val.clone(), test: test.clone() });
            self.best_model = self.header.save(&self.engine);
        }
        let spent = start.elapsed().as_secs_f64();
        self.state.epoch += 1;
        self.state.batch = 0;
        self.state.seconds += spent;
        let seconds = self.state.epoch_seconds + spent;
        self.state.epoch_seconds = 0.0;
        let record = EpochRecord { epoch: self.state.epoch, lr, train: trained, val, test, train_seconds, seconds };
        self.run.add_metrics(&record)?;
        observer.epoch(&record);
        let too_small = self.state.schedule.finish_epoch(schedule, loss);
        let since_best = self.state.epoch - self.state.best.as_ref().map_or(0, |best| best.epoch);
        self.state.stop = if too_small {
            Some(Stop::MinLr)
        } else if self.state.epoch >= train.epochs {
            Some(Stop::Epochs)
        } else if train.early_stop > 0 && since_best >= train.early_stop {
            Some(Stop::EarlyStop)
        } else if train.hours > 0.0 && self.state.seconds >= train.hours * 3600.0 {
            Some(Stop::Hours)
        } else {
            None
        };
        Ok(())
    }

    /// Hands a checkpoint to the writer.
    fn save(&mut self) -> Result<()> {
        self.checkpoint += 1;
        let state = serde_json::to_vec_pretty(&self.state).expect("a state is plain data");
        let files = Files::from([
            ("model.safetensors", self.header.save(&self.engine)),
            ("moments.safetensors", save_moments(&self.engine)),
            ("best.safetensors", self.best_model.clone()),
            ("collected.bin", self.collected.to_bytes()),
            ("state.json", state),
        ]);
        self.saved = Instant::now();
        self.writer.write(self.checkpoint, files)
    }

    /// Writes the model files and scores the last model on all parts.
    fn outcome(&mut self, stop: Stop) -> Result<Outcome> {
        let model = self.header.save(&self.engine);
        self.run.write("model.safetensors", &model)?;
        if !self.best_model.is_empty() {
            self.run.write("best.safetensors", &self.best_model)?;
        }
        let mut last = Vec::new();
        if stop != Stop::Interrupted {
            for part in Part::ALL {
                if self.task.labels(part) > 0 {
                    last.push((part, evaluate(&mut self.engine, self.task, part, self.config.train.batch)?));
                }
            }
        }
        Ok(Outcome {
            stop,
            epochs: self.state.epoch,
            seconds: self.state.seconds,
            last,
            best: self.state.best.clone(),
            weights: checkpoint::hash(&model),
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
