//! A minimal parser of Thrift's compact protocol that walks a structure and reports its integers.
//!
//! A walk to the end of a structure proves that existing bytes back every claimed length, because
//! each element of a list takes at least one byte. A decoder that allocates memory by these lengths
//! can then read the bytes safely.

use std::io::{self, Read};

/// Structures with deeper nesting are rejected. Parquet needs a depth of 6.
const MAX_DEPTH: usize = 16;

/// Reads bytes and counts them against a budget.
pub(super) struct Walker<R> {
    source: R,
    left: u64,
}

impl<R: Read> Walker<R> {
    /// Creates a walker that reads at most `budget` bytes.
    pub(super) fn new(source: R, budget: u64) -> Self {
        Self { source, left: budget }
    }

    /// Bytes of the budget that are left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Walks one structure; `see(path, value)` receives every integer with the field ids that lead
    /// to it (list elements share their list's path).
    pub(super) fn walk(&mut self, see: &mut dyn FnMut(&[i16], i64)) -> io::Result<()> {
        self.structure(&mut Vec::with_capacity(MAX_DEPTH), see)
    }

    fn structure(&mut self, path: &mut Vec<i16>, see: &mut dyn FnMut(&[i16], i64)) -> io::Result<()> {
        if path.len() >= MAX_DEPTH {
            return Err(damaged("structures are nested too deeply"));
        }
        let mut id = 0i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => i16::try_from(zigzag(self.varint()?)).map_err(|_| damaged("field number out of range"))?,
                delta => id.checked_add(i16::from(delta)).ok_or_else(|| damaged("field number out of range"))?,
            };
            path.push(id);
            match head & 15 {
                // The type of a boolean field is its value. Booleans take a byte only inside lists.
                kind @ (1 | 2) => see(path, i64::from(kind == 1)),
                kind => self.value(kind, path, see)?,
            }
            path.pop();
        }
    }

    fn value(&mut self, kind: u8, path: &mut Vec<i16>, see: &mut dyn FnMut(&[i16], i64)) -> io::Result<()> {
        match kind {
            1..=3 => see(path, i64::from(self.byte()?)),
            4..=6 => see(path, zigzag(self.varint()?)),
            7 => self.skip(8)?,
            8 => {
                let length = self.varint()?;
                self.skip(length)?;
            }
            9 | 10 => {
                let head = self.byte()?;
                let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                if length > self.left {
                    return Err(damaged("a list claims more elements than there are bytes"));
                }
                for _ in 0..length {
                    self.value(head & 15, path, see)?;
                }
            }
            12 => self.structure(path, see)?,
            _ => return Err(damaged("unknown field type")),
        }
        Ok(())
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.spend(1)?;
        self.source.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("a number has no end"))
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.spend(bytes)?;
        let skipped = io::copy(&mut self.source.by_ref().take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(damaged("it ends too early")) }
    }

    fn spend(&mut self, bytes: u64) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| damaged("a structure runs past its end"))?;
        Ok(())
    }
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integers(bytes: &[u8]) -> io::Result<Vec<(Vec<i16>, i64)>> {
        let mut seen = Vec::new();
        Walker::new(bytes, bytes.len() as u64).walk(&mut |path, value| seen.push((path.to_vec(), value)))?;
        Ok(seen)
    }

    #[test]
    fn integers_are_seen_with_their_path() {
        // {1: i32 -3, 3: {1: i64 64}, 4: [i32 1, i32 2], 5: true}
        let bytes = [0x15, 0x05, 0x2c, 0x16, 0x80, 0x01, 0x00, 0x19, 0x25, 0x02, 0x04, 0x11, 0x00];
        let expected = vec![(vec![1], -3), (vec![3, 1], 64), (vec![4], 1), (vec![4], 2), (vec![5], 1)];
        assert_eq!(integers(&bytes).unwrap(), expected);
    }

    #[test]
    fn lengths_without_bytes_behind_them_are_refused() {
        assert!(integers(&[0x18, 0xff, 0xff, 0x03]).is_err(), "string of 65,535 bytes");
        assert!(integers(&[0x19, 0xf5, 0xff, 0xff, 0x03]).is_err(), "list of 65,535 integers");
        assert!(integers(&[0x1c; 40]).is_err(), "bottomless nesting");
        assert!(integers(&[0x15]).is_err(), "truncated");
        assert!(integers(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).is_err());
    }
}
