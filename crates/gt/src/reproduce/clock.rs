//! Whose time it is on a device that several runs share: while n of them are at work, each has an n-th of it.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Time that a run would have had alone, counted for all who are at work.
pub struct Clock(Mutex<State>);

struct State {
    at_work: usize,
    /// Seconds of each run that has been at work from the beginning.
    each: f64,
    last: Instant,
}

/// A run at work, until it is dropped.
pub struct AtWork<'a> {
    clock: &'a Clock,
    from: f64,
    since: Instant,
}

impl Clock {
    pub fn new() -> Self {
        Self(Mutex::new(State { at_work: 0, each: 0.0, last: Instant::now() }))
    }

    pub fn begin(&self) -> AtWork<'_> {
        let from = self.count(|at_work| at_work + 1);
        AtWork { clock: self, from, since: Instant::now() }
    }

    /// Counts the time since the last change, then changes how many are at work.
    fn count(&self, change: impl FnOnce(usize) -> usize) -> f64 {
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
    /// The share of the time since its beginning that was this run's.
    pub fn share(&self) -> f64 {
        let own = self.clock.count(|at_work| at_work) - self.from;
        (own / self.since.elapsed().as_secs_f64().max(1e-9)).clamp(0.0, 1.0)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.clock.count(|at_work| at_work - 1);
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
