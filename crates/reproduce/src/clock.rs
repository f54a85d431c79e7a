//! How parallel runs share the time of a device: while n of them work, each has an n-th of it.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Device time of one run, counted for all runs that are at work.
pub(crate) struct Clock(Mutex<State>);

struct State {
    at_work: usize,
    /// Device seconds of a run that has been at work from the beginning.
    each: f64,
    last: Instant,
}

/// A run that is at work until this value is dropped.
pub(crate) struct AtWork<'a> {
    clock: &'a Clock,
    from: f64,
    since: Instant,
}

impl Clock {
    /// No run is at work.
    pub fn new() -> Self {
        Self(Mutex::new(State { at_work: 0, each: 0.0, last: Instant::now() }))
    }

    /// A run begins to work.
    pub fn begin(&self) -> AtWork<'_> {
        let from = self.advance(|at_work| at_work + 1);
        AtWork { clock: self, from, since: Instant::now() }
    }

    /// Counts the time since the last change, then changes the number of runs at work.
    fn advance(&self, change: impl FnOnce(usize) -> usize) -> f64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(Instant::now());
        state.at_work = change(state.at_work);
        state.each
    }
}

impl State {
    fn advance(&mut self, now: Instant) {
        self.each += (now - self.last).as_secs_f64() / self.at_work.max(1) as f64;
        self.last = now;
    }
}

impl AtWork<'_> {
    /// The run's share of the time since it began.
    pub fn share(&self) -> f64 {
        let own = self.clock.advance(|at_work| at_work) - self.from;
        (own / self.since.elapsed().as_secs_f64().max(1e-9)).clamp(0.0, 1.0)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.clock.advance(|at_work| at_work - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_divided_among_those_at_work() {
        let start = Instant::now();
        let mut state = State { at_work: 1, each: 0.0, last: start };
        let mut after = |seconds: u64, at_work: usize| {
            state.advance(start + std::time::Duration::from_secs(seconds));
            state.at_work = at_work;
            state.each
        };
        assert_eq!(after(10, 2), 10.0);
        assert_eq!(after(14, 4), 12.0);
        assert_eq!(after(18, 1), 13.0);
    }

    #[test]
    fn a_run_alone_has_all_the_time() {
        let clock = Clock::new();
        let alone = clock.begin();
        assert!(alone.share() > 0.0);
        drop(alone);
        assert_eq!(clock.0.lock().unwrap().at_work, 0);
    }
}
