//! Training and evaluation on a card: passes over lists of graphs, of which the processor sees the results.

use std::path::Path;
use std::sync::Arc;

use gt_graph::{GraphBatch, MISSING_CLASS, TargetKind, TargetRows};
use gt_models::{Config, ModelHeader};
use gt_nn::cpu::{Adam, Engine};
use gt_nn::cuda::{CudaDevice, CudaEngine, CudaError, CudaLabels, CudaTask, Pass, Precision, ResidentData};

use crate::batches::{Labels, Order, Signs, labels_of};
use crate::error::{Result, TrainError};
use crate::evaluate::{Collected, Scores};
use crate::inputs::Inputs;
use crate::task::{Part, Task};

/// Steps that are launched before the processor looks whether to go on.
const STEPS_AT_ONCE: usize = 64;

/// Graphs whose labels are put in order at a time.
const GRAPHS_AT_ONCE: usize = 1024;

/// A task's data and labels on a device; runs that differ in their seeds share them.
#[derive(Debug)]
pub struct CardData {
    device: CudaDevice,
    graphs: Arc<ResidentData>,
    /// Of each part: on the device, and as the processor has them.
    labels: [(CudaLabels, Labels); 3],
}

impl CardData {
    /// Puts a task's data on a device.
    ///
    /// # Errors
    /// If it is a task that only the processor does ([`TrainError::Device`]), or the data does not fit.
    pub fn new(device: &CudaDevice, task: &Task) -> Result<Arc<Self>> {
        if task.links.is_some() {
            return Err(TrainError::links_on_card());
        }
        let graphs = ResidentData::new(device, &task.graphs, &task.network, task.edges)?;
        let rows = task.graphs.rows(task.shape.target.level);
        let of_part = |part| -> Result<(CudaLabels, Labels)> {
            let labels = all_labels(task, part)?;
            Ok((CudaLabels::new(device, rows, labels.rows())?, labels))
        };
        let labels = [of_part(Part::Train)?, of_part(Part::Val)?, of_part(Part::Test)?];
        Ok(Arc::new(Self { device: device.clone(), graphs, labels }))
    }

    /// What the device is called.
    pub fn device_name(&self) -> &str {
        self.device.name()
    }
}

/// A network on a device, with the data of its task beside it.
pub struct Card {
    name: String,
    engine: CudaEngine,
    data: Arc<CardData>,
}

/// How a pass of training steps ended.
pub(crate) struct Steps {
    /// Batches done.
    pub(crate) done: usize,
    /// The first batch whose loss or gradient was not finite.
    pub(crate) bad: Option<usize>,
}

/// A pass over a part that a device is at.
pub(crate) struct UnderWay {
    part: Part,
    order: Order,
}

impl Card {
    /// Prepares a device for training on a task whose data is there. `cache` is a folder for compiled kernels.
    ///
    /// # Errors
    /// If the configuration asks for something that only the processor does ([`TrainError::Device`]), or the device fails.
    pub fn new(
        data: &Arc<CardData>,
        precision: Precision,
        task: &Task,
        config: &Config,
        cache: Option<&Path>,
    ) -> Result<Self> {
        let lacking = |what: &str| Err(CudaError::Unsupported(what.into()).into());
        if config.train.accumulate > 1 {
            return lacking("train.accumulate");
        }
        if config.train.skip_bad_steps {
            return lacking("train.skip_bad_steps");
        }
        Self::to_evaluate(data, precision, task, config, cache)
    }

