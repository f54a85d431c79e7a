//! Losses of a batch, with their gradients; missing labels count nowhere.

use gt_graph::{MISSING_CLASS, TargetRows};

use crate::real::Real;

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Mean of |y − t| over the labels present.
    L1,
    /// Mean of (y − t)² over the labels present.
    Mse,
    /// Cross-entropy over classes. With weights, class c counts (V − n_c)/V, V labels of which n_c are of the class; a batch of one class then has
    /// loss and gradient 0.
    CrossEntropy {
        /// Whether classes are weighted by their rarity in the batch.
        weighted: bool,
    },
    /// Binary cross-entropy of each of several labels (classes 0 and 1), mean over the labels present.
    Bce,
}

/// Loss of outputs `[rows, stride]`, of which the first `width` columns count; writes the gradient in the same shape.
///
/// # Panics
/// If the targets are of the wrong kind or number; data and configuration are checked before.
pub(crate) fn loss<T: Real>(
    kind: Loss,
    output: &[T],
    width: usize,
    stride: usize,
    target: TargetRows<'_>,
    gradient: &mut [T],
) -> f64 {
    gradient.fill(T::ZERO);
    let rows = output.len() / stride;
    match (kind, target) {
        (Loss::L1 | Loss::Mse, TargetRows::Float(labels)) => {
            assert_eq!(labels.len(), rows * width, "one label per output");
            let present = labels.iter().filter(|t| !t.is_nan()).count().max(1) as f64;
            let mut sum = 0.0;
            for (at, &label) in labels.iter().enumerate().filter(|(_, t)| !t.is_nan()) {
                let place = at / width * stride + at % width;
                let off = output[place].to_f64() - f64::from(label);
                let (value, slope) = match kind {
                    // The derivative at 0 is 0, as everywhere else.
                    Loss::L1 => (
                        off.abs(),
                        if off > 0.0 {
                            1.0
                        } else if off < 0.0 {
                            -1.0
                        } else {
                            0.0
                        },
                    ),
                    _ => (off * off, 2.0 * off),
                };
                sum += value;
                gradient[place] = T::from_f64(slope / present);
            }
            sum / present
        }
        (Loss::CrossEntropy { weighted }, TargetRows::Class(labels)) => {
            assert_eq!(labels.len(), rows, "one class per row");
            cross_entropy(weighted, output, width, stride, labels, gradient)
        }
        (Loss::Bce, TargetRows::Class(labels)) => {
            assert_eq!(labels.len(), rows * width, "one label per output");
            let present = labels.iter().filter(|t| **t != MISSING_CLASS).count().max(1) as f64;
            let mut sum = 0.0;
            for (at, &label) in labels.iter().enumerate().filter(|(_, t)| **t != MISSING_CLASS) {
                let place = at / width * stride + at % width;
                let x = output[place].to_f64();
                let t = f64::from(label.min(1));
                sum += x.max(0.0) - x * t + (-x.abs()).exp().ln_1p();
                gradient[place] = T::from_f64((1.0 / (1.0 + (-x).exp()) - t) / present);
            }
            sum / present
        }
        _ => panic!("the loss does not fit the kind of targets"),
    }
}

fn cross_entropy<T: Real>(
    weighted: bool,
    output: &[T],
    width: usize,
    stride: usize,
    labels: &[u32],
    gradient: &mut [T],
) -> f64 {
    let mut counts = vec![0usize; width];
    labels.iter().filter(|t| **t != MISSING_CLASS).for_each(|&t| counts[t as usize] += 1);
    let all: usize = counts.iter().sum();
    let weight = |class: usize| if weighted { (all - counts[class]) as f64 / all as f64 } else { 1.0 };
    let total: f64 = (0..width).map(|class| counts[class] as f64 * weight(class)).sum();
    if total <= 0.0 {
        return 0.0;
    }
    let mut sum = 0.0;
    for (row, &label) in labels.iter().enumerate().filter(|(_, t)| **t != MISSING_CLASS) {
        let logits = &output[row * stride..row * stride + width];
        let largest = logits.iter().map(|v| v.to_f64()).fold(f64::NEG_INFINITY, f64::max);
        let normal: f64 = logits.iter().map(|v| (v.to_f64() - largest).exp()).sum();
        let share = weight(label as usize) / total;
        sum += share * (normal.ln() + largest - logits[label as usize].to_f64());
        for (class, logit) in logits.iter().enumerate() {
            let probability = (logit.to_f64() - largest).exp() / normal;
            let expected = if class == label as usize { 1.0 } else { 0.0 };
            gradient[row * stride + class] = T::from_f64(share * (probability - expected));
        }
    }
    sum
}
