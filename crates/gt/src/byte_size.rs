//! Sizes in bytes, as users write them.

/// Parses a number of bytes, with a unit of 1000 (`k`), 1000² (`M`), 1000³ (`G`) or 1000⁴ (`T`).
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_suffix(['B', 'b']).unwrap_or(text);
    let unit = match text.chars().next_back()?.to_ascii_lowercase() {
        'k' => 1_000,
        'm' => 1_000_000,
        'g' => 1_000_000_000,
        't' => 1_000_000_000_000,
        _ => 1,
    };
    let digits = if unit == 1 { text } else { &text[..text.len() - 1] };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_have_units_of_a_thousand() {
        assert_eq!([parse("17"), parse("3k"), parse("500M")], [Some(17), Some(3_000), Some(500_000_000)]);
        assert_eq!(
            [parse("8G"), parse(" 8gb "), parse("1T")],
            [Some(8_000_000_000), Some(8_000_000_000), Some(1_000_000_000_000)]
        );
    }

    #[test]
    fn other_texts_are_no_sizes() {
        for text in ["", "G", "B", "much", "-1", "1.5G", "8 GiB", "1é", "99999999999T"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
