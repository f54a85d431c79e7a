//! A section as aligned columns for a terminal.

use crate::page::{Entry, Section};

/// Title, text and the brief columns of a section.
pub(crate) fn render_section(section: &Section) -> String {
    let mut text = format!("{}\n", section.title);
    section.text.iter().for_each(|paragraph| text += &format!("{paragraph}\n"));
    let grid = &section.grid;
    let entry_text = |entry: &Entry| match entry {
        Entry::Text(text) | Entry::Name(text) | Entry::Judged(text, _) => text.clone(),
    };
    let head: Vec<String> = grid.head.iter().map(|&name| name.to_owned()).collect();
    let rows = grid.rows.iter().map(|row| row.iter().map(entry_text).collect());
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> = (0..grid.brief)
        .map(|column| lines.iter().filter_map(|line| line.get(column)).map(|t| t.chars().count()).max().unwrap_or(0))
        .collect();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(text, width)| format!("{text:width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}
