//! What `gt predict` and `gt embed` share: a model is asked about graphs, and its answers become a table.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use gt_data::Records;
use gt_models::ModelHeader;
use gt_nn::cpu::Engine;
use gt_train::{Inputs, schema_of};
use serde::Serialize;

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
    out: PathBuf,
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
    reasons: Vec<Reason>,
}

#[derive(Serialize)]
struct Reason {
    graph: usize,
    reason: String,
}

/// Reasons that are told; the file has all.
const TOLD: usize = 10;

impl Asking {
    /// Asks, and writes the answers; `what` is what an unusable graph goes without.
    pub fn run(
        &self,
        what: &str,
        answer: impl FnOnce(&mut Engine<f32>, &ModelHeader, &mut Inputs) -> gt_train::Result<Records>,
    ) -> Result<()> {
        Records::check(&self.out)?;
        super::check_folder(&self.out)?;
        ensure!(
            self.out.canonicalize().ok().is_none_or(|out| Some(out) != self.data.canonicalize().ok()),
            "{}: --out would replace --data",
            self.out.display()
        );
        let (header, mut engine) = super::eval::open(&self.model, self.best)?;
        let mut inputs = inputs(&self.data, &header)?;
        self.check(&inputs)?;
        let records = answer(&mut engine, &header, &mut inputs)?;
        self.check(&inputs)?;
        let line = Line {
            out: self.out.display().to_string(),
            rows: records.rows(),
            graphs: inputs.graphs().len(),
            unusable: inputs.unusable().len(),
            reasons: inputs
                .unusable()
                .iter()
                .take(TOLD)
                .map(|(graph, reason)| Reason { graph: *graph, reason: reason.clone() })
                .collect(),
        };
        records.write(&self.out)?;
        eprintln!("wrote {}: {} rows", line.out, line.rows);
        if let Some(first) = line.reasons.first() {
            let (count, graphs) = (line.unusable, line.graphs);
            let more = if count > 1 { "; the column `reason` has all reasons" } else { "" };
            let message =
                format!("{count} of {graphs} graphs have no {what}: graph {}: {}{more}", first.graph, first.reason);
            console::warn(&message);
        }
        if self.json { console::print_json(&line) } else { Ok(()) }
    }

    fn check(&self, inputs: &Inputs) -> Result<()> {
        match inputs.unusable().first_key_value() {
            Some((graph, reason)) if self.on_error == OnError::Stop => {
                bail!("{}: graph {graph}: {reason}", self.data.display())
            }
            _ => Ok(()),
        }
    }
}

/// The graphs of a file, made ready for a model.
pub fn inputs(data: &std::path::Path, header: &ModelHeader) -> Result<Inputs> {
    let readable = gt_data::read_leniently(data, &schema_of(header))?;
    Inputs::new(readable, header, Some(data)).map_err(|e| anyhow!("{}: {e}", data.display()))
}
