//! Facts about the data that explain results.

use gt_graph::{Split, TargetKind};
use gt_train::Prepared;

use crate::console;
use crate::understood::{FileFacts, describe};

/// Prints what a training should know.
pub fn print_training_notes(data: &Prepared, facts: &FileFacts, unused_targets: bool) {
    let lines = describe(&data.graphs, &data.schema, data.splits(), facts, &data.scaling, data.links.is_some());
    lines.iter().for_each(|line| console::say!("{line}"));
    if let Some(links) = &data.links {
        let [train, val, test] = Split::ALL.map(|split| links.count(split));
        let ignored = if unused_targets { "; the data's targets are not used" } else { "" };
        let kind = links.kind();
        console::say!("{kind} links: {train} to train on, {val} and {test} held out{ignored}");
    }
    let target = data.target();
    let (most, labels) = (target.classes().into_iter().max().unwrap_or(0), data.labels_in(Split::Train));
    if target.kind == TargetKind::Class && most > labels {
        console::warn(&format!(
            "there are {most} classes, but only {labels} labels to train on; to predict numbers, use --task regression"
        ));
    }
    for (name, rows) in data.mistaken_splits() {
        console::warn(&format!("{rows} {}s are in a split `{name}`, which is not used", data.split_level()));
    }
    print_replaced_encodings(data);
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
