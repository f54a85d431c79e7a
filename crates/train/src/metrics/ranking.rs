//! Metrics of scores against yes/no labels: areas, precision, hits.

use std::ops::Range;

use gt_graph::MISSING_CLASS;

use super::classes::log_sum_exp;
use super::{Predicted, mean, mean_where_defined};

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
pub(crate) fn average_precision(mut scores: Vec<(f32, bool)>) -> f64 {
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
pub(super) fn over_labels(predicted: Predicted<'_>, score: impl Fn(Vec<(f32, bool)>) -> f64) -> f64 {
    mean_where_defined((0..predicted.width).map(|at| score(column(predicted, at))))
}

/// Share of labels that the sign of the score gets right, in percent.
pub(super) fn label_accuracy(scores: Vec<(f32, bool)>) -> f64 {
    100.0 * mean(scores.iter().map(|(score, positive)| f64::from(u8::from((*score > 0.0) == *positive))))
}

/// Mean of −log p, where p is the probability that the model gives to the right answer.
pub(super) fn label_log_loss(scores: Vec<(f32, bool)>) -> f64 {
    mean(scores.iter().map(|&(score, positive)| log_sum_exp(&[0.0, if positive { -score } else { score }])))
}

/// More classes than this have no ranking metrics: each class is ranked apart.
const MOST_CLASSES: usize = 100;

/// The classes that are ranked against all others: of two classes, the second one only.
pub(crate) fn positive_classes(width: usize) -> Range<usize> {
    if width == 2 { 1..2 } else { 0..width }
}

/// The score of a class in each labelled row, and whether the class is the label. The score is the
/// log-probability of the class; of two classes, the difference of their outputs.
pub(crate) fn against_others(predicted: Predicted<'_>, class: usize) -> Vec<(f32, bool)> {
    let width = predicted.width;
    let rows = predicted.outputs.chunks_exact(width.max(1)).zip(predicted.target.classes().unwrap_or_default());
    let labelled = rows.filter(|(_, label)| **label != MISSING_CLASS);
    let score = |logits: &[f32]| match width {
        2 => logits[class] - logits[1 - class],
        _ => (f64::from(logits[class]) - log_sum_exp(logits)) as f32,
    };
    labelled.map(|(logits, &label)| (score(logits), label as usize == class)).collect()
}

/// `roc_auc` and `average_precision` of classes. Of two classes, the second one is the positive
/// one. Of more, each class is compared with all others by its probability, and the mean is taken.
pub(super) fn of_classes(predicted: Predicted<'_>) -> Vec<(&'static str, f64)> {
    let width = predicted.width;
    if !(2..=MOST_CLASSES).contains(&width) {
        return Vec::new();
    }
    let of = |score: fn(Vec<(f32, bool)>) -> f64| {
        mean_where_defined(positive_classes(width).map(|class| score(against_others(predicted, class))))
    };
    vec![("roc_auc", of(area_under_roc)), ("average_precision", of(average_precision))]
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
pub(super) fn hits_at(k: usize, positives: &[f32], negatives: &[f32]) -> f64 {
    let mut sorted = negatives.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let Some(&bar) = sorted.get(k.saturating_sub(1)) else { return 1.0 };
    mean(positives.iter().map(|&score| f64::from(u8::from(score > bar))))
}
