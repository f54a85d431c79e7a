//! `gt predict`

use anyhow::Result;
use clap::Args;

use super::asking::Asking;
use crate::device::Using;

/// Predict with a trained model: a row per graph, node or edge, in the order of the data.
///
/// Columns: graph (from 0); node, or source and target, where nodes or edges are predicted for; then for real numbers each target under its name, for one class the
/// most likely class under the target's name and the probability of class K as NAME_pK, for several yes/no labels NAME_p1, for links
/// link_p1, with all edges in place; then the reason why a row is empty.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    using: Using,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let device = self.using.open()?;
        self.asking.run("prediction", |engine, header, inputs| {
            let on_card = self.using.compute(device.as_ref(), |device, precision, cache| {
                gt_train::predict_on(device, precision, cache, engine, header, inputs)
            })?;
            on_card.map_or_else(|| gt_train::predict(engine, header, inputs), Ok)
        })
    }
}
