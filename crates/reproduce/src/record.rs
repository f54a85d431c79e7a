//! Records: one small JSON file per finished run, written whole or not at all.
//!
//! The folder of results holds records and unfinished runs, and may be copied between machines.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gt_graph::Split;
use gt_train::metrics::Forms;
use gt_train::{Best, EpochRecord, Machine, Outcome, Scores, Stop};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cell::Cell;
use crate::error::{RecordProblem, ReproduceError, Result};

/// Format of records; a change makes older records unreadable.
const FORMAT: u32 = 1;

/// A finished run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Format of the file.
    pub format: u32,
    /// Name of the cell.
    pub cell: String,
    /// Name of the configuration.
    pub preset: String,
    /// Seed of the run.
    pub seed: u64,
    /// Settings that differ from the paper's, `key=value`.
    pub changes: Vec<String>,
    /// The graphs of the run.
    pub data: DataUsed,
    /// Number of parameters.
    pub parameters: usize,
    /// Name of the metric.
    pub metric: String,
    /// Number of epochs.
    pub epochs: usize,
    /// Why the run ended.
    pub stop: Stop,
    /// Scores of the last epoch's model, which is the one that the paper scores.
    pub last: PartScores,
    /// Scores of the model with the best validation loss.
    pub best: Option<BestScores>,
    /// Mean seconds per epoch.
    pub s_per_epoch: f64,
    /// Seconds of training, validation and test in all epochs.
    pub seconds: f64,
    /// The run's share of these seconds; parallel runs share the time of their device.
    pub device_seconds: f64,
    /// The sittings of the run, in order.
    pub sittings: Vec<Sitting>,
    /// SHA-256 of the last weights. Older records have that of the model file.
    pub weights_sha256: String,
    /// Version of the program that finished the run.
    pub version: String,
    /// The complete configuration.
    pub config: Value,
    /// For each epoch: training loss, validation loss, test metric and learning rate, in the
    /// paper's form.
    pub curve: Vec<[Option<f64>; 4]>,
}

/// The data set of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataUsed {
    /// A name that is the same on every machine.
    pub name: String,
    /// Seed of the generator, if the graphs were drawn.
    pub seed: Option<u64>,
    /// Number of graphs.
    pub graphs: usize,
    /// Hash of the graphs; `gt data info --json` prints it too.
    pub content_sha256: String,
}

/// The metric of each part, in both forms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartScores {
    /// Training part.
    pub train: Forms,
    /// Validation part.
    pub val: Forms,
    /// Test part.
    pub test: Forms,
}

impl PartScores {
    fn is_finite(&self) -> bool {
        [self.train, self.val, self.test].iter().all(|forms| forms.paper.is_finite() && forms.exact.is_finite())
    }
}

/// Scores of the model with the best validation loss.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BestScores {
    /// Epoch of the model, from 1.
    pub epoch: usize,
    /// The scores.
    #[serde(flatten)]
    pub parts: PartScores,
}

/// A sitting: the part of a run that one call made on one machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sitting {
    /// The GPU's name, or `CPU`.
    pub device: String,
    /// Precision of products.
    pub precision: String,
    /// Number of parallel runs.
    pub jobs: usize,
    /// Seconds of the run so far, including this sitting.
    pub seconds: f64,
    /// The run's share of these seconds.
    pub device_seconds: f64,
    /// The machine of this sitting.
    pub machine: Machine,
}

/// What a record holds besides the outcome of the training.
pub(crate) struct RunContext {
    pub cell: Cell,
    pub seed: u64,
    pub changes: Vec<String>,
    pub data: DataUsed,
    pub parameters: usize,
    pub metric: &'static str,
    pub sittings: Vec<Sitting>,
    pub version: String,
    pub config: Value,
}

impl Record {
    /// The record of a finished run.
    pub(crate) fn new(context: RunContext, outcome: &Outcome, history: &[EpochRecord]) -> Result<Self> {
        let forms = |split: Split| {
            let found = outcome.last.iter().find(|(of, _)| *of == split);
            found.map(|(_, scores)| scores.metric).ok_or(ReproduceError::MissingSplit(split.name()))
        };
        let last = PartScores { train: forms(Split::Train)?, val: forms(Split::Val)?, test: forms(Split::Test)? };
        // JSON has no infinity and no NaN, so such a record could not be read again.
        if !last.is_finite() {
            return Err(ReproduceError::NotFinite);
        }
        let best = outcome.best.as_ref().and_then(|Best { epoch, train, val, test }| {
            let metric = |scores: &Option<Scores>| scores.as_ref().map(|scores| scores.metric);
            let parts = PartScores { train: metric(train)?, val: val.metric, test: metric(test)? };
            parts.is_finite().then_some(BestScores { epoch: *epoch, parts })
        });
        let point = |epoch: &EpochRecord| {
            let test = epoch.test.as_ref().map_or(f64::NAN, |test| test.metric.paper);
            [epoch.train.loss.paper, epoch.val.loss.paper, test, epoch.lr].map(round_to_six_digits)
        };
        Ok(Self {
            format: FORMAT,
            preset: context.cell.preset.clone(),
            cell: context.cell.name(),
            seed: context.seed,
            changes: context.changes,
            data: context.data,
            parameters: context.parameters,
            metric: context.metric.to_owned(),
            epochs: outcome.epochs,
            stop: outcome.stop,
            last,
            best,
            s_per_epoch: outcome.seconds / outcome.epochs.max(1) as f64,
            seconds: outcome.seconds,
            device_seconds: context.sittings.last().map_or(outcome.seconds, |sitting| sitting.device_seconds),
            sittings: context.sittings,
            weights_sha256: outcome.weights_sha256.clone(),
            version: context.version,
            config: context.config,
            curve: history.iter().map(point).collect(),
        })
    }

