//! Which panics print a message.

use std::panic::{set_hook, take_hook};

/// Leaves out the messages of panics that end as an error: the error says what is wrong with the
/// file.
pub fn hide_contained() {
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        if !gt_data::panic_is_contained() {
            usual(panic);
        }
    }));
}
