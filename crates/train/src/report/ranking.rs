//! ROC and precision–recall curves of classes and of yes/no labels.

use std::fmt::Write;

use gt_graph::TargetColumn;
use maud::{Markup, html};

use super::axis::Axis;
use super::confusion::MATRIX;
use super::scatter::{SIZE, across, diagonal, grid, names, up};
use super::svg::path;
use super::text::{counted, number};
use crate::metrics::{Predicted, against_others, area_under_roc, average_precision, column, positive_classes};

/// Most points of a curve.
const POINTS: usize = 200;
const COLOURS: [&str; 4] = ["blue", "orange", "green", "purple"];
const STROKES: [&str; 3] = ["", " dashed", " dotted"];

/// A class or a label: its name, and its score in each row with whether the row has it.
type Ranked = (String, Vec<(f32, bool)>);

/// The kind of curve.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// True positive rate by false positive rate.
    Roc,
    /// Precision by recall.
    Precision,
}

/// The curves of up to 12 classes. Of two classes, the second one is the positive one.
pub(super) fn of_classes(predicted: Predicted<'_>, classes: &TargetColumn) -> Markup {
    if !(2..=MATRIX).contains(&predicted.width) {
        return html! {};
    }
    let ranked = |class: usize| (format!("class {}", classes.class_name(class)), against_others(predicted, class));
    let all: Vec<Ranked> = positive_classes(predicted.width).map(ranked).collect();
    html! {
        (figures(&all))
        @if predicted.width > 2 { p.quiet { "Each curve compares one class with all others." } }
    }
}

/// The curves of the first yes/no labels: as many as `names` has.
pub(super) fn of_labels(predicted: Predicted<'_>, names: &[&str]) -> Markup {
    let all: Vec<Ranked> =
        names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), column(predicted, at))).collect();
    let more = predicted.width.saturating_sub(names.len());
    html! {
        (figures(&all))
        @if more > 0 { p.quiet { (counted(more, "label")) " more without curves" } }
    }
}

fn figures(all: &[Ranked]) -> Markup {
    html! { div.charts { (figure(Kind::Roc, all)) (figure(Kind::Precision, all)) } }
}

fn figure(kind: Kind, all: &[Ranked]) -> Markup {
    let (id, title, value) = match kind {
        Kind::Roc => ("roc", "ROC curve", "area"),
        Kind::Precision => ("precision", "Precision–recall curve", "average precision"),
    };
    let (x, y) = match kind {
        Kind::Roc => ("false positive rate", "true positive rate"),
        Kind::Precision => ("recall", "precision"),
    };
    let score = |scores: &[(f32, bool)]| match kind {
        Kind::Roc => area_under_roc(scores.to_vec()),
        Kind::Precision => average_precision(scores.to_vec()),
    };
    let values: Vec<String> = all.iter().map(|(_, scores)| number(score(scores))).collect();
    let described: Vec<String> = all.iter().zip(&values).map(|((name, _), value)| format!("{name} {value}")).collect();
    let class = |at: usize| format!("{}{}", COLOURS[at % COLOURS.len()], STROKES[at / COLOURS.len() % STROKES.len()]);
    let axis = Axis::linear(0.0, 1.0);
    html! {
        figure.square {
            figcaption {
                h3 { (title) " " span.quiet { (value) } }
                ul.legend {
                    @for (at, ((name, _), value)) in all.iter().zip(&values).enumerate() {
                        li class=(class(at)) { i {} (name) " " b { (value) } }
                    }
                }
            }
            svg viewBox={ "0 0 " (SIZE) " " (SIZE) } role="img" aria-labelledby={ (id) "-t " (id) "-d" } {
                title id={ (id) "-t" } { (title) }
                desc id={ (id) "-d" } { (value) ": " (described.join("; ")) "." }
                (grid(&axis))
                @if kind == Kind::Roc { (diagonal()) }
                @for (at, (_, scores)) in all.iter().enumerate() {
                    @let line = line(kind, &thinned(kind, points(kind, scores)), &axis);
                    @if !line.is_empty() { (path(format_args!("curve thin {}", class(at)), line)) }
                }
                (names(x, y))
            }
        }
    }
}

/// The points of a curve, one per distinct score from the highest on. A precision–recall curve
/// leaves out scores at which the recall does not rise. Without positives, or without negatives for
/// a ROC curve, there are none.
fn points(kind: Kind, scores: &[(f32, bool)]) -> Vec<(f64, f64)> {
    let mut scores = scores.to_vec();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    let positives = scores.iter().filter(|(_, positive)| *positive).count();
    let negatives = scores.len() - positives;
    if positives == 0 || (kind == Kind::Roc && negatives == 0) {
        return Vec::new();
    }
    let mut points = if kind == Kind::Roc { vec![(0.0, 0.0)] } else { Vec::new() };
    let (mut found, mut seen) = (0, 0);
    for tied in scores.chunk_by(|a, b| a.0 == b.0) {
        let before = found;
        found += tied.iter().filter(|(_, positive)| *positive).count();
        seen += tied.len();
        let recall = found as f64 / positives as f64;
        match kind {
            Kind::Roc => points.push(((seen - found) as f64 / negatives as f64, recall)),
            Kind::Precision if found > before => points.push((recall, found as f64 / seen as f64)),
            Kind::Precision => {}
        }
    }
    points
}

