//! Text from files and arguments, made safe for a terminal.

use std::borrow::Cow;

/// Replaces the characters that a terminal obeys by escapes such as `\u{1b}`; line ends stay.
///
/// Names, categories and file names come from files of others. Control characters in them could
/// recolour, overwrite or reorder what the program prints. The function replaces:
///
/// * control characters (ESC, BEL, CR, the C1 controls, …),
/// * marks that change the direction of text (U+202E and its relatives),
/// * the line and paragraph separators U+2028 and U+2029.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_obeyed(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// Escapes the same characters in a JSON document, where they can only occur in strings.
pub fn printable_json(document: &str) -> Cow<'_, str> {
    if !document.contains(is_obeyed) {
        return Cow::Borrowed(document);
    }
    let escape = |c: char| if is_obeyed(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(document.chars().map(escape).collect())
}

/// Whether a terminal acts on a character instead of showing it.
pub fn is_obeyed(c: char) -> bool {
    match c {
        '\n' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_all_else_stays() {
        let plain = "graph 3, column \"größe\": 漢字 ▁▂█ – …\nnext line";
        assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain));
        assert_eq!(printable("a\u{1b}[31mb\u{7}c\rd\te"), "a\\u{1b}[31mb\\u{7}c\\rd\\te");
        let text = serde_json::to_string("x\u{202e}\u{1b}y\u{9b}").unwrap();
        let safe = printable_json(&text);
        assert_eq!(safe, r#""x\u202e\u001by\u009b""#);
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), "x\u{202e}\u{1b}y\u{9b}");
        assert_eq!(printable("x\u{202e}y\u{2066}\u{9b}\u{7f}"), "x\\u{202e}y\\u{2066}\\u{9b}\\u{7f}");
    }
}
