//! The predictions that are furthest from their labels.

use gt_graph::{Split, TargetColumn};
use maud::{Markup, html};

use super::table::{head, row, scrolling};
use super::text::number;
use crate::metrics::{Metric, Predicted, largest};
use crate::origin::{Origin, Part};
use crate::prepared::Prepared;

/// Rows of the table.
const SHOWN: usize = 10;

/// One label that is present.
struct Miss {
    /// Row and column of the label.
    row: usize,
    column: usize,
    /// By which misses are sorted, the largest first: the loss, or the error over the deviation of
    /// the column's labels.
    size: f64,
    /// Label, prediction, and what makes the miss large.
    cells: [String; 3],
}

/// The table of the worst predictions.
pub(super) fn table(data: &Prepared, split: Split, predicted: Predicted<'_>) -> Markup {
    let target = data.target();
    let columns = &target.columns;
    let (mut misses, titles) = match data.metric {
        Metric::Mae => (errors(predicted, columns.len()), ["true", "predicted", "error"]),
        Metric::Accuracy => (classes(predicted, &columns[0]), ["true", "predicted", "probability of true"]),
        Metric::RocAuc => (labels(predicted), ["true", "predicted", "probability of yes"]),
    };
    misses.sort_by(|a, b| b.size.total_cmp(&a.size).then(a.row.cmp(&b.row)));
    let shown: Vec<(Origin, Miss)> =
        misses.into_iter().take(SHOWN).filter_map(|miss| Some((data.origin(split, miss.row)?, miss))).collect();
    if shown.is_empty() {
        return html! { p { "No labels." } };
    }
    // Columns that say nothing are left out.
    let one_graph = data.graphs.len() == 1;
    let several = columns.len() > 1;
    let part = match shown[0].0.part {
        Part::Whole => None,
        Part::Node(_) => Some("node"),
        Part::Pair(..) if data.links.is_some() => Some("pair"),
        Part::Pair(..) => Some("edge"),
    };
    let places = [(!one_graph || part.is_none()).then_some("graph"), part];
    let places: Vec<&str> = places.into_iter().flatten().collect();
    let name = several.then_some("target");
    let line = |(origin, miss): &(Origin, Miss)| {
        let part = match origin.part {
            Part::Whole => None,
            Part::Node(node) => Some(node.to_string()),
            Part::Pair(source, target) => Some(format!("{source} → {target}")),
        };
        let graph = places.contains(&"graph").then(|| origin.graph.to_string());
        let mut cells = [graph, part].into_iter().flatten();
        let first = cells.next().unwrap_or_default();
        let name = several.then(|| columns[miss.column].name.clone());
        row(first, cells.chain(name).chain(miss.cells.iter().cloned()))
    };
    let content = html! {
        table {
            (head(places.iter().copied().chain(name).chain(titles)))
            tbody { @for miss in &shown { (line(miss)) } }
        }
    };
    html! {
        (scrolling("Worst predictions", &content))
        p.quiet {
            "The largest "
            @match data.metric {
                Metric::Mae if several => "errors, compared with the deviation of each target's labels",
                Metric::Mae => "errors",
                _ => "losses",
            }
            " of the " (split.name()) " split. Numbers count from 0, in the order of the data. "
            "Wrong labels and rare inputs are often among them."
        }
    }
}

/// Errors of real-valued targets, `columns` per row.
fn errors(predicted: Predicted<'_>, columns: usize) -> Vec<Miss> {
    let labels = predicted.target.floats().unwrap_or_default();
    let columns = columns.max(1);
    let deviations: Vec<f64> = (0..columns)
        .map(|column| deviation(labels.iter().skip(column).step_by(columns).filter(|label| !label.is_nan())))
        .collect();
    let pairs = predicted.outputs.iter().zip(labels).enumerate().filter(|(_, (_, label))| !label.is_nan());
    let misses = pairs.map(|(at, (&output, &label))| {
        let (row, column) = (at / columns, at % columns);
        let error = f64::from(output) - f64::from(label);
        let cells = [f64::from(label), f64::from(output), error].map(number);
        Miss { row, column, size: error.abs() / deviations[column], cells }
    });
    misses.collect()
}