/// At most [`POINTS`] points, with the first and the last one. They are evenly spaced along the
/// curve, not by rank, because the start of a ROC curve is steep when positives are rare.
fn thinned(kind: Kind, points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= POINTS {
        return points;
    }
    let along = |(x, y): (f64, f64)| if kind == Kind::Roc { (x + y) / 2.0 } else { x };
    let part = |point: &(f64, f64)| (along(*point) * (POINTS - 2) as f64) as usize;
    let last = points.last().copied();
    let mut kept = points;
    kept.dedup_by_key(|point| part(point));
    if kept.last() != last.as_ref() {
        kept.extend(last);
    }
    kept
}

/// A ROC curve is made of straight lines, a precision–recall curve of steps: the area below each is
/// the value in the caption.
fn line(kind: Kind, points: &[(f64, f64)], axis: &Axis) -> String {
    let mut line = String::new();
    for (at, &(x, y)) in points.iter().enumerate() {
        let (right, high) = (across(axis, x), up(axis, y));
        let _ = match (kind, at) {
            (Kind::Roc, 0) => write!(line, "M{right:.1} {high:.1}"),
            (Kind::Roc, _) => write!(line, "L{right:.1} {high:.1}"),
            (Kind::Precision, 0) => write!(line, "M{:.1} {high:.1}H{right:.1}", across(axis, 0.0)),
            (Kind::Precision, _) => write!(line, "V{high:.1}H{right:.1}"),
        };
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_graph::TargetRows;

    #[test]
    fn tied_scores_are_one_point() {
        let scores = [(0.1, false), (0.4, true), (0.4, false), (0.8, true)];
        let roc = points(Kind::Roc, &scores);
        assert_eq!(roc, [(0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]);
        let precision = points(Kind::Precision, &scores);
        assert_eq!(precision, [(0.5, 1.0), (1.0, 2.0 / 3.0)]);
        let axis = Axis::linear(0.0, 1.0);
        assert_eq!(line(Kind::Roc, &roc, &axis), "M52.0 356.0L52.0 184.0L220.0 12.0L388.0 12.0");
        assert_eq!(line(Kind::Precision, &precision, &axis), "M52.0 12.0H220.0V126.7H388.0");
        assert!(points(Kind::Roc, &[(1.0, true)]).is_empty() && points(Kind::Precision, &[(1.0, false)]).is_empty());
    }

    #[test]
    fn long_curves_are_thinned_between_their_ends() {
        // One row of 50 is positive, mostly among the highest scores.
        let scores: Vec<(f32, bool)> =
            (0..50_000u16).map(|at| (f32::from(at), at % 50 == 0 && at > 20_000 || at >= 49_000)).collect();
        for kind in [Kind::Roc, Kind::Precision] {
            let all = points(kind, &scores);
            let few = thinned(kind, all.clone());
            assert!(all.len() > 1000 && (150..=POINTS).contains(&few.len()), "{} of {}", few.len(), all.len());
            assert_eq!((few.first(), few.last()), (all.first(), all.last()));
        }
    }

    #[test]
    fn classes_have_a_curve_each_and_two_share_one() {
        let three = Predicted { outputs: &[9., 0., 1., 0., 9., 1.], width: 3, target: TargetRows::Class(&[0, 1]) };
        let html = of_classes(three, &TargetColumn::default()).into_string();
        // No row has class 2.
        assert_eq!(html.matches("<path class=\"curve thin ").count(), 4, "{html}");
        assert!(html.contains("class 1 <b>1.0000</b>") && html.contains("class 2 <b>–</b>"), "{html}");
        assert!(html.contains("one class with all others"), "{html}");
        let two = Predicted { outputs: &[2., 0., 0., 2.], width: 2, target: TargetRows::Class(&[0, 1]) };
        let html = of_classes(two, &TargetColumn::default()).into_string();
        assert_eq!(html.matches("<path class=\"curve thin blue\"").count(), 2, "{html}");
        assert!(html.contains("class 1 <b>") && !html.contains("class 0") && !html.contains("all others"), "{html}");
        let many = Predicted { outputs: &[0.0; 13], width: 13, target: TargetRows::Class(&[0]) };
        assert!(of_classes(many, &TargetColumn::default()).into_string().is_empty());
        let html = of_labels(two, &["<a>"]).into_string();
        assert!(html.contains("&lt;a&gt;") && html.contains("1 label more without curves"), "{html}");
    }
}
