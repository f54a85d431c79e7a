//! What is kept of a run: one small JSON file, complete or not there. The folder of results may be carried from machine to machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use gt_train::metrics::Forms;
use gt_train::{Best, EpochRecord, Machine, Outcome, Part, Scores, Stop};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cell::Cell;

/// Counts changes that make older records unreadable.
const FORMAT: u32 = 1;

/// A run that has ended by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub format: u32,
    pub cell: String,
    pub preset: String,
    pub seed: u64,
    /// What was set otherwise than the paper has it.
    pub changes: Vec<String>,
    pub data: DataUsed,
    pub parameters: usize,
    pub metric: String,
    pub epochs: usize,
    pub stop: Stop,
    /// The model of the last epoch, which is the one that the paper scores.
    pub last: Parts,
    /// The model with the best validation loss.
    pub best: Option<BestParts>,
    pub s_per_epoch: f64,
    /// Of training, validation and test in all epochs.
    pub seconds: f64,
    /// The part of it that the device was this run's alone: runs side by side share their time.
    pub device_seconds: f64,
    /// The pieces that the run was made in.
    pub sittings: Vec<Sitting>,
    pub weights_sha256: String,
    /// Of the program that ended it.
    pub version: String,
    pub config: Value,
    /// Per epoch: training loss, validation loss, test metric, learning rate; in the paper's form.
    pub curve: Vec<[Option<f64>; 4]>,
}

/// The data of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataUsed {
    pub name: String,
    /// If it was drawn.
    pub seed: Option<u64>,
    pub graphs: usize,
    /// As `gt data info --json` tells it.
    pub content_sha256: String,
}

/// The metric in both forms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parts {
    pub train: Forms,
    pub val: Forms,
    pub test: Forms,
}

impl Parts {
    fn is_finite(&self) -> bool {
        [self.train, self.val, self.test].iter().all(|forms| forms.paper.is_finite() && forms.exact.is_finite())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BestParts {
    pub epoch: usize,
    #[serde(flatten)]
    pub parts: Parts,
}

/// A piece of a run, on one machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sitting {
    /// Card or processor.
    pub device: String,
    pub precision: String,
    /// Runs side by side.
    pub jobs: usize,
    /// Of this run so far, this sitting included.
    pub seconds: f64,
    /// Of these, the device's.
    pub device_seconds: f64,
    pub machine: Machine,
}

/// What a record tells beside the outcome.
pub struct Made {
    pub cell: Cell,
    pub seed: u64,
    pub changes: Vec<String>,
    pub data: DataUsed,
    pub parameters: usize,
    pub metric: &'static str,
    pub sittings: Vec<Sitting>,
    pub config: Value,
}

impl Record {
    pub fn new(made: Made, outcome: &Outcome, history: &[EpochRecord]) -> Result<Self> {
        let forms = |part: Part| {
            let of_part = outcome.last.iter().find(|(of, _)| *of == part);
            of_part.map(|(_, scores)| scores.metric).ok_or_else(|| anyhow!("its data has no part `{}`", part.name()))
        };
        let last = Parts { train: forms(Part::Train)?, val: forms(Part::Val)?, test: forms(Part::Test)? };
        // A record of them could not be read back, and would be in the way of all others.
        ensure!(last.is_finite(), "the scores of its last model are not finite");
        let best = outcome.best.as_ref().and_then(|Best { epoch, train, val, test }| {
            let of = |scores: &Option<Scores>| scores.as_ref().map(|scores| scores.metric);
            let parts = Parts { train: of(train)?, val: val.metric, test: of(test)? };
            parts.is_finite().then_some(BestParts { epoch: *epoch, parts })
        });
        let point = |epoch: &EpochRecord| {
            let test = epoch.test.as_ref().map_or(f64::NAN, |test| test.metric.paper);
            [epoch.train.loss.paper, epoch.val.loss.paper, test, epoch.lr].map(six_digits)
        };
        Ok(Self {
            format: FORMAT,
            preset: made.cell.preset.clone(),
            cell: made.cell.name(),
            seed: made.seed,
            changes: made.changes,
            data: made.data,
            parameters: made.parameters,
            metric: made.metric.to_owned(),
            epochs: outcome.epochs,
            stop: outcome.stop,
            last,
            best,
            s_per_epoch: outcome.seconds / outcome.epochs.max(1) as f64,
            seconds: outcome.seconds,
            device_seconds: made.sittings.last().map_or(outcome.seconds, |sitting| sitting.device_seconds),
            sittings: made.sittings,
            weights_sha256: outcome.weights.clone(),
            version: crate::VERSION.to_owned(),
            config: made.config,
            curve: history.iter().map(point).collect(),
        })
    }

