//! Scalars for TensorBoard: an event file beside `metrics.jsonl`, with one event per epoch.
//!
//! The file is a sequence of records: the length of the data (`u64`, little-endian), its masked CRC-32C, the data, and the masked CRC-32C of that. The data is
//! an `Event` of `tensorflow/core/util/event.proto` in the protobuf wire format, of which these fields are used:
//!
//! | message | field | number | type |
//! |---|---|---|---|
//! | `Event` | `wall_time` | 1 | double |
//! | | `step` | 2 | varint |
//! | | `file_version` | 3 | string |
//! | | `summary` | 5 | `Summary` |
//! | | `session_log` | 7 | `SessionLog` |
//! | `SessionLog` | `status` | 1 | varint, 1 is START |
//! | `Summary` | `value` | 1 | `Value`, repeated |
//! | `Value` | `tag` | 1 | string |
//! | | `simple_value` | 2 | float |

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gt_data::write_bytes;

use crate::error::{Result, TrainError};
use crate::metrics::Metric;
use crate::training::EpochRecord;

const PREFIX: &str = "events.out.tfevents.";
/// Tells our files from those that somebody else's program may have put there.
const SUFFIX: &str = ".gt";

/// The event file of one sitting; it holds all epochs of the run.
#[derive(Debug)]
pub(crate) struct EventFile {
    path: PathBuf,
    metric: Metric,
}

impl EventFile {
    /// A file in a run's directory, named by the time as TensorBoard expects; nothing is written yet.
    pub(crate) fn new(run: &Path, metric: Metric) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { path: run.join(format!("{PREFIX}{now:010}{SUFFIX}")), metric }
    }

    /// Writes the epochs so far and removes the files of sittings before, which may hold epochs that are trained again.
    ///
    /// The name is new so that a TensorBoard that is looking on notices; what it has read of the old file it drops at the START.
    pub(crate) fn rewrite(&self, history: &[EpochRecord]) -> Result<()> {
        let begun = history.first().map_or(0.0, |first| first.time - first.seconds);
        let mut bytes = record(&version(begun));
        bytes.extend(record(&start(begun)));
        history.iter().for_each(|epoch| bytes.extend(record(&scalars(epoch, self.metric))));
        write_bytes(&self.path, &bytes)?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        for entry in fs::read_dir(folder).map_err(|e| TrainError::io(folder, &e))?.flatten() {
            let ours = entry.file_name().to_str().is_some_and(|n| n.starts_with(PREFIX) && n.ends_with(SUFFIX));
            if ours && Some(entry.file_name().as_os_str()) != self.path.file_name() {
                fs::remove_file(entry.path()).map_err(|e| TrainError::io(&entry.path(), &e))?;
            }
        }
        Ok(())
    }

    /// Appends an epoch.
    pub(crate) fn add(&self, epoch: &EpochRecord) -> Result<()> {
        let bytes = record(&scalars(epoch, self.metric));
        let appended = File::options().append(true).open(&self.path).and_then(|mut file| file.write_all(&bytes));
        appended.map_err(|e| TrainError::io(&self.path, &e))
    }
}

fn version(time: f64) -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, time);
    event.bytes(3, b"brain.Event:2");
    event.0
}

fn start(time: f64) -> Vec<u8> {
    let mut log = Message::default();
    log.varint(1, 1);
    let mut event = Message::default();
    event.double(1, time);
    event.bytes(7, &log.0);
    event.0
}

