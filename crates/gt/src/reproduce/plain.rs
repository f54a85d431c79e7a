//! A section for a terminal: the columns there is room for, lined up.

use super::page::{Entry, Section};

pub fn section(section: &Section) -> String {
    let mut text = format!("{}\n", section.title);
    section.text.iter().for_each(|paragraph| text += &format!("{paragraph}\n"));
    let grid = &section.grid;
    let shown = |entry: &Entry| match entry {
        Entry::Text(text) | Entry::Name(text) | Entry::Judged(text, _) => text.clone(),
    };
    let head: Vec<String> = grid.head.iter().map(|&name| name.to_owned()).collect();
    let lines: Vec<Vec<String>> =
        std::iter::once(head).chain(grid.rows.iter().map(|row| row.iter().map(shown).collect())).collect();
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
