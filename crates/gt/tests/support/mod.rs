//! A folder of its own for every test.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod small_run;

use std::path::PathBuf;
use std::process::{Command, Output};

/// Checks that a message has every fact (a name, a number, a key) as a separate word, for any
/// wording.
#[track_caller]
pub fn assert_names(message: &str, facts: &[&str]) {
    let is_word = |(at, fact): (usize, &str)| {
        let ends = [message[..at].chars().next_back(), message[at + fact.len()..].chars().next()];
        !ends.into_iter().flatten().any(char::is_alphanumeric)
    };
    for fact in facts {
        assert!(message.match_indices(fact).any(is_word), "{fact} is missing: {message}");
    }
}

/// The program, with a cache folder of the tests.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command.env("GT_CACHE", TEST_CACHE);
    command
}

/// The cache folder of the tests.
pub const TEST_CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cache");

/// A folder in which `gt` runs.
pub struct Place(pub tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs `gt` in this folder.
    pub fn gt(&self, line: &str) -> Output {
        program().args(line.split_whitespace()).current_dir(&self.0).output().unwrap()
    }

    pub fn done(&self, line: &str) -> String {
        let output = self.gt(line);
        assert_eq!(output.status.code(), Some(0), "gt {line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The complaint of a call that must fail with exit code 2 and leave the folder as it was.
    pub fn refused(&self, line: &str) -> String {
        let before = self.files();
        let output = self.gt(line);
        assert_eq!(output.status.code(), Some(2), "gt {line}");
        assert_eq!(self.files(), before, "gt {line} left something behind");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!text.contains("panicked"), "{text}");
        text
    }

    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
