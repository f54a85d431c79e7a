//! One trial: a forked process in which an allocation fails.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::failing::MEMORY;
use crate::work::Work;

/// Most seconds of CPU time of a trial. A work takes milliseconds.
const CPU_SECONDS: u64 = 20;
/// Most seconds of a trial, for a process that waits for nothing.
const SECONDS: u32 = 300;

const PANIC: i32 = 101;
const ERROR: i32 = 2;

/// How a trial ended.
#[derive(Debug, PartialEq)]
pub enum End {
    /// The work is done, in spite of the failure.
    Done,
    /// An error with this message.
    Error(String),
    /// The process ended with the message that memory has run out.
    Abort,
    /// A panic, or an abort without its message.
    Fault { status: i32, message: String },
}

/// The files that a trial writes its results to.
pub struct Trial {
    /// Standard error of the process.
    errors: File,
    /// The number of allocations.
    count: File,
}

impl Trial {
    pub fn new(folder: &Path) -> Self {
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true).open(folder.join(name)).unwrap()
        };
        Self { errors: open("standard_error"), count: open("count") }
    }

    /// Does the work in a process of its own, in which one allocation fails.
    pub fn run(&mut self, work: &Work, number: usize) -> End {
        self.errors.set_len(0).unwrap();
        self.errors.rewind().unwrap();
        self.count.rewind().unwrap();
        // SAFETY: this process has a single thread, so the copy is whole.
        let process = unsafe { libc::fork() };
        assert!(process >= 0, "fork: {}", std::io::Error::last_os_error());
        if process == 0 {
            self.child(work, number);
        }
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
        let mut message = String::new();
        self.errors.rewind().unwrap();
        self.errors.read_to_string(&mut message).unwrap();
        if libc::WIFEXITED(status) {
            match libc::WEXITSTATUS(status) {
                0 => return End::Done,
                ERROR => return End::Error(message),
                _ => {}
            }
        }
        let aborted = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT;
        if aborted && message.contains("memory allocation ") { End::Abort } else { End::Fault { status, message } }
    }

    /// Allocations of the last work that was done.
    pub fn allocations(&mut self) -> usize {
        let mut bytes = [0; size_of::<usize>()];
        self.count.rewind().unwrap();
        self.count.read_exact(&mut bytes).unwrap();
        usize::from_le_bytes(bytes)
    }

    /// The life of the copy.
    fn child(&mut self, work: &Work, number: usize) -> ! {
        let limit = libc::rlimit { rlim_cur: CPU_SECONDS, rlim_max: CPU_SECONDS };
        let core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointers are valid, and both descriptors are open.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CPU, &raw const limit);
            libc::setrlimit(libc::RLIMIT_CORE, &raw const core);
            libc::alarm(SECONDS);
            libc::dup2(self.errors.as_raw_fd(), libc::STDERR_FILENO);
        }
        MEMORY.arm(number);
        let result = catch_unwind(AssertUnwindSafe(|| (work.run)().map_err(|error| error.to_string())));
        let count = MEMORY.count();
        MEMORY.arm(usize::MAX);
        let _ = self.count.write_all(&count.to_le_bytes());
        let code = match result {
            Ok(Ok(())) => 0,
            Ok(Err(message)) => {
                let _ = self.errors.write_all(message.as_bytes());
                ERROR
            }
            Err(_) => PANIC,
        };
        // SAFETY: a copy must not run what the original has registered for its exit.
        unsafe { libc::_exit(code) }
    }
}
