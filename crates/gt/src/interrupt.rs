//! Signals that stop the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::console;

/// Ends the program with exit code 130; the text is the command line that resumes.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; `{0}` resumes")]
pub struct Interrupted(pub String);

/// `timeout` and some schedulers signal a process and then its group. Signals within this time
/// count as one.
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

/// For commands that cannot resume: the first signal ends the program and removes half-written
/// files.
pub fn end_at_signal() {
    on_signal(end);
}

/// Lets a write beyond the file size limit (`ulimit -f`) return an error. The signal would end the
/// program.
pub fn ignore_file_size_signal() {
    #[cfg(unix)]
    // SAFETY: ignoring a signal installs no handler. No other thread runs yet.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

fn end() {
    gt_graph::remove_unfinished();
    std::process::exit(130);
}

/// Handles SIGINT, SIGTERM and SIGHUP; SIGHUP stays ignored if it was, as under `nohup`.
fn on_signal(handler: impl FnMut() + Send + 'static) {
    #[cfg(unix)]
    // SAFETY: the call queries the hangup handler, and ignores hangups until a handler is
    // installed.
    let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    if let Err(error) = ctrlc::set_handler(handler) {
        console::warn(&format!("signals are not handled: {error}"));
    }
    #[cfg(unix)]
    if before == libc::SIG_IGN {
        // SAFETY: the call restores the previous handler.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
}
