//! `gt encode`

use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use gt_data::{Dataset, Info, SbmSet, SbmSizes};
use gt_graph::encoding::{Coordinates, Encodings, Laplacian, RandomWalk, WeisfeilerLehman, encode_all};

use super::data_args::DataArgs;
use super::output::OutputCheck;
use crate::console;
use crate::dataset_description::describe_dataset;

#[derive(Args)]
#[command(after_help = "Examples:\n  gt encode mine.jsonl --lap 8 --out encoded.parquet")]
pub struct Arguments {
    /// Data set to encode; without it a small CLUSTER set is generated, encoded (--lap 10 --wl) and
    /// described
    #[arg(requires = "out")]
    file: Option<PathBuf>,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Laplacian eigenvectors: K per node
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=1024))]
    lap: Option<u16>,
    /// Weisfeiler-Lehman roles, as the published code computes them
    #[arg(long)]
    wl: bool,
    /// Return probabilities of a random walk after 1..T steps
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    walk: Option<u16>,
    #[command(flatten)]
    columns: DataArgs,
}

/// The embedded default: enough graphs to look at, drawn in a moment.
const DEFAULT_SIZES: SbmSizes = SbmSizes { train: 200, val: 20, test: 20 };

impl Arguments {
    pub fn run(mut self) -> Result<()> {
        if let Some(out) = &self.out {
            let check = OutputCheck::of_dataset(out)?;
            self.file.iter().fold(check, |check, file| check.reads_dataset("the data set", file)).check()?;
        }
        let embedded = self.file.is_none();
        let chosen = self.lap.is_some() || self.wl || self.walk.is_some();
        ensure!(embedded || chosen, "choose at least one encoding: --lap K, --wl, --walk T");
        if !chosen {
            (self.lap, self.wl) = (Some(10), true);
        }
        let (mut dataset, name) = match &self.file {
            Some(file) => (self.columns.read(file)?, file.display().to_string()),
            None => (SbmSet::Cluster.generate(41, DEFAULT_SIZES)?, "CLUSTER".into()),
        };
        let encodings = self.encode(&dataset, &name)?;
        dataset.set_encodings(encodings)?;
        if embedded {
            console::print(&format!(
                "A small CLUSTER set (seed 41), with Laplacian and Weisfeiler-Lehman encodings:\n{}",
                describe_dataset(&Info::new(&dataset))
            ))?;
        }
        match &self.out {
            Some(out) => super::output::write_dataset(&dataset, out),
            None => Ok(()),
        }
    }

    /// Encodings that are not requested stay unchanged.
    fn encode(&self, dataset: &Dataset, name: &str) -> Result<Encodings> {
        let graphs = dataset.graphs();
        let failed = |(graph, error)| anyhow!("{name}: graph {graph}: {error}");
        let mut encodings = graphs.encodings().clone();
        if let Some(k) = self.lap {
            let width = usize::from(k);
            let values = encode_all(&Laplacian::new(width), graphs).map_err(failed)?;
            encodings.laplacian = Some(Coordinates { width, values });
        }
        if let Some(steps) = self.walk {
            let width = usize::from(steps);
            let values = encode_all(&RandomWalk { steps: width }, graphs).map_err(failed)?;
            encodings.random_walk = Some(Coordinates { width, values });
        }
        if self.wl {
            encodings.weisfeiler_lehman = Some(encode_all(&WeisfeilerLehman::default(), graphs).map_err(failed)?);
        }
        Ok(encodings)
    }
}
