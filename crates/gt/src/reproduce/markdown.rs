//! A page as Markdown.

use super::page::{Entry, Grid, Page};

pub fn page(page: &Page) -> String {
    let mut text = format!("# {}\n", page.title);
    page.text.iter().for_each(|paragraph| text += &format!("\n{paragraph}\n"));
    for section in &page.sections {
        text += &format!("\n## {}\n", section.title);
        section.text.iter().for_each(|paragraph| text += &format!("\n{paragraph}\n"));
        text += &format!("\n{}", grid(&section.grid));
    }
    text
}

fn grid(grid: &Grid) -> String {
    if grid.rows.is_empty() {
        return "Nothing yet.\n".into();
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let entry = |entry: &Entry| match entry {
        Entry::Text(text) => text.replace('|', "\\|"),
        Entry::Name(name) => format!("`{name}`"),
        Entry::Judged(text, Some(_)) => format!("**{text}**"),
        Entry::Judged(text, None) => text.clone(),
    };
    let head = line(grid.head.iter().map(|&name| name.to_owned()).collect());
    let rule = format!("|{}\n", "---|".repeat(grid.head.len()));
    let rows: String = grid.rows.iter().map(|row| line(row.iter().map(entry).collect())).collect();
    head + &rule + &rows
}
