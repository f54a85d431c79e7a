//! Description of a data set for people, as `gt data info` prints it.

use std::fmt::Write;

use gt_data::{Info, PartInfo, TargetInfo};
use gt_graph::{FeatureSchema, TargetColumn};

/// The description as lines of text.
pub fn describe_dataset(info: &Info) -> String {
    let mut text = String::new();
    let mut line = |content: String| writeln!(text, "{content}").expect("writing to a string");
    line(format!(
        "{:10} {:>9} {:>10} {:>11} {:>16} {:>18} {:>16}",
        "part", "graphs", "nodes", "edges", "nodes/graph", "edges/graph", "in-degree"
    ));
    for (name, part) in &info.splits {
        line(sizes(name, part));
    }
    for (name, part) in &info.splits {
        let histogram = &part.nodes_histogram;
        line(format!("{name:10} nodes per graph {:>5} {} {}", histogram.min, histogram.sparkline(), histogram.max));
    }
    line(format!("node features: {}", features(&info.node_features)));
    line(format!("edge features: {}", features(&info.edge_features)));
    for (what, schema, counts) in
        [("node", &info.node_features, &info.node_categories), ("edge", &info.edge_features, &info.edge_categories)]
    {
        for (vocabulary, counts) in schema.categorical.iter().zip(counts) {
            let text = if counts.is_empty() {
                "too many to count; ids?".into()
            } else {
                occurrences(counts, |value| vocabulary.value_name(value))
            };
            line(format!("  {what} `{}`: {text}", vocabulary.name));
        }
    }
    match &info.target {
        None => line("targets: none".into()),
        Some(target) => {
            line(format!("targets: {} {} per {}", target.columns.len(), target.kind.name(), target.level));
            for (name, part) in &info.splits {
                for (column, found) in target.columns.iter().zip(&part.targets) {
                    line(format!("  {name:8} {}", describe_target(column, found)));
                }
            }
        }
    }
    let total = |count: fn(&PartInfo) -> usize| match info.split_level {
        Some(gt_graph::Level::Node | gt_graph::Level::Edge) => info.splits.first().map_or(0, |(_, part)| count(part)),
        _ => info.splits.iter().map(|(_, part)| count(part)).sum(),
    };
    line(format!(
        "oddities: {} isolated nodes, {} self loops, {} repeated edges, {} graphs with one-way edges",
        total(|p| p.isolated_nodes),
        total(|p| p.self_loops),
        total(|p| p.multi_edges),
        total(|p| p.directed_graphs)
    ));
    if !info.encodings.is_empty() {
        let list: Vec<String> = info.encodings.iter().map(|(name, width)| format!("{name} ({width})")).collect();
        line(format!("encodings: {}", list.join(", ")));
    }
    if !info.extras.is_empty() {
        line(format!("carried along: {}", info.extras.join(", ")));
    }
    line(format!("memory: {:.1} MB; content sha256 {}", info.memory_bytes as f64 / 1e6, &info.content_sha256[..16]));
    text
}

fn sizes(name: &str, part: &PartInfo) -> String {
    let spread = |mean: f64, min: usize, max: usize| format!("{mean:.1} ({min}–{max})");
    format!(
        "{name:10} {:>9} {:>10} {:>11} {:>16} {:>18} {:>16}",
        part.graphs,
        part.nodes,
        part.edges,
        spread(part.nodes_mean, part.nodes_min, part.nodes_max),
        spread(part.edges_mean, part.edges_min, part.edges_max),
        spread(part.degree_mean, part.degree_min, part.degree_max),
    )
}

fn features(schema: &FeatureSchema) -> String {
    let categorical = schema.categorical.iter().map(|v| format!("`{}` categorical, {} values", v.name, v.size));
    let continuous = schema.continuous.iter().map(|name| format!("`{name}` continuous"));
    let multi_hot = schema.multi_hot.iter().map(|v| format!("`{}` multi-hot, {} indices", v.name, v.size));
    let list: Vec<String> = categorical.chain(continuous).chain(multi_hot).collect();
    if list.is_empty() { "none".into() } else { list.join("; ") }
}

/// The most frequent categories, by name, and how many do not occur.
fn occurrences(counts: &[u64], name: impl Fn(usize) -> String) -> String {
    let mut order: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] > 0).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(counts[i]), i));
    let shown: Vec<String> = order.iter().take(8).map(|&i| format!("{}: {}", name(i), counts[i])).collect();
    let rest = if order.len() > 8 { format!(", … {} more", order.len() - 8) } else { String::new() };
    let unused = counts.len() - order.len();
    let unused = if unused > 0 { format!("; {unused} of {} do not occur", counts.len()) } else { String::new() };
    format!("{}{rest}{unused}", shown.join(", "))
}

fn describe_target(column: &TargetColumn, target: &TargetInfo) -> String {
    let missing = if target.missing > 0 { format!(", {} missing", target.missing) } else { String::new() };
    if target.classes.is_empty() {
        let TargetInfo { name, mean, sd, min, max, histogram, .. } = target;
        return format!("`{name}` mean {mean:.4}, sd {sd:.4}{missing}  {min:.3} {} {max:.3}", histogram.sparkline());
    }
    // Few numbered classes that all occur are plain by their order alone.
    let plain = column.names.is_empty() && target.classes.len() <= 12 && !target.classes.contains(&0);
    let counts = match plain {
        true => target.classes.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        false => occurrences(&target.classes, |class| column.class_name(class)),
    };
    format!("`{}` {} classes: {counts}{missing}", target.name, target.classes.len())
}
