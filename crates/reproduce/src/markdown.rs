//! A page as Markdown.

use crate::page::{Entry, Grid, Page};

/// The page as a file of its own.
pub(crate) fn render_page(page: &Page) -> String {
    format!("# {}\n\n{}", page.title, render_content(page, "##"))
}

/// Everything below the title; `marks` begin the headings of sections.
fn render_content(page: &Page, marks: &str) -> String {
    let mut text = page.text.join("\n\n") + "\n";
    for section in &page.sections {
        text += &format!("\n{marks} {}\n", section.title);
        section.text.iter().for_each(|paragraph| text += &format!("\n{paragraph}\n"));
        text += &format!("\n{}", render_grid(&section.grid));
    }
    text
}

const BEGIN: &str = "<!-- tables -->\n";
const END: &str = "<!-- /tables -->";

/// `text` with the page's content between the two marks; none where a mark is missing.
pub(crate) fn insert_page(page: &Page, text: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n{END}{after}", render_content(page, "###")))
}

fn render_grid(grid: &Grid) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_replaces_the_text_between_the_marks() {
        let page = Page { title: "title", text: vec!["text".into()], sections: Vec::new() };
        let old = "before\n<!-- tables -->\nold\n<!-- /tables -->\nafter\n";
        let new = insert_page(&page, old).unwrap();
        assert_eq!(new, "before\n<!-- tables -->\n\ntext\n\n<!-- /tables -->\nafter\n");
        assert_eq!(insert_page(&page, &new).unwrap(), new);
        assert_eq!(insert_page(&page, "no marks"), None);
    }
}
