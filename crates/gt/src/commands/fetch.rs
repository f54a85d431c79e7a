//! `gt data fetch`

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use gt_data::fetch::{ZincSource, fetch_zinc, zinc_from_file};

use super::output::OutputCheck;
use crate::cache::{ZINC, cache_folder};
use crate::console::{self, DownloadBar};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
gt data fetch zinc\n  \
gt data fetch zinc --from copy.parquet   (a copy on this machine)")]
pub struct Arguments {
    /// Which data set
    set: Set,
    /// Take a local copy (any format) instead of downloading
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Folder for the result and for unfinished downloads [default: the user's cache folder]
    #[arg(long, value_name = "DIR", env = "GT_CACHE")]
    cache: Option<PathBuf>,
    /// Address that lists the full set's Parquet files, for a mirror
    #[arg(long, value_name = "URL")]
    listing_url: Option<String>,
    /// Address of the folder with train.index, val.index and test.index, for a mirror
    #[arg(long, value_name = "URL")]
    index_url: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Set {
    /// ZINC-12k of "Benchmarking GNNs": 12,000 molecules
    Zinc,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let Set::Zinc = self.set;
        let cache = self.cache.or_else(cache_folder).context("this user has no cache folder; name one with --cache")?;
        let path = match self.from {
            Some(file) => {
                // The folder of the cache may not be there yet.
                if cache.is_dir() {
                    OutputCheck::of_file(&cache.join(ZINC)).reads_dataset("--from", &file).check()?;
                }
                zinc_from_file(&file, &cache)?
            }
            None => {
                let usual = ZincSource::default();
                let source = ZincSource {
                    listing: self.listing_url.unwrap_or(usual.listing),
                    indices: self.index_url.unwrap_or(usual.indices),
                };
                let mut bar = DownloadBar::new();
                fetch_zinc(&source, &cache, &mut |progress| bar.update(&progress))?
            }
        };
        console::print(&format!("{}\n", path.display()))
    }
}
