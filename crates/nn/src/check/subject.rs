//! What is checked: the processor's f32 engine, or a card.

use std::path::Path;

use gt_graph::{GraphBatch, GraphStore};

use super::problems::Problem;
use crate::cpu::{Adam, Engine};
use crate::cuda::{CudaDevice, CudaEngine, CudaError, CudaLabels, CudaTask, Pass, Precision, ResidentData};

/// Computes batches; afterwards `host` holds parameters and gradients.
pub(super) struct Subject<'a> {
    problem: &'a Problem,
    store: &'a GraphStore,
    batches: &'a [Vec<usize>],
    pub(super) host: Engine<f32>,
    card: Option<Card>,
}

struct Card {
    engine: CudaEngine,
    labels: CudaLabels,
    order: Vec<u32>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        device: Option<(&CudaDevice, Precision, Option<&Path>)>,
        problem: &'a Problem,
        store: &'a GraphStore,
        batches: &'a [Vec<usize>],
        host: Engine<f32>,
    ) -> Result<Self, CudaError> {
        let card = device
            .map(|(device, precision, cache)| Card::new(device, precision, cache, problem, store, batches, &host));
        Ok(Self { problem, store, batches, host, card: card.transpose()? })
    }

    fn batch(&self, number: usize) -> GraphBatch {
        let mut batch = GraphBatch::new();
        batch.assemble(self.store, &self.batches[number]).expect("small graphs fit a batch");
        batch
    }

    /// Outputs and loss of a training step.
    pub(super) fn train(&mut self, number: usize, adam: &Adam, key: u64) -> Result<(Vec<f32>, f64), CudaError> {
        if let Some(Card { engine, labels, order }) = &mut self.card {
            engine.begin(Pass { order, from: number, signs: &[], labels, train: Some((*adam, key)) })?;
            engine.launch(1)?;
            let result = engine.finish()?;
            engine.store(&mut self.host)?;
            return Ok((result.outputs, result.losses[0]));
        }
        let batch = self.batch(number);
        self.host.set_dropout_key(key);
        let labels = batch.target().expect("the problems have labels");
        let loss = self.host.train(&batch, self.problem.edges, self.problem.loss, labels);
        let outputs = self.host.outputs();
        self.host.step(adam);
        Ok((outputs, loss))
    }

    /// Outputs of all batches in inference.
    pub(super) fn predict(&mut self) -> Result<Vec<f32>, CudaError> {
        if let Some(Card { engine, labels, order }) = &mut self.card {
            engine.begin(Pass { order, from: 0, signs: &[], labels, train: None })?;
            engine.launch(self.batches.len())?;
            return Ok(engine.finish()?.outputs);
        }
        let mut outputs = Vec::new();
        for number in 0..self.batches.len() {
            let batch = self.batch(number);
            outputs.extend(self.host.predict(&batch, self.problem.edges));
        }
        Ok(outputs)
    }
}

impl Card {
    fn new(
        device: &CudaDevice,
        precision: Precision,
        cache: Option<&Path>,
        problem: &Problem,
        store: &GraphStore,
        batches: &[Vec<usize>],
        host: &Engine<f32>,
    ) -> Result<Self, CudaError> {
        let order: Vec<u32> = batches.iter().flatten().map(|&id| id as u32).collect();
        let data = ResidentData::new(device, store, &problem.network, problem.edges)?;
        // All graphs in one batch: their labels, edges sorted by target as the device has them.
        let mut all = GraphBatch::new();
        all.assemble(store, &(0..store.len()).collect::<Vec<_>>()).expect("small graphs fit a batch");
        let rows = store.rows(problem.network.reads.level());
        let labels = CudaLabels::new(device, rows, all.target().expect("the problems have labels"))?;
        let task = CudaTask {
            network: problem.network.clone(),
            loss: problem.loss,
            batch: batches[0].len(),
            rows,
            listed: order.len(),
            signs_per_graph: false,
            precision,
        };
        let mut engine = CudaEngine::new(device, &data, task, cache)?;
        engine.load(host)?;
        Ok(Self { engine, labels, order })
    }
}
