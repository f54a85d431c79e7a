//! What a run has learned from: sizes of its parts, and their labels.

use gt_data::{PartInfo, TargetInfo};
use gt_graph::TargetKind;
use maud::{Markup, html};

use super::Report;
use super::table::{head, row, scrolling};
use super::text::{count, counted, number, tenths};
use crate::links::Links;
use crate::task::Part;

/// Rows of the table of targets.
const TARGETS: usize = 36;

pub(super) fn section(report: &Report<'_>) -> Markup {
    let parts = report.task.statistics();
    let table = html! {
        table {
            (head(["part", "graphs", "nodes", "edges", "nodes per graph", "edges per graph"]))
            tbody { @for (name, part) in &parts { (sizes(name, part)) } }
        }
    };
    html! {
        (scrolling("Sizes", &table))
        @if let Some(links) = &report.task.links { (link_counts(report, links)) } @else { (targets(report, &parts)) }
    }
}

fn sizes(name: &str, part: &PartInfo) -> Markup {
    let plain = |value: usize| html! { (count(value)) };
    let spread = |mean: f64, min: usize, max: usize| match min == max {
        true => plain(min),
        false => html! { (tenths(mean)) " " small { (count(min)) "–" (count(max)) } },
    };
    let cells = [
        plain(part.graphs),
        plain(part.nodes),
        plain(part.edges),
        spread(part.nodes_mean, part.nodes_min, part.nodes_max),
        spread(part.edges_mean, part.edges_min, part.edges_max),
    ];
    row(name, cells)
}

/// What is held out, and what it is scored against.
fn link_counts(report: &Report<'_>, links: &Links) -> Markup {
    let counts = |part: Part| {
        let graphs = report.task.graphs_of(part);
        let apart = graphs.iter().map(|&graph| links.pairs(part, graph)[1].len()).sum();
        [graphs.len(), links.count(part), apart].map(count)
    };
    let table = html! {
        table {
            (head(["part", "graphs", "links", "pairs without an edge"]))
            tbody { @for part in Part::ALL { (row(part.name(), counts(part))) } }
        }
    };
    html! {
        (scrolling("Links", &table))
        p class="quiet" {
            "The edges above are those that the network sees: held-out ones are not among them."
        }
    }
}

fn targets(report: &Report<'_>, parts: &[(String, PartInfo)]) -> Markup {
    let float = report.task.shape.target.kind == TargetKind::Float;
    let summaries: &[&str] =
        if float { &["mean", "deviation", "least", "greatest"] } else { &["labels of each class"] };
    let word = (!float).then_some("word");
    let columns = parts.first().map_or(0, |(_, part)| part.targets.len());
    let rows = (0..columns).flat_map(|column| parts.iter().map(move |(name, part)| (name, &part.targets[column])));
    let left = (columns * parts.len()).saturating_sub(TARGETS);
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "target" }
                    th scope="col" class="word" { "part" }
                    @for name in summaries { th scope="col" class=[word] { (name) } }
                    th scope="col" { "labels" }
                    th scope="col" { "missing" }
                }
            }
            tbody {
                @for (part, target) in rows.take(TARGETS) {
                    tr {
                        th scope="row" { (target.name) }
                        td class="word" { (part) }
                        @for value in summary(target, float) { td class=[word] { (value) } }
                        td { (count(target.count)) }
                        td { (count(target.missing)) }
                    }
                }
            }
        }
    };
    html! {
        (scrolling("Targets", &table))
        @if left > 0 { p class="quiet" { (counted(left, "row")) " more" } }
    }
}

/// The cells about one target of one part.
fn summary(target: &TargetInfo, float: bool) -> Vec<String> {
    let TargetInfo { mean, sd, min, max, classes, .. } = target;
    match float {
        true => [mean, sd, min, max].map(|value| number(*value)).to_vec(),
        false if classes.is_empty() => vec![format!("0 … {}", number(*max))],
        false => vec![class_counts(classes)],
    }
}

fn class_counts(classes: &[u64]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = classes.iter().take(SHOWN).map(|&labels| count(labels as usize)).collect();
    let more = if classes.len() > SHOWN { format!(" · … {} classes", classes.len()) } else { String::new() };
    shown.join(" · ") + &more
}
