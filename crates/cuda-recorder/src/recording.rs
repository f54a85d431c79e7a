//! Recorded calls of the driver: a line per call that changes something.

/// A text of recorded calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording(String);

impl Recording {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The complete text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text with a digest in place of each kernel's arguments, which are long.
    pub fn brief(&self) -> String {
        let brief = |line: &str| match line.split_once(" args ") {
            Some((launch, arguments)) => format!("{launch} {:08x}\n", digest(arguments) as u32),
            None => format!("{line}\n"),
        };
        self.0.lines().map(brief).collect()
    }

    /// Lines that begin with a word.
    pub fn lines_of(&self, word: &str) -> impl Iterator<Item = &str> {
        self.0.lines().filter(move |line| line.split(' ').next() == Some(word))
    }

    /// Writes the text to a file in the folder `GT_RECORDINGS`, if the environment names one.
    ///
    /// Compare the folders of two commits to see which argument of which launch differs.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn keep(&self, name: &str) {
        if let Some(folder) = std::env::var_os("GT_RECORDINGS") {
            let file = std::path::Path::new(&folder).join(format!("{name}.txt"));
            std::fs::write(&file, &self.0).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
    }

    /// Number of lines, and a hash of the text.
    pub fn digest(&self) -> String {
        format!("{:>5} {:016x}", self.0.lines().count(), digest(&self.0))
    }
}

/// FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_digested_and_everything_else_is_kept() {
        let recording = |argument| Recording::new(format!("alloc #1 16\nlaunch feed grid 1,1,1 args {argument}\n"));
        let (one, other) = (recording("#1+0").brief(), recording("#1+8").brief());
        assert!(one.starts_with("alloc #1 16\nlaunch feed grid 1,1,1 ") && !one.contains("args"), "{one}");
        assert_eq!(one.len(), other.len());
        assert_ne!(one, other);
        assert_ne!(recording("#1+0").digest(), recording("#1+8").digest());
        assert_eq!(recording("#1+0").lines_of("alloc").count(), 1);
    }
}