/// Loss and metric as the progress shows them, in the paper's form; what is not defined is left out.
fn scalars(epoch: &EpochRecord, metric: Metric) -> Vec<u8> {
    let mut summary = Message::default();
    let mut add = |tag: &str, number: f64| {
        if number.is_finite() {
            let mut value = Message::default();
            value.bytes(1, tag.as_bytes());
            value.float(2, number as f32);
            summary.bytes(1, &value.0);
        }
    };
    for (part, scores) in [("train", Some(&epoch.train)), ("val", Some(&epoch.val)), ("test", epoch.test.as_ref())] {
        if let Some(scores) = scores {
            add(&format!("loss/{part}"), scores.loss.paper);
            add(&format!("{}/{part}", metric.name()), scores.metric.paper);
        }
    }
    add("lr", epoch.lr);
    add("seconds", epoch.seconds);
    let mut event = Message::default();
    event.double(1, epoch.time);
    event.varint(2, epoch.epoch as u64);
    event.bytes(5, &summary.0);
    event.0
}

/// A protobuf message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Field number and wire type.
    fn key(&mut self, field: u8, wire: u8) {
        self.0.push(field << 3 | wire);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn varint(&mut self, field: u8, value: u64) {
        self.key(field, 0);
        self.raw_varint(value);
    }

    fn double(&mut self, field: u8, value: f64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u8, value: &[u8]) {
        self.key(field, 2);
        self.raw_varint(value.len() as u64);
        self.0.extend(value);
    }

    fn float(&mut self, field: u8, value: f32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }
}

/// Data in its frame.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked(crc32c(&length)).to_le_bytes(), data, &masked(crc32c(data)).to_le_bytes()].concat()
}

/// So that the sum of data that contains sums is no special case.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: a few hundred bytes per epoch.
fn crc32c(data: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !data.iter().fold(!0u32, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::Scores;
    use crate::metrics::Forms;

    /// The vectors of RFC 3720, B.4.
    #[test]
    fn checksums_are_those_of_the_standard() {
        let rising: Vec<u8> = (0..32).collect();
        for (data, expected) in [
            (&[0u8; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&rising, 0x46dd_794e),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(crc32c(data), expected, "{data:?}");
        }
    }

    fn epoch(number: usize) -> EpochRecord {
        let both = |value| Forms { paper: value, exact: value };
        let scores = |loss: f64, metric: f64| Scores { loss: both(loss), metric: both(metric), others: [].into() };
        let (train, val) = (scores(0.5, 2.0), scores(0.25, f64::NAN));
        EpochRecord { epoch: number, lr: 1.0, train, val, test: None, train_seconds: 1.0, seconds: 1.5, time: 1024.0 }
    }

    #[test]
    fn an_epoch_is_these_bytes() {
        let expected: &[&[u8]] = &[
            &[0x09],
            &1024f64.to_le_bytes(),
            &[0x10, 0xac, 0x02, 0x2a, 81],
            b"\x0a\x11\x0a\x0aloss/train\x15\0\0\0\x3f",
            b"\x0a\x10\x0a\x09mae/train\x15\0\0\0\x40",
            b"\x0a\x0f\x0a\x08loss/val\x15\0\0\x80\x3e",
            // The validation metric is not defined.
            b"\x0a\x09\x0a\x02lr\x15\0\0\x80\x3f",
            b"\x0a\x0e\x0a\x07seconds\x15\0\0\xc0\x3f",
        ];
        assert_eq!(scalars(&epoch(300), Metric::Mae), expected.concat());
    }

    #[test]
    fn a_new_sitting_replaces_our_files_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["events.out.tfevents.1.gt", "events.out.tfevents.1.elsewhere", "metrics.jsonl"] {
            fs::write(path(name), "old").unwrap();
        }
        let events = EventFile::new(folder.path(), Metric::Mae);
        events.rewrite(&[epoch(1), epoch(2)]).unwrap();
        events.add(&epoch(3)).unwrap();
        assert!(!path("events.out.tfevents.1.gt").exists());
        assert!(path("events.out.tfevents.1.elsewhere").exists() && path("metrics.jsonl").exists());
        let appended = fs::read(&events.path).unwrap();
        events.rewrite(&[epoch(1), epoch(2), epoch(3)]).unwrap();
        assert_eq!(fs::read(&events.path).unwrap(), appended);
    }
}
