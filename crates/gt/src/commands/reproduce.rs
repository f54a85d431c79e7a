//! `gt reproduce`

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use gt_nn::cuda::CudaDevice;
use serde_json::json;

use super::CheckFailed;
use crate::console;
use crate::device::{DeviceChoice, PrecisionName};
use crate::interrupt::{Interrupted, interrupt};
use crate::reproduce::cell::Cell;
use crate::reproduce::data::Data;
use crate::reproduce::limits::Limits;
use crate::reproduce::page::{Page, Results, counted};
use crate::reproduce::paper::Paper;
use crate::reproduce::plan::{Plan, choose, clear_leftover};
use crate::reproduce::record::Folder;
use crate::reproduce::run::{Outcome, Runner};

/// Train the cells of the paper's tables, go on with what is unfinished, and put ours beside theirs.
#[derive(Args)]
#[command(
    after_help = "Every finished run leaves one small file in RESULTS/records and is never made again; delete the file to make it again. What is stopped, by --budget, a \
signal or a crash, lies in RESULTS/unfinished, and the next call goes on with it, on another machine too: carry the folder. RESULTS/tables.md and tables.html are \
written at the end of every call.\n\nExamples:\n  gt reproduce table1 --cell zinc-sparse-lappe-bn --zinc zinc12k.parquet\n  \
gt reproduce all --device cuda --precision tf32 --budget 25\n  gt reproduce table3 --render\n  gt reproduce claims"
)]
pub struct Arguments {
    /// What to make, or to check
    #[arg(value_enum)]
    what: What,
    /// Only these cells: a name such as zinc-sparse-lappe-bn, or its beginning, such as zinc-sparse (may be repeated)
    #[arg(long = "cell", value_name = "NAME")]
    cells: Vec<String>,
    /// Seeds of the runs of each cell
    #[arg(long, value_delimiter = ',', value_name = "A,B,…", value_parser = super::seeds(), default_value = "41,95,22,35")]
    seeds: Vec<u64>,
    /// Where to compute: auto (a CUDA card if there is one), cpu, cuda or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Precision of products on a card; records tell it
    #[arg(long, value_enum, default_value = "f32")]
    precision: PrecisionName,
    /// Runs side by side [default: 4 on a card, 1 on the processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// Stop after so many minutes, at the end of an epoch but at most a minute later (encodings that are being computed are finished first); the next call goes on
    #[arg(long, value_name = "MINUTES")]
    budget: Option<f64>,
    /// Folder of records and unfinished runs
    #[arg(long, value_name = "DIR", default_value = DEFAULT_RESULTS)]
    results: PathBuf,
    /// Folder for encodings, and where zinc12k.parquet is looked for [default: RESULTS/data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// ZINC-12k [default: zinc12k.parquet in the folder of data, in this folder, or where `gt data fetch zinc` puts it]
    #[arg(long, value_name = "FILE")]
    zinc: Option<PathBuf>,
    /// For a trial: draw so many training graphs of CLUSTER and PATTERN, and the others in proportion; needs --results of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    graphs: Option<u32>,
    /// For a trial: set a key such as train.epochs=2; needs --results of its own, and tables say so
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Keep whole run directories, in RESULTS/runs: weights, metrics, events for TensorBoard
    #[arg(long)]
    keep_runs: bool,
    /// Train nothing, only render what there is
    #[arg(long)]
    render: bool,
    /// Put the tables into this Markdown file, between the lines `<!-- tables -->` and `<!-- /tables -->`
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Print cells (or claims) and what became of the runs as one line of JSON
    #[arg(long)]
    json: bool,
}

const DEFAULT_RESULTS: &str = "results/paper";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The Graph Transformer on all sets: 24 cells
    Table1,
    /// GCN, GAT, GatedGCN and the Graph Transformer: 12 cells
    Table2,
    /// No encoding, LapPE and WL-PE: 9 cells
    Table3,
    /// One cell on a second draw of its data
    Draw,
    /// All of these
    All,
    /// The paper's statements, checked on the records; trains nothing
    Claims,
}

