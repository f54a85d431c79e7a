//! Scales of numbers: a model learns from standardised inputs and targets.

use gt_graph::{GraphStore, Level, Schema, TargetKind, TargetSchema};
use serde::{Deserialize, Serialize};

/// Mean and deviation of each column of continuous inputs and of targets. Columns that stay as they
/// are have no entries.
///
/// ```
/// use graph_transformer_models::Scaling;
///
/// // Outputs of a model that learned targets of mean 10 and deviation 2.
/// let scaling = Scaling { target: vec![(10.0, 2.0)], ..Default::default() };
/// let mut outputs = [0.5, -1.0];
/// scaling.unscale(&mut outputs);
/// assert_eq!(outputs, [11.0, 8.0]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scaling {
    /// Continuous node features: a pair per column, or nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<(f64, f64)>,
    /// Continuous edge features: a pair per column, or nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edge: Vec<(f64, f64)>,
    /// Targets: a pair per output, or nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<(f64, f64)>,
}

/// Why scales do not fit the columns of a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScalingProblem {
    /// There are scales for another number of columns.
    #[error("`{key}` has scales of {found} columns, and there are {expected}")]
    Columns {
        /// `node`, `edge` or `target`.
        key: &'static str,
        /// Scales found.
        found: usize,
        /// Columns that are scaled together, or not at all.
        expected: usize,
    },
    /// A mean is not finite, or a deviation is not finite and above 0.
    #[error("`{key}`, column {column}: mean {mean} and deviation {deviation}; a deviation is above 0")]
    Value {
        /// `node`, `edge` or `target`.
        key: &'static str,
        /// Position of the column.
        column: usize,
        /// The mean.
        mean: f64,
        /// The deviation.
        deviation: f64,
    },
}

impl Scaling {
    /// Checks that the scales fit the columns of a model that predicts a target.
    pub(super) fn check(&self, schema: &Schema, target: &TargetSchema) -> Result<(), ScalingProblem> {
        let targets = if target.kind == TargetKind::Float { target.columns.len() } else { 0 };
        for (key, scales, expected) in [
            ("node", &self.node, schema.node.continuous.len()),
            ("edge", &self.edge, schema.edge.continuous.len()),
            ("target", &self.target, targets),
        ] {
            if !scales.is_empty() && scales.len() != expected {
                return Err(ScalingProblem::Columns { key, found: scales.len(), expected });
            }
            for (column, &(mean, deviation)) in scales.iter().enumerate() {
                if !(mean.is_finite() && deviation.is_finite() && deviation > 0.0) {
                    return Err(ScalingProblem::Value { key, column, mean, deviation });
                }
            }
        }
        Ok(())
    }

    /// Whether nothing is scaled.
    pub fn is_empty(&self) -> bool {
        !self.scales_inputs() && self.target.is_empty()
    }

    /// Whether continuous inputs are scaled.
    pub fn scales_inputs(&self) -> bool {
        !self.node.is_empty() || !self.edge.is_empty()
    }

    /// Standardises the continuous features of graphs: (value − mean) / deviation.
    pub fn scale_inputs(&self, graphs: &mut GraphStore) {
        for (level, columns) in [(Level::Node, &self.node), (Level::Edge, &self.edge)] {
            if columns.is_empty() {
                continue;
            }
            graphs.map_continuous(level, |column, value| match columns.get(column) {
                Some((mean, deviation)) => ((f64::from(value) - mean) / deviation) as f32,
                None => value,
            });
        }
    }

    /// Turns targets on the data's scale into those on the scale of training.
    pub fn scale_targets(&self, targets: &mut [f32]) {
        if self.target.is_empty() {
            return;
        }
        for row in targets.chunks_exact_mut(self.target.len()) {
            for (value, (mean, deviation)) in row.iter_mut().zip(&self.target) {
                *value = ((f64::from(*value) - mean) / deviation) as f32;
            }
        }
    }

    /// Turns outputs on the scale of training into those on the data's.
    pub fn unscale(&self, outputs: &mut [f32]) {
        if self.target.is_empty() {
            return;
        }
        for row in outputs.chunks_exact_mut(self.target.len()) {
            for (value, (mean, deviation)) in row.iter_mut().zip(&self.target) {
                *value = (f64::from(*value) * deviation + mean) as f32;
            }
        }
    }
}

/// Mean and deviation of numbers. Numbers that are all equal have deviation 1.
///
/// ```
/// use graph_transformer_models::mean_and_spread;
///
/// assert_eq!(mean_and_spread([1.0, 3.0].into_iter()), (2.0, 1.0));
/// assert_eq!(mean_and_spread([5.0, 5.0].into_iter()), (5.0, 1.0));
/// ```
pub fn mean_and_spread(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let deviation = (values.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    (mean, if deviation > 0.0 { deviation } else { 1.0 })
}
