//! `gt predict`

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use gt_data::PairTable;
use gt_models::config::TaskName;
use gt_nn::cuda::CudaDevice;
use gt_train::{PairInputs, TrainError};

use super::asking::{Asked, Asking};
use crate::device::Using;

/// Predict with a trained model: a row per graph, node or edge, in the order of the data.
///
/// Columns: graph (from 0); node, or source and target, where nodes or edges are predicted for; then for real numbers each target under its name, for one class the
/// most likely class under the target's name and the probability of class K as NAME_pK, for several yes/no labels NAME_p1, for links
/// link_p1, with all edges in place; then the reason why a row is empty. A link model is asked about the edges of the data, or about the pairs of --pairs.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    asking: Asking,
    /// Pairs of nodes to ask a link model about, instead of the data's edges: a table (.csv, .tsv, .parquet) with the columns graph (not needed if there is one
    /// graph), source and target, all from 0; the output has its rows in its order, and --on-error is about them
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    #[command(flatten)]
    using: Using,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let device = self.using.open()?;
        if let Some(pairs) = &self.pairs {
            return self.run_pairs(pairs, device.as_ref());
        }
        self.asking.run("prediction", |engine, header, inputs| {
            let on_card = self.using.compute(device.as_ref(), |device, precision, cache| {
                gt_train::predict_on(device, precision, cache, engine, header, inputs)
            })?;
            on_card.map_or_else(|| gt_train::predict(engine, header, inputs), Ok)
        })
    }

    fn run_pairs(&self, pairs: &Path, device: Option<&CudaDevice>) -> Result<()> {
        super::output::check_spares_input(&self.asking.out, "--pairs", pairs)?;
        let (header, mut engine) = self.asking.open()?;
        ensure!(
            header.config.data.task == TaskName::Links,
            "--pairs is for models of links (data.task = \"links\"), and this one predicts targets of {}s",
            header.data.target.level
        );
        // No card can, which is told as elsewhere.
        self.using.compute(device, |_, _, _| Err::<(), _>(TrainError::links_on_card()))?;
        let table = PairTable::read(pairs)?;
        let inputs = self.asking.inputs(&header)?;
        let mut rows = PairInputs::new(table, &inputs)?;
        self.asking.check(&asked(pairs, &rows))?;
        let records = gt_train::predict_pairs(&mut engine, &header, &inputs, &mut rows)?;
        self.asking.finish("prediction", records, &inputs, &asked(pairs, &rows))
    }
}

fn asked<'a>(file: &'a Path, pairs: &'a PairInputs) -> Asked<'a> {
    Asked { file, one: "row", count: pairs.rows(), reasons: pairs.unanswered() }
}
