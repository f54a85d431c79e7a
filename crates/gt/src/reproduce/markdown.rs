//! A page as Markdown.

use super::page::{Entry, Grid, Page};

/// A page of its own.
pub fn page(page: &Page) -> String {
    format!("# {}\n\n{}", page.title, content(page, "##"))
}

/// Text before its sections, whose titles have so many marks.
fn content(page: &Page, marks: &str) -> String {
    let mut text = page.text.join("\n\n") + "\n";
    for section in &page.sections {
        text += &format!("\n{marks} {}\n", section.title);
        section.text.iter().for_each(|paragraph| text += &format!("\n{paragraph}\n"));
        text += &format!("\n{}", grid(&section.grid));
    }
    text
}

const BEGIN: &str = "<!-- tables -->\n";
const END: &str = "<!-- /tables -->";

/// A text with the page's content between two marks, in place of what stood there; none where the marks are missing.
pub fn insert(page: &Page, text: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n{END}{after}", content(page, "###")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_replace_what_stood_between_the_marks() {
        let page = Page { title: "title", text: vec!["text".into()], sections: Vec::new() };
        let old = "before\n<!-- tables -->\nold\n<!-- /tables -->\nafter\n";
        let new = insert(&page, old).unwrap();
        assert_eq!(new, "before\n<!-- tables -->\n\ntext\n\n<!-- /tables -->\nafter\n");
        assert_eq!(insert(&page, &new).unwrap(), new);
        assert_eq!(insert(&page, "no marks"), None);
    }
}
