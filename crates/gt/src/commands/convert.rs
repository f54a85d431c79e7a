//! `gt data convert`

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gt_data::{FileRoles, TablePaths, read_tables, read_with};

use super::data_args::DataArgs;
use super::output::{OutputCheck, write_dataset};

#[derive(Args)]
#[command(after_help = "Formats follow from the names: .parquet and .jsonl hold one graph per row or line; \
NAME_nodes.csv (.tsv, .parquet) stands for the tables NAME_nodes, NAME_edges and, where there is one, NAME_graphs.\n\n\
Examples:\n  gt data convert molecules.jsonl molecules.parquet\n  gt data convert cora_nodes.parquet cora.parquet\n  \
gt data convert --nodes people.csv --edges friends.csv --target age --continuous age --undirected friends.parquet")]
pub struct Arguments {
    /// IN OUT, or OUT alone with --nodes and --edges
    #[arg(value_name = "FILE", num_args = 1..=2, required = true)]
    files: Vec<PathBuf>,
    /// Table of nodes to read
    #[arg(long, value_name = "FILE", requires = "edges")]
    nodes: Option<PathBuf>,
    /// Table of edges to read
    #[arg(long, value_name = "FILE", requires = "nodes")]
    edges: Option<PathBuf>,
    /// Table of graphs to read, for targets and columns of a whole graph
    #[arg(long, value_name = "FILE", requires = "nodes")]
    graphs: Option<PathBuf>,
    #[command(flatten)]
    columns: DataArgs,
    #[command(flatten)]
    tables: TableArguments,
}

/// Roles of the columns of tables.
#[derive(Args)]
#[command(next_help_heading = "Columns of tables")]
struct TableArguments {
    /// Column with the graph of a row [default: graph]
    #[arg(long, value_name = "COLUMN")]
    graph_column: Option<String>,
    /// Column with the id of a node [default: node, id]
    #[arg(long, value_name = "COLUMN")]
    node_column: Option<String>,
    /// Column with the source of an edge [default: src, source, from]
    #[arg(long, value_name = "COLUMN")]
    src: Option<String>,
    /// Column with the target node of an edge [default: dst, destination, to, target]
    #[arg(long, value_name = "COLUMN")]
    dst: Option<String>,
    /// Column with the part of a split [default: split]
    #[arg(long, value_name = "COLUMN")]
    split_column: Option<String>,
    /// Column of lists of indices (in CSV: 3 17 52) [default: another column of lists]
    #[arg(long, value_name = "COLUMN")]
    multi_hot: Vec<String>,
    /// Add the reverse of every edge, for files that list each undirected edge once
    #[arg(long)]
    undirected: bool,
}

impl Arguments {
    pub fn run(mut self) -> Result<()> {
        let Some(out) = self.files.pop() else { bail!("name the file to write") };
        let check = OutputCheck::of_dataset(&out)?;
        let tables = self.tables;
        let roles = FileRoles {
            graph: tables.graph_column,
            node: tables.node_column,
            src: tables.src,
            dst: tables.dst,
            split: tables.split_column,
            multi_hot: tables.multi_hot,
            undirected: tables.undirected,
            columns: self.columns.choice(),
        };
        let tables = match (self.files.pop(), self.nodes, self.edges) {
            (None, Some(nodes), Some(edges)) => Some(TablePaths { nodes, edges, graphs: self.graphs }),
            (Some(_), Some(_), _) => bail!("give either IN OUT, or OUT with --nodes and --edges"),
            (Some(input), ..) if TablePaths::is_nodes_table(&input) => Some(TablePaths::beside(&input)?.that_exist()),
            (Some(input), ..) => {
                check.reads_dataset("the data set", &input).check()?;
                return write_dataset(&read_with(&input, &roles)?, &out);
            }
            (None, ..) => bail!("name a file to read and one to write"),
        };
        let tables = tables.expect("every other case has ended");
        let read = [Some(&tables.nodes), Some(&tables.edges), tables.graphs.as_ref()];
        read.into_iter().flatten().fold(check, |check, table| check.reads("a table", table)).check()?;
        write_dataset(&read_tables(&tables, &roles)?, &out)
    }
}
