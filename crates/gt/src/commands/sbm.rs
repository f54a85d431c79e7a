//! `gt data sbm`

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use gt_data::{SbmSet, SbmSizes};
use gt_nn::{FreeMemory, gigabytes};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
gt data sbm cluster --out cluster.parquet\n  \
gt data sbm pattern --train 100 --val 20 --test 20 --out pattern.jsonl")]
pub struct Arguments {
    /// Which set
    set: Set,
    /// File to write (.parquet, .jsonl, or NAME_nodes.csv for tables)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Seed; the same seed gives the same file on any number of threads
    #[arg(long, default_value_t = 41)]
    seed: u64,
    /// Training graphs [default: 10000]
    #[arg(long, value_name = "N")]
    train: Option<usize>,
    /// Validation graphs [default: 2000 for pattern, 1000 for cluster]
    #[arg(long, value_name = "N")]
    val: Option<usize>,
    /// Test graphs [default: 2000 for pattern, 1000 for cluster]
    #[arg(long, value_name = "N")]
    test: Option<usize>,
}

/// Least bytes of a graph in memory: half of CLUSTER's average, with 4,300 edges of two ends each.
const LEAST_BYTES: f64 = 17e3;

#[derive(Clone, Copy, ValueEnum)]
enum Set {
    /// Find the nodes of a planted pattern (2 classes)
    Pattern,
    /// Find the block of each node (6 classes)
    Cluster,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        super::output::OutputCheck::of_dataset(&self.out)?.check()?;
        let set = match self.set {
            Set::Pattern => SbmSet::Pattern,
            Set::Cluster => SbmSet::Cluster,
        };
        let published = set.published_sizes();
        let sizes = SbmSizes {
            train: self.train.unwrap_or(published.train),
            val: self.val.unwrap_or(published.val),
            test: self.test.unwrap_or(published.test),
        };
        let graphs = sizes.train.saturating_add(sizes.val).saturating_add(sizes.test);
        let needed = graphs as f64 * LEAST_BYTES;
        if let Some(there) = FreeMemory::now().map(|free| free.bytes).filter(|&free| needed > free) {
            let [needed, there] = [needed, there].map(gigabytes);
            bail!("{graphs} graphs take at least {needed} of memory, and {there} are free");
        }
        super::output::write_dataset(&set.generate(self.seed, sizes)?, &self.out)
    }
}
