//! Metrics of one class per row.

use gt_graph::MISSING_CLASS;

use super::{Predicted, mean};

/// Counts `[label][prediction]`.
pub(crate) fn confusion(predicted: Predicted<'_>) -> Vec<Vec<usize>> {
    let mut counts = vec![vec![0; predicted.width]; predicted.width];
    predicted.classes().for_each(|(class, label)| counts[label][class] += 1);
    counts
}

/// How often a class is the label, the prediction, and both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassCounts {
    /// Rows with this label.
    pub(crate) labels: usize,
    /// Rows with this prediction.
    pub(crate) predicted: usize,
    /// Rows with both.
    pub(crate) right: usize,
}

impl ClassCounts {
    /// Adds the counts of further rows.
    pub(super) fn add(&mut self, more: &Self) {
        self.labels += more.labels;
        self.predicted += more.predicted;
        self.right += more.right;
    }
}

/// Counts of each class. With very many classes (numbers taken for classes), a [`confusion`] matrix
/// would not fit into memory.
pub(crate) fn class_counts(predicted: Predicted<'_>) -> Vec<ClassCounts> {
    let mut counts = vec![ClassCounts::default(); predicted.width];
    predicted.classes().for_each(|(class, label)| {
        counts[label].labels += 1;
        counts[class].predicted += 1;
        counts[label].right += usize::from(class == label);
    });
    counts
}

/// Share of rows whose class is right, in percent.
pub(super) fn accuracy(counts: &[ClassCounts]) -> f64 {
    let right: usize = counts.iter().map(|class| class.right).sum();
    let all: usize = counts.iter().map(|class| class.labels).sum();
    if all > 0 { 100.0 * (right as f64 / all as f64) } else { f64::NAN }
}

/// Mean recall of classes, in percent. The exact form counts classes that occur among the labels.
/// The published form also counts classes that are only predicted; their recall is 0.
pub(super) fn mean_recall(counts: &[ClassCounts], also_predicted: bool) -> f64 {
    let recalls = counts.iter().filter_map(|class| match class.labels {
        0 => (also_predicted && class.predicted > 0).then_some(0.0),
        all => Some(class.right as f64 / all as f64),
    });
    100.0 * mean(recalls)
}

/// Mean F1 of the classes that occur among labels or predictions, in percent: 2·right / (labels +
/// predictions).
pub(super) fn macro_f1(counts: &[ClassCounts]) -> f64 {
    let present = counts.iter().filter(|class| class.labels + class.predicted > 0);
    100.0 * mean(present.map(|class| 2.0 * class.right as f64 / (class.labels + class.predicted) as f64))
}

/// Mean of −log p, where p is the probability that the model gives to the right class.
pub(super) fn log_loss(predicted: Predicted<'_>) -> f64 {
    let labels = predicted.target.classes().unwrap_or_default();
    let rows = predicted.outputs.chunks_exact(predicted.width.max(1)).zip(labels);
    let labelled = rows.filter(|(_, label)| **label != MISSING_CLASS);
    mean(labelled.map(|(logits, &label)| log_sum_exp(logits) - f64::from(logits[label as usize])))
}

/// log Σ exp.
pub(super) fn log_sum_exp(logits: &[f32]) -> f64 {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    most + logits.iter().map(|&logit| (f64::from(logit) - most).exp()).sum::<f64>().ln()
}
