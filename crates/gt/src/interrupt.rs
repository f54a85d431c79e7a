//! Being told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::console;

/// Ends the program with exit code 130; what goes on is a command line.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; `{0}` goes on")]
pub struct Interrupted(pub String);

/// `timeout` and some schedulers signal a process and then its group: signals this close together are one.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// Becomes true at SIGINT, SIGTERM or SIGHUP; a second signal ends the program at once.
pub fn interrupt() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    let mut first: Option<Instant> = None;
    let installed = ctrlc::set_handler(move || {
        raised.store(true, Ordering::Relaxed);
        if first.get_or_insert_with(Instant::now).elapsed() > ONE_SIGNAL {
            std::process::exit(130);
        }
    });
    if let Err(error) = installed {
        console::warn(&format!("signals are not handled: {error}"));
    }
    flag
}