    /// Devices and precisions of the run, and its device seconds on each.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (String, f64)> {
        let before = std::iter::once(0.0).chain(self.sittings.iter().map(|sitting| sitting.device_seconds));
        let own = |(sitting, before): (&Sitting, f64)| {
            (format!("{}, {}", sitting.device, sitting.precision), sitting.device_seconds - before)
        };
        self.sittings.iter().zip(before).map(own).filter(|(_, seconds)| *seconds > 0.0)
    }
}

/// A number of a curve, rounded to six digits; none for NaN, which JSON lacks.
fn round_to_six_digits(value: f64) -> Option<f64> {
    format!("{value:.5e}").parse().ok().filter(|rounded: &f64| rounded.is_finite())
}

/// The name of a run in files.
pub(crate) fn run_name(cell: &Cell, seed: u64) -> String {
    format!("{}-{seed}", cell.name())
}

/// A folder of records and unfinished runs.
pub struct ResultsFolder(PathBuf);

impl ResultsFolder {
    /// The folder at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file of a run's record.
    pub fn record(&self, run: &str) -> PathBuf {
        self.0.join("records").join(format!("{run}.json"))
    }

    /// The directory of an unfinished run.
    pub fn unfinished(&self, run: &str) -> PathBuf {
        self.0.join("unfinished").join(run)
    }

    /// The place for the directory of a finished run, if it is kept.
    pub(crate) fn kept(&self, run: &str) -> PathBuf {
        self.0.join("runs").join(run)
    }

    /// Creates the folders for records and unfinished runs.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub fn prepare(&self) -> Result<()> {
        for folder in [self.0.join("records"), self.0.join("unfinished")] {
            gt_graph::create_folder(&folder).map_err(|e| ReproduceError::io(folder, e))?;
        }
        Ok(())
    }

    /// Writes the record of a run.
    pub(crate) fn write(&self, record: &Record, run: &str) -> Result<()> {
        let text = format_compact(&serde_json::to_value(record)?)?;
        Ok(gt_data::write_bytes(&self.record(run), text.as_bytes())?)
    }

    /// All records, by the names of their runs.
    ///
    /// # Errors
    /// A file is damaged, is no record, or is named after another run.
    pub fn records(&self) -> Result<BTreeMap<String, Record>> {
        let folder = self.0.join("records");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(e) => return Err(ReproduceError::io(folder, e)),
        };
        let mut records = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(|e| ReproduceError::io(&folder, e))?.path();
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if path.extension().is_some_and(|end| end == "json") && !hidden {
                let (name, record) = read_record(&path).map_err(|problem| ReproduceError::Record { path, problem })?;
                records.insert(name, record);
            }
        }
        Ok(records)
    }
}

/// A record and the name of its run.
fn read_record(path: &Path) -> Result<(String, Record), RecordProblem> {
    let bytes = fs::read(path).map_err(RecordProblem::Unreadable)?;
    let value: Value = serde_json::from_slice(&bytes).map_err(RecordProblem::Damaged)?;
    match value["format"].as_u64() {
        None => return Err(RecordProblem::NoRecord),
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => return Err(RecordProblem::OtherFormat { found: format, known: FORMAT }),
    }
    let record: Record = serde_json::from_value(value).map_err(RecordProblem::Incomplete)?;
    let run = format!("{}-{}", record.cell, record.seed);
    if path.file_stem().unwrap_or_default().to_string_lossy() != *run {
        return Err(RecordProblem::Misnamed { run });
    }
    if !record.last.is_finite() {
        return Err(RecordProblem::NotFinite);
    }
    Ok((run, record))
}

/// JSON with a line per key and per entry of a list: short, and readable as a diff.
fn format_compact(value: &Value) -> Result<String> {
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
        let text = format_compact(&value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(text.lines().count(), 9);
    }

    #[test]
    fn curves_keep_six_digits() {
        assert_eq!(round_to_six_digits(0.123_456_789), Some(0.123_457));
        assert_eq!(round_to_six_digits(7e-4), Some(7e-4));
        assert_eq!(round_to_six_digits(f64::NAN), None);
    }
}
