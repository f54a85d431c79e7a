//! Seeds on the command line.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use clap::builder::TypedValueParser;

/// Parses one seed: 64 bits without sign, as far as a TOML file can hold them.
pub fn parse_seed() -> impl TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(..=i64::MAX as u64)
}

/// Checks that `--seeds` names no seed twice.
pub fn check_distinct(seeds: &[u64]) -> Result<()> {
    let distinct: BTreeSet<u64> = seeds.iter().copied().collect();
    ensure!(distinct.len() == seeds.len(), "--seeds names a seed twice");
    Ok(())
}
