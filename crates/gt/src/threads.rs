//! How many threads the program uses.

use anyhow::{Result, anyhow};

/// Starts the pool that all parallel work runs on.
///
/// # Errors
/// If the system starts no further threads for this user or process.
pub fn start_pool(asked: Option<usize>) -> Result<()> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    // A second hardware thread on the same core gains little in dense arithmetic and costs cache.
    let count = asked.unwrap_or_else(|| num_cpus::get_physical().clamp(1, available));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count);
    pool.build_global().map_err(|error| {
        let fewer = if count > 1 { "pass --threads 1, or " } else { "" };
        anyhow!("cannot start {count} threads: {error}; {fewer}raise the limit of processes (`ulimit -u`)")
    })
}
