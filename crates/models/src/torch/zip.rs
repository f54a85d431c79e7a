//! Zip archives of stored (uncompressed) entries, as PyTorch writes them; large archives use the
//! Zip64 fields.

use std::collections::HashMap;
use std::ops::Range;

use super::crc32::crc32;
use super::error::{CheckpointError, shown};

pub(super) const LOCAL_HEADER: &[u8] = b"PK\x03\x04";
const CENTRAL_HEADER: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";

const LOCAL_LENGTH: usize = 30;
const CENTRAL_LENGTH: usize = 46;
const END_LENGTH: usize = 22;
const END_64_LENGTH: usize = 56;
const LOCATOR_64_LENGTH: usize = 20;
/// Header of the extra field with 64-bit sizes.
const EXTRA_64: u64 = 1;

/// An entry as the directory describes it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    flags: u64,
    method: u64,
    crc: u64,
    length: u64,
    header: u64,
}

/// The directory of an archive.
#[derive(Debug)]
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    entries: HashMap<&'a str, Entry>,
    /// Upper bound of the bytes of unread entries. Entries do not overlap, so together they cannot
    /// be longer than the file.
    left: usize,
}

impl<'a> Archive<'a> {
    /// Reads the directory.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, CheckpointError> {
        let mut entries = HashMap::new();
        let mut directory = directory(bytes)?;
        while directory.starts_with(CENTRAL_HEADER) {
            let (name, entry, rest) = central(directory).ok_or_else(|| damaged("the directory is cut off"))?;
            let name = str::from_utf8(name).map_err(|_| damaged("an entry's name is not UTF-8"))?;
            if entries.insert(name, entry).is_some() {
                return Err(CheckpointError::Archive(format!("entry `{}` is in the archive twice", shown(name))));
            }
            directory = rest;
        }
        if !directory.is_empty() {
            return Err(damaged("the directory has something else than entries"));
        }
        Ok(Self { bytes, entries, left: bytes.len() })
    }

    /// The names of all entries, in no order.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.entries.keys().copied()
    }

    /// Where the contents of an entry lie, once checked; nothing if the archive has no such entry.
    pub(super) fn read(&mut self, name: &str) -> Result<Option<Range<usize>>, CheckpointError> {
        let Some(entry) = self.entries.get(name) else { return Ok(None) };
        let wrong = |problem: &str| CheckpointError::Archive(format!("entry `{}` {problem}", shown(name)));
        if entry.method != 0 || entry.flags & 1 != 0 {
            return Err(wrong("is compressed or encrypted, which PyTorch never does"));
        }
        let range = self.range(entry).ok_or_else(|| wrong("does not lie inside the file"))?;
        self.left = self.left.checked_sub(range.len()).ok_or_else(|| wrong("overlaps others"))?;
        // PyTorch has an option to skip checksums, and then writes zero.
        if entry.crc != 0 && u64::from(crc32(&self.bytes[range.clone()])) != entry.crc {
            return Err(wrong("has another checksum than when it was written"));
        }
        Ok(Some(range))
    }

    fn range(&self, entry: &Entry) -> Option<Range<usize>> {
        let at = usize::try_from(entry.header).ok()?;
        let header = self.bytes.get(at..)?;
        if !header.starts_with(LOCAL_HEADER) {
            return None;
        }
        let (name, extra) = (field(header, 26, 2)?, field(header, 28, 2)?);
        let start = at.checked_add(LOCAL_LENGTH + usize::try_from(name + extra).ok()?)?;
        let end = start.checked_add(usize::try_from(entry.length).ok()?)?;
        (end <= self.bytes.len()).then_some(start..end)
    }
}

/// The bytes of the directory.
fn directory(bytes: &[u8]) -> Result<&[u8], CheckpointError> {
    // A comment of at most 65535 bytes may follow the end record.
    let first = bytes.len().saturating_sub(END_LENGTH + usize::from(u16::MAX));
    let is_end = |&at: &usize| {
        let comment = field(bytes, at + 20, 2).and_then(|length| usize::try_from(length).ok());
        bytes[at..].starts_with(END) && comment.is_some_and(|comment| at + END_LENGTH + comment == bytes.len())
    };
    let end = (first..bytes.len()).rev().find(is_end);
    let end = end.ok_or_else(|| damaged("its end is missing; the file may be cut off"))?;
    let range = || {
        let (mut size, mut offset) = (field(bytes, end + 12, 4)?, field(bytes, end + 16, 4)?);
        if [size, offset].contains(&u32::MAX.into()) {
            let locator = end.checked_sub(LOCATOR_64_LENGTH).filter(|&at| bytes[at..].starts_with(LOCATOR_64))?;
            let end = usize::try_from(field(bytes, locator + 8, 8)?).ok()?;
            let record = bytes.get(end..end.checked_add(END_64_LENGTH)?)?;
            record.starts_with(END_64).then_some(())?;
            (size, offset) = (field(record, 40, 8)?, field(record, 48, 8)?);
        }
        let (size, offset) = (usize::try_from(size).ok()?, usize::try_from(offset).ok()?);
        bytes.get(offset..offset.checked_add(size)?)
    };
    range().ok_or_else(|| damaged("its directory does not lie inside the file"))
}

/// Takes the first entry off the directory: its name, the entry, and the rest.
fn central(directory: &[u8]) -> Option<(&[u8], Entry, &[u8])> {
    let get = |at, length| field(directory, at, length);
    let size = |at| usize::try_from(get(at, 2)?).ok();
    let (name, extra, comment) = (size(28)?, size(30)?, size(32)?);
    let rest = directory.get(CENTRAL_LENGTH..)?;
    let (name, rest) = rest.split_at_checked(name)?;
    let (mut extra, rest) = rest.split_at_checked(extra)?;
    let (_, rest) = rest.split_at_checked(comment)?;
    let mut entry =
        Entry { flags: get(8, 2)?, method: get(10, 2)?, crc: get(16, 4)?, length: get(24, 4)?, header: get(42, 4)? };
    let full = u64::from(u32::MAX);
    while let (Some(kind), Some(length)) = (field(extra, 0, 2), field(extra, 2, 2)) {
        let (content, next) = extra[4..].split_at_checked(usize::try_from(length).ok()?)?;
        if kind == EXTRA_64 {
            // Holds, in this order, those of length, compressed length and header that did not fit.
            let mut at = 0;
            if entry.length == full {
                entry.length = field(content, at, 8)?;
                at += 8;
            }
            if get(20, 4)? == full {
                at += 8;
            }
            if entry.header == full {
                entry.header = field(content, at, 8)?;
            }
        }
        extra = next;
    }
    Some((name, entry, rest))
}

/// A little-endian number of `length` bytes.
fn field(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let field = bytes.get(at..)?.get(..length)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn damaged(problem: &str) -> CheckpointError {
    CheckpointError::Archive(problem.to_owned())
}
