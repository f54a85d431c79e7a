//! Several models that predict together: the mean of numbers, and of probabilities of classes.

use gt_graph::{GraphStore, Level};
use gt_nn::backend::Device;

use super::{Model, ModelError, Predictions, sigmoid};
use crate::ConfigError;
use crate::config::OutputKind;

/// Models that read the same columns and predict the same targets.
///
/// ```
/// use graph_transformer_models::{Config, Ensemble, Model, PublishedSet};
///
/// let model = |seed: u64| {
///     let text = format!("[model]\nlayers = 1\nwidth = 8\nheads = 2\n[train]\nseed = {seed}");
///     Model::new(Config::from_toml(&text).unwrap(), PublishedSet::Zinc.schema()).unwrap()
/// };
/// let members = vec![("first".to_owned(), model(1)), ("second".to_owned(), model(2))];
/// let ensemble = Ensemble::new(members)?;
/// assert_eq!(ensemble.members().count(), 2);
///
/// let mut other = model(3);
/// other.schema = PublishedSet::Cluster.schema();
/// let members = vec![("first".to_owned(), model(1)), ("other".to_owned(), other)];
/// let error = Ensemble::new(members).unwrap_err().to_string();
/// assert!(error.contains("first and other"), "{error}");
/// # Ok::<(), graph_transformer_models::EnsembleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ensemble {
    /// At least one.
    members: Vec<(String, Model)>,
}

/// Why models cannot predict together.
#[derive(Debug, thiserror::Error)]
pub enum EnsembleError {
    /// There is no model.
    #[error("there is no model")]
    Empty,
    /// Two models read or predict something else.
    #[error("{first} and {other} cannot predict together: their {what} differ; pass one of them")]
    Differ {
        /// Name of one model.
        first: String,
        /// Name of the other model.
        other: String,
        /// What differs.
        what: &'static str,
    },
    /// The configuration of a model does not fit its columns.
    #[error("{0}: {1}")]
    Config(String, ConfigError),
}

impl Ensemble {
    /// Joins models, each with a name for messages.
    ///
    /// # Errors
    /// If there is no model, or two differ in their columns, targets, encoding or kind of output.
    pub fn new(members: Vec<(String, Model)>) -> Result<Self, EnsembleError> {
        let [(first_name, first), others @ ..] = &members[..] else { return Err(EnsembleError::Empty) };
        let outputs = |name: &str, model: &Model| {
            model.config.outputs(&model.schema).map_err(|e| EnsembleError::Config(name.into(), e))
        };
        let kind = outputs(first_name, first)?;
        for (name, other) in others {
            let [a, b] = [&first.schema, &other.schema];
            let [c, d] = [&first.config, &other.config];
            let differences = [
                (a.node != b.node, "node columns"),
                (a.edge != b.edge, "edge columns"),
                (a.target != b.target || c.data.task != d.data.task, "targets"),
                (kind != outputs(name, other)?, "losses (train.loss)"),
                (c.model.encoding != d.model.encoding, "encodings (model.encoding)"),
                (c.model.encoding_size != d.model.encoding_size, "encodings (model.encoding_size)"),
                (c.model.roles != d.model.roles, "encodings (model.roles)"),
                (first.reads_edges() != other.reads_edges(), "edge streams (model.edges)"),
                (c.links.directed != d.links.directed, "links (links.directed)"),
            ];
            if let Some((_, what)) = differences.into_iter().find(|(differ, _)| *differ) {
                return Err(EnsembleError::Differ { first: first_name.clone(), other: name.clone(), what });
            }
        }
        Ok(Self { members })
    }

    /// The first model. Columns, targets and encoding of the others are equal.
    pub fn first(&self) -> &Model {
        &self.members[0].1
    }

    /// The models.
    pub fn members(&self) -> impl Iterator<Item = &Model> {
        self.members.iter().map(|(_, model)| model)
    }

    /// The model, if there is only one.
    pub fn single(&self) -> Option<&Model> {
        match &self.members[..] {
            [(_, model)] => Some(model),
            _ => None,
        }
    }

