//! `gt reproduce`

mod run_lines;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use gt_nn::cuda::CudaDevice;
use gt_reproduce::{
    Cell, DataSource, Limits, Page, Paper, Plan, PlanOutcome, Results, ResultsFolder, Runner, SharedData, choose_cells,
    clear_leftover, count_of,
};
use serde_json::json;

use super::CheckFailed;
use super::output::OutputCheck;
use crate::cache::{fetched_zinc, kernel_cache};
use crate::console;
use crate::device::{DeviceChoice, PrecisionName};
use crate::interrupt::{Interrupted, interrupt};

/// Train the cells of the paper's tables, resume unfinished runs, and compare the results with the
/// paper's.
#[derive(Args)]
#[command(
    after_help = "Every finished run leaves one small file in RESULTS/records and is never trained again; delete the file to train the run again. \
A run that is stopped by --budget, a signal or a crash lies in RESULTS/unfinished. The next call resumes it, also on another machine with a copy of the folder. \
Every call writes RESULTS/tables.md and RESULTS/tables.html at its end.\n\nExamples:\n  gt reproduce table1 --cell zinc-sparse-lappe-bn --zinc zinc12k.parquet\n  \
gt reproduce all --device cuda --precision tf32 --budget 25\n  gt reproduce table3 --render\n  gt reproduce claims"
)]
pub struct Arguments {
    /// The table to make, or the claims to check
    #[arg(value_enum)]
    what: What,
    /// Only these cells: a name such as zinc-sparse-lappe-bn, or its beginning, such as zinc-sparse
    /// (may be repeated)
    #[arg(long = "cell", value_name = "NAME")]
    cells: Vec<String>,
    /// Seeds of the runs of each cell
    #[arg(long, value_delimiter = ',', value_name = "A,B,…", value_parser = super::seeds::parse_seed(), default_value = "41,95,22,35")]
    seeds: Vec<u64>,
    /// Where to compute: auto (a CUDA GPU if there is one), cpu, cuda or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Precision of products on a GPU; stored in the records
    #[arg(long, value_enum, default_value = "f32")]
    precision: PrecisionName,
    /// Number of parallel runs [default: 4 on a GPU, 1 on the CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// Stop after so many minutes, at the end of an epoch but at most a minute later (encodings
    /// under computation are finished first); the next call resumes
    #[arg(long, value_name = "MINUTES")]
    budget: Option<f64>,
    /// Folder of records and unfinished runs
    #[arg(long, value_name = "DIR", default_value = DEFAULT_RESULTS)]
    results: PathBuf,
    /// Folder for encodings, and the first place to look for zinc12k.parquet [default:
    /// RESULTS/data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// ZINC-12k [default: zinc12k.parquet in the data folder, in this folder, or where `gt data
    /// fetch zinc` puts it]
    #[arg(long, value_name = "FILE")]
    zinc: Option<PathBuf>,
    /// For a trial: draw so many training graphs of CLUSTER and PATTERN, and the other parts in
    /// proportion; needs its own --results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    graphs: Option<u32>,
    /// For a trial: set a key such as train.epochs=2; needs its own --results, and the tables name
    /// the setting
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Keep whole run directories, in RESULTS/runs: weights, metrics, events for TensorBoard
    #[arg(long)]
    keep_runs: bool,
    /// Train nothing, only render the tables of the existing records
    #[arg(long)]
    render: bool,
    /// Also put the tables into this Markdown file, between the lines `<!-- tables -->` and `<!--
    /// /tables -->`
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Print cells (or claims) and the outcome of the runs as one line of JSON
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
    /// Names of the sections of the page to show.
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
        let paper = Paper::load();
        let folder = ResultsFolder::new(&self.results);
        let cells = self.choose_cells(&paper)?;
        self.check_outputs()?;
        // A wrong file for the tables is an error now, not hours later.
        self.fill_file(&Results { paper: &paper, records: &folder.records()? }.page())?;
        let outcome = match self.render || self.what == What::Claims {
            true => None,
            false => Some(self.train(&cells, &folder, &paper)?),
        };
        self.show(&paper, &folder, outcome.as_ref().map(|(outcome, _)| outcome))?;
        match outcome {
            Some((outcome, interrupted)) => report_outcome(&outcome, interrupted),
            None => Ok(()),
        }
    }

    /// Whether the results folder is another one than that of the paper's settings.
    fn is_apart(&self) -> bool {
        // The same folder may be written in several ways.
        let place = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
        place(&self.results) != place(Path::new(DEFAULT_RESULTS))
    }

    fn choose_cells(&self, paper: &Paper) -> Result<Vec<Cell>> {
        super::seeds::check_distinct(&self.seeds)?;
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
        // The second draw belongs to no table, and may be named with any.
        let second =
            Some(Cell::second_draw()).filter(|cell| self.cells.contains(&cell.name()) && !cells.contains(cell));
        Ok(choose_cells(&[cells, second.into_iter().collect()].concat(), &self.cells)?)
    }

    /// Trains the runs that are left; also returns whether a signal interrupted them.
    fn train(&self, cells: &[Cell], folder: &ResultsFolder, paper: &Paper) -> Result<(PlanOutcome, bool)> {
        let graphs = self.graphs.map(|graphs| graphs as usize);
        let records = folder.records()?;
        let plan = Plan::new(cells, &self.seeds, &self.set, graphs, folder, &records, paper)?;
        plan.done.iter().for_each(|run| clear_leftover(folder, run, self.keep_runs));
        for cell in &plan.unknown {
            console::warn(&format!("{cell}: this program has no such preset, so it is not run"));
        }
        if plan.jobs.is_empty() {
            console::say!("nothing to make: {} done", count_of(plan.done.len(), "run"));
            return Ok((PlanOutcome::default(), false));
        }
        let device = self.device.open_for(self.precision)?;
        folder.prepare()?;
        // More minutes than a duration can hold are no limit.
        let budget = self.budget.and_then(|minutes| Duration::try_from_secs_f64(60.0 * minutes).ok());
        let limits = Limits::new(interrupt(), budget);
        let data_dir = self.data_dir.clone().unwrap_or_else(|| self.results.join("data"));
        let data = SharedData::new(DataSource {
            zinc: self.find_zinc(&data_dir),
            encodings: data_dir,
            train_graphs: graphs,
            allow_other_data: self.is_apart(),
        });
        let jobs = self.jobs.map_or(if device.is_some() { 4 } else { 1 }, usize::from);
        let begun = plan.jobs.iter().filter(|job| job.begun).count();
        let on = device.as_ref().map_or("the CPU".to_owned(), |gpu: &CudaDevice| {
            format!("{}, {}", gpu.name(), self.precision.precision().name())
        });
        console::say!(
            "{} to make, {begun} of them begun, {} done; {jobs} in parallel on {on}, the longest first",
            count_of(plan.jobs.len(), "run"),
            plan.done.len()
        );
        let runner = Runner {
            folder,
            data: &data,
            paper,
            limits: &limits,
            // Each run opens the GPU on its own thread.
            gpu: device.as_ref().map(|_| match self.device {
                DeviceChoice::Cuda(number) => number,
                DeviceChoice::Auto | DeviceChoice::Cpu => 0,
            }),
            precision: self.precision.precision(),
            kernel_cache: kernel_cache(),
            jobs,
            settings: self.set.clone(),
            keep_runs: self.keep_runs,
            version: crate::VERSION.to_owned(),
            observe: &run_lines::print_event,
        };
        let outcome = runner.run(&plan.jobs);
        Ok((outcome, limits.is_interrupted()))
    }

    /// The file of ZINC-12k: the one that was named, or the first that exists in the usual places.
    fn find_zinc(&self, data_dir: &Path) -> Option<PathBuf> {
        let usual = [data_dir.join("zinc12k.parquet"), "zinc12k.parquet".into()];
        self.zinc.clone().or_else(|| usual.into_iter().find(|file| file.exists())).or_else(fetched_zinc)
    }

    /// The files of the tables.
    fn tables(&self) -> [PathBuf; 2] {
        ["tables.md", "tables.html"].map(|name| self.results.join(name))
    }

    /// Checks that the tables replace only those of an earlier call.
    fn check_outputs(&self) -> Result<()> {
        let tables = self.tables();
        let is_ours = self.results.join("records").is_dir();
        if let Some(file) = tables.iter().find(|file| !is_ours && file.exists()) {
            bail!("{}: it has no records next to it, so it is not replaced; choose another --results", file.display());
        }
        let written = tables.iter().filter(|_| self.results.is_dir()).chain(&self.into);
        let check = written.fold(OutputCheck::default(), |check, file| check.writes(file));
        self.zinc.iter().fold(check, |check, file| check.reads_dataset("--zinc", file)).check()
    }

    /// Writes the tables, and prints the chosen sections.
    fn show(&self, paper: &Paper, folder: &ResultsFolder, outcome: Option<&PlanOutcome>) -> Result<()> {
        let records = folder.records()?;
        let results = Results { paper, records: &records };
        let page = results.page();
        folder.prepare()?;
        let [markdown, html] = self.tables();
        gt_data::write_bytes(&markdown, page.to_markdown().as_bytes())?;
        gt_data::write_bytes(&html, page.to_html().as_bytes())?;
        if let Some((file, text)) = self.fill_file(&page)? {
            gt_data::write_bytes(file, text.as_bytes())?;
        }
        let sections = self.what.sections();
        if self.json {
            let cells: Vec<_> =
                results.comparisons().into_iter().filter(|row| sections.contains(&row.table.as_str())).collect();
            let claims = sections.contains(&"claims").then(|| results.claims());
            let none = PlanOutcome::default();
            let PlanOutcome { finished, left, elsewhere, failed } = outcome.unwrap_or(&none);
            let failed: Vec<_> =
                failed.iter().map(|(run, reason)| json!({"run": run, "reason": reason.to_string()})).collect();
            return console::print_json(&json!({
                "results": self.results.display().to_string(), "cells": cells, "claims": claims, "hours": results.hours(),
                "finished": finished, "left": left, "elsewhere": elsewhere, "failed": failed,
            }));
        }
        let shown = page.sections.iter().filter(|section| sections.contains(&section.name.as_str()));
        let text: Vec<String> = shown.map(|section| section.to_plain_text()).collect();
        let hours = results.hours().sentence();
        let files = format!("{0}/tables.md, {0}/tables.html", folder.path().display());
        console::print(&format!("{}\n{hours}\ntables: {files}\n", text.join("\n")))
    }

    /// The file of `--into`, and its text with the tables.
    fn fill_file(&self, page: &Page) -> Result<Option<(&Path, String)>> {
        let Some(file) = &self.into else { return Ok(None) };
        let text = std::fs::read_to_string(file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
        let marks = "it has no lines `<!-- tables -->` and `<!-- /tables -->`";
        let text = page.insert_into(&text).ok_or_else(|| anyhow!("{}: {marks}", file.display()))?;
        Ok(Some((file, text)))
    }
}

/// Prints what is left, which also decides about the exit code.
fn report_outcome(outcome: &PlanOutcome, interrupted: bool) -> Result<()> {
    let PlanOutcome { finished, left, elsewhere, failed } = outcome;
    if !elsewhere.is_empty() {
        console::say!("another process is training, or has just finished, {}", elsewhere.join(", "));
    }
    if interrupted {
        return Err(Interrupted(console::command(std::env::args_os().skip(1))).into());
    }
    if !left.is_empty() {
        let shown = shorten_list(left);
        console::say!(
            "the budget is used up: {} finished, {} left ({shown}); the same command resumes",
            count_of(finished.len(), "run"),
            left.len()
        );
    }
    if !failed.is_empty() {
        let names: Vec<String> = failed.iter().map(|(name, _)| name.clone()).collect();
        let text = format!(
            "{} failed ({}); the reasons are above, and the same command tries them again",
            count_of(failed.len(), "run"),
            shorten_list(&names)
        );
        return Err(CheckFailed(text).into());
    }
    Ok(())
}

/// The first few names.
fn shorten_list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = if names.len() > SHOWN { ", …" } else { "" };
    names[..names.len().min(SHOWN)].join(", ") + more
}
