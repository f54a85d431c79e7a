//! Writing to people and to programs. Text for people passes [`printable`] here, and nowhere else.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use anyhow::{Result, ensure};
use gt_data::fetch::Progress;
use gt_models::config;
use indicatif::{ProgressBar, ProgressStyle};

use crate::closed_output::output_is_closed;
use crate::printable::{printable, printable_json};

/// Writes text for people to standard output.
pub fn print(text: &str) -> Result<()> {
    print_exactly(&printable(text))
}

/// Writes text for programs to standard output: a format that has escapes of its own.
pub fn print_exactly(text: &str) -> Result<()> {
    ensure!(!output_is_closed(), "standard output is closed, so there is no place for the result");
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a value as one line of JSON. What a terminal obeys and JSON allows is escaped as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print_exactly(&format!("{}\n", printable_json(&serde_json::to_string(value)?)))
}

/// Prints a line for people on standard error.
macro_rules! say {
    ($($content:tt)*) => {
        $crate::console::say_line(format_args!($($content)*))
    };
}
pub(crate) use say;

/// Prints a line for people on standard error. Unlike `eprintln!` it does not end the program after
/// standard error is closed, so a training outlives its terminal.
pub fn say_line(content: fmt::Arguments<'_>) {
    let line = format!("{content}\n");
    let _ = io::stderr().write_all(printable(&line).as_bytes());
}

/// Reports a problem that is no reason to stop.
pub fn warn(message: &str) {
    say!("{}", warning(message));
}

/// The line of a problem that is no reason to stop.
pub fn warning(message: &str) -> String {
    format!("warning: {message}")
}

/// The end of an error message about an unknown name: the nearest known name, if one is near.
pub fn nearest(wrong: &str, names: impl Iterator<Item = String>) -> String {
    let distance = |known: &str| strsim::damerau_levenshtein(known, wrong);
    config::nearest(names, wrong.len(), distance).map_or(".".to_owned(), |known| format!("; did you mean `{known}`?"))
}

/// A command line of this program to copy; words with blanks or special characters are quoted.
pub fn command(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./,:=+%@".contains(c);
    let quoted = |word: &OsStr| {
        let word = word.to_string_lossy();
        if !word.is_empty() && word.chars().all(plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    std::iter::once("gt".to_owned())
        .chain(words.into_iter().map(|word| quoted(word.as_ref())))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Whether an error only reports that the reader of our output is gone.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Shows downloads: a bar on a terminal, a line per file otherwise.
pub struct DownloadBar {
    bar: Option<ProgressBar>,
    name: String,
}

impl DownloadBar {
    pub fn new() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg:20} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, name: String::new() }
    }

    pub fn update(&mut self, progress: &Progress<'_>) {
        let fresh = self.name != printable(progress.name);
        if fresh {
            self.name = printable(progress.name).into_owned();
        }
        match &self.bar {
            Some(bar) => {
                if fresh {
                    bar.reset();
                    bar.set_message(self.name.clone());
                }
                bar.set_length(progress.total.unwrap_or(progress.done));
                bar.set_position(progress.done);
            }
            None if fresh => {
                say!("downloading {} ({} bytes)", self.name, progress.total.map_or("?".into(), |t| t.to_string()))
            }
            None => {}
        }
    }
}

impl Drop for DownloadBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_copied() {
        assert_eq!(command(["train", "--out", "runs/a-1"]), "gt train --out runs/a-1");
        assert_eq!(command(["train", "--out", "my runs", ""]), "gt train --out 'my runs' ''");
        assert_eq!(command(["--set", "it's"]), r"gt --set 'it'\''s'");
    }
}