    /// Predicts for graphs on a device. The rows are numbers on the data's scale, or logits whose
    /// softmax (or sigmoid, for yes/no labels) is the mean of the members' probabilities.
    ///
    /// # Errors
    /// If the graphs do not fit the models, or the device fails.
    pub fn predict_on(&self, device: &Device, graphs: &GraphStore) -> Result<Predictions, ModelError> {
        if let Some(model) = self.single() {
            return model.predict_on(device, graphs);
        }
        let mut mean = OutputMean::new(self.first().config.outputs(&self.first().schema)?);
        let mut shape = (Level::Graph, 0);
        for model in self.members() {
            let predictions = model.predict_on(device, graphs)?;
            shape = (predictions.level, predictions.width);
            mean.add(&predictions.values, predictions.width);
        }
        Ok(Predictions { level: shape.0, width: shape.1, values: mean.finish() })
    }
}

impl From<Model> for Ensemble {
    fn from(model: Model) -> Self {
        Self { members: vec![("the model".to_owned(), model)] }
    }
}

/// The mean of outputs of several models: of numbers, or of the probabilities behind logits.
#[derive(Clone, Debug)]
pub struct OutputMean {
    kind: OutputKind,
    sums: Vec<f64>,
    count: usize,
}

impl OutputMean {
    /// The mean of no outputs yet, for outputs of a kind. Log-odds of two classes must have been
    /// expanded; otherwise they are outputs of the kind `Labels`.
    pub fn new(kind: OutputKind) -> Self {
        Self { kind, sums: Vec::new(), count: 0 }
    }

    /// Adds the outputs of a model, `[rows, width]`, on the data's scale.
    ///
    /// # Panics
    /// If the number of outputs is another one than before.
    pub fn add(&mut self, values: &[f32], width: usize) {
        self.sums.resize(values.len(), 0.0);
        match self.kind {
            OutputKind::Numbers => self.sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(*value)),
            OutputKind::Labels => {
                self.sums.iter_mut().zip(values).for_each(|(sum, logit)| *sum += f64::from(sigmoid(*logit)))
            }
            OutputKind::Classes | OutputKind::TwoClasses => {
                for (sums, logits) in self.sums.chunks_exact_mut(width).zip(values.chunks_exact(width)) {
                    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let shares: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - most).exp()).collect();
                    let all: f64 = shares.iter().sum();
                    sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share / all);
                }
            }
        }
        self.count += 1;
    }

    /// The mean: numbers, or logits of the mean probabilities.
    pub fn finish(self) -> Vec<f32> {
        let count = self.count.max(1) as f64;
        // The smallest probability that has a finite logit in f32.
        const LEAST: f64 = 1e-30;
        // NaN stays NaN, so that a row without a finite result shows.
        let floor = |p: f64| if p < LEAST { LEAST } else { p };
        let output = |sum: f64| match (self.kind, sum / count) {
            (OutputKind::Numbers, mean) => mean,
            (OutputKind::Classes | OutputKind::TwoClasses, p) => floor(p).ln(),
            (OutputKind::Labels, p) => floor(p).ln() - floor(1.0 - p).ln(),
        };
        self.sums.iter().map(|&sum| output(sum) as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_averaged_and_not_logits() {
        let mut mean = OutputMean::new(OutputKind::Classes);
        mean.add(&[0.0, 3f32.ln()], 2);
        mean.add(&[0.0, -100.0], 2);
        let values = mean.finish();
        let predictions = Predictions { level: Level::Graph, width: 2, values };
        assert!((predictions.softmax(0).probability(0) - (0.25 + 1.0) / 2.0).abs() < 1e-6);

        let mut mean = OutputMean::new(OutputKind::Labels);
        mean.add(&[3f32.ln(), 200.0], 2);
        mean.add(&[0.0, 200.0], 2);
        let values = mean.finish();
        assert!((sigmoid(values[0]) - (0.75 + 0.5) / 2.0).abs() < 1e-6);
        assert!(values[1].is_finite() && sigmoid(values[1]) > 0.9999);
    }

    #[test]
    fn numbers_are_averaged_and_a_missing_one_shows() {
        let mut mean = OutputMean::new(OutputKind::Numbers);
        mean.add(&[1.0, 2.0], 1);
        mean.add(&[2.0, f32::NAN], 1);
        let values = mean.finish();
        assert!(values[0] == 1.5 && values[1].is_nan());
    }
}
