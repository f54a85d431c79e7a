//! The data of a run: sizes and labels of its splits.

use gt_data::{PartInfo, TargetInfo};
use gt_graph::TargetKind;
use maud::{Markup, html};

use super::Report;
use super::table::{head, row, scrolling};
use super::text::{count, counted, number, tenths};
use crate::links::Links;
use gt_graph::Split;

/// Rows of the table of targets.
const TARGETS: usize = 36;

pub(super) fn section(report: &Report<'_>) -> Markup {
    let splits = report.data.statistics();
    let table = html! {
        table {
            (head(["split", "graphs", "nodes", "edges", "nodes per graph", "edges per graph"]))
            tbody { @for (name, split) in &splits { (sizes(name, split)) } }
        }
    };
    html! {
        (scrolling("Sizes", &table))
        @if let Some(links) = &report.data.links { (link_counts(report, links)) } @else { (targets(report, &splits)) }
    }
}

fn sizes(name: &str, split: &PartInfo) -> Markup {
    let plain = |value: usize| html! { (count(value)) };
    let spread = |mean: f64, min: usize, max: usize| match min == max {
        true => plain(min),
        false => html! { (tenths(mean)) " " small { (count(min)) "–" (count(max)) } },
    };
    let cells = [
        plain(split.graphs),
        plain(split.nodes),
        plain(split.edges),
        spread(split.nodes_mean, split.nodes_min, split.nodes_max),
        spread(split.edges_mean, split.edges_min, split.edges_max),
    ];
    row(name, cells)
}

/// The held-out links of each part, and the pairs without an edge they are scored against.
fn link_counts(report: &Report<'_>, links: &Links) -> Markup {
    let counts = |split: Split| {
        let graphs = report.data.graphs_of(split);
        let apart = graphs.iter().map(|&graph| links.pairs(split, graph)[1].len()).sum();
        [graphs.len(), links.count(split), apart].map(count)
    };
    let table = html! {
        table {
            (head(["split", "graphs", "links", "pairs without an edge"]))
            tbody { @for split in Split::ALL { (row(split.name(), counts(split))) } }
        }
    };
    html! {
        (scrolling("Links", &table))
        p.quiet { "The edges above are those that the network sees: held-out ones are not among them." }
    }
}

fn targets(report: &Report<'_>, splits: &[(String, PartInfo)]) -> Markup {
    let float = report.data.target().kind == TargetKind::Float;
    let summaries: &[&str] =
        if float { &["mean", "deviation", "least", "greatest"] } else { &["labels of each class"] };
    let word = (!float).then_some("word");
    let columns = splits.first().map_or(0, |(_, split)| split.targets.len());
    let rows = (0..columns).flat_map(|column| splits.iter().map(move |(name, split)| (name, &split.targets[column])));
    let left = (columns * splits.len()).saturating_sub(TARGETS);
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "target" } th.word scope="col" { "split" }
                    @for name in summaries { th scope="col" class=[word] { (name) } }
                    th scope="col" { "labels" } th scope="col" { "missing" }
                }
            }
            tbody {
                @for (split, target) in rows.take(TARGETS) {
                    tr {
                        th scope="row" { (target.name) } td.word { (split) }
                        @for value in summary(target, float) { td class=[word] { (value) } }
                        td { (count(target.count)) } td { (count(target.missing)) }
                    }
                }
            }
        }
    };
    html! {
        (scrolling("Targets", &table))
        @if left > 0 { p.quiet { (counted(left, "row")) " more" } }
    }
}

/// The cells about one target of one split.
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
