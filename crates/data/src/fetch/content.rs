//! What a downloaded file must hold. A page about an error or a login must not be kept.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// What a downloaded file must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A JSON document.
    Json,
    /// Numbers, separated by commas or blanks.
    Positions,
    /// A Parquet file.
    Parquet,
}

impl Content {
    /// The reason why a file does not hold the content; none if it does.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn problem(self, path: &Path) -> io::Result<Option<String>> {
        let mut file = File::open(path)?;
        let holds = match self {
            Self::Json => serde_json::from_reader::<_, serde::de::IgnoredAny>(io::BufReader::new(&file)).is_ok(),
            Self::Positions => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                bytes.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace() || *byte == b',')
            }
            Self::Parquet => begins_and_ends(&mut file, b"PAR1")?,
        };
        Ok((!holds)
            .then(|| format!("the server sent {}, not {}", kind_of(&mut file).unwrap_or("other bytes"), self.name())))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Positions => "a list of positions",
            Self::Parquet => "a Parquet file",
        }
    }
}

fn begins_and_ends(file: &mut File, mark: &[u8; 4]) -> io::Result<bool> {
    if file.metadata()?.len() < 2 * mark.len() as u64 {
        return Ok(false);
    }
    let (mut first, mut last) = ([0; 4], [0; 4]);
    file.read_exact(&mut first)?;
    file.seek(SeekFrom::End(-4))?;
    file.read_exact(&mut last)?;
    Ok(first == *mark && last == *mark)
}

/// What a file looks like that holds something else.
fn kind_of(file: &mut File) -> io::Result<&'static str> {
    let mut start = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(512).read_to_end(&mut start)?;
    let start = String::from_utf8_lossy(&start).trim_start().to_ascii_lowercase();
    Ok(match () {
        () if start.is_empty() => "nothing",
        () if start.starts_with("<!doctype html") || start.starts_with("<html") => "a web page",
        () => "other bytes",
    })
}