    /// The same for evaluation, which asks less of a device.
    ///
    /// # Errors
    /// If the network has something that only the processor does ([`TrainError::Device`]), or the device fails.
    pub fn to_evaluate(
        data: &Arc<CardData>,
        precision: Precision,
        task: &Task,
        config: &Config,
        cache: Option<&Path>,
    ) -> Result<Self> {
        let parts = Part::ALL.map(|part| task.graphs_of(part));
        let level = task.shape.target.level;
        let rows_of = |graphs: &[usize]| graphs.iter().map(|&graph| task.graphs.row_range(level, graph).len()).sum();
        let mut engine = CudaEngine::new(
            &data.device,
            &data.graphs,
            CudaTask {
                network: task.network.clone(),
                loss: task.loss,
                batch: config.train.batch,
                rows: parts.iter().map(|graphs| rows_of(graphs)).max().unwrap_or(0),
                listed: parts.iter().map(Vec::len).max().unwrap_or(0),
                signs_per_graph: config.train.sign_flip == gt_models::config::SignFlip::Graph,
                precision,
            },
            cache,
        )?;
        engine.prepare()?;
        let off = if data.graphs.on_card() { "" } else { ", the data in the computer's memory" };
        let name = format!("{}, {}{off}", data.device_name(), precision.name());
        Ok(Self { name, engine, data: Arc::clone(data) })
    }

    /// The device and its precision, as people read it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Evaluates an engine's parameters on a part, in the order of the data.
    ///
    /// # Errors
    /// If the device fails.
    pub fn evaluate(&mut self, engine: &Engine<f32>, task: &Task, part: Part, batch: usize) -> Result<Scores> {
        self.load(engine)?;
        let under_way = self.begin(task, part, batch)?;
        Ok(self.collect(task, under_way)?.scores(task))
    }

    /// Takes parameters, moments and statistics.
    pub(crate) fn load(&mut self, engine: &Engine<f32>) -> Result<()> {
        Ok(self.engine.load(engine)?)
    }

    /// Gives parameters, moments and statistics.
    pub(crate) fn store(&mut self, engine: &mut Engine<f32>) -> Result<()> {
        Ok(self.engine.store(engine)?)
    }

    /// Gives parameters and statistics.
    pub(crate) fn store_model(&mut self, engine: &mut Engine<f32>) -> Result<()> {
        Ok(self.engine.store_model(engine)?)
    }

    /// Training steps from a batch on, until the epoch ends or `stop` says so; `told` hears of batches and their losses. `key` is dropout's key of the first step.
    #[allow(clippy::too_many_arguments, reason = "an epoch's settings, and two to talk to")]
    pub(crate) fn train(
        &mut self,
        task: &Task,
        order: &Order,
        signs: Signs,
        from: usize,
        (adam, key): (Adam, u64),
        collected: &mut Collected,
        mut stop: impl FnMut() -> bool,
        mut told: impl FnMut(usize, f64),
    ) -> Result<Steps> {
        let listed = order.listed();
        let signs = signs.all(order, task.network.node.laplacian);
        let (labels, host) = &self.data.labels[Part::Train as usize];
        self.engine.begin(Pass { order: &listed, from, signs: &signs, labels, train: Some((adam, key)) })?;
        let mut done = from;
        while done < order.len() {
            let steps = STEPS_AT_ONCE.min(order.len() - done);
            self.engine.launch(steps)?;
            self.engine.wait()?;
            for (batch, loss) in (done..).zip(self.engine.losses(done..done + steps)?) {
                told(batch, loss);
            }
            done += steps;
            if stop() {
                break;
            }
        }
        let result = self.engine.finish()?;
        let whole = result.bad.unwrap_or(done);
        add(task, order, from..whole, &result.outputs, &result.losses, host, collected);
        Ok(Steps { done: whole, bad: result.bad })
    }

    /// Lets the device go through a part, in the order of the data. It may take its time: [`Card::collect`] waits.
    pub(crate) fn begin(&mut self, task: &Task, part: Part, batch: usize) -> Result<UnderWay> {
        let order = Order::plain(task.graphs_of(part), batch);
        let (labels, _) = &self.data.labels[part as usize];
        self.engine.begin(Pass { order: &order.listed(), from: 0, signs: &[], labels, train: None })?;
        self.engine.launch(order.len())?;
        Ok(UnderWay { part, order })
    }

    /// Outputs and labels of the part that the device was last told to go through.
    pub(crate) fn collect(&mut self, task: &Task, UnderWay { part, order }: UnderWay) -> Result<Collected> {
        let result = self.engine.finish()?;
        let (_, host) = &self.data.labels[part as usize];
        let mut collected = Collected::new(task);
        add(task, &order, 0..order.len(), &result.outputs, &result.losses, host, &mut collected);
        Ok(collected)
    }
}

