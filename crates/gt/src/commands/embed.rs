//! `gt embed`

use anyhow::Result;
use clap::{Args, ValueEnum};
use gt_graph::Level;
use gt_train::Query;

use super::query_args::QueryArgs;
use crate::device::DeviceArgs;

/// Write the embeddings that a trained model computes: nodes after the last layer, or their readout
/// per graph.
///
/// Columns: graph (from 0), node (for embeddings of nodes), then e0, e1, …, and the reason why a
/// row is empty.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
gt embed runs/mine --data new.jsonl --out nodes.parquet\n  \
gt embed runs/mine --data new.jsonl --level graph --out graphs.csv")]
pub struct Arguments {
    #[command(flatten)]
    query: QueryArgs,
    /// A row per node, or per graph
    #[arg(long, value_enum, default_value_t = LevelName::Node)]
    level: LevelName,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LevelName {
    Node,
    Graph,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let level = match self.level {
            LevelName::Node => Level::Node,
            LevelName::Graph => Level::Graph,
        };
        let model = self.query.open()?.into();
        self.query.run(&model, &DeviceArgs::cpu(), "embedding", |_| Query::Embeddings(level))
    }
}
