//! The training loop: the published protocol, and what people expect beside it.
//!
//! An epoch: batches in an order drawn from the seed, a step each, then validation and test. The learning rate follows the schedule, which looks at the
//! validation loss; training ends when the rate has become too small, at the epoch or time limit, or when it is told to. Everything random derives from the
//! seed and the step's number, so a run that goes on from a checkpoint ends with the same bytes as one that was never stopped.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use gt_models::{
    Config, ModelHeader, has_finite_statistics, initialise, is_finite, load_moments, load_weights, running_statistics,
    save_moments, set_running_statistics,
};
use gt_nn::cpu::{Adam, Engine, Isa};
use gt_nn::cuda::CudaError;
use serde::{Deserialize, Serialize};

use crate::batches::{self, Order, Signs};
use crate::card::{Card, UnderWay};
use crate::checkpoint::{self, Files, Writer};
use crate::error::{Result, TrainError};
use crate::evaluate::{Collected, Scores, collect};
use crate::outcome::{Best, EpochRecord, Observer, Outcome, Stop};
use crate::resume;
use crate::run::RunDirectory;
use crate::schedule::ScheduleState;
use crate::task::{Part, Task};
use crate::tensorboard::EventFile;

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
    /// What the data was.
    data: String,
    /// Instruction set or card of the last sitting.
    by: String,
}

/// A run: everything that it needs and where it stands.
pub struct Training<'a> {
    task: &'a Task,
    config: &'a Config,
    run: &'a RunDirectory,
    header: ModelHeader,
    engine: Engine<f32>,
    /// Where it computes, if not on the processor; the engine then holds what was last fetched from there.
    card: Option<Card>,
    state: State,
    best_model: Vec<u8>,
    /// Whether it is the engine that holds the best model, fetched from the card and not packed yet.
    best_in_engine: bool,
    collected: Collected,
    /// `metrics.jsonl`, of which a run that goes on keeps what the checkpoint knows.
    metrics: String,
    predictions: Option<(Part, Collected)>,
    events: Option<EventFile>,
    writer: Writer,
    saved: Instant,
    checkpoint: u64,
}

