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
    on_signal(move || {
        raised.store(true, Ordering::Relaxed);
        if first.get_or_insert_with(Instant::now).elapsed() > ONE_SIGNAL {
            end();
        }
    });
    flag
}

/// For commands that cannot go on later: the first signal ends the program, and takes half-written files away.
pub fn end_at_signal() {
    on_signal(end);
}

fn end() {
    gt_data::remove_unfinished();
    std::process::exit(130);
}

/// Handles SIGINT, SIGTERM and SIGHUP; the last one stays ignored where it was, as `nohup` has it.
fn on_signal(handler: impl FnMut() + Send + 'static) {
    #[cfg(unix)]
    // SAFETY: the call asks what happens at a hangup, and lets nothing happen until a handler is there.
    let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    if let Err(error) = ctrlc::set_handler(handler) {
        console::warn(&format!("signals are not handled: {error}"));
    }
    #[cfg(unix)]
    if before == libc::SIG_IGN {
        // SAFETY: it puts back what was there.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
}
