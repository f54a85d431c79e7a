//! `gt predict`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use gt_data::PairTable;
use gt_models::config::TaskName;
use gt_nn::backend::Device;
use gt_nn::cuda::CpuOnly;
use gt_train::{NoResult, OnError, PairRows, Query, QueryGraphs, QueryReport, TrainError, predict_pairs};

use super::query_args::QueryArgs;
use crate::device::DeviceArgs;

/// Predict with a trained model: a row per graph, node or edge, in the order of the data.
///
/// Columns: graph (from 0); node, or source and target, if the model predicts for nodes or edges;
/// the prediction; then the reason why a row is empty. Predictions of real numbers have a column
/// per target, under the target's name. For one class there is the most likely class, under the
/// target's name, and the probability of class K as NAME_pK. Classes with names, such as
/// toxic, are written by name, with NAME_p_toxic. Several yes/no labels have NAME_p1 each, links
/// have link_p1.
///
/// A link model scores the edges of the data, or the pairs of --pairs, with all edges of the data
/// present.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
gt predict runs/mine --data new.jsonl --out predictions.csv\n  \
gt predict runs/mine --data new.jsonl --out predictions.csv --keep id,name\n  \
gt predict runs/links --data network.parquet --pairs pairs.csv --out scores.csv")]
pub struct Arguments {
    #[command(flatten)]
    query: QueryArgs,
    /// Pairs of nodes for a link model to score, instead of the data's edges. A table (.csv, .tsv,
    /// .parquet) with the columns graph, source and target, all from 0; graph is not needed if
    /// there is one graph. The output has the rows of the table in the same order, and --on-error
    /// applies to them
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        match &self.pairs {
            Some(pairs) => self.run_pairs(pairs),
            None => {
                let models = self.query.open_ensemble()?;
                self.query.run(&models, &self.device, "prediction", |device| Query::Predictions(device.clone()))
            }
        }
    }

    fn run_pairs(&self, pairs: &Path) -> Result<()> {
        self.query.output_check().reads("--pairs", pairs).check()?;
        let model = self.query.open()?;
        ensure!(
            model.config.data.task == TaskName::Links,
            "--pairs is for models of links (data.task = \"links\"), and this one predicts targets of {}s",
            model.target()?.level
        );
        ensure!(self.query.is_whole(), "--shard divides the graphs of --data, and --pairs names graphs itself");
        ensure!(
            !self.query.keeps_columns(),
            "--keep copies columns of --data, and the rows of the output are those of --pairs"
        );
        let table = PairTable::read(pairs)?;
        self.device.compute(|device| match device {
            Device::Cpu => Ok(()),
            Device::Cuda { .. } => Err(TrainError::Device(CpuOnly::Links.into())),
        })?;
        let graphs = QueryGraphs::read(self.query.data(), &model)?;
        let mut rows = PairRows::new(table, &graphs)?;
        self.check_pairs(pairs, rows.unusable())?;
        let records = predict_pairs(&model, &graphs, &mut rows)?;
        self.check_pairs(pairs, rows.unusable())?;
        let report = QueryReport {
            rows: records.rows() as u64,
            graphs: graphs.len(),
            unusable: rows.unusable().len(),
            reasons: rows.unusable().iter().take(10).map(|(row, reason)| (*row, reason.clone())).collect(),
            roles_beyond: 0,
        };
        records.write(&self.query.out)?;
        self.query.print("row", "prediction", &report)
    }

    /// Stops at a row without a score, if the user wants that.
    fn check_pairs(&self, file: &Path, unusable: &BTreeMap<usize, NoResult>) -> Result<(), TrainError> {
        match unusable.first_key_value() {
            Some((row, reason)) if self.query.on_error() == OnError::Stop => Err(TrainError::Unusable {
                path: file.into(),
                what: "row",
                number: *row,
                reason: reason.clone().into(),
            }),
            _ => Ok(()),
        }
    }
}
