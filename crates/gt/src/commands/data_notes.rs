//! Facts about the data that explain results.

use gt_graph::{Split, TargetKind};
use gt_train::Prepared;

use crate::console;
use crate::understood::{FileFacts, describe};

/// Facts about the data of a training, as lines of text.
pub fn training_notes(data: &Prepared, facts: &FileFacts, unused_targets: bool) -> Vec<String> {
    let mut notes = describe(&data.graphs, &data.schema, data.splits(), facts, &data.scaling, data.links.is_some());
    if let Some(links) = &data.links {
        let [train, val, test] = Split::ALL.map(|split| links.count(split));
        let ignored = if unused_targets { "; the data's targets are not used" } else { "" };
        let kind = links.kind();
        notes.push(format!("{kind} links: {train} to train on, {val} and {test} held out{ignored}"));
        return notes;
    }
    let target = data.target();
    let (most, labels) = (target.classes().into_iter().max().unwrap_or(0), data.labels_in(Split::Train));
    if target.kind == TargetKind::Class && most > labels {
        notes.push(console::warning(&format!(
            "there are {most} classes, but only {labels} labels to train on; to predict numbers, use --task regression"
        )));
    }
    for (column, only) in target.columns.iter().zip(data.only_labels()) {
        let Some((value, rows)) = only else { continue };
        let name = &column.name;
        let what = match target.kind {
            TargetKind::Class => format!("the class {}", column.class_name(value as usize)),
            TargetKind::Float => format!("the value {value}"),
        };
        notes.push(console::warning(&format!(
            "{name}: all {rows} labels to train on are {what}, so the model learns nothing but {what}; \
             check the labels and the split, or predict another column with --target"
        )));
    }
    for (name, rows) in data.mistaken_splits() {
        let level = data.split_level();
        notes.push(console::warning(&format!("{rows} {level}s are in a split `{name}`, which is not used")));
    }
    notes
}

/// Joins the notes of several runs, each with its number. A note that not all runs have begins
/// with the numbers of its runs.
pub fn join_notes(runs: &[(usize, Vec<String>)], noun: &str) -> Vec<String> {
    let mut joined: Vec<(&str, Vec<usize>)> = Vec::new();
    for (run, notes) in runs {
        // New notes follow the last note that is known.
        let mut next = 0;
        for note in notes {
            match joined.iter().position(|(known, _)| known == note) {
                Some(at) => {
                    joined[at].1.push(*run);
                    next = at + 1;
                }
                None => {
                    joined.insert(next, (note, vec![*run]));
                    next += 1;
                }
            }
        }
    }
    let line = |(note, own): (&str, Vec<usize>)| {
        if own.len() == runs.len() {
            return note.to_owned();
        }
        let numbers: Vec<String> = own.iter().map(usize::to_string).collect();
        format!("{noun}{} {}: {}", if own.len() == 1 { "" } else { "s" }, numbers.join(", "), note.trim_start())
    };
    joined.into_iter().map(line).collect()
}

/// Prints which encodings of the data are not used as they are.
pub fn print_replaced_encodings(data: &Prepared) {
    if data.links.as_ref().is_some_and(|links| links.drops_encodings()) {
        console::say!(
            "the encodings in the file are not used: they know the held-out links; new ones are computed without these"
        );
    }
    print_roles_beyond(data.roles_beyond(), data.network.node.roles.unwrap_or(0));
}

/// Prints how many nodes have a role that the model does not know.
pub fn print_roles_beyond(beyond: usize, size: usize) {
    if beyond > 0 {
        console::warn(&format!(
            "{beyond} nodes have a Weisfeiler–Lehman role beyond the {size} that the model knows; they share the last one"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_some_runs_name_them() {
        let notes = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let runs = [
            (1, notes(&["task", "note: a", "end"])),
            (2, notes(&["task", "  b", "end"])),
            (3, notes(&["task", "  b", "end"])),
        ];
        assert_eq!(join_notes(&runs, "fold"), ["task", "folds 2, 3: b", "fold 1: note: a", "end"]);
        assert_eq!(join_notes(&runs[..1], "fold"), ["task", "note: a", "end"]);
    }
}
