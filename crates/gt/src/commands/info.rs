//! `gt data info`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gt_data::Info;
use gt_models::Scaling;

use crate::console;
use crate::dataset_description::describe_dataset;
use crate::understood::{FileFacts, describe};

#[derive(Args)]
#[command(after_help = "Examples:\n  gt data info mine.jsonl\n  gt data info mine.jsonl --json")]
pub struct Arguments {
    /// Data set to describe
    file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let dataset = gt_data::read(&self.file)?;
        let info = Info::new(&dataset);
        if self.json {
            return console::print_json(&info);
        }
        let facts = FileFacts::new(&dataset, 0);
        let lines = describe(dataset.graphs(), dataset.schema(), dataset.split(), &facts, &Scaling::default(), false);
        console::print(&format!("{}\n{}\n", describe_dataset(&info), lines.join("\n")))
    }
}
