//! Every allocation of a reader or a prediction fails once. The result is an error or an abort,
//! never a panic, a hang or a half-written file.
//!
//! Each trial is a forked copy of this process, in which the n-th allocation returns null. The
//! process has a single thread when it forks, so the test has no harness. The gate steps through a
//! sample of the allocations. `GT_TRIALS=all` steps through all of them, and prints a table.

#[cfg(unix)]
mod failing;
#[cfg(unix)]
#[path = "../../src/out_of_memory.rs"]
mod out_of_memory;
#[cfg(unix)]
mod trial;
#[cfg(unix)]
mod work;

/// The name of the only test.
const NAME: &str = "a_failed_allocation_is_an_error_or_an_abort";

/// Trials of each work in the gate.
#[cfg(unix)]
const SAMPLE: usize = 150;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if given("--list") {
        return println!("{NAME}: test");
    }
    let filters = arguments.iter().filter(|argument| !argument.starts_with('-'));
    let is_wanted = |filter: &String| if given("--exact") { filter == NAME } else { NAME.contains(filter.as_str()) };
    let mut filters = filters.peekable();
    if given("--ignored") || (filters.peek().is_some() && !filters.any(is_wanted)) {
        return println!("test result: ok. 0 passed; 0 failed; 1 filtered out");
    }
    #[cfg(unix)]
    run();
    println!("test {NAME} ... ok");
}

/// Runs the trials of every work.
///
/// # Panics
/// If a trial ends otherwise than it may.
#[cfg(unix)]
fn run() {
    use trial::{End, Trial};

    // Looking up the names of a backtrace takes longer than all works together.
    // SAFETY: this process has a single thread.
    unsafe { std::env::set_var("RUST_BACKTRACE", "0") };
    out_of_memory::abort_on_failed_allocations();
    let all = std::env::var("GT_TRIALS").is_ok_and(|trials| trials == "all");
    let folder = tempfile::tempdir().unwrap();
    // The pool of this thread alone: `fork` copies no other thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    pool.build_global().unwrap();
    let works = work::prepare(folder.path());
    if all {
        println!("work\tallocations\ttrials\tdone\terrors\taborts");
    }
    for work in &works {
        let mut trial = Trial::new(folder.path());
        let clean = trial.run(work, usize::MAX);
        assert_eq!(clean, End::Done, "{}: without a failure: {clean:?}", work.name);
        let count = trial.allocations();
        assert!(count > 10, "{}: {count} allocations were counted", work.name);
        let step = if all { 1 } else { count.div_ceil(SAMPLE) };
        let mut ends = [0; 3];
        for number in (1..=count).step_by(step) {
            match trial.run(work, number) {
                End::Done => ends[0] += 1,
                End::Error(_) => ends[1] += 1,
                End::Abort => ends[2] += 1,
                other => panic!("{}: allocation {number} of {count} fails: {other:?}", work.name),
            }
            if let Err(problem) = (work.check)() {
                panic!("{}: allocation {number} of {count} fails: {problem}", work.name);
            }
        }
        let [done, errors, aborts] = ends;
        if all {
            println!("{}\t{count}\t{}\t{done}\t{errors}\t{aborts}", work.name, done + errors + aborts);
        }
        assert!(errors + aborts > 0, "{}: no failure of an allocation was noticed", work.name);
    }
}
