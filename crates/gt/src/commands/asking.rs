//! What `gt predict` and `gt embed` share: a model is asked about graphs, and its answers become a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use gt_data::Records;
use gt_models::ModelHeader;
use gt_nn::cpu::Engine;
use gt_train::{Inputs, schema_of};
use serde::Serialize;
use serde_json::{Value, json};

use crate::console;

#[derive(Args)]
pub struct Asking {
    /// Directory of a run, or a model file
    model: PathBuf,
    /// Graphs (Parquet, JSON lines, NAME_nodes.csv), with the columns that the model was trained on; targets and split are not needed
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// File to write: .parquet, .csv, .tsv or .jsonl
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The model with the best validation loss instead of the last one
    #[arg(long)]
    best: bool,
    /// What a graph that the model cannot take leads to: empty cells and a reason beside them, or an error
    #[arg(long, value_enum, default_value_t = OnError::Null, value_name = "WHAT")]
    on_error: OnError,
    /// Print a summary as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Go on with the others
    Null,
    /// Stop, and write nothing
    Stop,
}

#[derive(Serialize)]
struct Line {
    out: String,
    rows: usize,
    graphs: usize,
    unusable: usize,
    /// The first few.
    reasons: Vec<Value>,
}

/// Reasons that are told; the file has all.
const TOLD: usize = 10;

/// What a model was asked about, and why some of it has no answer.
pub struct Asked<'a> {
    /// Where it is from.
    pub file: &'a Path,
    /// What one of it is called: a graph, a row.
    pub one: &'static str,
    /// How many there are.
    pub count: usize,
    /// By number.
    pub reasons: &'a BTreeMap<usize, String>,
}

impl Asking {
    /// Asks about graphs, and writes the answers; `what` is what an unusable graph goes without.
    pub fn run(
        &self,
        what: &str,
        answer: impl FnOnce(&mut Engine<f32>, &ModelHeader, &mut Inputs) -> gt_train::Result<Records>,
    ) -> Result<()> {
        let (header, mut engine) = self.open()?;
        let mut inputs = self.inputs(&header)?;
        self.check(&self.graphs(&inputs))?;
        let records = answer(&mut engine, &header, &mut inputs)?;
        self.finish(what, records, &inputs, &self.graphs(&inputs))
    }

    /// The model, once it is known that the answers can be written.
    pub fn open(&self) -> Result<(ModelHeader, Engine<f32>)> {
        Records::check(&self.out)?;
        super::output::check_folder(&self.out)?;
        super::output::check_spares_input(&self.out, "--data", &self.data)?;
        super::eval::open(&self.model, self.best)
    }

    /// The graphs, made ready for the model.
    pub fn inputs(&self, header: &ModelHeader) -> Result<Inputs> {
        inputs(&self.data, header)
    }

    /// Stops at what has no answer, if that is wanted.
    pub fn check(&self, asked: &Asked<'_>) -> Result<()> {
        match asked.reasons.first_key_value() {
            Some((number, reason)) if self.on_error == OnError::Stop => {
                bail!("{}: {} {number}: {reason}", asked.file.display(), asked.one)
            }
            _ => Ok(()),
        }
    }

    /// Writes the answers, and tells of what has none; `what` is what it goes without.
    pub fn finish(&self, what: &str, records: Records, inputs: &Inputs, asked: &Asked<'_>) -> Result<()> {
        self.check(asked)?;
        let Asked { one, count, reasons, .. } = asked;
        let told = reasons.iter().take(TOLD).map(|(number, reason)| json!({*one: number, "reason": reason}));
        let line = Line {
            out: self.out.display().to_string(),
            rows: records.rows(),
            graphs: inputs.graphs().len(),
            unusable: reasons.len(),
            reasons: told.collect(),
        };
        records.write(&self.out)?;
        console::say!("wrote {}: {} rows", line.out, line.rows);
        if let Some((number, reason)) = reasons.first_key_value() {
            let more = if reasons.len() > 1 { "; the column `reason` has all reasons" } else { "" };
            let lacking = reasons.len();
            console::warn(&format!("{lacking} of {count} {one}s have no {what}: {one} {number}: {reason}{more}"));
        }
        if self.json { console::print_json(&line) } else { Ok(()) }
    }

    fn graphs<'a>(&'a self, inputs: &'a Inputs) -> Asked<'a> {
        Asked { file: &self.data, one: "graph", count: inputs.graphs().len(), reasons: inputs.unusable() }
    }
}

/// The graphs of a file, made ready for a model.
pub fn inputs(data: &Path, header: &ModelHeader) -> Result<Inputs> {
    let readable = gt_data::read_leniently(data, &schema_of(header))?;
    Inputs::new(readable, header, Some(data)).map_err(|e| anyhow!("{}: {e}", data.display()))
}