impl What {
    /// The sections of the page that it is about.
    fn sections(self) -> &'static [&'static str] {
        match self {
            What::Table1 => &["table1"],
            What::Table2 => &["table2"],
            What::Table3 => &["table3"],
            What::Draw => &["draw"],
            What::All => &["table1", "table2", "table3", "draw", "claims"],
            What::Claims => &["claims", "comparisons"],
        }
    }

    fn cells(self, paper: &Paper) -> Vec<Cell> {
        match self {
            What::All => [paper.cells(None), vec![Cell::second_draw()]].concat(),
            What::Draw => vec![Cell::second_draw()],
            What::Claims => Vec::new(),
            What::Table1 | What::Table2 | What::Table3 => paper.cells(Some(self.sections()[0])),
        }
    }
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let paper = Paper::new();
        let folder = Folder::new(&self.results);
        let cells = self.chosen(&paper)?;
        // What is wrong with the file should not be found out hours later.
        self.inserted(&Results { paper: &paper, records: &folder.records()? }.page())?;
        let outcome = match self.render || self.what == What::Claims {
            true => None,
            false => Some(self.train(&cells, &folder, &paper)?),
        };
        self.show(&paper, &folder, outcome.as_ref().map(|(outcome, _)| outcome))?;
        match outcome {
            Some((outcome, interrupted)) => self.end(&outcome, interrupted),
            None => Ok(()),
        }
    }

    /// Whether the results are kept apart from those of the paper's settings.
    fn is_apart(&self) -> bool {
        // However it is written.
        let place = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
        place(&self.results) != place(Path::new(DEFAULT_RESULTS))
    }

    fn chosen(&self, paper: &Paper) -> Result<Vec<Cell>> {
        let distinct: BTreeSet<u64> = self.seeds.iter().copied().collect();
        ensure!(distinct.len() == self.seeds.len(), "--seeds names a seed twice");
        let budget = self.budget.unwrap_or_default();
        ensure!(budget >= 0.0 && budget.is_finite(), "--budget {budget}: minutes are 0 or more");
        let own = !self.set.is_empty() || self.graphs.is_some();
        ensure!(
            !own || self.is_apart(),
            "records of other settings or data must not lie among the paper's: name a folder of their own by --results"
        );
        ensure!(
            self.cells.is_empty() || self.what != What::Claims,
            "claims are about all cells at once; leave --cell out"
        );
        let cells = self.what.cells(paper);
        if self.cells.is_empty() {
            return Ok(cells);
        }
        // The second draw belongs to no table, and may be asked for beside any.
        let second =
            Some(Cell::second_draw()).filter(|cell| self.cells.contains(&cell.name()) && !cells.contains(cell));
        choose(&[cells, second.into_iter().collect()].concat(), &self.cells)
    }

    /// Makes the runs that are left; also tells whether it was interrupted.
    fn train(&self, cells: &[Cell], folder: &Folder, paper: &Paper) -> Result<(Outcome, bool)> {
        let graphs = self.graphs.map(|graphs| graphs as usize);
        let records = folder.records()?;
        let plan = Plan::new(cells, &self.seeds, &self.set, graphs, folder, &records, paper)?;
        plan.done.iter().for_each(|run| clear_leftover(folder, run, self.keep_runs));
        for cell in &plan.unknown {
            console::warn(&format!("{cell}: this program has no such preset, so it is not run"));
        }
        if plan.jobs.is_empty() {
            console::say!("nothing to make: {} done", counted(plan.done.len(), "run"));
            return Ok((Outcome::default(), false));
        }
        let device = self.device.open_for(self.precision)?;
        folder.prepare()?;
        // More minutes than can be counted are no limit.
        let budget = self.budget.and_then(|minutes| Duration::try_from_secs_f64(60.0 * minutes).ok());
        let limits = Limits::new(interrupt(), budget);
        let data_dir = self.data_dir.clone().unwrap_or_else(|| self.results.join("data"));
        let data = Data::new(self.zinc.clone(), data_dir, graphs, self.is_apart());
        let jobs = self.jobs.map_or(if device.is_some() { 4 } else { 1 }, usize::from);
        let begun = plan.jobs.iter().filter(|job| job.begun).count();
        let on = device.as_ref().map_or("the processor".to_owned(), |card: &CudaDevice| {
            format!("{}, {}", card.name(), self.precision.precision().name())
        });
        console::say!(
            "{} to make, {begun} of them begun, {} done; {jobs} side by side on {on}, the longest first",
            counted(plan.jobs.len(), "run"),
            plan.done.len()
        );
        let runner = Runner {
            folder,
            data: &data,
            paper,
            limits: &limits,
            // Each run opens the card on a thread of its own; by now it is settled which.
            device: match (&device, self.device) {
                (None, _) => DeviceChoice::Cpu,
                (Some(_), DeviceChoice::Auto) => DeviceChoice::Cuda(0),
                (Some(_), named) => named,
            },
            precision: self.precision.precision(),
            jobs,
            settings: self.set.clone(),
            keep_runs: self.keep_runs,
        };
        let outcome = runner.run(&plan.jobs);
        Ok((outcome, limits.interrupted()))
    }

    /// Writes the tables and prints what was asked for.
    fn show(&self, paper: &Paper, folder: &Folder, outcome: Option<&Outcome>) -> Result<()> {
        let records = folder.records()?;
        let results = Results { paper, records: &records };
        let page = results.page();
        folder.prepare()?;
        gt_data::write_bytes(&folder.path().join("tables.md"), page.markdown().as_bytes())?;
        gt_data::write_bytes(&folder.path().join("tables.html"), page.html().as_bytes())?;
        if let Some((file, text)) = self.inserted(&page)? {
            gt_data::write_bytes(file, text.as_bytes())?;
        }
        let sections = self.what.sections();
        if self.json {
            let cells: Vec<_> =
                results.comparisons().into_iter().filter(|row| sections.contains(&row.table.as_str())).collect();
            let claims = sections.contains(&"claims").then(|| results.claims());
            let none = Outcome::default();
            let Outcome { finished, left, elsewhere, failed } = outcome.unwrap_or(&none);
            let failed: Vec<_> = failed.iter().map(|(run, reason)| json!({"run": run, "reason": reason})).collect();
            return console::print_json(&json!({
                "results": self.results.display().to_string(), "cells": cells, "claims": claims, "hours": results.hours(),
                "finished": finished, "left": left, "elsewhere": elsewhere, "failed": failed,
            }));
        }
        let shown = page.sections.iter().filter(|section| sections.contains(&section.name.as_str()));
        let text: Vec<String> = shown.map(|section| section.plain()).collect();
        let hours = results.hours().sentence();
        let files = format!("{0}/tables.md, {0}/tables.html", folder.path().display());
        console::print(&format!("{}\n{hours}\ntables: {files}\n", text.join("\n")))
    }

    /// The file that the tables are put into, and its text with them.
    fn inserted(&self, page: &Page) -> Result<Option<(&Path, String)>> {
        let Some(file) = &self.into else { return Ok(None) };
        let text = std::fs::read_to_string(file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
        let marks = "it has no lines `<!-- tables -->` and `<!-- /tables -->`";
        let text = page.insert(&text).ok_or_else(|| anyhow!("{}: {marks}", file.display()))?;
        Ok(Some((file, text)))
    }

    /// Says what is left, by exit code too.
    fn end(&self, outcome: &Outcome, interrupted: bool) -> Result<()> {
        let Outcome { finished, left, elsewhere, failed } = outcome;
        if !elsewhere.is_empty() {
            console::say!("another process is at, or has just made, {}", elsewhere.join(", "));
        }
        if interrupted {
            return Err(Interrupted(console::command(std::env::args_os().skip(1))).into());
        }
        if !left.is_empty() {
            let shown = shortened(left);
            console::say!(
                "the budget is used up: {} finished, {} left ({shown}); the same command goes on",
                counted(finished.len(), "run"),
                left.len()
            );
        }
        if !failed.is_empty() {
            let names: Vec<String> = failed.iter().map(|(name, _)| name.clone()).collect();
            let text = format!(
                "{} failed ({}); the reasons are above, and the same command tries them again",
                counted(failed.len(), "run"),
                shortened(&names)
            );
            return Err(CheckFailed(text).into());
        }
        Ok(())
    }
}

/// The first few names.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = if names.len() > SHOWN { ", …" } else { "" };
    names[..names.len().min(SHOWN)].join(", ") + more
}
