//! Metrics of predictions in two forms: `paper`, the mean of batch means that the published code
//! reports, and `exact`, over the whole split.
//!
//! | targets | metric | paper form: mean over batches of | exact form: over the whole split |
//! |---|---|---|---|
//! | real numbers | `mae` | mean absolute error | mean absolute error |
//! | one class | `accuracy` | mean recall of labelled or predicted classes | mean class recall |
//! | several yes/no labels | `roc_auc` | area, where defined | mean over labels where defined |
//!
//! Recalls are in percent; the exact form counts the classes that occur among the labels.
//! Missing labels count nowhere. A value that is not defined (no label, one class only) is NaN.

use gt_graph::{MISSING_CLASS, TargetRows};
use gt_nn::Loss;
use serde::{Deserialize, Serialize};

/// A number in both forms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forms {
    /// Mean of batch means.
    #[serde(with = "nan_as_null")]
    pub paper: f64,
    /// Over the whole split.
    #[serde(with = "nan_as_null")]
    pub exact: f64,
}

/// Writes NaN as null, because JSON has no NaN.
mod nan_as_null {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { to.serialize_f64(*value) } else { to.serialize_none() }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
    }
}

/// The metric of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Mean absolute error; smaller is better.
    Mae,
    /// Mean recall of the classes, in percent.
    Accuracy,
    /// Area under the ROC curve.
    RocAuc,
}

impl Metric {
    /// The metric that belongs to a loss.
    pub(crate) fn of(loss: Loss) -> Self {
        match loss {
            Loss::L1 | Loss::Mse => Metric::Mae,
            Loss::CrossEntropy { .. } => Metric::Accuracy,
            Loss::Bce => Metric::RocAuc,
        }
    }

    /// The word used in files and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Mae => "mae",
            Metric::Accuracy => "accuracy",
            Metric::RocAuc => "roc_auc",
        }
    }
}

/// Predictions `[rows, width]` and the labels they should have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Predicted<'a> {
    /// Outputs of the network.
    pub(crate) outputs: &'a [f32],
    /// Numbers per row.
    pub(crate) width: usize,
    /// Labels.
    pub(crate) target: TargetRows<'a>,
}

impl<'a> Predicted<'a> {
    /// A range of rows.
    pub(crate) fn rows(&self, range: std::ops::Range<usize>) -> Predicted<'a> {
        let labels = self.target.len().checked_div(self.outputs.len() / self.width.max(1)).unwrap_or(0);
        let of = range.start * labels..range.end * labels;
        let target = match self.target {
            TargetRows::Float(values) => TargetRows::Float(&values[of]),
            TargetRows::Class(values) => TargetRows::Class(&values[of]),
        };
        Predicted { outputs: &self.outputs[range.start * self.width..range.end * self.width], target, ..*self }
    }

    /// Prediction and label of each real-valued label that is present.
    fn pairs(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.every(0, 1)
    }

    /// Prediction and label of every `step`-th number from the `first` on.
    fn every(&self, first: usize, step: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
        let labels = self.target.floats().unwrap_or_default();
        let pairs = self.outputs.iter().zip(labels).skip(first).step_by(step);
        let present = pairs.filter(|(_, label)| !label.is_nan());
        present.map(|(output, label)| (f64::from(*output), f64::from(*label)))
    }

    /// Predicted class and label of each labelled row.
    fn classes(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let labels = self.target.classes().unwrap_or_default();
        let rows = self.outputs.chunks_exact(self.width.max(1)).zip(labels);
        rows.filter(|(_, label)| **label != MISSING_CLASS).map(|(logits, &label)| (largest(logits), label as usize))
    }
}

/// Position of the largest value; of several, the first.
pub(crate) fn largest(values: &[f32]) -> usize {
    values.iter().enumerate().fold(0, |best, (at, &value)| if value > values[best] { at } else { best })
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { f64::NAN }
}

/// Mean absolute error.
fn mean_absolute_error(predicted: Predicted<'_>) -> f64 {
    mean(predicted.pairs().map(|(output, label)| (output - label).abs()))
}

