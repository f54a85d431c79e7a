//! Scores of the outputs of a pass.

use std::collections::BTreeMap;

use gt_data::Dataset;
use gt_graph::{Split, TargetKind, TargetRows};
use gt_models::{Config, Ensemble, OutputMean};
use gt_nn::backend::{Backend, Device, Labels, PassOutputs, PassPlan, run};
use gt_nn::loss_of;
use serde::{Deserialize, Serialize};

use crate::backend::Purpose;
use crate::encodings::EncodingCache;
use crate::error::Result;
use crate::metrics::{self, Detail, Forms, Predicted, link_hits};
use crate::prepared::Prepared;

/// Loss and metric of a split, in both forms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// The loss that is minimised, on the scale of training.
    pub loss: Forms,
    /// The task's metric, on the data's scale.
    pub metric: Forms,
    /// Further metrics by name, over the whole split.
    pub others: BTreeMap<String, f64>,
}

/// Scores a network on a split, in the order of the data.
///
/// ```
/// use graph_transformer_train::{Prepared, Purpose, evaluate};
/// use gt_data::{SbmSet, SbmSizes};
/// use gt_graph::Split;
/// use gt_models::{Config, Model};
/// use gt_nn::backend::Device;
///
/// // A model with its initial weights, which guesses among six communities.
/// let data = SbmSet::Cluster.generate(41, SbmSizes { train: 2, val: 1, test: 2 })?;
/// let config = Config::from_toml("[model]\nlayers = 1\nwidth = 8\nheads = 2")?;
/// let model = Model::new(config, data.schema().clone())?;
///
/// let data = Prepared::for_model(data, &model, None)?;
/// let device = data.place(&Device::Cpu)?;
/// let mut backend = device.backend(&data, &model.config, Purpose::Evaluation)?;
/// backend.load(&model.weights, None)?;
/// let scores = evaluate(&data, backend.as_mut(), Split::Test, 1)?;
/// assert!((scores.loss.exact - 6f64.ln()).abs() < 0.5);
/// assert!(scores.metric.exact < 50.0, "mean recall in percent");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// # Errors
/// If the device fails.
pub fn evaluate(data: &Prepared, backend: &mut dyn Backend, split: Split, batch: usize) -> Result<Scores> {
    let mut outputs = run(backend, PassPlan::evaluation(split, data.graphs_of(split), batch))?.outputs;
    Ok(score(data, &mut outputs, Detail::All))
}

/// Scores several models together on a split: the mean of their predictions, or of their
/// probabilities. `config` is that of the first model, with the split to score. In the paper's
/// form, the loss is the mean over batches of the size in `config`.
///
/// # Errors
/// If the data does not fit a model, or the device fails.
pub fn evaluate_ensemble(
    dataset: &Dataset,
    models: &Ensemble,
    config: &Config,
    device: &Device,
    split: Split,
    cache: Option<&EncodingCache>,
) -> Result<Scores> {
    let first = models.first();
    let mut mean = OutputMean::new(first.config.outputs(&first.schema)?.unexpanded());
    let mut scored: Option<(Prepared, PassOutputs)> = None;
    for model in models.members() {
        let mut model = model.clone();
        // All members must score the same rows.
        (model.config.data, model.config.links) = (config.data.clone(), config.links.clone());
        let data = Prepared::for_model(dataset.clone(), &model, cache)?;
        let resident = data.place(device)?;
        let mut backend = resident.backend(&data, &model.config, Purpose::Evaluation)?;
        backend.load(&model.weights, None)?;
        let plan = PassPlan::evaluation(split, data.graphs_of(split), config.train.batch);
        let mut outputs = run(backend.as_mut(), plan)?.outputs;
        data.unscale(&mut outputs.values);
        mean.add(&outputs.values, data.network.outputs());
        drop(backend);
        scored.get_or_insert((data, outputs));
    }
    let (data, mut outputs) = scored.expect("an ensemble has members");
    outputs.values = mean.finish();
    data.scaling.scale_targets(&mut outputs.values);
    outputs.losses = losses_of(&data, &outputs);
    Ok(score(&data, &mut outputs, Detail::All))
}

/// The loss of each batch of a pass.
fn losses_of(data: &Prepared, outputs: &PassOutputs) -> Vec<f64> {
    let (width, columns) = (data.network.outputs(), data.target().columns.len());
    let mut first = 0;
    let batch = |rows: &usize| {
        let (start, end) = (first, first + rows);
        first = end;
        let labels = match &outputs.labels {
            Labels::Absent => return f64::NAN,
            Labels::Float(values) => TargetRows::Float(&values[start * columns..end * columns]),
            Labels::Class(values) => TargetRows::Class(&values[start * columns..end * columns]),
        };
        loss_of(data.loss, &outputs.values[start * width..end * width], width, labels)
    };
    outputs.rows.iter().map(batch).collect()
}

