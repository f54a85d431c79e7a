//! The pickle of a PyTorch checkpoint.
//!
//! An input is the pickle alone. The zip archive around it has the storages of `zip.pt` (folder
//! `crates/models/tests/checkpoints`), and no checksums.

use std::path::Path;

/// Bytes of the storages `data/0`, `data/1`, …
const STORAGES: [usize; 13] = [80, 64, 16, 16, 16, 16, 8, 16, 16, 32, 8, 8, 4];

/// Reads a checkpoint with the given pickle.
pub fn run(bytes: &[u8], folder: &Path) -> bool {
    let mut archive = Archive::default();
    archive.add("zip/data.pkl", bytes);
    for (key, length) in STORAGES.into_iter().enumerate() {
        archive.add(&format!("zip/data/{key}"), &[0; 80][..length]);
    }
    super::torch::run(&archive.finish(), folder)
}

/// A zip archive of stored entries.
#[derive(Default)]
struct Archive {
    file: Vec<u8>,
    directory: Vec<u8>,
    entries: u16,
}

impl Archive {
    fn add(&mut self, name: &str, contents: &[u8]) {
        let header = self.file.len() as u32;
        let (length, name_length) = ((contents.len() as u32).to_le_bytes(), (name.len() as u16).to_le_bytes());
        // Version, flags, method, time, date and checksum are zero.
        let fields = [&[0; 14][..], &length, &length, &name_length, &[0; 2]].concat();
        self.file.extend([b"PK\x03\x04", &fields[..], name.as_bytes(), contents].concat());
        let rest = [&[0; 10][..], &header.to_le_bytes()].concat();
        self.directory.extend([b"PK\x01\x02\0\0", &fields[..], &rest, name.as_bytes()].concat());
        self.entries += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        let (count, offset) = (self.entries.to_le_bytes(), (self.file.len() as u32).to_le_bytes());
        let size = (self.directory.len() as u32).to_le_bytes();
        self.file.append(&mut self.directory);
        self.file.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &size, &offset, &[0; 2]].concat());
        self.file
    }
}
