//! Metrics of real numbers.

use super::{Predicted, mean, mean_where_defined};

/// Mean absolute error.
pub(super) fn mean_absolute_error(predicted: Predicted<'_>) -> f64 {
    mean(predicted.pairs().map(|(output, label)| (output - label).abs()))
}

/// √ of the mean squared error.
pub(super) fn root_mean_squared_error(predicted: Predicted<'_>) -> f64 {
    mean(predicted.pairs().map(|(output, label)| (output - label).powi(2))).sqrt()
}

/// R²: 1 − squared error / variance of the labels per column, and the mean over the columns in
/// which labels differ.
pub(super) fn r_squared(predicted: Predicted<'_>) -> f64 {
    let of_column = |at: usize| {
        let pairs = || predicted.every(at, predicted.width);
        let centre = mean(pairs().map(|(_, label)| label));
        let spread = mean(pairs().map(|(_, label)| (label - centre).powi(2)));
        let error = mean(pairs().map(|(output, label)| (output - label).powi(2)));
        if spread > 0.0 { 1.0 - error / spread } else { f64::NAN }
    };
    mean_where_defined((0..predicted.width).map(of_column))
}

/// Spearman's correlation of predictions and labels per column, and the mean over the columns in
/// which both differ. Equal values share their mean rank.
pub(super) fn spearman(predicted: Predicted<'_>) -> f64 {
    let of_column = |at: usize| {
        let (outputs, labels): (Vec<f64>, Vec<f64>) = predicted.every(at, predicted.width).unzip();
        correlation(&ranks(&outputs), &ranks(&labels))
    };
    mean_where_defined((0..predicted.width).map(of_column))
}

/// Ranks from 0.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = first as f64 + (tied.len() - 1) as f64 / 2.0;
        tied.iter().for_each(|&at| ranks[at] = rank);
        first += tied.len();
    }
    ranks
}

/// Pearson's correlation; NaN if one of the two has no spread.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (of_a, of_b) = (mean(a.iter().copied()), mean(b.iter().copied()));
    let product =
        |x: &[f64], of_x: f64, y: &[f64], of_y: f64| mean(x.iter().zip(y).map(|(x, y)| (x - of_x) * (y - of_y)));
    let spread = product(a, of_a, a, of_a) * product(b, of_b, b, of_b);
    if spread > 0.0 { product(a, of_a, b, of_b) / spread.sqrt() } else { f64::NAN }
}