    /// Where it was computed, and the seconds that it had there.
    pub fn devices(&self) -> impl Iterator<Item = (String, f64)> {
        let before = std::iter::once(0.0).chain(self.sittings.iter().map(|sitting| sitting.device_seconds));
        let own = |(sitting, before): (&Sitting, f64)| {
            (format!("{}, {}", sitting.device, sitting.precision), sitting.device_seconds - before)
        };
        self.sittings.iter().zip(before).map(own).filter(|(_, seconds)| *seconds > 0.0)
    }
}

/// Enough for a curve; JSON has no NaN.
fn six_digits(value: f64) -> Option<f64> {
    format!("{value:.5e}").parse().ok().filter(|rounded: &f64| rounded.is_finite())
}

/// A run's name in files.
pub fn run_name(cell: &Cell, seed: u64) -> String {
    format!("{}-{seed}", cell.name())
}

/// A folder of results.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn record(&self, run: &str) -> PathBuf {
        self.0.join("records").join(format!("{run}.json"))
    }

    /// The directory of a run that is not finished.
    pub fn unfinished(&self, run: &str) -> PathBuf {
        self.0.join("unfinished").join(run)
    }

    /// Where the whole directory of a finished run goes, if it is kept.
    pub fn kept(&self, run: &str) -> PathBuf {
        self.0.join("runs").join(run)
    }

    /// Makes the folders, and fails before any work if they cannot be.
    pub fn prepare(&self) -> Result<()> {
        for folder in [self.0.join("records"), self.0.join("unfinished")] {
            fs::create_dir_all(&folder).map_err(|e| anyhow!("{}: {e}", folder.display()))?;
        }
        Ok(())
    }

    pub fn write(&self, record: &Record, run: &str) -> Result<()> {
        let text = compact(&serde_json::to_value(record)?)?;
        Ok(gt_data::write_bytes(&self.record(run), text.as_bytes())?)
    }

    /// All records, by the names of their runs.
    ///
    /// # Errors
    /// If one is damaged, of another program, or bears another one's name.
    pub fn records(&self) -> Result<BTreeMap<String, Record>> {
        let folder = self.0.join("records");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(e) => bail!("{}: {e}", folder.display()),
        };
        let mut records = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(|e| anyhow!("{}: {e}", folder.display()))?.path();
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if path.extension().is_some_and(|end| end == "json") && !hidden {
                let (name, record) = read(&path).map_err(|e| anyhow!("{}: {e}", path.display()))?;
                records.insert(name, record);
            }
        }
        Ok(records)
    }
}

fn read(path: &Path) -> Result<(String, Record)> {
    let again = "delete it, and the run is made again";
    let bytes = fs::read(path).map_err(|e| anyhow!("it cannot be read ({e}); {again}"))?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|e| anyhow!("it is damaged ({e}); {again}, or restore it from a copy"))?;
    let format = value["format"].as_u64();
    ensure!(format.is_some(), "it is no record of `gt reproduce`; move it elsewhere");
    ensure!(
        format == Some(u64::from(FORMAT)),
        "it is a record in format {}, this program knows format {FORMAT}",
        value["format"]
    );
    let record: Record = serde_json::from_value(value).map_err(|e| anyhow!("it is no whole record ({e}); {again}"))?;
    let name = format!("{}-{}", record.cell, record.seed);
    let file = path.file_stem().unwrap_or_default().to_string_lossy();
    ensure!(name == file, "it is the record of {name}; name it {name}.json");
    ensure!(record.last.is_finite(), "its scores are not numbers; {again}");
    Ok((name, record))
}

/// JSON with a line per key of the record and per epoch of its curve: short, and still a good neighbour of version control.
fn compact(value: &Value) -> Result<String> {
    let Value::Object(keys) = value else { return Ok(value.to_string()) };
    let mut lines = Vec::new();
    for (key, value) in keys {
        let text = match value.as_array() {
            Some(list) if !list.is_empty() => {
                let items: Vec<String> = list.iter().map(|item| format!("    {item}")).collect();
                format!("[\n{}\n  ]", items.join(",\n"))
            }
            _ => value.to_string(),
        };
        lines.push(format!("  {}: {text}", serde_json::to_string(key)?));
    }
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_json_is_the_same_json() {
        let value = serde_json::json!({"a": 1, "list": [[1.5, null], [2.0, 3.0]], "none": [], "deep": {"x": "\"y\""}});
        let text = compact(&value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(text.lines().count(), 9);
    }

    #[test]
    fn curves_keep_six_digits() {
        assert_eq!(six_digits(0.123_456_789), Some(0.123_457));
        assert_eq!(six_digits(7e-4), Some(7e-4));
        assert_eq!(six_digits(f64::NAN), None);
    }
}
