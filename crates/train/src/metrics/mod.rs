//! Metrics of predictions in two forms: `paper`, which the published code reports, and `exact`,
//! over the whole split.
//!
//! | targets | metric | paper form: mean over batches of | exact form: over the whole split |
//! |---|---|---|---|
//! | real numbers | `mae` | mean absolute error | mean absolute error |
//! | one class | `accuracy` | mean recall of labelled or predicted classes | share of right rows |
//! | several yes/no labels | `roc_auc` | area, where defined | mean over labels where defined |
//!
//! With `model.metrics = "paper"` the exact form of `accuracy` is the mean recall of the classes
//! that occur among the labels. Further metrics are over the whole split:
//!
//! | targets | further metrics |
//! |---|---|
//! | real numbers | `rmse`, `r2`, `spearman` |
//! | one class | `macro_recall`, `f1`, `log_loss`, `roc_auc`, `average_precision` |
//! | several yes/no labels | `average_precision`, `accuracy`, `log_loss` |
//!
//! Accuracy, recall and F1 are in percent. Missing labels count nowhere. A value that is not
//! defined (no label, one class only) is NaN. Exact metrics do not depend on the order of the rows,
//! to the last digit.

mod classes;
mod numbers;
mod ranking;

use gt_graph::{MISSING_CLASS, TargetRows};
use gt_models::config::{MetricForm, OutputKind};
use serde::{Deserialize, Serialize};

pub(crate) use classes::{ClassCounts, class_counts, confusion};
pub use ranking::area_under_roc;
pub(crate) use ranking::{against_others, average_precision, column, link_hits, positive_classes};

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

impl Forms {
    /// The number in one form.
    pub fn of(self, form: MetricForm) -> f64 {
        match form {
            MetricForm::Paper => self.paper,
            MetricForm::Exact => self.exact,
        }
    }
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
    /// Share of rows whose class is right, in percent; larger is better. In the paper's form, mean
    /// recall of the classes.
    Accuracy,
    /// Area under the ROC curve; larger is better.
    RocAuc,
}