/// Outputs for all rows of usable graphs, in their order, edges of each graph sorted by target.
pub(crate) fn outputs(
    device: &CudaDevice,
    precision: Precision,
    cache: Option<&Path>,
    engine: &Engine<f32>,
    header: &ModelHeader,
    inputs: &Inputs,
) -> Result<Vec<f32>> {
    let order: Vec<u32> = inputs.usable().map(|graph| graph as u32).collect();
    if order.is_empty() {
        return Ok(Vec::new());
    }
    let (graphs, target, network) = (inputs.graphs(), &header.data.target, engine.network());
    let rows = graphs.rows(target.level);
    // A pass takes labels; here all of them are missing.
    let count = rows * target.columns.len();
    let missing = match target.kind {
        TargetKind::Float => Labels::Float(vec![f32::NAN; count]),
        TargetKind::Class => Labels::Class(vec![MISSING_CLASS; count]),
    };
    let labels = CudaLabels::new(device, rows, missing.rows())?;
    let data = ResidentData::new(device, graphs, network, inputs.edges())?;
    let task = CudaTask {
        network: network.clone(),
        loss: header.config.loss(&header.data)?,
        batch: inputs.batch(),
        rows: inputs.usable().map(|graph| graphs.row_range(target.level, graph).len()).sum(),
        listed: order.len(),
        signs_per_graph: false,
        precision,
    };
    let mut card = CudaEngine::new(device, &data, task, cache)?;
    card.load(engine)?;
    card.begin(Pass { order: &order, from: 0, signs: &[], labels: &labels, train: None })?;
    card.launch(order.len().div_ceil(inputs.batch()))?;
    Ok(card.finish()?.outputs)
}

/// Labels of a part for all rows of the data set, edges of each graph sorted by target.
fn all_labels(task: &Task, part: Part) -> Result<Labels> {
    let mut all: Option<Labels> = None;
    let mut batch = GraphBatch::new();
    let graphs: Vec<usize> = (0..task.graphs.len()).collect();
    for graphs in graphs.chunks(GRAPHS_AT_ONCE) {
        batch.assemble(&task.graphs, graphs).map_err(|e| TrainError::Data(e.to_string()))?;
        let labels = labels_of(task, part, graphs, &batch)?;
        match (&mut all, labels) {
            (Some(Labels::Float(own)), Labels::Float(more)) => own.extend(more),
            (Some(Labels::Class(own)), Labels::Class(more)) => own.extend(more),
            (all, labels) => *all = Some(labels),
        }
    }
    all.ok_or_else(|| TrainError::Data("it has no graphs".into()))
}

/// Adds batches of a pass, each with its labels, to what is collected.
fn add(
    task: &Task,
    order: &Order,
    batches: std::ops::Range<usize>,
    outputs: &[f32],
    losses: &[f64],
    labels: &Labels,
    collected: &mut Collected,
) {
    let (level, width) = (task.shape.target.level, task.outputs());
    let columns = labels.rows().len() / task.graphs.rows(level).max(1);
    let mut at = 0;
    let mut own = match labels {
        Labels::Float(_) => Labels::Float(Vec::new()),
        Labels::Class(_) => Labels::Class(Vec::new()),
    };
    for (batch, &loss) in batches.zip(losses) {
        let mut rows = 0;
        match &mut own {
            Labels::Float(values) => values.clear(),
            Labels::Class(values) => values.clear(),
        }
        for &graph in order.graphs(batch) {
            let range = task.graphs.row_range(level, graph);
            rows += range.len();
            let range = range.start * columns..range.end * columns;
            match (&mut own, labels.rows()) {
                (Labels::Float(own), TargetRows::Float(all)) => own.extend_from_slice(&all[range]),
                (Labels::Class(own), TargetRows::Class(all)) => own.extend_from_slice(&all[range]),
                _ => unreachable!("made of the same kind above"),
            }
        }
        collected.add(task, &outputs[at * width..(at + rows) * width], own.rows(), loss);
        at += rows;
    }
}
