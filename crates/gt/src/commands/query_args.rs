//! Arguments of `gt predict` and `gt embed`, which compute a row for every graph, node or edge of a
//! file.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use clap::{Args, ValueEnum};
use gt_data::{KeptColumns, Records};
use gt_models::{Ensemble, Model};
use gt_train::{OnError, Query, QueryOptions, QueryReport, Shard, query};
use serde::Serialize;
use serde_json::{Value, json};

use super::data_notes::print_roles_beyond;
use super::model_args::ModelArgs;
use super::output::OutputCheck;
use crate::console;
use crate::device::DeviceArgs;

#[derive(Args)]
pub struct QueryArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Graphs (Parquet, JSON lines, NAME_nodes.csv), with the columns that the model was trained
    /// on; targets and split are not needed
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// File to write: .parquet, .csv, .tsv or .jsonl; a pipe such as /dev/stdout takes CSV
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Output for a graph that the model cannot use: empty cells and a reason, or an error
    #[arg(long, value_enum, default_value_t = OnErrorName::Null, value_name = "WHAT")]
    on_error: OnErrorName,
    /// Only every N-th chunk of the file, starting with the I-th (1/N … N/N), for job arrays; the
    /// column `graph` orders joined shards
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: ShardName,
    /// Print a summary as one line of JSON
    #[arg(long)]
    json: bool,
    /// Columns of the data to copy to the output, such as id,name, or all. With tables, columns of
    /// nodes go to rows of nodes, and columns of graphs to all rows. A column whose name the output
    /// has already becomes kept_NAME
    #[arg(long, value_name = "COLUMNS")]
    keep: Option<KeptColumns>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnErrorName {
    /// Continue with the other graphs
    Null,
    /// Stop, and write nothing
    Stop,
}

/// A shard, as users count: from 1.
#[derive(Clone, Copy)]
struct ShardName(Shard);

impl FromStr for ShardName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self(Shard { index: index - 1, of })),
            _ => Err("expected I/N with 1 ≤ I ≤ N, such as 2/8".into()),
        }
    }
}

impl std::fmt::Display for ShardName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0.index + 1, self.0.of)
    }
}

#[derive(Serialize)]
struct Line {
    out: String,
    rows: u64,
    graphs: usize,
    unusable: usize,
    /// The first few.
    reasons: Vec<Value>,
}

impl QueryArgs {
    /// Opens one model, after checking that the output can be written.
    pub fn open(&self) -> Result<Model> {
        self.check_out()?;
        self.model.open()
    }

    /// Opens the model, or models that predict together, after checking that the output can be
    /// written.
    pub fn open_ensemble(&self) -> Result<Ensemble> {
        self.check_out()?;
        self.model.open_ensemble()
    }

    fn check_out(&self) -> Result<()> {
        Records::check(&self.out)?;
        self.output_check().check()
    }

    /// The file that is written and those that are read.
    pub fn output_check(&self) -> OutputCheck<'static> {
        OutputCheck::of_file(&self.out).reads_dataset("--data", &self.data).reads("MODEL", &self.model.model)
    }

    /// Whether an unusable row ends the command.
    pub fn on_error(&self) -> OnError {
        match self.on_error {
            OnErrorName::Null => OnError::Note,
            OnErrorName::Stop => OnError::Stop,
        }
    }

    /// Whether columns of the data are copied to the output.
    pub fn keeps_columns(&self) -> bool {
        self.keep.is_some()
    }

    /// Whether all chunks are wanted.
    pub fn is_whole(&self) -> bool {
        self.shard.0 == Shard::WHOLE
    }

    /// Computes what `query_on` names on the chosen device, and writes it.
    pub fn run(
        &self,
        models: &Ensemble,
        device: &DeviceArgs,
        what: &str,
        query_on: impl Fn(&gt_nn::backend::Device) -> Query,
    ) -> Result<()> {
        let keep = self.keep.clone().unwrap_or_default();
        let options = QueryOptions { on_error: self.on_error(), shard: self.shard.0, keep };
        let report = device.compute(|device| query(models, &self.data, &self.out, &query_on(device), &options))?;
        print_roles_beyond(report.roles_beyond, models.first().config.model.roles);
        self.print("graph", what, &report)
    }

    /// Prints a summary of the written file. `one` names the level of the reasons, `what` names the
    /// missing result of an unusable row.
    pub fn print(&self, one: &'static str, what: &str, report: &QueryReport) -> Result<()> {
        let QueryReport { rows, graphs, unusable, reasons, .. } = report;
        let shown = reasons.iter().map(|(number, reason)| json!({one: number, "reason": reason.to_string()}));
        let line = Line {
            out: self.out.display().to_string(),
            rows: *rows,
            graphs: *graphs,
            unusable: *unusable,
            reasons: shown.collect(),
        };
        console::say!("wrote {}: {rows} rows", line.out);
        if let Some((number, reason)) = reasons.first() {
            let more = if *unusable > 1 { "; the column `reason` has all reasons" } else { "" };
            let count = if one == "graph" { *graphs as u64 } else { *rows };
            console::warn(&format!("{unusable} of {count} {one}s have no {what}: {one} {number}: {reason}{more}"));
        }
        if self.json { console::print_json(&line) } else { Ok(()) }
    }

    /// The file of the graphs.
    pub fn data(&self) -> &Path {
        &self.data
    }
}
