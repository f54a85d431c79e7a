//! Counts of predicted against true classes.

use maud::{Markup, html};

use super::table::{head, row};
use super::text::{count, number};
use crate::metrics::{ClassCounts, Predicted, area_under_roc, class_counts, column, confusion};

/// A matrix of more classes than this is a list of classes instead.
const MATRIX: usize = 12;
/// Most rows; readers skip longer lists.
const ROWS: usize = 60;

/// One class per row.
pub(super) fn of_classes(predicted: Predicted<'_>) -> Markup {
    if predicted.width <= MATRIX { matrix(&confusion(predicted)) } else { list(&class_counts(predicted)) }
}

fn percent(part: usize, all: usize) -> String {
    if all > 0 { format!("{:.1} %", 100.0 * part as f64 / all as f64) } else { "–".into() }
}

/// Rows are labels; a cell is the darker, the larger its share of the row.
fn matrix(counts: &[Vec<usize>]) -> Markup {
    let line = |class: usize, row: &[usize]| {
        let all: usize = row.iter().sum();
        html! {
            tr {
                th scope="row" { (class) }
                @for (other, &cell) in row.iter().enumerate() {
                    @let share = cell as f64 / all.max(1) as f64;
                    @let hit = if other == class { "hit" } else { "miss" };
                    td class=(hit) style=(format_args!("--share:{share:.3}")) { (count(cell)) }
                }
                td { (percent(row[class], all)) }
            }
        }
    };
    html! {
        table.matrix {
            caption { "Rows: true class. Columns: predicted class." }
            thead {
                tr {
                    th scope="col" { "true" }
                    @for class in 0..counts.len() { th scope="col" { (class) } }
                    th scope="col" { "recall" }
                }
            }
            tbody { @for (class, row) in counts.iter().enumerate() { (line(class, row)) } }
        }
    }
}

/// The most frequent classes first.
fn list(counts: &[ClassCounts]) -> Markup {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&class| (std::cmp::Reverse(counts[class].labels), class));
    let line = |class: usize| {
        let ClassCounts { labels, predicted, right } = counts[class];
        row(class, [count(labels), count(predicted), count(right), percent(right, labels)])
    };
    html! {
        table {
            (head(["class", "true", "predicted", "both", "recall"]))
            tbody { @for &class in order.iter().take(ROWS) { (line(class)) } }
        }
        (more(counts.len(), "class", "es"))
    }
}

/// Several yes/no labels per row, one line each; an output above 0 says yes.
pub(super) fn of_labels(predicted: Predicted<'_>, names: &[&str]) -> Markup {
    let line = |at: usize, name: &str| {
        let scores = column(predicted, at);
        let of =
            |says: bool, is: bool| count(scores.iter().filter(|(s, label)| (*s > 0.0) == says && *label == is).count());
        let counts = [of(true, true), of(true, false), of(false, false), of(false, true)];
        row(name, counts.into_iter().chain([number(area_under_roc(scores))]))
    };
    html! {
        table {
            (head(["label", "true yes", "false yes", "true no", "false no", "ROC-AUC"]))
            tbody { @for (at, name) in names.iter().enumerate().take(ROWS) { (line(at, name)) } }
        }
        (more(predicted.width, "label", "s"))
    }
}

fn more(all: usize, one: &str, plural: &str) -> Markup {
    let left = all.saturating_sub(ROWS);
    html! { @if left > 0 { p.quiet { (count(left)) " more " (one) @if left > 1 { (plural) } } } }
}

/// Number of labels that are present.
pub(super) fn labels(predicted: Predicted<'_>) -> usize {
    (0..predicted.target.len()).filter(|&at| predicted.target.get(at).is_some()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_graph::{MISSING_CLASS, TargetRows};

    #[test]
    fn few_classes_are_a_matrix_and_many_a_list() {
        let outputs = [9., 0., 0., 9., 0., 0., 0., 0., 9., 0., 9., 0.];
        let predicted = Predicted { outputs: &outputs, width: 3, target: TargetRows::Class(&[0, 0, 0, 1]) };
        let html = of_classes(predicted).into_string();
        assert!(html.contains("<td class=\"hit\" style=\"--share:0.667\">2</td>"), "{html}");
        assert!(html.contains("<td>66.7 %</td>") && html.contains("<td>–</td>"), "{html}");
        let mut outputs = vec![0.0; 80 * 2];
        (outputs[7], outputs[80 + 7]) = (1.0, 1.0);
        let many = Predicted { outputs: &outputs, width: 80, target: TargetRows::Class(&[7, 3]) };
        let html = of_classes(many).into_string();
        let expected = "<tr><th scope=\"row\">7</th><td>1</td><td>2</td><td>1</td><td>100.0 %</td></tr>";
        assert!(html.contains(expected) && html.contains("20 more classes"), "{html}");
    }

    #[test]
    fn yes_and_no_are_counted_where_there_is_a_label() {
        let outputs = [1.0, 2.0, -1.0, 2.0, 1.0, -3.0];
        let labels = [1, 1, 0, MISSING_CLASS, 0, 1];
        let predicted = Predicted { outputs: &outputs, width: 2, target: TargetRows::Class(&labels) };
        let html = of_labels(predicted, &["a", "<b>"]).into_string();
        // 1, −1 and 1 against yes, no, no; then 2 and −3 against yes, yes.
        assert!(html.contains(">a</th><td>1</td><td>1</td><td>1</td><td>0</td><td>0.7500</td>"), "{html}");
        assert!(html.contains(">&lt;b&gt;</th><td>1</td><td>0</td><td>0</td><td>1</td><td>–</td>"), "{html}");
        assert_eq!(super::labels(predicted), 5);
    }
}