/// Outputs with their labels.
pub(crate) fn predicted<'a>(data: &Prepared, outputs: &'a PassOutputs) -> Predicted<'a> {
    let none = match data.target().kind {
        TargetKind::Float => TargetRows::Float(&[]),
        TargetKind::Class => TargetRows::Class(&[]),
    };
    Predicted { outputs: &outputs.values, width: data.outputs(), target: outputs.labels.rows().unwrap_or(none) }
}

/// Scores of the outputs of a pass. Outputs and labels are then on the data's scale, and log-odds
/// of two classes have become logits of both.
pub(crate) fn score(data: &Prepared, outputs: &mut PassOutputs, detail: Detail) -> Scores {
    let labelled: Vec<f64> = outputs
        .losses
        .iter()
        .zip(outputs.labelled())
        .filter_map(|(loss, labelled)| labelled.then_some(*loss))
        .collect();
    let loss = match labelled.len() {
        // Not the 0 that a perfect model would have.
        0 => Forms { paper: f64::NAN, exact: f64::NAN },
        batches => Forms {
            paper: labelled.iter().sum::<f64>() / batches as f64,
            exact: loss_of(data.loss, &outputs.values, data.network.outputs(), predicted(data, outputs).target),
        },
    };
    data.unscale(&mut outputs.values);
    outputs.values = data.output_kind.expand(std::mem::take(&mut outputs.values));
    if let Labels::Float(values) = &mut outputs.labels {
        data.unscale(values);
    }
    let predicted = predicted(data, outputs);
    let (metric, mut others) = metrics::scores(data.metric, data.form, predicted, &outputs.rows, detail);
    if data.links.is_some() {
        others.extend(link_hits(predicted));
    }
    let others = others.into_iter().filter(|(_, value)| value.is_finite());
    Scores { loss, metric, others: others.map(|(name, value)| (name.to_owned(), value)).collect() }
}

/// The outputs of an unfinished pass as bytes, for a checkpoint.
pub(crate) fn outputs_to_bytes(outputs: &PassOutputs) -> Vec<u8> {
    let labels: Vec<u32> = match &outputs.labels {
        Labels::Absent => Vec::new(),
        Labels::Float(values) => values.iter().map(|v| v.to_bits()).collect(),
        Labels::Class(values) => values.clone(),
    };
    let mut bytes = Vec::new();
    for length in [outputs.values.len(), labels.len(), outputs.rows.len()] {
        bytes.extend((length as u64).to_le_bytes());
    }
    bytes.extend(outputs.values.iter().flat_map(|v| v.to_le_bytes()));
    bytes.extend(labels.iter().flat_map(|v| v.to_le_bytes()));
    bytes.extend(outputs.rows.iter().flat_map(|v| (*v as u64).to_le_bytes()));
    bytes.extend(outputs.losses.iter().flat_map(|v| v.to_le_bytes()));
    bytes
}

/// The inverse of [`outputs_to_bytes`], for labels of a kind.
pub(crate) fn outputs_from_bytes(kind: TargetKind, bytes: &[u8]) -> Option<PassOutputs> {
    let (lengths, rest) = bytes.split_at_checked(24)?;
    let length = |at: usize| Some(u64::from_le_bytes(lengths[8 * at..8 * at + 8].try_into().ok()?) as usize);
    let (values, labels, rows) = (length(0)?, length(1)?, length(2)?);
    let (values, rest) = rest.split_at_checked(values.checked_mul(4)?)?;
    let (labels, rest) = rest.split_at_checked(labels.checked_mul(4)?)?;
    let (rows, losses) = rest.split_at_checked(rows.checked_mul(8)?)?;
    let words = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect::<Vec<_>>();
    let outputs = PassOutputs {
        values: words(values).into_iter().map(f32::from_bits).collect(),
        labels: match kind {
            TargetKind::Float => Labels::Float(words(labels).into_iter().map(f32::from_bits).collect()),
            TargetKind::Class => Labels::Class(words(labels)),
        },
        rows: rows.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b) as usize).collect(),
        losses: losses.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
    };
    (outputs.losses.len() == outputs.rows.len()).then_some(outputs)
}
