//! Calls into the Parquet decoder that end in an error even where it panics.
//!
//! On a few kinds of damage that no check of headers can see (levels that contradict the values, say) the decoder's own assertions
//! fail. For the user that is a damaged file like any other, so the panic is caught and its message not printed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `decode`; a panic becomes an error message. Whatever `decode` borrows must not be used after an error.
pub(super) fn contained<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                usual(panic);
            }
        }));
    });
    CONTAINED.set(true);
    let result = catch_unwind(AssertUnwindSafe(decode));
    CONTAINED.set(false);
    result.map_err(|_| "a page contradicts itself".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_is_an_error_and_one_outside_still_a_panic() {
        assert_eq!(contained(|| 7), Ok(7));
        assert!(contained(|| panic!("inside")).is_err());
        assert!(catch_unwind(|| panic!("outside")).is_err());
        assert!(!CONTAINED.get());
    }
}
