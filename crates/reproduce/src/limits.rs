//! When to stop: a signal, or a budget of time that is used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time that a run has to reach the end of its epoch after the budget is used up.
/// A checkpoint between two epochs is a third of the size of one within an epoch.
const GRACE: Duration = Duration::from_secs(60);

/// When runs have to stop.
pub struct Limits {
    interrupt: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Limits {
    /// Runs stop when `interrupt` becomes true, or when `budget` is used up from now on.
    pub fn new(interrupt: Arc<AtomicBool>, budget: Option<Duration>) -> Self {
        Self { interrupt, deadline: budget.and_then(|budget| Instant::now().checked_add(budget)) }
    }

    /// Whether the interrupt flag is set.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Whether no epoch may begin any more.
    pub(crate) fn is_reached(&self) -> bool {
        self.is_interrupted() || self.deadline.is_some_and(|at| Instant::now() >= at)
    }

    /// Whether runs have to stop in the middle of an epoch.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_interrupted() || self.deadline.is_some_and(|at| Instant::now() >= at + GRACE)
    }
}
