//! The consequence of a skip: a line in the record, or a failure.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::Resource;

/// The settings of the environment variables `GT_REQUIRE` and `GT_SKIPS`.
pub(crate) struct Policy {
    required: Vec<Resource>,
    record: Option<PathBuf>,
}

impl Policy {
    pub(crate) fn from_environment() -> Self {
        let list = std::env::var("GT_REQUIRE").unwrap_or_default();
        let required = Resource::parse_list(&list).unwrap_or_else(|error| panic!("GT_REQUIRE: {error}"));
        Self { required, record: std::env::var_os("GT_SKIPS").map(PathBuf::from) }
    }

    #[track_caller]
    pub(crate) fn skip(&self, test: &str, resource: Resource, reason: impl Display) {
        assert!(!self.required.contains(&resource), "GT_REQUIRE names `{resource}`, but {reason}");
        if let Some(record) = &self.record {
            append(record, &format!("{resource}\t{test}\n"))
                .unwrap_or_else(|error| panic!("GT_SKIPS: {}: {error}", record.display()));
        }
    }
}

/// Appends with one write, because several tests run in parallel.
fn append(record: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(record)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_recorded_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("skips");
        let policy = Policy { required: vec![Resource::Shared], record: Some(record.clone()) };
        policy.skip("a test", Resource::Browser, "there is none");
        policy.skip("another", Resource::Cuda, "there is none");
        assert_eq!(std::fs::read_to_string(record).unwrap(), "browser\ta test\ncuda\tanother\n");
    }

    #[test]
    #[should_panic = "GT_REQUIRE names `cuda`, but there is no GPU"]
    fn a_skip_for_a_required_resource_fails() {
        let policy = Policy { required: vec![Resource::Shared, Resource::Cuda], record: None };
        policy.skip("a test", Resource::Cuda, "there is no GPU");
    }

    #[test]
    #[should_panic = "GT_SKIPS: "]
    fn a_record_that_cannot_be_written_fails() {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy { required: vec![], record: Some(folder.path().to_owned()) };
        policy.skip("a test", Resource::Cuda, "there is no GPU");
    }
}
