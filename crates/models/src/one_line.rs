//! Messages that quote a file, as one line.

use std::fmt::Display;

/// A message that may quote a file: control characters are escaped, and long messages are cut.
pub(crate) fn one_line(message: &(impl Display + ?Sized)) -> String {
    const LONGEST: usize = 600;
    let message = message.to_string();
    let mut line = String::new();
    for (at, character) in message.chars().enumerate() {
        match character {
            _ if at == LONGEST => {
                line.push('…');
                break;
            }
            control if control.is_control() => line.extend(control.escape_debug()),
            other => line.push(other),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_control_characters_and_an_end() {
        assert_eq!(one_line("a \"name\"\n\u{1b}[2J"), "a \"name\"\\n\\u{1b}[2J");
        let long = one_line(&"ä".repeat(1_000));
        assert_eq!((long.chars().count(), long.chars().last()), (601, Some('…')));
    }
}