/// The deviation of some labels, or 1 where they are all the same.
fn deviation<'a>(labels: impl Iterator<Item = &'a f32> + Clone) -> f64 {
    let count = labels.clone().count().max(1) as f64;
    let mean = labels.clone().map(|label| f64::from(*label)).sum::<f64>() / count;
    let variance = labels.map(|label| (f64::from(*label) - mean).powi(2)).sum::<f64>() / count;
    if variance > 0.0 { variance.sqrt() } else { 1.0 }
}

/// Cross-entropies of one class per row.
fn classes(predicted: Predicted<'_>, column: &TargetColumn) -> Vec<Miss> {
    let labels = predicted.target.classes().unwrap_or_default();
    let rows = predicted.outputs.chunks_exact(predicted.width.max(1)).zip(labels).enumerate();
    let misses = rows.filter_map(|(row, (logits, &label))| {
        let own = f64::from(*logits.get(label as usize)?);
        let most = f64::from(logits[largest(logits)]);
        let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - most).exp()).sum();
        let loss = sum.ln() + most - own;
        let [own, other] = [label as usize, largest(logits)].map(|class| column.class_name(class));
        let cells = [own, other, number((-loss).exp())];
        Some(Miss { row, column: 0, size: loss, cells })
    });
    misses.collect()
}

/// Cross-entropies of yes/no labels.
fn labels(predicted: Predicted<'_>) -> Vec<Miss> {
    let labels = predicted.target.classes().unwrap_or_default();
    let width = predicted.width.max(1);
    let all = predicted.outputs.iter().zip(labels).enumerate().filter(|(_, (_, label))| **label <= 1);
    let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let misses = all.map(|(at, (&logit, &label))| {
        let logit = f64::from(logit);
        // ln(1 + exp(x)) of the logit of the wrong answer.
        let wrong = if label == 1 { -logit } else { logit };
        let size = wrong.max(0.0) + (-wrong.abs()).exp().ln_1p();
        let yes = 1.0 / (1.0 + (-logit).exp());
        Miss { row: at / width, column: at % width, size, cells: [word(label == 1), word(logit > 0.0), number(yes)] }
    });
    misses.collect()
}

#[cfg(test)]
mod tests {
    use gt_graph::{MISSING_CLASS, TargetRows};

    use super::*;

    /// Rows and columns, the largest miss first, with the first of each miss's cells.
    fn order(mut misses: Vec<Miss>) -> Vec<(usize, usize, String)> {
        misses.sort_by(|a, b| b.size.total_cmp(&a.size));
        misses.into_iter().map(|miss| (miss.row, miss.column, miss.cells[2].clone())).collect()
    }

    #[test]
    fn errors_count_by_the_deviation_of_their_target() {
        // Labels of the first target differ by 2, those of the second by 2000.
        let labels = [0.0, 0.0, 2.0, 2000.0, f32::NAN, 0.0];
        let outputs = [1.0, 100.0, 2.0, 2000.0, 9.0, 0.0];
        let predicted = Predicted { outputs: &outputs, width: 2, target: TargetRows::Float(&labels) };
        let order = order(errors(predicted, 2));
        assert_eq!(order.len(), 5);
        assert_eq!(order[..2], [(0, 0, "1.0000".into()), (0, 1, "100.00".into())]);
    }

    #[test]
    fn classes_are_sorted_by_the_probability_of_the_label() {
        let outputs = [0.0, 0.0, 9.0, 0.0, 0.0, 1.0];
        let labels = [0, 1, MISSING_CLASS];
        let predicted = Predicted { outputs: &outputs, width: 2, target: TargetRows::Class(&labels) };
        let column = TargetColumn { names: vec!["red".into(), "blue".into()], ..TargetColumn::new("colour", 2) };
        let misses = classes(predicted, &column);
        assert_eq!(misses[1].cells[..2], ["blue", "red"]);
        assert_eq!(order(misses), [(1, 0, "1.23e−4".into()), (0, 0, "0.5000".into())]);
    }

    #[test]
    fn labels_are_sorted_by_the_probability_of_the_wrong_answer() {
        let outputs = [-800.0, 1.0, 800.0, -1.0];
        let labels = [1, 0, MISSING_CLASS, 0];
        let predicted = Predicted { outputs: &outputs, width: 2, target: TargetRows::Class(&labels) };
        let order = order(super::labels(predicted));
        assert_eq!(order, [(0, 0, "0".into()), (0, 1, "0.7311".into()), (1, 1, "0.2689".into())]);
    }
}
