//! `gt data info`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gt_data::Info;
use gt_models::Scaling;

use super::data_args::DataArgs;
use crate::console;
use crate::dataset_description::describe_dataset;
use crate::understood::{FileFacts, describe};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  gt data info mine.jsonl\n  gt data info mine.jsonl --json\n  gt data info mine.jsonl --ignore edge_attr"
)]
pub struct Arguments {
    /// Data set to describe
    file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    columns: DataArgs,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let links = self.columns.predicts_links();
        let dataset = self.columns.read(&self.file)?;
        let info = Info::new(&dataset);
        if self.json {
            return console::print_json(&info);
        }
        let facts = FileFacts::new(&dataset, 0);
        let lines = describe(dataset.graphs(), dataset.schema(), dataset.split(), &facts, &Scaling::default(), links);
        console::print(&format!("{}\n{}\n", describe_dataset(&info), lines.join("\n")))
    }
}
