//! Predictions of a cross-validation: for every labelled row, that of the model that did not see
//! it.

use gt_data::Records;
use gt_graph::{Level, Split, TargetColumn};
use gt_models::config::OutputKind;
use gt_models::{Predictions, Softmax, sigmoid};

use crate::class_names::{add_classes, probability_name};
use crate::outcome::Outcome;
use crate::prepared::Prepared;

/// The predictions of one run for the labelled rows of its test part.
#[derive(Clone, Debug)]
pub struct FoldPredictions {
    fold: usize,
    kind: OutputKind,
    targets: Vec<TargetColumn>,
    /// Graph and position within the graph of each row.
    rows: Vec<(usize, usize)>,
    /// Labels, `[rows, targets]`; NaN where one is missing.
    labels: Vec<f64>,
    outputs: Predictions,
}

impl FoldPredictions {
    /// The test predictions of the model that is the result of a run. `None` if the run has no
    /// test part.
    pub fn new(data: &Prepared, outcome: &Outcome, fold: usize) -> Option<Self> {
        let (Split::Test, outputs) = outcome.predictions.as_ref()? else { return None };
        let (level, width, labels) = (data.level(), data.outputs(), outputs.labels.rows()?);
        let mut kept = Self {
            fold,
            kind: data.output_kind,
            rows: Vec::new(),
            labels: Vec::new(),
            outputs: Predictions { level, width, values: Vec::new() },
            targets: data.target().columns.clone(),
        };
        let columns = kept.targets.len();
        let graphs = data.graphs_of(Split::Test).into_iter();
        let positions =
            graphs.flat_map(|graph| (0..data.graphs.row_range(level, graph).len()).map(move |at| (graph, at)));
        for (row, position) in positions.enumerate() {
            let label = |column| labels.get(row * columns + column).unwrap_or(f64::NAN);
            if (0..columns).any(|column| !label(column).is_nan()) {
                kept.rows.push(position);
                kept.labels.extend((0..columns).map(label));
                kept.outputs.values.extend_from_slice(&outputs.values[row * width..(row + 1) * width]);
            }
        }
        Some(kept)
    }
}

/// The rows of all folds, in the order of the data. The columns are `graph`, for targets of nodes
/// `node`, and `fold`, then for each target its label and its prediction. The prediction is
/// `predicted_NAME` for numbers and classes, and the probabilities are `NAME_p0`, `NAME_p1`, …, or
/// `NAME_p_CLASS` for classes with names.
pub fn out_of_fold(folds: &[&FoldPredictions]) -> Records {
    let mut records = Records::default();
    let Some(first) = folds.first() else { return records };
    let mut rows: Vec<(&FoldPredictions, usize)> =
        folds.iter().flat_map(|&fold| (0..fold.rows.len()).map(move |row| (fold, row))).collect();
    rows.sort_by_key(|(fold, row)| fold.rows[*row]);
    records.integers("graph", rows.iter().map(|(fold, row)| Some(fold.rows[*row].0)));
    if first.outputs.level == Level::Node {
        records.integers("node", rows.iter().map(|(fold, row)| Some(fold.rows[*row].1)));
    }
    records.integers("fold", rows.iter().map(|(fold, _)| Some(fold.fold)));
    let columns = first.targets.len();
    let is_class = first.kind != OutputKind::Numbers;
    for (column, target) in first.targets.iter().enumerate() {
        let name = &target.name;
        let label = |(fold, row): &(&FoldPredictions, usize)| fold.labels[row * columns + column];
        let own = match &**name {
            "graph" | "node" | "fold" => format!("target_{name}"),
            _ => name.clone(),
        };
        match is_class {
            true => {
                let labels = rows.iter().map(|row| Some(label(row)).filter(|v| !v.is_nan()).map(|v| v as usize));
                add_classes(&mut records, &own, target, labels);
            }
            false => records.reals(&own, rows.iter().map(|row| label(row) as f32)),
        }
        match first.kind {
            OutputKind::Classes | OutputKind::TwoClasses => {
                let classes = rows.iter().map(|(fold, row)| Some(fold.outputs.class(*row)));
                add_classes(&mut records, &format!("predicted_{name}"), target, classes);
                let probabilities: Vec<Softmax<'_>> =
                    rows.iter().map(|(fold, row)| fold.outputs.softmax(*row)).collect();
                for class in 0..first.outputs.width {
                    let probability = probabilities.iter().map(|row| row.probability(class));
                    records.reals(&probability_name(name, target, class), probability);
                }
            }
            OutputKind::Labels => {
                records.reals(
                    &probability_name(name, target, 1),
                    rows.iter().map(|(fold, row)| sigmoid(fold.outputs.row(*row)[column])),
                );
            }
            OutputKind::Numbers => {
                records
                    .reals(&format!("predicted_{name}"), rows.iter().map(|(fold, row)| fold.outputs.row(*row)[column]));
            }
        }
    }
    records
}
