//! Counts of predicted against true classes.

use std::fmt::Write;

use super::text::{count, escape, number};
use crate::metrics::{ClassCounts, Predicted, area_under_roc, class_counts, column, confusion};

/// A matrix of more classes than this is a list of classes instead.
const MATRIX: usize = 12;
/// More rows than this are more than anybody reads.
const ROWS: usize = 60;

/// One class per row.
pub(super) fn of_classes(predicted: Predicted<'_>) -> String {
    if predicted.width <= MATRIX { matrix(&confusion(predicted)) } else { list(&class_counts(predicted)) }
}

fn percent(part: usize, all: usize) -> String {
    if all > 0 { format!("{:.1} %", 100.0 * part as f64 / all as f64) } else { "–".into() }
}

/// Rows are labels; a cell is the darker, the larger its share of the row.
fn matrix(counts: &[Vec<usize>]) -> String {
    let mut html =
        String::from("<table class=\"matrix\"><caption>Rows: true class. Columns: predicted class.</caption>");
    html += "<thead><tr><th scope=\"col\">true</th>";
    (0..counts.len()).for_each(|class| html += &format!("<th scope=\"col\">{class}</th>"));
    html += "<th scope=\"col\">recall</th></tr></thead><tbody>";
    for (class, row) in counts.iter().enumerate() {
        let all: usize = row.iter().sum();
        let _ = write!(html, "<tr><th scope=\"row\">{class}</th>");
        for (other, &cell) in row.iter().enumerate() {
            let (share, hit) = (cell as f64 / all.max(1) as f64, if other == class { "hit" } else { "miss" });
            let _ = write!(html, "<td class=\"{hit}\" style=\"--share:{share:.3}\">{}</td>", count(cell));
        }
        let _ = write!(html, "<td>{}</td></tr>", percent(row[class], all));
    }
    html + "</tbody></table>"
}

/// The most frequent classes first.
fn list(counts: &[ClassCounts]) -> String {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&class| (std::cmp::Reverse(counts[class].labels), class));
    let mut html = String::from("<table><thead><tr><th scope=\"col\">class</th>");
    html += "<th scope=\"col\">true</th><th scope=\"col\">predicted</th><th scope=\"col\">both</th><th scope=\"col\">recall</th></tr></thead><tbody>";
    for &class in order.iter().take(ROWS) {
        let ClassCounts { labels, predicted, right } = counts[class];
        let cells = [count(labels), count(predicted), count(right), percent(right, labels)]
            .map(|cell| format!("<td>{cell}</td>"));
        let _ = write!(html, "<tr><th scope=\"row\">{class}</th>{}</tr>", cells.concat());
    }
    html + "</tbody></table>" + &more(counts.len(), "class", "es")
}

/// Several yes/no labels per row, one line each; an output above 0 says yes.
pub(super) fn of_labels(predicted: Predicted<'_>, names: &[&str]) -> String {
    let mut html = String::from("<table><thead><tr><th scope=\"col\">label</th>");
    for head in ["true yes", "false yes", "true no", "false no", "ROC-AUC"] {
        let _ = write!(html, "<th scope=\"col\">{head}</th>");
    }
    html += "</tr></thead><tbody>";
    for (at, name) in names.iter().enumerate().take(ROWS) {
        let scores = column(predicted, at);
        let of =
            |says: bool, is: bool| count(scores.iter().filter(|(s, label)| (*s > 0.0) == says && *label == is).count());
        let cells = [of(true, true), of(true, false), of(false, false), of(false, true)];
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(name));
        cells.iter().for_each(|cell| html += &format!("<td>{cell}</td>"));
        let _ = write!(html, "<td>{}</td></tr>", number(area_under_roc(scores)));
    }
    html + "</tbody></table>" + &more(predicted.width, "label", "s")
}

fn more(all: usize, one: &str, plural: &str) -> String {
    match all.saturating_sub(ROWS) {
        0 => String::new(),
        left => format!("<p class=\"quiet\">{} more {one}{}</p>", count(left), if left == 1 { "" } else { plural }),
    }
}

/// How much there is to count.
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
        let html = of_classes(predicted);
        assert!(html.contains("<td class=\"hit\" style=\"--share:0.667\">2</td>"), "{html}");
        assert!(html.contains("<td>66.7 %</td>") && html.contains("<td>–</td>"), "{html}");
        let mut outputs = vec![0.0; 80 * 2];
        (outputs[7], outputs[80 + 7]) = (1.0, 1.0);
        let many = Predicted { outputs: &outputs, width: 80, target: TargetRows::Class(&[7, 3]) };
        let html = of_classes(many);
        let expected = "<tr><th scope=\"row\">7</th><td>1</td><td>2</td><td>1</td><td>100.0 %</td></tr>";
        assert!(html.contains(expected) && html.contains("20 more classes"), "{html}");
    }

    #[test]
    fn yes_and_no_are_counted_where_there_is_a_label() {
        let outputs = [1.0, 2.0, -1.0, 2.0, 1.0, -3.0];
        let labels = [1, 1, 0, MISSING_CLASS, 0, 1];
        let predicted = Predicted { outputs: &outputs, width: 2, target: TargetRows::Class(&labels) };
        let html = of_labels(predicted, &["a", "<b>"]);
        // 1, −1 and 1 against yes, no, no; then 2 and −3 against yes, yes.
        assert!(html.contains(">a</th><td>1</td><td>1</td><td>1</td><td>0</td><td>0.7500</td>"), "{html}");
        assert!(html.contains(">&lt;b&gt;</th><td>1</td><td>0</td><td>0</td><td>1</td><td>–</td>"), "{html}");
        assert_eq!(super::labels(predicted), 5);
    }
}
