//! The stand-ins for a child process, such as a program under test.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use cudarc::get_lib_name_candidates;

use crate::library::folder;
use crate::recorder::Failure;

/// The CUDA libraries that a child process finds, and what the driver reports.
///
/// A library that is left out cannot be loaded, even where the system has it.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use graph_transformer_cuda_recorder::ChildMachine;
///
/// let folder = std::env::temp_dir().join(format!("child-{}", std::process::id()));
/// let mut command = std::process::Command::new("true");
/// ChildMachine::new().without_compiler().memory(1 << 20).prepare(&folder, &mut command);
/// assert!(command.status().unwrap().success());
/// # std::fs::remove_dir_all(folder).unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ChildMachine {
    driver: bool,
    compiler: bool,
    /// The value of `GT_CUDA_STAND_IN`.
    settings: String,
}

impl Default for ChildMachine {
    fn default() -> Self {
        Self::new()
    }
}

impl ChildMachine {
    /// A driver with an H200, and a compiler.
    pub fn new() -> Self {
        Self { driver: true, compiler: true, settings: String::new() }
    }

    /// Removes the driver from the machine.
    #[must_use]
    pub fn without_driver(self) -> Self {
        Self { driver: false, ..self }
    }

    /// Removes the run-time compiler from the machine.
    #[must_use]
    pub fn without_compiler(self) -> Self {
        Self { compiler: false, ..self }
    }

    /// Sets the driver version in the driver's own format: 11,020 for 11.2.
    #[must_use]
    pub fn driver_version(self, version: i32) -> Self {
        self.with(&format!("driver={version}"))
    }

    /// Sets the compute capability of the device.
    #[must_use]
    pub fn capability(self, major: i32, minor: i32) -> Self {
        self.with(&format!("capability={major}.{minor}"))
    }

    /// Sets the bytes of device memory.
    #[must_use]
    pub fn memory(self, bytes: usize) -> Self {
        self.with(&format!("memory={bytes}"))
    }

    /// Sets a failure of a later call.
    #[must_use]
    pub fn fail(self, Failure { function, nth, error, lasting }: Failure) -> Self {
        self.with(&format!("fail={function},{nth},{error},{lasting}"))
    }

    fn with(mut self, setting: &str) -> Self {
        self.settings = format!("{} {setting}", self.settings);
        self
    }

    /// Fills a folder with libraries, and lets a command load them before those of the system.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn prepare(&self, libraries: &Path, command: &mut Command) {
        std::fs::create_dir_all(libraries).expect("the folder of libraries can be made");
        for (name, present) in [("cuda", self.driver), ("nvcuda", false), ("nvrtc", self.compiler)] {
            // Programs try several names. A file that is no library ends the loader's search.
            for file in get_lib_name_candidates(name) {
                let to = libraries.join(&file);
                let _ = std::fs::remove_file(&to);
                let made = match present && file == format!("lib{name}.so") {
                    true => symlink(folder().join(&file), to),
                    false => std::fs::write(to, ""),
                };
                made.expect("the folder of libraries can be written");
            }
        }
        command.env("LD_LIBRARY_PATH", libraries).env("GT_CUDA_STAND_IN", &self.settings);
    }
}
