//! Counts and times as words.

/// A count with its noun, in the plural where needed: `1 run`, `4 runs`.
pub fn count_of(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A duration, rounded as people plan with it: `89 s`, `10 min`, `2.0 h`.
pub fn duration_words(seconds: f64) -> String {
    match seconds / 60.0 {
        few if few < 1.5 => format!("{:.0} s", seconds.max(0.0)),
        some if some < 90.0 => format!("{some:.0} min"),
        many => format!("{:.1} h", many / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_as_people_plan() {
        let cases = [(5.0, "5 s"), (89.0, "89 s"), (600.0, "10 min"), (7200.0, "2.0 h"), (-1.0, "0 s")];
        cases.iter().for_each(|(seconds, text)| assert_eq!(duration_words(*seconds), *text));
    }
}
