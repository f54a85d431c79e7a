//! When to stop: a signal, or a budget of time that is used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a run may go on to the end of its epoch after the budget is used up. Between two epochs a checkpoint is a third of the size that it has within one.
const GRACE: Duration = Duration::from_secs(60);

pub struct Limits {
    interrupt: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Limits {
    pub fn new(interrupt: Arc<AtomicBool>, budget: Option<Duration>) -> Self {
        Self { interrupt, deadline: budget.and_then(|budget| Instant::now().checked_add(budget)) }
    }

    pub fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Nothing new may begin.
    pub fn reached(&self) -> bool {
        self.interrupted() || self.deadline.is_some_and(|at| Instant::now() >= at)
    }

    /// What runs has to stop in the middle of an epoch.
    pub fn exceeded(&self) -> bool {
        self.interrupted() || self.deadline.is_some_and(|at| Instant::now() >= at + GRACE)
    }
}
