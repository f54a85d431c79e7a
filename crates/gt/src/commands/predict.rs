//! `gt predict`

use anyhow::Result;
use clap::Args;

use super::asking::Asking;

/// Predict with a trained model: a row per graph, node or edge, in the order of the data.
///
/// Columns: graph (from 0); node, or source and target, where nodes or edges are predicted for; then for real numbers each target under its name, for one class the
/// most likely class under the target's name and the probability of class K as NAME_pK, for several yes/no labels NAME_p1, for links
/// link_p1, with all edges in place; then the reason why a row is empty.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    asking: Asking,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        self.asking.run("prediction", gt_train::predict)
    }
}
