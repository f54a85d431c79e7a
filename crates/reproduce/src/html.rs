//! A page as one self-contained HTML file, in the style of the training reports.

use gt_train::{Machine, document, escape};

use crate::page::{Entry, Grid, Page};

/// The page as a file that loads nothing.
pub(crate) fn render_page(page: &Page) -> String {
    let paragraphs = |text: &[String]| -> String {
        text.iter().map(|paragraph| format!("<p>{}</p>\n", escape(paragraph))).collect()
    };
    let mut body = format!(
        "<header>\n<p class=\"eyebrow\">Reproduction</p>\n<h1>{}</h1>\n</header>\n<main>\n\
         <section aria-label=\"Summary\">\n{}</section>\n",
        escape(page.title),
        paragraphs(&page.text)
    );
    for section in &page.sections {
        let (name, title) = (escape(&section.name), escape(&section.title));
        body += &format!(
            "<section aria-labelledby=\"{name}\">\n<h2 id=\"{name}\">{title}</h2>\n{}\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">{}</div>\n</section>\n",
            paragraphs(&section.text),
            render_grid(&section.grid)
        );
    }
    body += &format!("</main>\n<footer>Written by gt {}.</footer>\n", escape(&Machine::here().version));
    document(page.title, &body)
}

fn render_grid(grid: &Grid) -> String {
    if grid.rows.is_empty() {
        return "<p>Nothing yet.</p>".into();
    }
    let entry = |(column, entry): (usize, &Entry)| {
        let text = match entry {
            Entry::Text(text) => escape(text),
            Entry::Name(name) => format!("<code>{}</code>", escape(name)),
            Entry::Judged(text, Some(true)) => format!("<strong class=\"good\">{}</strong>", escape(text)),
            Entry::Judged(text, Some(false)) => format!("<strong class=\"bad\">{}</strong>", escape(text)),
            Entry::Judged(text, None) => escape(text),
        };
        if column == 0 { format!("<th scope=\"row\">{text}</th>") } else { format!("<td>{text}</td>") }
    };
    let head: String = grid.head.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape(name))).collect();
    let row = |row: &Vec<Entry>| format!("<tr>{}</tr>\n", row.iter().enumerate().map(entry).collect::<String>());
    let rows: String = grid.rows.iter().map(row).collect();
    format!("<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>")
}
