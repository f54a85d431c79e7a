//! Counts of predicted against true classes.

use gt_graph::TargetColumn;
use gt_models::config::MetricForm;
use maud::{Markup, html};

use super::table::{head, row};
use super::text::{count, number};
use crate::metrics::{ClassCounts, Predicted, area_under_roc, class_counts, column, confusion};

/// A matrix of more classes than this is a list of classes instead.
pub(super) const MATRIX: usize = 12;
/// Most rows; readers skip longer lists.
const ROWS: usize = 60;

/// One class per row. The paper's form has the recall of each class only.
pub(super) fn of_classes(predicted: Predicted<'_>, classes: &TargetColumn, form: MetricForm) -> Markup {
    let counts = class_counts(predicted);
    match predicted.width <= MATRIX {
        true => matrix(&confusion(predicted), &counts, classes, form),
        false => list(&counts, classes, form),
    }
}

fn percent(part: usize, all: usize) -> String {
    if all > 0 { format!("{:.1} %", 100.0 * part as f64 / all as f64) } else { "–".into() }
}

/// Names of the shares of a class.
fn share_names(form: MetricForm) -> &'static [&'static str] {
    match form {
        MetricForm::Exact => &["precision", "recall", "F1"],
        MetricForm::Paper => &["recall"],
    }
}

/// The shares of a class, in the order of their names. F1 = 2 · right / (labels + predicted).
fn shares(ClassCounts { labels, predicted, right }: ClassCounts, form: MetricForm) -> Vec<String> {
    let recall = percent(right, labels);
    match form {
        MetricForm::Exact => vec![percent(right, predicted), recall, percent(2 * right, labels + predicted)],
        MetricForm::Paper => vec![recall],
    }
}

/// Rows are labels; a cell is the darker, the larger its share of the row.
fn matrix(cells: &[Vec<usize>], counts: &[ClassCounts], classes: &TargetColumn, form: MetricForm) -> Markup {
    let line = |class: usize, row: &[usize]| {
        let all = counts[class].labels;
        html! {
            tr {
                th scope="row" { (classes.class_name(class)) }
                @for (other, &cell) in row.iter().enumerate() {
                    @let share = cell as f64 / all.max(1) as f64;
                    @let hit = if other == class { "hit" } else { "miss" };
                    td class=(hit) style=(format_args!("--share:{share:.3}")) { (count(cell)) }
                }
                @if form == MetricForm::Exact { td { (count(all)) } }
                @for share in shares(counts[class], form) { td { (share) } }
            }
        }
    };
    html! {
        table.matrix {
            caption { "Rows: true class. Columns: predicted class." }
            thead {
                tr {
                    th scope="col" { "true" }
                    @for class in 0..cells.len() { th scope="col" { (classes.class_name(class)) } }
                    @if form == MetricForm::Exact { th scope="col" { "labels" } }
                    @for name in share_names(form) { th scope="col" { (name) } }
                }
            }
            tbody { @for (class, row) in cells.iter().enumerate() { (line(class, row)) } }
        }
    }
}

/// The most frequent classes first.
fn list(counts: &[ClassCounts], classes: &TargetColumn, form: MetricForm) -> Markup {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&class| (std::cmp::Reverse(counts[class].labels), class));
    let line = |class: usize| {
        let ClassCounts { labels, predicted, right } = counts[class];
        let all = [count(labels), count(predicted), count(right)];
        row(classes.class_name(class), all.into_iter().chain(shares(counts[class], form)))
    };
    html! {
        table {
            (head(["class", "true", "predicted", "both"].iter().chain(share_names(form))))
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
        let html = of_classes(predicted, &TargetColumn::new("y", 3), MetricForm::Exact).into_string();
        // Class 0: 3 labels, 2 predictions, both right.
        assert!(html.contains("<td>3</td><td>100.0 %</td><td>66.7 %</td><td>80.0 %</td>"), "{html}");
        assert!(html.contains("<td>0</td><td>0.0 %</td><td>–</td><td>0.0 %</td>"), "{html}");
        let html = of_classes(predicted, &TargetColumn::new("y", 3), MetricForm::Paper).into_string();
        assert!(!html.contains("precision") && !html.contains("F1"), "{html}");
        assert!(html.contains("<td class=\"hit\" style=\"--share:0.667\">2</td>"), "{html}");
        assert!(html.contains("<td>66.7 %</td>") && html.contains("<td>–</td>"), "{html}");
        let mut outputs = vec![0.0; 80 * 2];
        (outputs[7], outputs[80 + 7]) = (1.0, 1.0);
        let many = Predicted { outputs: &outputs, width: 80, target: TargetRows::Class(&[7, 3]) };
        for (form, shares) in [
            (MetricForm::Exact, "<td>50.0 %</td><td>100.0 %</td><td>66.7 %</td>"),
            (MetricForm::Paper, "<td>100.0 %</td>"),
        ] {
            let html = of_classes(many, &TargetColumn::new("y", 80), form).into_string();
            let expected = format!("<tr><th scope=\"row\">7</th><td>1</td><td>2</td><td>1</td>{shares}</tr>");
            assert!(html.contains(&expected) && html.contains("20 more classes"), "{html}");
        }
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