impl Metric {
    /// The main metric of a kind of outputs.
    pub(crate) fn of(outputs: OutputKind) -> Self {
        match outputs {
            OutputKind::Numbers => Metric::Mae,
            OutputKind::Classes | OutputKind::TwoClasses => Metric::Accuracy,
            OutputKind::Labels => Metric::RocAuc,
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

impl Metric {
    /// Further metrics of the task that can select the best model, by name.
    pub(crate) fn others(self, form: MetricForm) -> Vec<&'static str> {
        match (self, form) {
            (Metric::Mae, MetricForm::Exact) => vec!["rmse", "r2", "spearman"],
            (Metric::Mae, MetricForm::Paper) => vec!["rmse", "r2"],
            (Metric::Accuracy, MetricForm::Exact) => {
                vec!["macro_recall", "f1", "log_loss", "roc_auc", "average_precision"]
            }
            (Metric::Accuracy, MetricForm::Paper) => Vec::new(),
            (Metric::RocAuc, MetricForm::Exact) => vec!["average_precision", "accuracy", "log_loss"],
            (Metric::RocAuc, MetricForm::Paper) => vec!["average_precision"],
        }
    }
}

/// The name of a metric as people read it. Programs read F1 under its first name, `f1`.
///
/// ```
/// use graph_transformer_train::metrics::shown_name;
///
/// assert_eq!((shown_name("f1"), shown_name("rmse")), ("macro_f1", "rmse"));
/// ```
pub fn shown_name(key: &str) -> &str {
    if key == "f1" { "macro_f1" } else { key }
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

/// The mean of values in ascending order, so that the order in which they come has no effect.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    if values.is_empty() { f64::NAN } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Mean of a score over the columns or batches for which it is defined.
fn mean_where_defined(values: impl Iterator<Item = f64>) -> f64 {
    mean(values.filter(|value| !value.is_nan()))
}

/// Which further metrics are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Those that take a single look at each row: for the training split in every epoch.
    Quick,
    /// All.
    All,
}

/// The metric in both forms, and further metrics by name. `batches` are the numbers of rows of
/// consecutive batches; they sum to all rows.
pub(crate) fn scores(
    metric: Metric,
    form: MetricForm,
    predicted: Predicted<'_>,
    batches: &[usize],
    detail: Detail,
) -> (Forms, Vec<(&'static str, f64)>) {
    let mut first = 0;
    let parts = batches.iter().map(|&rows| {
        first += rows;
        predicted.rows(first - rows..first)
    });
    // An epoch of the published sets has more than a million rows, and its metrics are known.
    let all = detail == Detail::All && form == MetricForm::Exact;
    match metric {
        Metric::Mae => {
            let mut others =
                vec![("rmse", numbers::root_mean_squared_error(predicted)), ("r2", numbers::r_squared(predicted))];
            if all {
                others.push(("spearman", numbers::spearman(predicted)));
            }
            let paper = mean_where_defined(parts.map(numbers::mean_absolute_error));
            (Forms { paper, exact: numbers::mean_absolute_error(predicted) }, others)
        }
        Metric::Accuracy => {
            let mut counts = vec![ClassCounts::default(); predicted.width];
            let paper = mean_where_defined(parts.map(|part| {
                let of_batch = class_counts(part);
                counts.iter_mut().zip(&of_batch).for_each(|(sum, more)| sum.add(more));
                classes::mean_recall(&of_batch, true)
            }));
            let (accuracy, recall) = (classes::accuracy(&counts), classes::mean_recall(&counts, false));
            let (exact, other) = match form {
                MetricForm::Exact => (accuracy, ("macro_recall", recall)),
                MetricForm::Paper => (recall, ("plain_accuracy", accuracy)),
            };
            let mut others = vec![other];
            if form == MetricForm::Exact {
                others.push(("f1", classes::macro_f1(&counts)));
            }
            if all {
                others.push(("log_loss", classes::log_loss(predicted)));
                others.extend(ranking::of_classes(predicted));
            }
            (Forms { paper, exact }, others)
        }
        Metric::RocAuc => {
            let area = |part| ranking::over_labels(part, area_under_roc);
            let mut others = vec![("average_precision", ranking::over_labels(predicted, ranking::average_precision))];
            if all {
                others.push(("accuracy", ranking::over_labels(predicted, ranking::label_accuracy)));
                others.push(("log_loss", ranking::over_labels(predicted, ranking::label_log_loss)));
            }
            (Forms { paper: mean_where_defined(parts.map(area)), exact: area(predicted) }, others)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::classes::{accuracy, mean_recall};
    use super::numbers::{mean_absolute_error, r_squared, root_mean_squared_error, spearman};
    use super::ranking::{average_precision, hits_at};
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
        let (both, _) = scores(Metric::Mae, MetricForm::Paper, predicted, &[1, 3], Detail::All);
        assert_eq!((both.paper, both.exact), (1.0, 1.0));
        assert_eq!(scores(Metric::Mae, MetricForm::Exact, predicted, &[2, 2], Detail::Quick).0.paper, 0.75);
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
        assert_eq!(accuracy(&counts), 75.0);
        // Batches of rows 0..2 and 2..4. First batch: recall 1. Second: 0 of class 0, 1 of class 1,
        // and 0 of class 2, which is only predicted.
        let (forms, others) = scores(Metric::Accuracy, MetricForm::Paper, predicted, &[2, 2], Detail::All);
        assert!((forms.paper - 100.0 * (1.0 + 1.0 / 3.0) / 2.0).abs() < 1e-9);
        assert_eq!(forms.exact, mean_recall(&counts, false));
        assert_eq!(others, [("plain_accuracy", 75.0)]);
        let missing = Predicted { target: TargetRows::Class(&[MISSING_CLASS, 0, MISSING_CLASS, 1]), ..predicted };
        assert_eq!(mean_recall(&class_counts(missing), true), 100.0);
        assert!(accuracy(&class_counts(Predicted { outputs: &[], width: 3, target: TargetRows::Class(&[]) })).is_nan());
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
        assert_eq!(scores(Metric::RocAuc, MetricForm::Exact, predicted, &[3], Detail::All).0.exact, 1.0);
    }

    #[test]
    fn accuracy_is_the_share_of_right_rows_and_the_paper_has_the_mean_recall() {
        // Labels 0, 0, 0, 1; predictions 0, 0, 1, 1.
        let outputs = [2., 0., 2., 0., 0., 2., 0., 2.];
        let predicted = Predicted { outputs: &outputs, width: 2, target: TargetRows::Class(&[0, 0, 0, 1]) };
        let exact = |batches: &[usize]| scores(Metric::Accuracy, MetricForm::Exact, predicted, batches, Detail::All);
        let (forms, others) = exact(&[4]);
        let recall = 100.0 * (2.0 / 3.0 + 1.0) / 2.0;
        assert_eq!((forms.exact, forms.paper), (75.0, recall));
        let other = |name: &str| others.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!(other("macro_recall"), recall);
        // F1: 2·2/(3+2) and 2·1/(1+2).
        assert!((other("f1") - 100.0 * (0.8 + 2.0 / 3.0) / 2.0).abs() < 1e-9);
        let (right, wrong) = ((1.0 + (-2f64).exp()).ln(), (1.0 + 2f64.exp()).ln());
        assert!((other("log_loss") - (3.0 * right + wrong) / 4.0).abs() < 1e-9);
        // The positive ties with one of three negatives, and wins over two.
        assert_eq!(other("roc_auc"), 2.5 / 3.0);
        assert_eq!(exact(&[1, 3]).0.exact, 75.0);
    }

    #[test]
    fn ranks_correlate_whatever_the_scale() {
        let predicted = |outputs: &'static [f32]| floats(outputs, &[1.0, 2.0, 3.0, f32::NAN, 4.0]);
        assert_eq!(spearman(predicted(&[0.0, 10.0, 11.0, 5.0, 1000.0])), 1.0);
        assert_eq!(spearman(predicted(&[4.0, 3.0, 2.0, 5.0, 1.0])), -1.0);
        // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
        assert!((spearman(predicted(&[0.0, 1.0, 1.0, 5.0, 2.0])) - 4.5 / (4.5f64 * 5.0).sqrt()).abs() < 1e-12);
        assert!(spearman(predicted(&[1.0; 5])).is_nan());
    }

    #[test]
    fn the_order_of_rows_and_batches_changes_no_digit_of_an_exact_metric() {
        const ROWS: usize = 500;
        // Numbers whose sum depends on the order.
        let number = |at: usize| ((at * 7919 + 13) % 1009) as f32 * 0.37 + 1.0 / (at + 1) as f32;
        let orders: [Vec<usize>; 3] =
            [(0..ROWS).collect(), (0..ROWS).rev().collect(), (0..ROWS).map(|at| at * 269 % ROWS).collect()];
        for (metric, width) in
            [(Metric::Mae, 1), (Metric::Mae, 2), (Metric::Accuracy, 2), (Metric::Accuracy, 5), (Metric::RocAuc, 3)]
        {
            let labels = if metric == Metric::Accuracy { 1 } else { width };
            let output = |row: usize, at: usize| number(row * width + at) / 100.0 - 1.7;
            let found = orders.each_ref().map(|order| {
                let outputs: Vec<f32> =
                    order.iter().flat_map(|&row| (0..width).map(move |at| output(row, at))).collect();
                let cell = |row: usize, at: usize| number(row * labels + at + 3);
                let cells = order.iter().flat_map(|&row| (0..labels).map(move |at| cell(row, at)));
                let floats: Vec<f32> = cells.clone().map(|value| value * 0.01).collect();
                let classes = if metric == Metric::Accuracy { width as u32 } else { 2 };
                let class: Vec<u32> = cells.map(|value| value as u32 % classes).collect();
                let target = if metric == Metric::Mae { TargetRows::Float(&floats) } else { TargetRows::Class(&class) };
                let predicted = Predicted { outputs: &outputs, width, target };
                [&[ROWS][..], &[1, 99, 400], &[50; 10]].map(|batches| {
                    let (forms, others) = scores(metric, MetricForm::Exact, predicted, batches, Detail::All);
                    (
                        forms.exact.to_bits(),
                        others.iter().map(|(name, value)| (*name, value.to_bits())).collect::<Vec<_>>(),
                    )
                })
            });
            let first = &found[0][0];
            assert!(f64::from_bits(first.0).is_finite() && first.1.len() > 1, "{metric:?} {width}");
            assert!(found.iter().flatten().all(|scores| scores == first), "{metric:?} {width}: {found:?}");
        }
    }
}
