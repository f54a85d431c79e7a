//! Numbers, dates and escaped text.

/// Text that cannot become markup in HTML or SVG, within an element or a quoted attribute.
///
/// ```
/// assert_eq!(graph_transformer_train::escape("<a> & 'b'"), "&lt;a&gt; &amp; &#39;b&#39;");
/// ```
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(printable(other)),
        }
    }
    safe
}

/// Replaces control characters by the replacement character: XML forbids them, and terminals may
/// act on them.
pub(super) fn printable(letter: char) -> char {
    match letter {
        '\t' | '\n' | '\r' => letter,
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        control if control.is_control() => '\u{fffd}',
        other => other,
    }
}

/// A score: four decimals, fewer for larger numbers, powers of ten for tiny ones.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".into(),
        0.0 => "0".into(),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.2e}"),
        size if size >= 1e3 => format!("{value:.1}"),
        size if size >= 1e2 => format!("{value:.2}"),
        size if size >= 1e1 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
    .replace('-', "−")
}

/// A count, in groups of three digits.
pub(super) fn count(value: usize) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or("")).collect();
    groups.join(",")
}

/// A count and what is counted.
pub(super) fn counted(value: usize, one: &str) -> String {
    format!("{} {one}{}", count(value), if value == 1 { "" } else { "s" })
}

/// A number per second.
pub(super) fn rate(value: f64) -> String {
    if value >= 100.0 { count(value.round() as usize) } else { tenths(value) }
}

/// One decimal, and groups of three digits before it.
pub(super) fn tenths(value: f64) -> String {
    let tenths = (value.max(0.0) * 10.0).round() as usize;
    format!("{}.{}", count(tenths / 10), tenths % 10)
}

/// A duration.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0 if seconds < 0.1 => format!("{:.1} ms", 1e3 * seconds),
        0..10 => format!("{seconds:.2} s"),
        10..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A moment, given in seconds since 1970.
pub(super) fn date(time: f64) -> String {
    let seconds = time.max(0.0) as u64;
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their leap day at the end; 719468 days lie between March of
    // the year 0 and 1970.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{of_month:02} {:02}:{:02} UTC", second / 3600, second % 3600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_data_stays_text() {
        let hostile = "<script>alert('x')</script> & \"quoted\"\u{1b}[31m";
        let expected = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;quoted&quot;\u{fffd}[31m";
        assert_eq!(escape(hostile), expected);
    }

    #[test]
    fn numbers_are_short_and_counts_are_grouped() {
        let cases = [(0.23145, "0.2314"), (-1.5, "−1.5000"), (77.123456, "77.123"), (123.456, "123.46")];
        let extreme = [(4321.0, "4321.0"), (2.5e-6, "2.50e−6"), (1e7, "1.00e7"), (f64::NAN, "–"), (0.0, "0")];
        for (value, expected) in cases.into_iter().chain(extreme) {
            assert_eq!(number(value), expected);
        }
        assert_eq!((count(7), count(1234), count(1_000_000)), ("7".into(), "1,234".into(), "1,000,000".into()));
        assert_eq!((counted(1, "graph"), counted(2, "graph")), ("1 graph".into(), "2 graphs".into()));
        assert_eq!((rate(2461.14), rate(39.99)), ("2,461".into(), "40.0".into()));
        assert_eq!((tenths(4218.94), duration(0.00371)), ("4,218.9".into(), "3.7 ms".into()));
        assert_eq!((duration(1.234), duration(59.96)), ("1.23 s".into(), "1 min 0 s".into()));
        assert_eq!((duration(125.0), duration(7_260.0)), ("2 min 5 s".into(), "2 h 1 min".into()));
    }

    #[test]
    fn dates_know_leap_years() {
        assert_eq!(date(0.0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00 UTC");
        assert_eq!(date(951_868_799.0), "2000-02-29 23:59 UTC");
        assert_eq!(date(1_794_751_500.0), "2026-11-15 14:05 UTC");
        assert_eq!(date(4_107_542_400.0), "2100-03-01 00:00 UTC");
    }
}
