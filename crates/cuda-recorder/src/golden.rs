//! Golden files: expected texts of test results.

use std::path::Path;

/// Compares a text with a golden file. If `GT_RECORD` is set in the environment, writes the file
/// instead.
///
/// # Panics
/// If the texts differ. The message shows the first line that does.
pub fn compare(file: &Path, text: &str) {
    if std::env::var_os("GT_RECORD").is_some() {
        std::fs::write(file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        return;
    }
    let expected = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    if expected == text {
        return;
    }
    let (left, right): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), text.lines().collect());
    let first = (0..left.len().max(right.len())).find(|&line| left.get(line) != right.get(line)).unwrap_or(0);
    panic!(
        "{} differs in line {} (GT_RECORD=1 writes it anew):\nexpected: {}\nfound:    {}",
        file.display(),
        first + 1,
        left.get(first).unwrap_or(&"nothing"),
        right.get(first).unwrap_or(&"nothing")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "differs in line 2")]
    fn the_first_line_that_differs_is_named() {
        let file = std::env::temp_dir().join(format!("golden-{}", std::process::id()));
        std::fs::write(&file, "a\nb\nc\n").unwrap();
        compare(&file, "a\nx\nc\n");
    }
}
