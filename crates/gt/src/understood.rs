//! What the program understood of a data set, in plain lines of at most 80 columns.

use gt_data::{Dataset, Findings, Splits, TargetFindings};
use gt_graph::{FeatureSchema, GraphStore, Level, Schema, Split, TargetColumn, TargetKind, TargetSchema, Vocabulary};
use gt_models::Scaling;

/// Width of the lines.
const WIDTH: usize = 80;
/// Most names in a list.
const NAMES: usize = 12;

/// What is known of a file besides its graphs and schema.
#[derive(Clone, Debug, Default)]
pub struct FileFacts {
    /// Columns of the file that are not read.
    unread: Vec<String>,
    /// Whether targets were written as real numbers and read as classes.
    classes_from_numbers: bool,
    /// Rows below which a category is rare; 0 if none is.
    rare: usize,
}

impl FileFacts {
    /// The facts of a data set as it was read. `rare` is `data.rare`.
    pub fn new(dataset: &Dataset, rare: usize) -> Self {
        let schema = dataset.schema();
        let ignored = schema.node.ignored.iter().chain(&schema.edge.ignored).cloned();
        let carried = dataset.extras().iter().map(|extra| extra.name().to_owned());
        let classes_from_numbers = dataset.has_classes_from_numbers();
        Self { unread: ignored.chain(carried).collect(), classes_from_numbers, rare }
    }
}

/// The lines about graphs, of which links are predicted if `links` is true. Continuous features of
/// the graphs have been scaled by `scaling`; the lines show the numbers of the file.
pub fn describe(
    graphs: &GraphStore,
    schema: &Schema,
    splits: Option<&Splits>,
    facts: &FileFacts,
    scaling: &Scaling,
    links: bool,
) -> Vec<String> {
    let mut found = Findings::new(graphs, schema, splits);
    for (ranges, scales) in found.ranges.iter_mut().zip([&scaling.node, &scaling.edge]) {
        for ((least, most), (mean, deviation)) in ranges.iter_mut().zip(scales) {
            for end in [least, most] {
                *end = (f64::from(*end) * deviation + mean) as f32;
            }
        }
    }
    let is_used = |name: &str| Split::ALL.iter().any(|split| split.name() == name);
    if splits.is_some_and(|splits| splits.names.iter().any(|name| is_used(name))) {
        // Other parts of the file are not used.
        found.repeated.retain(|(part, other, _)| is_used(part) && is_used(other));
        found.targets.iter_mut().for_each(|target| target.lacking.retain(|(part, _)| is_used(part)));
    }
    let mut lines = Lines::default();
    match &schema.target {
        _ if links => lines.add("task: links, which nodes are joined"),
        None => lines.add("task: none, there are no targets"),
        Some(target) => describe_targets(target, &found.targets, facts, &mut lines),
    }
    for (level, columns, ranges) in
        [(Level::Node, &schema.node, &found.ranges[0]), (Level::Edge, &schema.edge, &found.ranges[1])]
    {
        describe_features(level, columns, ranges, facts.rare, &mut lines);
    }
    if !facts.unread.is_empty() {
        lines.add(&format!("columns that are not read: {}", list(&facts.unread)));
    }
    describe_oddities(graphs, schema, &found, &mut lines);
    lines.0
}

/// Lines of text.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    /// Adds a text; further lines of it are indented.
    fn add(&mut self, text: &str) {
        let indent = text.len() - text.trim_start().len() + 2;
        let mut line = " ".repeat(indent - 2);
        for word in text.split_whitespace() {
            let empty = line.trim().is_empty();
            if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.0.push(std::mem::replace(&mut line, " ".repeat(indent)));
            } else if !empty {
                line.push(' ');
            }
            line.push_str(word);
        }
        // A name may be longer than a line.
        self.0.push(line);
    }
}

/// The first names of a list, each at most 40 characters long.
fn list(names: &[String]) -> String {
    let short = |name: &String| match name.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.clone(),
    };
    let shown: Vec<String> = names.iter().take(NAMES).map(short).collect();
    let more = names.len().saturating_sub(NAMES);
    if more > 0 { format!("{}, … ({more} more)", shown.join(", ")) } else { shown.join(", ") }
}

/// A number with five significant digits.
fn short(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return number.to_string();
    }
    let magnitude = number.abs().log10().floor() as i32;
    if !(-4..9).contains(&magnitude) {
        return format!("{number:.4e}");
    }
    let text = format!("{number:.0$}", usize::try_from(4 - magnitude).unwrap_or(0));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

