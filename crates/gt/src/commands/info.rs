//! `gt data info`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gt_data::Info;

use crate::console;
use crate::dataset_description::describe_dataset;

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
        let info = Info::new(&gt_data::read(&self.file)?);
        if self.json { console::print_json(&info) } else { console::print(&describe_dataset(&info)) }
    }
}
