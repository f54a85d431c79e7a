//! The end of the program where an allocation fails.
//!
//! The standard library prints `memory allocation of N bytes failed` and aborts. The buffers of
//! Arrow panic instead; here such a panic prints the same kind of line and aborts, too.

use std::io::Write;
use std::panic::{PanicHookInfo, set_hook, take_hook};

/// The beginning of the message of Arrow's panic.
const ARROW: &str = "failed to allocate memory";

/// Lets the program end in one way wherever an allocation fails. Other panics go to the hook that
/// was set before.
pub fn abort_on_failed_allocations() {
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        // A panic inside of the Parquet decoder ends as an error, which says the same.
        if is_failed_allocation(panic) && !gt_data::panic_is_contained() {
            // Nothing is allocated here.
            let _ = writeln!(std::io::stderr(), "memory allocation failed");
            std::process::abort();
        }
        usual(panic);
    }));
}

fn is_failed_allocation(panic: &PanicHookInfo<'_>) -> bool {
    panic.payload().downcast_ref::<String>().is_some_and(|message| message.starts_with(ARROW))
}