fn describe_targets(target: &TargetSchema, found: &[TargetFindings], facts: &FileFacts, lines: &mut Lines) {
    let level = target.level;
    let labels = target.kind == TargetKind::Class && target.columns.len() > 1;
    lines.add(&match target.kind {
        TargetKind::Float => format!("task: regression, {} per {level}", counted(target.columns.len(), "number")),
        TargetKind::Class if labels => format!("task: classification, {} labels per {level}", target.columns.len()),
        TargetKind::Class => format!("task: classification, one class per {level}"),
    });
    for (column, found) in target.columns.iter().zip(found).take(NAMES) {
        lines.add(&format!("  {}", describe_target(column, target.kind, found)));
    }
    let more = target.columns.len().saturating_sub(NAMES);
    if more > 0 {
        lines.add(&format!("  … {more} more"));
    }
    if facts.classes_from_numbers {
        lines.add("  the file has these classes as 0.0, 1.0, …; for numbers use --task regression");
    }
    for (column, found) in target.columns.iter().zip(found) {
        for (part, classes) in found.lacking.iter().take(NAMES) {
            let names: Vec<String> = classes.iter().map(|&class| column.class_name(class)).collect();
            let (what, verb) = if names.len() == 1 { ("class", "does") } else { ("classes", "do") };
            lines.add(&format!(
                "note: {}: {what} {} {verb} not occur in the split `{part}`",
                column.name,
                list(&names)
            ));
        }
    }
}

fn describe_target(column: &TargetColumn, kind: TargetKind, found: &TargetFindings) -> String {
    let missing = if found.missing > 0 { format!("; {} without a label", found.missing) } else { String::new() };
    let (least, most) = found.range.unwrap_or_default();
    match kind {
        TargetKind::Float => format!("{}: from {} to {}{missing}", column.name, short(least), short(most)),
        TargetKind::Class => {
            let counts: Vec<String> = found
                .counts
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
                .map(|(class, count)| format!("{} ({count})", column.class_name(class)))
                .collect();
            format!("{}: {} classes: {}{missing}", column.name, column.classes, list(&counts))
        }
    }
}

fn describe_features(level: Level, columns: &FeatureSchema, ranges: &[(f32, f32)], rare: usize, lines: &mut Lines) {
    if columns.layout().is_empty() {
        let every = if level == Level::Node { "; all nodes have the same input" } else { "" };
        return lines.add(&format!("features of {level}s: none{every}"));
    }
    lines.add(&format!("features of {level}s:"));
    let mut all: Vec<String> = columns.categorical.iter().map(|column| describe_vocabulary(column, rare)).collect();
    all.extend(columns.continuous.iter().zip(ranges).map(|(name, (least, most))| {
        format!("{name}: numbers, {} to {}", short(f64::from(*least)), short(f64::from(*most)))
    }));
    all.extend(columns.multi_hot.iter().map(|words| format!("{}: lists of indices below {}", words.name, words.size)));
    all.iter().take(2 * NAMES).for_each(|text| lines.add(&format!("  {text}")));
    let more = all.len().saturating_sub(2 * NAMES);
    if more > 0 {
        lines.add(&format!("  … {more} more columns"));
    }
}

fn describe_vocabulary(column: &Vocabulary, rare: usize) -> String {
    let names = (0..column.size).map(|value| column.value_name(value));
    let text = match column.names.is_empty() {
        true => format!("0 to {}", column.size.saturating_sub(1)),
        false => list(&names.collect::<Vec<_>>()),
    };
    let none_is_rare = if rare > 0 && !column.other { "; none is rare, so unknown ones are errors" } else { "" };
    format!("{}: categorical, {} values: {text}{none_is_rare}", column.name, column.size)
}

fn describe_oddities(graphs: &GraphStore, schema: &Schema, found: &Findings, lines: &mut Lines) {
    for (level, column) in &found.constant {
        lines.add(&format!("note: {column} has the same value for all {level}s, so it tells nothing"));
    }
    let constant = found.constant.iter().filter(|(level, _)| *level == Level::Node).count();
    let all = schema.node.names().count();
    if all > 0 && constant == all {
        lines.add("note: all nodes have the same features; only edges and encodings distinguish them");
    }
    for (level, column, values, rows) in &found.like_ids {
        lines.add(&format!(
            "note: {column} has {values} values for {rows} {level}s; if it is an id or a number, leave it out (--ignore {column})"
        ));
    }
    if found.one_way_graphs > 0 {
        let which =
            if graphs.len() == 1 { "the graph has".into() } else { format!("{} graphs have", found.one_way_graphs) };
        lines.add(&format!(
            "note: {which} edges in one direction only, and messages follow the direction; if edges have none, list both directions (for tables, gt data convert --undirected does)"
        ));
    }
    for (part, other, count) in &found.repeated {
        let graphs = counted(*count, "graph");
        lines.add(&format!("note: {graphs} of the split `{part}` equal graphs of `{other}`, apart from targets"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.5, -21.9071, 1e-7, 123_456.0, 3.0, 1e30, 0.000_634_1].map(short);
        assert_eq!(texts, ["0", "0.5", "-21.907", "1.0000e-7", "123456", "3", "1.0000e30", "0.0006341"]);
    }

    #[test]
    fn lines_are_short_and_long_ones_continue_indented() {
        let mut lines = Lines::default();
        lines.add(&format!("  a: {}", list(&(0..30).map(|n| format!("name{n}")).collect::<Vec<_>>())));
        assert!(lines.0.iter().all(|line| line.chars().count() <= WIDTH), "{:?}", lines.0);
        assert!(lines.0[0].starts_with("  a: name0, name1,") && lines.0[1].starts_with("    name"), "{:?}", lines.0);
        assert!(lines.0.last().unwrap().ends_with("… (18 more)"), "{:?}", lines.0);
    }
}