/// √ of the mean squared error.
fn root_mean_squared_error(predicted: Predicted<'_>) -> f64 {
    mean(predicted.pairs().map(|(output, label)| (output - label).powi(2))).sqrt()
}

/// R²: 1 − squared error / variance of the labels per column, and the mean over the columns in
/// which labels differ.
fn r_squared(predicted: Predicted<'_>) -> f64 {
    let of_column = |at: usize| {
        let pairs = || predicted.every(at, predicted.width);
        let centre = mean(pairs().map(|(_, label)| label));
        let spread: f64 = pairs().map(|(_, label)| (label - centre).powi(2)).sum();
        let error: f64 = pairs().map(|(output, label)| (output - label).powi(2)).sum();
        if spread > 0.0 { 1.0 - error / spread } else { f64::NAN }
    };
    mean((0..predicted.width).map(of_column).filter(|value| !value.is_nan()))
}

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
fn plain_accuracy(counts: &[ClassCounts]) -> f64 {
    let right: usize = counts.iter().map(|class| class.right).sum();
    let all: usize = counts.iter().map(|class| class.labels).sum();
    if all > 0 { 100.0 * (right as f64 / all as f64) } else { f64::NAN }
}

/// Mean recall of classes, in percent. The exact form counts classes that occur among the labels.
/// The published form also counts classes that are only predicted; their recall is 0.
fn mean_recall(counts: &[ClassCounts], also_predicted: bool) -> f64 {
    let recalls = counts.iter().filter_map(|class| match class.labels {
        0 => (also_predicted && class.predicted > 0).then_some(0.0),
        all => Some(class.right as f64 / all as f64),
    });
    100.0 * mean(recalls)
}

/// Scores and whether the label is 1, of the labels present in a column.
pub(crate) fn column(predicted: Predicted<'_>, column: usize) -> Vec<(f32, bool)> {
    let labels = predicted.target.classes().unwrap_or_default();
    let all = predicted.outputs.iter().zip(labels).skip(column).step_by(predicted.width.max(1));
    all.filter(|(_, label)| **label != MISSING_CLASS).map(|(score, label)| (*score, *label > 0)).collect()
}

/// Area under the ROC curve: the probability that a positive scores above a negative; ties count
/// half. NaN without positives or negatives.
///
/// ```
/// use graph_transformer_train::metrics::area_under_roc;
///
/// // Pairs of a positive and a negative: three wins and a tie, of four.
/// let scores = vec![(0.1, false), (0.4, true), (0.4, false), (0.8, true)];
/// assert_eq!(area_under_roc(scores), 3.5 / 4.0);
/// ```
pub fn area_under_roc(mut scores: Vec<(f32, bool)>) -> f64 {
    scores.sort_by(|a, b| a.0.total_cmp(&b.0));
    let positives = scores.iter().filter(|(_, positive)| *positive).count() as f64;
    let negatives = scores.len() as f64 - positives;
    let (mut below, mut area) = (0.0, 0.0);
    for tied in scores.chunk_by(|a, b| a.0 == b.0) {
        let up = tied.iter().filter(|(_, positive)| *positive).count() as f64;
        let down = tied.len() as f64 - up;
        area += up * (below + down / 2.0);
        below += down;
    }
    if positives > 0.0 && negatives > 0.0 { area / (positives * negatives) } else { f64::NAN }
}

/// Average precision: mean over the positives of the precision at their rank; tied scores share a
/// rank. NaN without positives.
fn average_precision(mut scores: Vec<(f32, bool)>) -> f64 {
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut found, mut seen, mut sum) = (0.0, 0.0, 0.0);
    for tied in scores.chunk_by(|a, b| a.0 == b.0) {
        let up = tied.iter().filter(|(_, positive)| *positive).count() as f64;
        found += up;
        seen += tied.len() as f64;
        sum += up * found / seen;
    }
    if found > 0.0 { sum / found } else { f64::NAN }
}

/// Mean of a score over the labels for which it is defined.
fn over_labels(predicted: Predicted<'_>, score: impl Fn(Vec<(f32, bool)>) -> f64) -> f64 {
    mean((0..predicted.width).map(|at| score(column(predicted, at))).filter(|value| !value.is_nan()))
}

