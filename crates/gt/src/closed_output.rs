//! Whether standard output was closed when the program began.
//!
//! Before `main`, Rust opens `/dev/null` in the place of closed standard streams, so that no other
//! file takes their numbers. Later, a closed output looks like one that was sent to `/dev/null`, and
//! results would be lost silently. So this module looks before Rust does.

/// Whether results have nowhere to go.
pub fn output_is_closed() -> bool {
    #[cfg(target_os = "linux")]
    return linux::CLOSED.load(std::sync::atomic::Ordering::Relaxed);
    #[cfg(not(target_os = "linux"))]
    return false;
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::atomic::{AtomicBool, Ordering};

    pub static CLOSED: AtomicBool = AtomicBool::new(false);

    // SAFETY: the loader calls the functions of this section before `main`. The function needs
    // nothing of Rust's runtime: it makes one system call and sets a flag.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        // SAFETY: the call asks for the flags of a descriptor, and changes nothing.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        CLOSED.store(flags == -1, Ordering::Relaxed);
    }
}
