//! What a panic prints. A panic is an error in the program, and its exit code is 101.

use std::panic::{PanicHookInfo, set_hook};

use crate::console;

/// Prints one line for a panic. Panics that end as an error print nothing: the error says what is
/// wrong with the file.
pub fn report_panics() {
    set_hook(Box::new(|panic| {
        if !gt_data::panic_is_contained() {
            console::say!("{}", describe(panic));
        }
    }));
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("no message").replace('\n', " ");
    let place = panic.location().map_or(String::new(), |place| format!(" at {}:{}", place.file(), place.line()));
    let version = crate::VERSION;
    format!("internal error{place}: {message}; please report this line and the command (gt {version})")
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, set_hook, take_hook};
    use std::sync::{Arc, Mutex};
    use std::thread;

    use super::*;

    #[test]
    fn a_panic_is_one_line_with_its_place() {
        let (here, described) = (thread::current().id(), Arc::new(Mutex::new(Vec::new())));
        let (usual, lines) = (take_hook(), Arc::clone(&described));
        set_hook(Box::new(move |panic| match thread::current().id() == here {
            true => lines.lock().unwrap().push(describe(panic)),
            false => usual(panic),
        }));
        let number = 3;
        assert!(catch_unwind(|| panic!("two\nlines")).is_err());
        assert!(catch_unwind(|| panic!("{number} graphs")).is_err());
        let lines = described.lock().unwrap();
        assert_eq!(lines.len(), 2);
        for (line, message) in lines.iter().zip([": two lines; please report", ": 3 graphs; please report"]) {
            assert!(line.starts_with("internal error at ") && line.contains("panics.rs:"), "{line}");
            assert!(line.contains(message) && !line.contains('\n'), "{line}");
        }
    }
}