/// The metric in both forms, and further metrics by name. `batches` are the numbers of rows of
/// consecutive batches; they sum to all rows.
pub(crate) fn scores(metric: Metric, predicted: Predicted<'_>, batches: &[usize]) -> (Forms, Vec<(&'static str, f64)>) {
    let mut first = 0;
    let parts = batches.iter().map(|&rows| {
        first += rows;
        predicted.rows(first - rows..first)
    });
    match metric {
        Metric::Mae => {
            let others = vec![("rmse", root_mean_squared_error(predicted)), ("r2", r_squared(predicted))];
            let paper = over_batches(parts.map(mean_absolute_error));
            (Forms { paper, exact: mean_absolute_error(predicted) }, others)
        }
        Metric::Accuracy => {
            // Every row is looked at once: an epoch of the SBM sets has more than a million.
            let mut all = vec![ClassCounts::default(); predicted.width];
            let of_batches = parts.map(|part| {
                let counts = class_counts(part);
                for (sum, count) in all.iter_mut().zip(&counts) {
                    sum.labels += count.labels;
                    sum.predicted += count.predicted;
                    sum.right += count.right;
                }
                mean_recall(&counts, true)
            });
            let paper = over_batches(of_batches);
            (Forms { paper, exact: mean_recall(&all, false) }, vec![("plain_accuracy", plain_accuracy(&all))])
        }
        Metric::RocAuc => {
            let area = |part| over_labels(part, area_under_roc);
            let others = vec![("average_precision", over_labels(predicted, average_precision))];
            (Forms { paper: over_batches(parts.map(area)), exact: area(predicted) }, others)
        }
    }
}

/// The mean over batches for which a metric is defined.
fn over_batches(values: impl Iterator<Item = f64>) -> f64 {
    mean(values.filter(|value| !value.is_nan()))
}

/// Hits@10, 50 and 100 of links against pairs without an edge, as OGB defines them; left out if
/// there are fewer such pairs.
pub(crate) fn link_hits(predicted: Predicted<'_>) -> Vec<(&'static str, f64)> {
    let scores = column(predicted, 0);
    let of = |wanted: bool| scores.iter().filter(|(_, joined)| *joined == wanted).map(|(score, _)| *score).collect();
    let (joined, apart): (Vec<f32>, Vec<f32>) = (of(true), of(false));
    let all = [("hits@10", 10), ("hits@50", 50), ("hits@100", 100)];
    all.into_iter().filter(|(_, k)| apart.len() >= *k).map(|(name, k)| (name, hits_at(k, &joined, &apart))).collect()
}

