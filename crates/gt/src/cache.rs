//! The folder for what can be computed or fetched again.

use std::path::PathBuf;

use etcetera::{BaseStrategy, choose_base_strategy};
use gt_train::EncodingCache;

/// `GT_CACHE`, or this program's place in the user's cache folder; none for a user without one. An
/// empty `GT_CACHE` counts as none.
pub fn cache_folder() -> Option<PathBuf> {
    match std::env::var_os("GT_CACHE").filter(|folder| !folder.is_empty()) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(choose_base_strategy().ok()?.cache_dir().join("graph-transformer")),
    }
}

/// The file in the cache that `gt data fetch zinc` writes.
pub const ZINC: &str = "zinc12k.parquet";

/// The data set that `gt data fetch zinc` stores.
pub fn fetched_zinc() -> Option<PathBuf> {
    Some(cache_folder()?.join(ZINC)).filter(|file| file.exists())
}

/// Folder for compiled kernels.
pub fn kernel_cache() -> Option<PathBuf> {
    Some(cache_folder()?.join("kernels"))
}

/// Encodings that `gt train` and `gt eval` have computed.
pub fn encoding_cache() -> Option<EncodingCache> {
    Some(EncodingCache::new(cache_folder()?.join("encodings")))
}
