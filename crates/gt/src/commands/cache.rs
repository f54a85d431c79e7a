//! `gt cache`

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use gt_train::EncodingCache;
use serde_json::json;

use crate::cache::{cache_folder, encoding_cache, fetched_zinc, kernel_cache};
use crate::console;

#[derive(Subcommand)]
pub enum CacheCommand {
    /// Print the folder of the cache, and the number and size of its files
    #[command(after_help = "Examples:\n  gt cache info")]
    Info(InfoArguments),
    /// Remove computed encodings and compiled kernels; both are computed again when needed
    #[command(after_help = "Examples:\n  gt cache clear")]
    Clear(ClearArguments),
}

#[derive(Args)]
pub struct InfoArguments {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct ClearArguments {
    /// Remove the data set of `gt data fetch zinc`, too
    #[arg(long)]
    data: bool,
}

/// Files of one kind.
struct Group {
    name: &'static str,
    files: Vec<(PathBuf, u64)>,
}

impl CacheCommand {
    pub fn run(self) -> Result<()> {
        let folder = cache_folder().ok_or_else(|| anyhow!("this user has no cache folder; GT_CACHE names one"))?;
        let groups = groups().with_context(|| format!("{}: the cache folder cannot be read", folder.display()))?;
        match self {
            Self::Info(InfoArguments { json }) => {
                let sizes = groups.iter().map(|group| {
                    let bytes: u64 = group.files.iter().map(|(_, bytes)| bytes).sum();
                    (group.name, group.files.len(), bytes)
                });
                if json {
                    let sizes = sizes.map(|(name, files, bytes)| (name, json!({"files": files, "bytes": bytes})));
                    let sizes: std::collections::BTreeMap<_, _> = sizes.collect();
                    return console::print_json(
                        &json!({"folder": folder, "limit": EncodingCache::LIMIT, "content": sizes}),
                    );
                }
                let line = |(name, files, bytes)| format!("{name:10} {files:6} files {:10.1} MB\n", bytes as f64 / 1e6);
                let lines: String = sizes.map(line).collect();
                let limit = EncodingCache::LIMIT >> 30;
                console::print(&format!(
                    "{}\n{lines}Encodings take at most {limit} GiB; the longest unused make room.\n",
                    folder.display()
                ))
            }
            Self::Clear(ClearArguments { data }) => {
                let cleared = groups.iter().filter(|group| data || group.name != DATA).flat_map(|group| &group.files);
                let (mut count, mut bytes) = (0, 0);
                for (file, size) in cleared {
                    fs::remove_file(file).with_context(|| file.display().to_string())?;
                    count += 1;
                    bytes += size;
                }
                console::print(&format!("removed {count} files, {:.1} MB\n", bytes as f64 / 1e6))
            }
        }
    }
}

const DATA: &str = "data sets";

/// The files of the cache that this program wrote.
fn groups() -> Result<Vec<Group>> {
    let encodings = match encoding_cache() {
        Some(cache) => cache.files()?.into_iter().map(|file| (file.path, file.bytes)).collect(),
        None => Vec::new(),
    };
    let mut kernels = Vec::new();
    for entry in kernel_cache().into_iter().flat_map(fs::read_dir).flatten() {
        let entry = entry?;
        if entry.path().extension().is_some_and(|end| end == gt_nn::cuda::KERNEL_EXTENSION) {
            kernels.push((entry.path(), entry.metadata()?.len()));
        }
    }
    let mut data = Vec::new();
    if let Some(file) = fetched_zinc() {
        let bytes = fs::metadata(&file)?.len();
        data.push((file, bytes));
    }
    Ok([("encodings", encodings), ("kernels", kernels), (DATA, data)].map(|(name, files)| Group { name, files }).into())
}