impl<'a> Training<'a> {
    /// Starts a run from its seed, or goes on from the newest checkpoint in its directory.
    ///
    /// # Errors
    /// If the run began with another configuration or other data, or no checkpoint is whole though there were some.
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
            card: None,
            state: State {
                epoch: 0,
                batch: 0,
                steps: 0,
                schedule: ScheduleState::new(config.optimizer.lr),
                best: None,
                seconds: 0.0,
                epoch_seconds: 0.0,
                stop: None,
                data: task.fingerprint.clone(),
                by: Isa::detect().name().to_owned(),
            },
            best_model: Vec::new(),
            best_in_engine: false,
            collected: Collected::new(task),
            metrics: String::new(),
            predictions: None,
            events: None,
            writer: Writer::new(run.checkpoints()),
            saved: Instant::now(),
            checkpoint: 0,
        };
        match checkpoint::newest(&run.checkpoints())? {
            Some(found) => {
                found.passed_over.iter().for_each(|text| observer.note(&format!("{text}; taking the one before")));
                training.restore(&found, observer)?;
                let State { epoch, batch, .. } = training.state;
                observer.note(&format!("going on after {epoch} epochs and {batch} batches"));
            }
            None if run.path().join("model.safetensors").exists() => {
                let text = "the checkpoints of the model beside it are gone; start another run elsewhere";
                return Err(TrainError::run(&run.checkpoints(), text));
            }
            None if run.has_begun() => observer.note("no checkpoint had been completed; starting from the beginning"),
            None => {}
        }
        run.write("metrics.jsonl", training.metrics.as_bytes())?;
        training.events = Some(EventFile::open(run.path(), task.metric, &run.history()?)?);
        Ok(training)
    }

    fn restore(&mut self, found: &checkpoint::Found, observer: &mut dyn Observer) -> Result<()> {
        let damaged = |what: &str, e: String| TrainError::run(&self.run.checkpoints(), format!("{what}: {e}"));
        let file = |name: &str| {
            found.files.get(name).ok_or_else(|| damaged(name, "it is not in the newest checkpoint".into()))
        };
        let model = file("model.safetensors")?;
        let header = ModelHeader::read(model).map_err(|e| damaged("model", e.to_string()))?;
        let state: State =
            serde_json::from_slice(file("state.json")?).map_err(|e| damaged("state.json", e.to_string()))?;
        let same_data = state.data == self.state.data;
        resume::compare(self.run.path(), &header, &self.header, same_data)?.iter().for_each(|text| observer.note(text));
        self.state = state;
        if self.state.stop == Some(Stop::Hours) && !self.time_is_up() {
            self.state.stop = None;
        }
        load_weights(&mut self.engine, model).map_err(|e| damaged("model", e.to_string()))?;
        load_moments(&mut self.engine, file("moments.safetensors")?).map_err(|e| damaged("moments", e.to_string()))?;
        self.best_model = file("best.safetensors")?.clone();
        self.collected = Collected::from_bytes(self.task, file("collected.bin")?)
            .ok_or_else(|| damaged("collected.bin", "it is damaged".into()))?;
        self.metrics =
            String::from_utf8(file("metrics.jsonl")?.clone()).map_err(|e| damaged("metrics.jsonl", e.to_string()))?;
        self.checkpoint = found.number;
        Ok(())
    }

    /// Lets a card do the computing.
    ///
    /// # Errors
    /// If the card fails.
    pub fn on(mut self, mut card: Card) -> Result<Self> {
        card.load(&self.engine)?;
        if self.state.steps == 0 {
            card.name().clone_into(&mut self.state.by);
        }
        self.card = Some(card);
        Ok(self)
    }

    /// Fetches parameters, moments and statistics from a card.
    fn fetch(&mut self) -> Result<()> {
        self.pack_best();
        self.card.as_mut().map_or(Ok(()), |card| card.store(&mut self.engine))
    }

    /// Keeps the model as the best one so far. A card goes on while the engine holds it, so it is packed no sooner than something else is fetched.
    fn keep_best(&mut self) -> Result<()> {
        match &mut self.card {
            Some(card) => {
                card.store_model(&mut self.engine)?;
                self.best_in_engine = true;
            }
            None => self.best_model = self.header.save(&self.engine),
        }
        Ok(())
    }

    fn pack_best(&mut self) {
        if std::mem::take(&mut self.best_in_engine) {
            self.best_model = self.header.save(&self.engine);
        }
    }

    /// Parameters of the network.
    pub fn parameters(&self) -> usize {
        self.engine.parameters().count()
    }

    /// Trains until something says stop, `interrupt` included, and writes the run's model files.
    ///
    /// # Errors
    /// If a loss or gradient is not finite, a card stops working, or a file cannot be written. The checkpoints before are intact.
    pub fn run(mut self, interrupt: &AtomicBool, observer: &mut dyn Observer) -> Result<Outcome> {
        let now = self.card.as_ref().map_or(Isa::detect().name(), Card::name).to_owned();
        let before = std::mem::replace(&mut self.state.by, now.clone());
        if before != now {
            observer.note(&format!("the run went by {before} before and goes on by {now}: its bytes will be its own"));
        }
        match self.advance(interrupt, observer) {
            Err(TrainError::Device(cause @ CudaError::Lost(_))) => {
                // What was handed to the writer is whole, whatever became of the card.
                self.writer.finish()?;
                Err(TrainError::Lost { cause, epoch: self.state.epoch + 1, checkpoint: self.last_checkpoint() })
            }
            ended => ended,
        }
    }

    /// Epochs until something says stop, and what came of them.
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
        let plan = EpochPlan {
            order: Order::shuffled(self.task.graphs_of(Part::Train), train.batch, train.seed, epoch),
            signs: Signs { flip: train.sign_flip, seed: train.seed, epoch },
            adam: self.config.optimizer.adam(lr),
        };
        let whole = match self.card {
            Some(_) => self.steps_on_card(&plan, interrupt, observer)?,
            None => self.steps(&plan, interrupt, observer)?,
        };
        let train_seconds = before + start.elapsed().as_secs_f64();
        if !whole {
            self.state.epoch_seconds = train_seconds;
            self.state.seconds += start.elapsed().as_secs_f64();
            return Ok(false);
        }
        self.finish_epoch(lr, start, train_seconds, observer)?;
        Ok(!self.is_stopped(interrupt))
    }

    /// An epoch's steps; false if they were interrupted.
    fn steps(
        &mut self,
        EpochPlan { order, signs, adam }: &EpochPlan,
        interrupt: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let Config { train, .. } = self.config;
        let (task, from, epoch) = (self.task, self.state.batch, self.state.epoch);
        let checkpoint = self.last_checkpoint();
        let mut left_out = false;
        let mut whole = true;
        batches::for_each(task, Part::Train, order, *signs, from, |number, ready| {
            self.engine.set_dropout_key(self.dropout_key());
            let labels = ready.labels.rows();
            let statistics = train.skip_bad_steps.then(|| running_statistics(&self.engine));
            let loss = ready.train(&mut self.engine, task);
            if train.accumulate > 1 {
                self.engine.accumulate(number % train.accumulate == 0);
            }
            let stepping = (number + 1) % train.accumulate == 0 || number + 1 == order.len();
            let finite = !stepping || self.engine.gather_gradients(number % train.accumulate + 1).is_finite();
            let wrong = if !loss.is_finite() {
                Some("loss")
            } else if !has_finite_statistics(&self.engine) {
                // A normalisation can turn what has overflowed into a finite loss.
                Some("variance of a normalisation")
            } else {
                (!finite && !left_out).then_some("gradient")
            };
            if let Some(what) = wrong {
                let graphs = shortened(order.graphs(number));
                let (epoch, batch) = (epoch + 1, number + 1);
                if !train.skip_bad_steps {
                    return Err(TrainError::NotFinite { epoch, batch, what, graphs, checkpoint: checkpoint.clone() });
                }
                let place = format!("epoch {epoch}, batch {batch}");
                observer.note(&format!("{place}: the {what} is not finite (graphs {graphs}); the step is left out"));
                left_out = true;
            }
            if left_out {
                // It leaves no trace in running statistics and scores either.
                statistics.iter().for_each(|values| set_running_statistics(&mut self.engine, values));
            } else {
                if stepping {
                    self.engine.step(adam);
                }
                self.collected.add(task, &ready.outputs(&self.engine), labels, loss);
            }
            if stepping {
                self.state.steps += 1;
                left_out = false;
            }
            self.state.batch = number + 1;
            observer.batch(epoch + 1, number + 1, order.len(), loss);
            // Half a step cannot be kept, so an interruption waits for its end.
            whole = !stepping || !self.is_stopped(interrupt);
            Ok(whole)
        })?;
        Ok(whole)
    }

    /// The same on a card, which is asked now and then.
    fn steps_on_card(
        &mut self,
        EpochPlan { order, signs, adam }: &EpochPlan,
        interrupt: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let (task, from, epoch) = (self.task, self.state.batch, self.state.epoch);
        let key = self.dropout_key();
        let Some(card) = &mut self.card else { return Ok(true) };
        let writer = &self.writer;
        let stop = || interrupt.load(Ordering::Relaxed) || writer.has_failed();
        let told = |batch: usize, loss: f64| observer.batch(epoch + 1, batch + 1, order.len(), loss);
        let steps = card.train(task, order, *signs, from, (*adam, key), &mut self.collected, stop, told)?;
        self.state.batch = steps.done;
        self.state.steps += (steps.done - from) as u64;
        if let Some(batch) = steps.bad {
            let graphs = shortened(order.graphs(batch));
            let checkpoint = self.last_checkpoint();
            let what = "loss or gradient";
            return Err(TrainError::NotFinite { epoch: epoch + 1, batch: batch + 1, what, graphs, checkpoint });
        }
        Ok(steps.done == order.len() && !self.is_stopped(interrupt))
    }

    /// Dropout's key of the next step.
    fn dropout_key(&self) -> u64 {
        self.config.train.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.state.steps)
    }

    /// Where the newest checkpoint lies.
    fn last_checkpoint(&self) -> Option<PathBuf> {
        (self.checkpoint > 0).then(|| checkpoint::place(&self.run.checkpoints(), self.checkpoint))
    }

    /// Whether there is a reason to stop now: somebody said so, or nothing can be saved any more, which the attempt to do so will tell.
    fn is_stopped(&self, interrupt: &AtomicBool) -> bool {
        interrupt.load(Ordering::Relaxed) || self.writer.has_failed()
    }

    fn time_is_up(&self) -> bool {
        let hours = self.config.train.hours;
        hours > 0.0 && self.state.seconds >= hours * 3600.0
    }

    /// Validation, test, schedule, best model.
    fn finish_epoch(&mut self, lr: f64, start: Instant, train_seconds: f64, observer: &mut dyn Observer) -> Result<()> {
        // While a card goes through a part, the one before is scored here.
        let under_way = self.begin(Part::Val)?;
        let trained = self.collected.scores(self.task);
        self.collected = Collected::new(self.task);
        let mut collected = self.collect(Part::Val, under_way)?;
        let tested = self.task.labels(Part::Test) > 0;
        let under_way = if tested { self.begin(Part::Test)? } else { None };
        let val = collected.scores(self.task);
        let test = if tested {
            collected = self.collect(Part::Test, under_way)?;
            Some(collected.scores(self.task))
        } else {
            None
        };
        self.predictions = Some((if tested { Part::Test } else { Part::Val }, collected));
        let loss = val.loss.paper;
        if loss.is_finite() && self.state.best.as_ref().is_none_or(|best| loss < best.val.loss.paper) {
            self.state.best =
                Some(Best { epoch: self.state.epoch + 1, train: None, val: val.clone(), test: test.clone() });
            self.keep_best()?;
        }
        let spent = start.elapsed().as_secs_f64();
        self.state.epoch += 1;
        self.state.batch = 0;
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
        let too_small = self.state.schedule.finish_epoch(&self.config.schedule, loss);
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

    /// Lets a card, if there is one, go through a part.
    fn begin(&mut self, part: Part) -> Result<Option<UnderWay>> {
        let batch = self.config.train.batch;
        self.card.as_mut().map(|card| card.begin(self.task, part, batch)).transpose()
    }

    /// Outputs and labels of a part, which a card may be at already.
    fn collect(&mut self, part: Part, under_way: Option<UnderWay>) -> Result<Collected> {
        let batch = self.config.train.batch;
        let Some(card) = &mut self.card else { return collect(&mut self.engine, self.task, part, batch) };
        let under_way = under_way.map_or_else(|| card.begin(self.task, part, batch), Ok)?;
        card.collect(self.task, under_way)
    }

    /// Scores of a part; what is predicted for the last part but training is kept for the report.
    fn evaluate(&mut self, part: Part) -> Result<Scores> {
        let mut collected = self.collect(part, None)?;
        let scores = collected.scores(self.task);
        if part != Part::Train {
            self.predictions = Some((part, collected));
        }
        Ok(scores)
    }

    /// Hands a checkpoint to the writer.
    fn save(&mut self) -> Result<()> {
        self.fetch()?;
        if !is_finite(&self.engine) {
            let State { epoch, batch, .. } = self.state;
            let text = format!(
                "after {epoch} epochs and {batch} batches the parameters or running statistics are not finite, so they are not saved; \
                 a smaller optimizer.lr may help"
            );
            return Err(TrainError::run(self.run.path(), text));
        }
        self.checkpoint += 1;
        let state = serde_json::to_vec_pretty(&self.state).expect("a state is plain data");
        let files = Files::from([
            ("model.safetensors", self.header.save(&self.engine)),
            ("moments.safetensors", save_moments(&self.engine)),
            ("best.safetensors", self.best_model.clone()),
            ("collected.bin", self.collected.to_bytes()),
            ("metrics.jsonl", self.metrics.clone().into_bytes()),
            ("state.json", state),
        ]);
        self.saved = Instant::now();
        self.writer.write(self.checkpoint, files)
    }

    /// Writes the model files and scores the last model on all parts.
    fn outcome(&mut self, stop: Stop) -> Result<Outcome> {
        self.fetch()?;
        let model = self.header.save(&self.engine);
        self.run.write("model.safetensors", &model)?;
        if !self.best_model.is_empty() {
            self.run.write("best.safetensors", &self.best_model)?;
        }
        let mut last = Vec::new();
        let mut best = self.state.best.clone();
        if stop != Stop::Interrupted {
            for part in Part::ALL {
                if self.task.labels(part) > 0 {
                    last.push((part, self.evaluate(part)?));
                }
            }
            if let Some(best) = &mut best {
                if best.epoch != self.state.epoch {
                    load_weights(&mut self.engine, &self.best_model)
                        .map_err(|e| TrainError::run(self.run.path(), format!("the best model: {e}")))?;
                    if let Some(card) = &mut self.card {
                        card.load(&self.engine)?;
                    }
                }
                best.train = Some(self.evaluate(Part::Train)?);
            }
        }
        Ok(Outcome {
            stop,
            epochs: self.state.epoch,
            seconds: self.state.seconds,
            last,
            best,
            weights: checkpoint::hash(&model),
            card: self.card.as_ref().map(|card| card.name().to_owned()),
            predictions: self.predictions.take(),
        })
    }
}

/// Everything about an epoch that is settled before it begins.
struct EpochPlan {
    order: Order,
    signs: Signs,
    adam: Adam,
}

/// The first few numbers.
fn shortened(graphs: &[usize]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = graphs.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if graphs.len() > SHOWN { format!(", … {} in all", graphs.len()) } else { String::new() };
    shown.join(", ") + &more
}
