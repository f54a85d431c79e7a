//! How much memory the contents of one file may take.
//!
//! A small file can claim much: a run-length code repeats a value a billion times, a number claims
//! a million nodes. Every decoder therefore charges the budget of its file before it decodes and
//! allocates. The prices follow the memory that the contents take:
//!
//! | content | price in bytes |
//! |---|---|
//! | number of a Parquet column | 8; in a table 16 |
//! | text of a Parquet column | 8 and its length; in a table 16 and its length |
//! | row of a Parquet file | 64 |
//! | page of a wanted Parquet column | its decompressed length |
//! | text of JSON lines and CSV | 16 for each byte |
//! | carried value of JSON lines, also a missing one | 32 |
//!
//! Nodes without features and without edges have an allowance of their own: one node for every
//! [`NODE`] bytes of the limit.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::FileProblem;

/// Contents of this size are decoded whatever the size of their file.
const FLOOR: u64 = 256_000_000;
/// Above [`FLOOR`], the contents of a file may take this many times its size.
const FACTOR: u64 = 64;
/// Bytes of the limit for each node that neither features nor edges back.
const NODE: u64 = 256;
/// Price of one byte of text.
const TEXT: u64 = 16;

/// Longest line of JSON lines and longest row of a text table, in bytes.
pub(crate) const LONGEST_LINE: u64 = 256_000_000;
/// Longest cell of a text table, and longest line of column names, in bytes.
pub(crate) const LONGEST_CELL: u64 = 16_000_000;
/// Most columns of a file, and of the features of a node or an edge.
pub(crate) const MOST_COLUMNS: usize = 65_536;

/// The limit that the user sets for all files.
static RAISED: AtomicU64 = AtomicU64::new(0);

/// Raises the memory that the contents of each file may take. The default is 256 MB, or 64 times
/// the size of the file if that is more. A smaller limit than the default has no effect.
///
/// ```
/// graph_transformer_data::raise_decoded_limit(8_000_000_000);
/// ```
pub fn raise_decoded_limit(bytes: u64) {
    RAISED.store(bytes, Ordering::Relaxed);
}

/// Memory that the contents of one file may take.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    /// Bytes charged so far.
    decoded: AtomicU64,
    /// Nodes charged so far.
    nodes: AtomicU64,
}

impl Budget {
    /// The budget of an opened file. A pipe or a device has no size that counts.
    pub(crate) fn of(file: &File) -> std::io::Result<Arc<Self>> {
        let metadata = file.metadata()?;
        Ok(Self::of_bytes(if metadata.is_file() { metadata.len() } else { 0 }))
    }

    /// The budget of a file of a size.
    pub(crate) fn of_bytes(bytes: u64) -> Arc<Self> {
        let limit = bytes.saturating_mul(FACTOR).max(FLOOR).max(RAISED.load(Ordering::Relaxed));
        Arc::new(Self { limit, decoded: AtomicU64::new(0), nodes: AtomicU64::new(0) })
    }

    /// Bytes that may be charged in total.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.decoded.load(Ordering::Relaxed))
    }

    /// Charges decoded bytes.
    pub(crate) fn charge(&self, bytes: u64) -> Result<(), FileProblem> {
        let decoded = add(&self.decoded, bytes);
        if decoded > self.limit {
            return Err(FileProblem::TooMuch { decoded, limit: self.limit });
        }
        Ok(())
    }

    /// Charges bytes of text that is about to be parsed.
    pub(crate) fn charge_text(&self, bytes: u64) -> Result<(), FileProblem> {
        self.charge(bytes.saturating_mul(TEXT))
    }

    /// Charges nodes that neither features nor edges back. Returns the number of nodes that are
    /// left if there are fewer; nothing is charged then.
    pub(crate) fn charge_nodes(&self, nodes: u64) -> Result<(), u64> {
        let most = self.limit / NODE;
        let left = most - self.nodes.load(Ordering::Relaxed).min(most);
        if nodes > left {
            return Err(left);
        }
        add(&self.nodes, nodes);
        Ok(())
    }
}

/// Adds without overflow and returns the sum.
fn add(sum: &AtomicU64, more: u64) -> u64 {
    let total = sum.load(Ordering::Relaxed).saturating_add(more);
    sum.store(total, Ordering::Relaxed);
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_have_the_floor_and_large_files_a_multiple_of_their_size() {
        assert_eq!(Budget::of_bytes(0).limit(), FLOOR);
        assert_eq!(Budget::of_bytes(100_000_000).limit(), 100_000_000 * FACTOR);
        assert_eq!(Budget::of_bytes(u64::MAX).limit(), u64::MAX);
    }

    #[test]
    fn charges_add_up_and_do_not_overflow() {
        let budget = Budget::of_bytes(0);
        assert_eq!(budget.charge(FLOOR), Ok(()));
        assert_eq!(budget.charge(1), Err(FileProblem::TooMuch { decoded: FLOOR + 1, limit: FLOOR }));
        assert_eq!(budget.charge(u64::MAX), Err(FileProblem::TooMuch { decoded: u64::MAX, limit: FLOOR }));
    }

    #[test]
    fn the_text_of_a_file_never_exceeds_its_own_budget() {
        for bytes in [0, 1_000, FLOOR, u64::MAX / FACTOR] {
            assert_eq!(Budget::of_bytes(bytes).charge_text(bytes), Ok(()));
        }
    }

    #[test]
    fn nodes_that_are_refused_leave_the_allowance_to_others() {
        let budget = Budget::of_bytes(0);
        assert_eq!(budget.charge_nodes(600_000), Ok(()));
        assert_eq!(budget.charge_nodes(600_000), Err(400_000));
        assert_eq!(budget.charge_nodes(400_000), Ok(()));
        assert_eq!(budget.charge_nodes(1), Err(0));
    }
}
