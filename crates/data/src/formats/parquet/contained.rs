//! Calls into the Parquet decoder that end in an error even where it panics.
//!
//! Some damage is visible to no check of headers, for example levels that contradict the values.
//! The decoder's own assertions fail on it. For the user that is a damaged file like any other, so
//! the panic is caught and becomes an error.
//!
//! The message of a panic is printed by the panic hook, which belongs to the program. A library
//! leaves the hook alone; [`panic_is_contained`] lets a program's hook skip these messages.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of the current thread ends as an error of the reader.
///
/// The Parquet decoder panics on some damaged files. The reader catches these panics and returns
/// an error, but the panic hook runs first and prints a message. A program that prints the error
/// can leave that message out:
///
/// ```
/// let usual = std::panic::take_hook();
/// std::panic::set_hook(Box::new(move |panic| {
///     if !graph_transformer_data::panic_is_contained() {
///         usual(panic);
///     }
/// }));
/// assert!(!graph_transformer_data::panic_is_contained());
/// ```
pub fn panic_is_contained() -> bool {
    CONTAINED.get()
}

/// Runs `decode`; a panic becomes an error message. After an error, nothing that `decode` borrows
/// may be used.
pub(super) fn contained<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    let outer = CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(decode));
    CONTAINED.set(outer);
    result.map_err(|panic| {
        let message = panic.downcast_ref::<String>().map_or("", String::as_str);
        let out_of_memory = message.starts_with("failed to allocate memory");
        if out_of_memory { "there is not enough memory for a page" } else { "a page contradicts itself" }.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_is_an_error_and_one_outside_still_a_panic() {
        assert_eq!(contained(|| 7), Ok(7));
        assert_eq!(contained(|| panic!("inside")), Err::<(), _>("a page contradicts itself".to_owned()));
        assert!(catch_unwind(|| panic!("outside")).is_err());
    }

    #[test]
    fn a_failed_allocation_of_arrow_says_so() {
        // More than an address space holds.
        let claim = || drop(arrow_buffer::MutableBuffer::with_capacity(1 << 60));
        assert_eq!(contained(claim), Err("there is not enough memory for a page".to_owned()));
    }

    #[test]
    fn a_hook_can_see_which_panics_are_contained() {
        assert!(!panic_is_contained());
        assert_eq!(contained(|| contained(panic_is_contained)), Ok(Ok(true)));
        assert_eq!(contained(|| (contained(|| panic!("inner")).is_err(), panic_is_contained())), Ok((true, true)));
        assert!(!panic_is_contained());
    }
}
