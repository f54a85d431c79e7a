//! Scalars for TensorBoard: an event file next to `metrics.jsonl`, with one event per epoch.
//!
//! The file is a sequence of records. A record is the length of the data (`u64`, little-endian),
//! the masked CRC-32C of the length, the data, and the masked CRC-32C of the data. The data is an
//! `Event` of `tensorflow/core/util/event.proto` in the protobuf wire format, with these fields:
//!
//! | message | field | number | type |
//! |---|---|---|---|
//! | `Event` | `wall_time` | 1 | double |
//! | | `step` | 2 | varint |
//! | | `file_version` | 3 | string |
//! | | `summary` | 5 | `Summary` |
//! | `Summary` | `value` | 1 | `Value`, repeated |
//! | `Value` | `tag` | 1 | string |
//! | | `simple_value` | 2 | float |

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gt_data::write_bytes;
use gt_models::config::MetricForm;

use crate::error::{Result, TrainError};
use crate::metrics::Metric;
use crate::outcome::EpochRecord;

const PREFIX: &str = "events.out.tfevents.";
/// Distinguishes our files from those of other programs.
const SUFFIX: &str = ".gt";

/// The event file of a run.
#[derive(Debug)]
pub(crate) struct EventFile {
    path: PathBuf,
    metric: Metric,
    form: MetricForm,
}

impl EventFile {
    /// The file in a run's directory that holds exactly these epochs: the existing file, or a new
    /// one that replaces it.
    ///
    /// A new file has a new name, which contains the time as TensorBoard expects, so that a running
    /// TensorBoard notices.
    pub(crate) fn open(run: &Path, metric: Metric, form: MetricForm, history: &[EpochRecord]) -> Result<Self> {
        let epochs: Vec<u8> = history.iter().flat_map(|epoch| record(&scalars(epoch, metric, form))).collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let begin = record(&version(now.as_secs_f64()));
        let old = ours(run)?;
        if let [path] = &old[..] {
            let bytes = fs::read(path).map_err(|e| TrainError::io(path, e))?;
            if bytes.get(begin.len()..) == Some(&epochs) {
                return Ok(Self { path: path.clone(), metric, form });
            }
        }
        let path = run.join(format!("{PREFIX}{:010}{SUFFIX}", now.as_secs()));
        write_bytes(&path, &[begin, epochs].concat())?;
        for file in old.iter().filter(|file| **file != path) {
            fs::remove_file(file).map_err(|e| TrainError::io(file, e))?;
        }
        Ok(Self { path, metric, form })
    }

    /// Appends an epoch.
    pub(crate) fn add(&self, epoch: &EpochRecord) -> Result<()> {
        let bytes = record(&scalars(epoch, self.metric, self.form));
        let appended = File::options().append(true).open(&self.path).and_then(|mut file| file.write_all(&bytes));
        appended.map_err(|e| TrainError::io(&self.path, e))
    }
}

/// Our event files in a run's directory.
fn ours(run: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(run).map_err(|e| TrainError::io(run, e))?.flatten();
    Ok(entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).map(|entry| entry.path()).collect())
}

/// Whether an event file of this name is one of ours.
pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// The event that a file begins with.
fn version(time: f64) -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, time);
    event.bytes(3, b"brain.Event:2");
    event.0
}

/// Loss and metric as in the progress line. Undefined values are left out. The test split is left
/// out in the exact form, because settings should not be chosen by watching it.
fn scalars(epoch: &EpochRecord, metric: Metric, form: MetricForm) -> Vec<u8> {
    let mut summary = Message::default();
    let mut add = |tag: &str, number: f64| {
        if number.is_finite() {
            let mut value = Message::default();
            value.bytes(1, tag.as_bytes());
            value.float(2, number as f32);
            summary.bytes(1, &value.0);
        }
    };
    let test = epoch.test.as_ref().filter(|_| form == MetricForm::Paper);
    for (part, scores) in [("train", Some(&epoch.train)), ("val", Some(&epoch.val)), ("test", test)] {
        if let Some(scores) = scores {
            add(&format!("loss/{part}"), scores.loss.of(form));
            add(&format!("{}/{part}", metric.name()), scores.metric.of(form));
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

/// The masked form of a checksum, so that a checksum of data that contains checksums is no special
/// case.
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
        assert_eq!(scalars(&epoch(300), Metric::Mae, MetricForm::Exact), expected.concat());
    }

    #[test]
    fn a_file_is_kept_while_it_holds_the_epochs_and_replaced_when_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["events.out.tfevents.1.elsewhere", "metrics.jsonl"] {
            fs::write(path(name), "somebody else's").unwrap();
        }
        let open =
            |epochs: &[EpochRecord]| EventFile::open(folder.path(), Metric::Mae, MetricForm::Exact, epochs).unwrap();
        let events = open(&[]);
        events.add(&epoch(1)).unwrap();
        events.add(&epoch(2)).unwrap();
        let old = path("events.out.tfevents.1.gt");
        fs::rename(&events.path, &old).unwrap();
        let whole = fs::read(&old).unwrap();
        assert_eq!(open(&[epoch(1), epoch(2)]).path, old);
        assert_eq!(fs::read(&old).unwrap(), whole);
        // An epoch that is trained again, then half an epoch.
        let cut = open(&[epoch(1)]);
        assert!(!old.exists() && cut.path != old);
        cut.add(&epoch(2)).unwrap();
        assert_eq!(fs::read(&cut.path).unwrap()[40..], whole[40..]);
        fs::write(&old, &whole[..whole.len() - 3]).unwrap();
        fs::remove_file(&cut.path).unwrap();
        assert_eq!(fs::read(open(&[epoch(1), epoch(2)]).path).unwrap()[40..], whole[40..]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
