//! Classes in tables: their names, or their numbers.

use gt_data::Records;
use gt_graph::TargetColumn;

/// Adds a column of classes, by name if the classes of the target have names.
pub(crate) fn add_classes(
    records: &mut Records,
    name: &str,
    target: &TargetColumn,
    classes: impl Iterator<Item = Option<usize>>,
) {
    if target.names.is_empty() {
        return records.integers(name, classes);
    }
    let classes: Vec<Option<String>> = classes.map(|class| Some(target.class_name(class?))).collect();
    records.texts(name, classes.iter().map(Option::as_deref));
}

/// The name of the column with the probability of a class: `y_p1`, or `y_p_toxic` for a class with
/// a name.
pub(crate) fn probability_name(name: &str, target: &TargetColumn, class: usize) -> String {
    let separator = if class < target.names.len() { "_" } else { "" };
    format!("{name}_p{separator}{}", target.class_name(class))
}
