//! Streams whose work is captured into a graph, and whether the first stream waits for the others.

use std::collections::BTreeMap;

use crate::resources::Handle;
use crate::state::{Code, State};

/// A call that must not be made while a stream is captured.
pub const CAPTURE_UNSUPPORTED: Code = 900;
const CAPTURE_INVALIDATED: Code = 901;
const CAPTURE_UNMATCHED: Code = 903;
const CAPTURE_UNJOINED: Code = 904;

/// For each captured stream, the number of launches that a point in one of them comes after.
pub type Seen = BTreeMap<Handle, usize>;

/// A capture under way.
pub struct Capture {
    origin: Handle,
    /// For each captured stream, the launches that its end comes after, including its own launches.
    seen: BTreeMap<Handle, Seen>,
    launches: usize,
    /// Whether a call has failed during the capture.
    pub broken: bool,
}

impl Capture {
    pub fn holds(&self, stream: Handle) -> bool {
        self.seen.contains_key(&stream)
    }

    /// A launch on a stream.
    pub fn work(&mut self, stream: Handle) {
        if let Some(seen) = self.seen.get_mut(&stream) {
            *seen.entry(stream).or_default() += 1;
            self.launches += 1;
        }
    }

    /// The launches that an event on a stream comes after, if the event is recorded now.
    pub fn seen_by(&self, stream: Handle) -> Option<Seen> {
        self.seen.get(&stream).cloned()
    }

    /// Makes a stream wait for a captured event. The stream then belongs to the capture.
    pub fn join(&mut self, stream: Handle, event: &Seen) {
        let seen = self.seen.entry(stream).or_default();
        for (&of, &work) in event {
            let own = seen.entry(of).or_default();
            *own = work.max(*own);
        }
    }

    /// Whether the end of the first stream comes after all launches.
    fn joined(&self) -> bool {
        let origin = &self.seen[&self.origin];
        self.seen.iter().all(|(stream, seen)| seen.get(stream).is_none_or(|work| origin.get(stream) == Some(work)))
    }
}

impl State {
    pub fn begin_capture(&mut self, origin: Handle) -> Result<(), Code> {
        if origin == 0 || self.capture.is_some() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        let seen = BTreeMap::from([(origin, Seen::new())]);
        self.capture = Some(Capture { origin, seen, launches: 0, broken: false });
        Ok(())
    }

    /// Ends a capture and returns its number of launches.
    pub fn end_capture(&mut self, stream: Handle) -> Result<usize, Code> {
        match self.capture.take() {
            None => Err(CAPTURE_UNMATCHED),
            Some(capture) if capture.origin != stream => Err(CAPTURE_UNMATCHED),
            Some(capture) if capture.broken => Err(CAPTURE_INVALIDATED),
            Some(capture) if !capture.joined() => Err(CAPTURE_UNJOINED),
            Some(capture) => Ok(capture.launches),
        }
    }
}
