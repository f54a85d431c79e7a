//! The three splits of a data set.

use serde::{Deserialize, Serialize};

/// A split of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// The split that the parameters are fitted to.
    Train,
    /// The split that selects the best model and lowers the learning rate.
    Val,
    /// The split whose scores are reported.
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
