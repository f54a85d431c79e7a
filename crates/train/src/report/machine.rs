//! The machine on which a run was made.

use std::fs;
use std::process::Command;
use std::time::SystemTime;

use gt_nn::cpu::Isa;
use serde::{Deserialize, Serialize};

/// The machine and the moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the CPU.
    pub processor: String,
    /// Threads that compute.
    pub threads: usize,
    /// Hardware threads.
    pub cores: usize,
    /// The instruction set that is used.
    pub instructions: String,
    /// The operating system.
    pub system: String,
    /// Version of this program.
    pub version: String,
    /// Seconds since 1970.
    pub now: f64,
}

impl Machine {
    /// This machine at this moment.
    pub fn here() -> Self {
        Self {
            processor: cpu_name().unwrap_or_else(|| "unknown".into()),
            threads: rayon::current_num_threads(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            instructions: Isa::detect().name().into(),
            system: system(),
            version: env!("CARGO_PKG_VERSION").into(),
            now: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
        }
    }
}

/// The value of a line `key: value` or `key=value`.
fn line(file: &str, key: &str, separator: char) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().trim_matches('"').to_owned())
}

/// Name of the CPU; each system reports it in its own way.
fn cpu_name() -> Option<String> {
    if cfg!(target_os = "macos") {
        let output = Command::new("sysctl").args(["-n", "machdep.cpu.brand_string"]).output().ok()?;
        return String::from_utf8(output.stdout)
            .ok()
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty());
    }
    line("/proc/cpuinfo", "model name", ':').or_else(|| std::env::var("PROCESSOR_IDENTIFIER").ok())
}

fn system() -> String {
    use std::env::consts::{ARCH, OS};
    match line("/etc/os-release", "PRETTY_NAME", '=') {
        Some(name) => format!("{name}, {OS} {ARCH}"),
        None => format!("{OS} {ARCH}"),
    }
}
