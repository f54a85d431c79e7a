//! The three splits of a data set.

use serde::{Deserialize, Serialize};

/// A split of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// What parameters are fitted to.
    Train,
    /// What the learning rate and the best model are chosen by.
    Val,
    /// What is reported.
    Test,
}

impl Split {
    /// All three splits, in the order of training.
    pub const ALL: [Split; 3] = [Split::Train, Split::Val, Split::Test];

    /// The name of the split in files.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Val => "val",
            Split::Test => "test",
        }
    }
}