/// Hits@K of link prediction: share of positives that score above the K-th best negative; 1 with
/// fewer than K negatives.
fn hits_at(k: usize, positives: &[f32], negatives: &[f32]) -> f64 {
    let mut sorted = negatives.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let Some(&bar) = sorted.get(k.saturating_sub(1)) else { return 1.0 };
    mean(positives.iter().map(|&score| f64::from(u8::from(score > bar))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats<'a>(outputs: &'a [f32], labels: &'a [f32]) -> Predicted<'a> {
        Predicted { outputs, width: 1, target: TargetRows::Float(labels) }
    }

    #[test]
    fn errors_of_numbers_leave_missing_labels_out() {
        let predicted = floats(&[1.0, 2.0, 5.0, 9.0], &[0.0, 4.0, f32::NAN, 9.0]);
        assert_eq!(mean_absolute_error(predicted), 1.0);
        assert!((root_mean_squared_error(predicted) - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let spread = (13.0f64 / 3.0).powi(2) + (1.0f64 / 3.0).powi(2) + (14.0f64 / 3.0).powi(2);
        assert!((r_squared(predicted) - (1.0 - 5.0 / spread)).abs() < 1e-12);
        // Columns count separately, whatever their scale: 0 and 1. The labels of the third do not
        // differ, so it does not count.
        let two =
            Predicted { width: 3, ..floats(&[1.0, 100.0, 5.0, 1.0, 102.0, 5.0], &[0.0, 100.0, 7.0, 2.0, 102.0, 7.0]) };
        assert_eq!(r_squared(two), 0.5);
        // Batches of 1 and 3 rows: 1 and (2 + 0)/2.
        let (both, _) = scores(Metric::Mae, predicted, &[1, 3]);
        assert_eq!((both.paper, both.exact), (1.0, 1.0));
        assert_eq!(scores(Metric::Mae, predicted, &[2, 2]).0.paper, 0.75);
        assert!(mean_absolute_error(floats(&[], &[])).is_nan());
    }

    #[test]
    fn recall_weighs_classes_alike_and_the_paper_counts_predicted_ones() {
        // Labels 0, 0, 0, 1; predictions 0, 0, 2, 1: recalls 2/3 and 1; class 2 is only predicted.
        let outputs = [9., 0., 0., 9., 0., 0., 0., 0., 9., 0., 9., 0.];
        let predicted = Predicted { outputs: &outputs, width: 3, target: TargetRows::Class(&[0, 0, 0, 1]) };
        assert_eq!(confusion(predicted), [[2, 0, 1], [0, 1, 0], [0, 0, 0]]);
        let counts = class_counts(predicted);
        assert_eq!(
            counts.iter().map(|c| (c.labels, c.predicted, c.right)).collect::<Vec<_>>(),
            [(3, 2, 2), (1, 1, 1), (0, 1, 0)]
        );
        assert!((mean_recall(&counts, false) - 100.0 * (2.0 / 3.0 + 1.0) / 2.0).abs() < 1e-9);
        assert!((mean_recall(&counts, true) - 100.0 * (2.0 / 3.0 + 1.0) / 3.0).abs() < 1e-9);
        assert_eq!(plain_accuracy(&counts), 75.0);
        // Batches of rows 0..2 and 2..4. First batch: recall 1. Second: 0 of class 0, 1 of class 1,
        // and 0 of class 2, which is only predicted.
        let (forms, others) = scores(Metric::Accuracy, predicted, &[2, 2]);
        assert!((forms.paper - 100.0 * (1.0 + 1.0 / 3.0) / 2.0).abs() < 1e-9);
        assert_eq!(forms.exact, mean_recall(&counts, false));
        assert_eq!(others, [("plain_accuracy", 75.0)]);
        let missing = Predicted { target: TargetRows::Class(&[MISSING_CLASS, 0, MISSING_CLASS, 1]), ..predicted };
        assert_eq!(mean_recall(&class_counts(missing), true), 100.0);
        assert!(
            plain_accuracy(&class_counts(Predicted { outputs: &[], width: 3, target: TargetRows::Class(&[]) }))
                .is_nan()
        );
    }

    #[test]
    fn ranks_with_ties() {
        let scores = vec![(0.1, false), (0.4, true), (0.4, false), (0.8, true)];
        // Pairs: (0.4 over 0.1) 1, (0.4 with 0.4) ½, (0.8 over both) 2; of 4.
        assert_eq!(area_under_roc(scores.clone()), 3.5 / 4.0);
        assert_eq!(average_precision(scores), (1.0 + 2.0 / 3.0) / 2.0);
        assert!(area_under_roc(vec![(1.0, true)]).is_nan() && average_precision(vec![(1.0, false)]).is_nan());
        assert_eq!(hits_at(2, &[0.9, 0.5, 0.1], &[0.8, 0.4, 0.2]), 2.0 / 3.0);
        assert_eq!(hits_at(5, &[0.1], &[0.8]), 1.0);
    }

    #[test]
    fn labels_are_averaged_where_defined() {
        let labels = [1, 1, 0, MISSING_CLASS, 1, 1];
        let predicted =
            Predicted { outputs: &[0.9, 0.5, 0.1, 0.5, 0.8, 0.5], width: 2, target: TargetRows::Class(&labels) };
        // The second label has no negative.
        assert_eq!(scores(Metric::RocAuc, predicted, &[3]).0.exact, 1.0);
    }
}
