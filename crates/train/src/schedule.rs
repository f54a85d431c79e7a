//! Schedules of the learning rate over epochs.
//!
//! Plateau follows PyTorch's `ReduceLROnPlateau` with its defaults, which the published code uses.
//! A validation loss counts as better if it is below best·(1 − 1e-4). After more than `patience`
//! epochs without a better loss the rate falls by `factor`, unless the change would be below 1e-8,
//! and the count starts again.

use gt_models::config::{Schedule, ScheduleConfig};
use serde::{Deserialize, Serialize};

/// State of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScheduleState {
    /// The rate before warm-up.
    lr: f64,
    best: Option<f64>,
    bad: usize,
}

/// The least relative improvement that counts.
const THRESHOLD: f64 = 1e-4;
/// Smaller changes of the rate are not made.
const SMALLEST_CHANGE: f64 = 1e-8;

impl ScheduleState {
    /// The state before the first epoch.
    pub(crate) fn new(lr: f64) -> Self {
        Self { lr, best: None, bad: 0 }
    }

    /// The rate of an epoch (from 0) of all `epochs`.
    pub(crate) fn rate(&self, config: &ScheduleConfig, epoch: usize, epochs: usize) -> f64 {
        let base = match config.name {
            Schedule::Plateau | Schedule::Constant => self.lr,
            Schedule::Cosine => {
                let span = epochs.saturating_sub(config.warmup).max(1) as f64;
                let done = (epoch.saturating_sub(config.warmup) as f64 / span).min(1.0);
                config.min_lr + (self.lr - config.min_lr) * (1.0 + (std::f64::consts::PI * done).cos()) / 2.0
            }
        };
        if epoch < config.warmup { base * (epoch + 1) as f64 / (config.warmup + 1) as f64 } else { base }
    }

    /// Records the validation loss of an epoch, or another value of which less is better. Returns
    /// whether training should end because the rate is too small.
    pub(crate) fn finish_epoch(&mut self, config: &ScheduleConfig, loss: f64) -> bool {
        if config.name != Schedule::Plateau {
            return false;
        }
        // An infinite or NaN loss is never the best one, as in PyTorch.
        if loss.is_finite() && self.best.is_none_or(|best| loss < best * (1.0 - THRESHOLD)) {
            self.best = Some(loss);
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.bad > config.patience {
            let lower = self.lr * config.factor;
            if self.lr - lower > SMALLEST_CHANGE {
                self.lr = lower;
            }
            self.bad = 0;
        }
        self.lr < config.min_lr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plateau_halves_after_patience_and_ends_below_the_least_rate() {
        let config = ScheduleConfig { patience: 2, min_lr: 0.2, ..Default::default() };
        let mut state = ScheduleState::new(1.0);
        let mut rates = Vec::new();
        let mut ended = false;
        for loss in [5.0, 4.0, 4.0, 4.0, 3.9999, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0] {
            ended = state.finish_epoch(&config, loss);
            rates.push(state.rate(&config, 0, 100));
        }
        // 3.9999 is no improvement by a ten-thousandth: the third bad epoch.
        assert_eq!(rates, [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]);
        assert!(ended);
    }

    #[test]
    fn warm_up_rises_and_the_cosine_falls_to_the_least_rate() {
        let config = ScheduleConfig { name: Schedule::Cosine, warmup: 4, min_lr: 0.1, ..Default::default() };
        let state = ScheduleState::new(1.0);
        let rates: Vec<f64> = (0..=14).map(|epoch| state.rate(&config, epoch, 14)).collect();
        assert!(rates[..5].is_sorted() && rates[4..].is_sorted_by(|a, b| a >= b), "{rates:?}");
        assert_eq!((rates[0], rates[4], rates[14]), (0.2, 1.0, 0.1));
        assert!((rates[9] - 0.55).abs() < 1e-12);
    }
}
