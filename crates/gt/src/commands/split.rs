//! `gt data split`

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use gt_data::{Parts, SplitBy, SplitPlan, make_split, usual_level};
use gt_graph::Level;

use super::data_args::DataArgs;
use super::output::OutputCheck;
use crate::console;

#[derive(Args)]
#[command(after_help = "Examples:\n  \
gt data split mine.jsonl --train 0.7 --val 0.15 --test 0.15 --stratify --out split.parquet\n  \
gt data split mine.jsonl --folds 5 --out folds.parquet")]
pub struct Arguments {
    /// Data set to split
    file: PathBuf,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Share of the training part
    #[arg(long, default_value_t = 0.8, value_name = "SHARE", conflicts_with = "folds")]
    train: f64,
    /// Share of the validation part
    #[arg(long, default_value_t = 0.1, value_name = "SHARE", conflicts_with = "folds")]
    val: f64,
    /// Share of the test part
    #[arg(long, default_value_t = 0.1, value_name = "SHARE", conflicts_with = "folds")]
    test: f64,
    /// Deal into K parts of equal size instead: fold0, fold1, …
    #[arg(long, value_name = "K")]
    folds: Option<usize>,
    /// Equal shares of every class, or of every tenth of a number's range, in each part
    #[arg(long, conflicts_with = "group")]
    stratify: bool,
    /// Keep graphs with the same value of this column together
    #[arg(long, value_name = "COLUMN")]
    group: Option<String>,
    /// What to split; both directions of an edge stay together
    /// [default: graphs; the nodes or edges of a single graph]
    #[arg(long)]
    level: Option<LevelName>,
    /// Seed; equal seeds give equal splits
    #[arg(long, default_value_t = 41)]
    seed: u64,
    #[command(flatten)]
    columns: DataArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum LevelName {
    Graph,
    Node,
    Edge,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        OutputCheck::of_dataset(&self.out)?.reads_dataset("the data set", &self.file).check()?;
        let mut dataset = self.columns.read(&self.file)?;
        let level = match self.level {
            Some(LevelName::Graph) => Level::Graph,
            Some(LevelName::Node) => Level::Node,
            Some(LevelName::Edge) => Level::Edge,
            None => usual_level(&dataset),
        };
        let by = match self.group {
            Some(column) => SplitBy::Group(column),
            None if self.stratify => SplitBy::Stratified,
            None => SplitBy::Random,
        };
        let shares = [("train", self.train), ("val", self.val), ("test", self.test)];
        let parts = match self.folds {
            Some(folds) => Parts::Folds(folds),
            None => Parts::Shares(
                shares.into_iter().filter(|(_, share)| *share != 0.0).map(|(n, s)| (n.into(), s)).collect(),
            ),
        };
        let split = make_split(&dataset, &SplitPlan { by, parts, level, seed: self.seed })?;
        let sizes: Vec<String> = split.names.iter().map(|name| format!("{name} {}", split.rows(name).len())).collect();
        console::say!("split of {level}s: {}", sizes.join(", "));
        dataset.set_split(split)?;
        super::output::write_dataset(&dataset, &self.out)
    }
}
