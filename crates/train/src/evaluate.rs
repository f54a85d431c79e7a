//! Predictions for a part of the data, and how good they are.

use std::collections::BTreeMap;

use gt_graph::{MISSING_CLASS, TargetKind, TargetRows};
use gt_nn::cpu::Engine;
use gt_nn::loss_of;
use serde::{Deserialize, Serialize};

use crate::batches::{self, Labels, Order, Signs};
use crate::error::Result;
use crate::metrics::{self, Forms, Predicted, link_hits};
use crate::task::{Part, Task};

/// Loss and metric of a part, in both forms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// The loss that is minimised, on the scale of training.
    pub loss: Forms,
    /// The task's metric, on the data's scale.
    pub metric: Forms,
    /// Further metrics, over everything.
    pub others: BTreeMap<String, f64>,
}

/// Outputs and labels of consecutive batches, on the training scale.
#[derive(Clone, Debug)]
pub(crate) struct Collected {
    pub(crate) outputs: Vec<f32>,
    pub(crate) labels: Labels,
    /// Rows of each batch.
    pub(crate) batches: Vec<usize>,
    /// Loss of each batch.
    pub(crate) losses: Vec<f64>,
}

impl Collected {
    pub(crate) fn new(task: &Task) -> Self {
        let labels = match task.shape.target.kind {
            TargetKind::Class => Labels::Class(Vec::new()),
            TargetKind::Float => Labels::Float(Vec::new()),
        };
        Self { outputs: Vec::new(), labels, batches: Vec::new(), losses: Vec::new() }
    }

    pub(crate) fn add(&mut self, task: &Task, outputs: &[f32], labels: TargetRows<'_>, loss: f64) {
        self.outputs.extend_from_slice(outputs);
        match (&mut self.labels, labels) {
            (Labels::Float(own), TargetRows::Float(values)) => own.extend_from_slice(values),
            (Labels::Class(own), TargetRows::Class(values)) => own.extend_from_slice(values),
            _ => unreachable!("the kind of targets is that of the data"),
        }
        self.batches.push(outputs.len() / task.outputs().max(1));
        self.losses.push(loss);
    }

    /// All of it in bytes, for a checkpoint.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let labels: Vec<u32> = match &self.labels {
            Labels::Float(values) => values.iter().map(|v| v.to_bits()).collect(),
            Labels::Class(values) => values.clone(),
        };
        for length in [self.outputs.len(), labels.len(), self.batches.len()] {
            bytes.extend((length as u64).to_le_bytes());
        }
        bytes.extend(self.outputs.iter().flat_map(|v| v.to_le_bytes()));
        bytes.extend(labels.iter().flat_map(|v| v.to_le_bytes()));
        bytes.extend(self.batches.iter().flat_map(|v| (*v as u64).to_le_bytes()));
        bytes.extend(self.losses.iter().flat_map(|v| v.to_le_bytes()));
        bytes
    }

    /// The inverse of [`Collected::to_bytes`].
    pub(crate) fn from_bytes(task: &Task, bytes: &[u8]) -> Option<Self> {
        let (lengths, rest) = bytes.split_at_checked(24)?;
        let length = |at: usize| Some(u64::from_le_bytes(lengths[8 * at..8 * at + 8].try_into().ok()?) as usize);
        let (outputs, labels, batches) = (length(0)?, length(1)?, length(2)?);
        let (outputs, rest) = rest.split_at_checked(outputs.checked_mul(4)?)?;
        let (labels, rest) = rest.split_at_checked(labels.checked_mul(4)?)?;
        let (batches, losses) = rest.split_at_checked(batches.checked_mul(8)?)?;
        let words = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect::<Vec<_>>();
        let mut collected = Self::new(task);
        collected.outputs = words(outputs).into_iter().map(f32::from_bits).collect();
        match &mut collected.labels {
            Labels::Float(values) => values.extend(words(labels).into_iter().map(f32::from_bits)),
            Labels::Class(values) => *values = words(labels),
        }
        collected.batches = batches.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b) as usize).collect();
        collected.losses = losses.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
        (collected.losses.len() == collected.batches.len()).then_some(collected)
    }

    /// Outputs beside their labels.
    pub(crate) fn predicted(&self, task: &Task) -> Predicted<'_> {
        Predicted { outputs: &self.outputs, width: task.outputs(), target: self.labels.rows() }
    }

    /// Whether each batch has a label.
    fn labelled(&self) -> Vec<bool> {
        let present: Vec<bool> = match &self.labels {
            Labels::Float(values) => values.iter().map(|value| !value.is_nan()).collect(),
            Labels::Class(values) => values.iter().map(|&value| value != MISSING_CLASS).collect(),
        };
        let columns = present.len() / self.batches.iter().sum::<usize>().max(1);
        let mut rest = &present[..];
        let next = |rows: &usize| {
            let (own, others) = rest.split_at(rows * columns);
            rest = others;
            own.contains(&true)
        };
        self.batches.iter().map(next).collect()
    }

    /// Scores of everything collected; outputs and labels are then on the data's scale.
    pub(crate) fn scores(&mut self, task: &Task) -> Scores {
        let labelled: Vec<f64> =
            self.losses.iter().zip(self.labelled()).filter_map(|(loss, labelled)| labelled.then_some(*loss)).collect();
        let loss = match labelled.len() {
            // Not the 0 that a perfect model would have.
            0 => Forms { paper: f64::NAN, exact: f64::NAN },
            batches => Forms {
                paper: labelled.iter().sum::<f64>() / batches as f64,
                exact: loss_of(task.loss, &self.outputs, task.outputs(), self.labels.rows()),
            },
        };
        task.unscale(&mut self.outputs);
        if let Labels::Float(values) = &mut self.labels {
            task.unscale(values);
        }
        let predicted = self.predicted(task);
        let (metric, mut others) = metrics::scores(task.metric, predicted, &self.batches);
        if task.links.is_some() {
            others.extend(link_hits(predicted));
        }
        let others = others.into_iter().filter(|(_, value)| value.is_finite());
        Scores { loss, metric, others: others.map(|(name, value)| (name.to_owned(), value)).collect() }
    }
}

/// Evaluates a part in the order of the data.
///
/// # Errors
/// If a batch cannot be assembled.
pub fn evaluate(engine: &mut Engine<f32>, task: &Task, part: Part, batch: usize) -> Result<Scores> {
    Ok(collect(engine, task, part, batch)?.scores(task))
}

/// Outputs and labels of a part, in the order of the data.
pub(crate) fn collect(engine: &mut Engine<f32>, task: &Task, part: Part, batch: usize) -> Result<Collected> {
    let order = Order::plain(task.graphs_of(part), batch);
    let mut collected = Collected::new(task);
    batches::for_each(task, part, &order, Signs::KEPT, 0, |_, ready| {
        let outputs = ready.predict(engine, task);
        let loss = loss_of(task.loss, &outputs, task.outputs(), ready.labels.rows());
        collected.add(task, &outputs, ready.labels.rows(), loss);
        Ok(true)
    })?;
    Ok(collected)
}
