//! Losses of a batch, with their gradients; missing labels count nowhere.

use gt_graph::{MISSING_CLASS, TargetRows};
use rayon::prelude::*;

use crate::real::Real;

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Mean of |y − t| over the labels present.
    L1,
    /// Mean of (y − t)² over the labels present.
    Mse,
    /// Cross-entropy over classes. With weights, class c counts (V − n_c)/V, V labels of which n_c
    /// are of the class; a batch of one class then has loss and gradient 0.
    CrossEntropy {
        /// Whether classes are weighted by their rarity in the batch.
        weighted: bool,
    },
    /// Binary cross-entropy of each of several labels (classes 0 and 1), mean over the labels
    /// present.
    Bce,
}

/// Loss of outputs `[rows, width]`.
///
/// # Panics
/// If the targets are of the wrong kind or number.
///
/// ```
/// use gt_graph::TargetRows;
/// use graph_transformer_nn::{Loss, loss_of};
///
/// let labels = TargetRows::Float(&[1.0, f32::NAN, 2.0]);
/// assert_eq!(loss_of(Loss::L1, &[1.5f32, 7.0, 2.5], 1, labels), 0.5);
/// ```
pub fn loss_of<T: Real>(kind: Loss, outputs: &[T], width: usize, target: TargetRows<'_>) -> f64 {
    let mut gradient = vec![T::ZERO; outputs.len()];
    LossMemory::default().loss(kind, outputs, width, width, target, &mut gradient)
}

/// Rows that one task takes; sums are taken per task and added in order.
const ROWS: usize = 256;

/// Memory that is reused from batch to batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossMemory {
    /// Share of each class in the loss of one row.
    shares: Vec<f64>,
    counts: Vec<usize>,
    sums: Vec<f64>,
}

impl LossMemory {
    /// Loss of outputs `[rows, stride]`, of which the first `width` columns count; writes the
    /// gradient in the same shape.
    ///
    /// # Panics
    /// If the targets are of the wrong kind or number; data and configuration are checked before.
    pub(crate) fn loss<T: Real>(
        &mut self,
        kind: Loss,
        output: &[T],
        width: usize,
        stride: usize,
        target: TargetRows<'_>,
        gradient: &mut [T],
    ) -> f64 {
        let rows = output.len() / stride;
        match (kind, target) {
            (Loss::L1 | Loss::Mse, TargetRows::Float(labels)) => {
                assert_eq!(labels.len(), rows * width, "one label per output");
                let share = 1.0 / labels.iter().filter(|t| !t.is_nan()).count().max(1) as f64;
                self.sum(output, stride, gradient, labels, width, |output, labels, gradient| {
                    let present = labels.iter().enumerate().filter(|(_, t)| !t.is_nan());
                    let parts = present.map(|(at, &label)| {
                        let off = output[at].to_f64() - f64::from(label);
                        let (value, slope) =
                            if kind == Loss::L1 { (off.abs(), sign(off)) } else { (off * off, 2.0 * off) };
                        gradient[at] = T::from_f64(slope * share);
                        value * share
                    });
                    parts.sum()
                })
            }
            (Loss::CrossEntropy { weighted }, TargetRows::Class(labels)) => {
                assert_eq!(labels.len(), rows, "one class per row");
                if !self.weigh(weighted, width, labels) {
                    gradient.fill(T::ZERO);
                    return 0.0;
                }
                let shares = std::mem::take(&mut self.shares);
                let value = self.sum(output, stride, gradient, labels, 1, |logits, label, gradient| {
                    if label[0] == MISSING_CLASS {
                        return 0.0;
                    }
                    let class = label[0] as usize;
                    let (share, label) = (shares[class], logits[class].to_f64());
                    let largest = logits[..width].iter().map(|v| v.to_f64()).fold(f64::NEG_INFINITY, f64::max);
                    let mut normal = 0.0;
                    for (place, logit) in gradient[..width].iter_mut().zip(logits) {
                        let power = (logit.to_f64() - largest).exp();
                        normal += power;
                        *place = T::from_f64(power);
                    }
                    let scale = T::from_f64(share / normal);
                    gradient[..width].iter_mut().for_each(|place| *place *= scale);
                    gradient[class] -= T::from_f64(share);
                    share * (normal.ln() + largest - label)
                });
                self.shares = shares;
                value
            }
            (Loss::Bce, TargetRows::Class(labels)) => {
                assert_eq!(labels.len(), rows * width, "one label per output");
                let share = 1.0 / labels.iter().filter(|t| **t != MISSING_CLASS).count().max(1) as f64;
                self.sum(output, stride, gradient, labels, width, |output, labels, gradient| {
                    let present = labels.iter().enumerate().filter(|(_, t)| **t != MISSING_CLASS);
                    let parts = present.map(|(at, &label)| {
                        let (x, t) = (output[at].to_f64(), f64::from(label.min(1)));
                        gradient[at] = T::from_f64((1.0 / (1.0 + (-x).exp()) - t) * share);
                        (x.max(0.0) - x * t + (-x.abs()).exp().ln_1p()) * share
                    });
                    parts.sum()
                })
            }
            _ => panic!("the loss does not fit the kind of targets"),
        }
    }

    /// Adds up what `each` gives for every row; gradients are zero before.
    fn sum<T: Real, L: Sync>(
        &mut self,
        output: &[T],
        stride: usize,
        gradient: &mut [T],
        labels: &[L],
        columns: usize,
        each: impl Fn(&[T], &[L], &mut [T]) -> f64 + Sync,
    ) -> f64 {
        if labels.is_empty() {
            gradient.fill(T::ZERO);
            return 0.0;
        }
        self.sums.clear();
        self.sums.resize((output.len() / stride).div_ceil(ROWS), 0.0);
        let tasks = gradient
            .par_chunks_mut(ROWS * stride)
            .zip(output.par_chunks(ROWS * stride))
            .zip(labels.par_chunks(ROWS * columns))
            .zip(&mut self.sums);
        tasks.for_each(|(((gradient, output), labels), sum)| {
            gradient.fill(T::ZERO);
            let rows =
                gradient.chunks_exact_mut(stride).zip(output.chunks_exact(stride)).zip(labels.chunks_exact(columns));
            *sum = rows.map(|((gradient, output), labels)| each(output, labels, gradient)).sum();
        });
        self.sums.iter().sum()
    }

    /// Sets every class's share in the loss of one row; false where no row counts.
    fn weigh(&mut self, weighted: bool, classes: usize, labels: &[u32]) -> bool {
        self.counts.clear();
        self.counts.resize(classes, 0);
        labels.iter().filter(|t| **t != MISSING_CLASS).for_each(|&t| self.counts[t as usize] += 1);
        let all: usize = self.counts.iter().sum();
        let weight = |count: usize| if weighted { (all - count) as f64 / all as f64 } else { 1.0 };
        let total: f64 = self.counts.iter().map(|&count| count as f64 * weight(count)).sum();
        self.shares.clear();
        self.shares.extend(self.counts.iter().map(|&count| weight(count) / total));
        total > 0.0
    }
}

/// The slope of |x|; 0 at 0, as everywhere else.
fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}
