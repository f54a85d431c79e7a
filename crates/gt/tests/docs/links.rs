//! Links between pages.

use crate::page::{Page, book_pages, root};

#[test]
fn the_book_lists_every_page_once() {
    let mut listed: Vec<String> =
        Page::read("docs/SUMMARY.md").links().into_iter().map(|(_, to)| format!("docs/{to}")).collect();
    listed.sort();
    assert_eq!(listed, book_pages(), "docs/SUMMARY.md (left) and the files of docs/ (right) differ");
}

#[test]
fn every_link_and_anchor_exists() {
    let mut broken = Vec::new();
    let mut seen = 0;
    for page in Page::all() {
        for (line, link) in page.links() {
            if link.starts_with("http:") || link.starts_with("https:") {
                continue;
            }
            seen += 1;
            if let Some(problem) = problem(&page, &link) {
                broken.push(format!("{}, line {line}: {link}: {problem}", page.name));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(seen > 50, "only {seen} links were found");
}

/// What is wrong with a link within the repository.
fn problem(page: &Page, link: &str) -> Option<&'static str> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = root().join(&page.name).parent().unwrap().to_owned();
    let path = if file.is_empty() { root().join(&page.name) } else { folder.join(file) };
    let Ok(path) = path.canonicalize() else { return Some("there is no such file") };
    let Ok(name) = path.strip_prefix(root()) else { return Some("the file is outside of the repository") };
    if anchor.is_empty() {
        return None;
    }
    let anchors = Page::read(name.to_str().unwrap()).anchors();
    (!anchors.iter().any(|found| found == anchor)).then_some("the page has no such heading")
}
