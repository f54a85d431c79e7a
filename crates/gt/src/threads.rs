//! How many threads the program uses.

/// Starts the pool that all parallel work runs on.
pub fn start_pool(asked: Option<usize>) {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    // A second hardware thread on the same core gains little in dense arithmetic and costs cache.
    let count = asked.unwrap_or_else(|| num_cpus::get_physical().clamp(1, available));
    // It fails only if a pool was started before, which is then the one to use.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(count).build_global();
}
