//! Pages, and the parts of Markdown that the tests need.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A page of Markdown.
pub struct Page {
    /// Path from the root of the repository, with `/`.
    pub name: String,
    lines: Vec<String>,
}

/// A block of code.
pub struct Block {
    /// The text after the opening fence, such as `sh`.
    pub info: String,
    /// Number of the first line of code, from 1.
    pub line: usize,
    /// The code.
    pub text: String,
}

impl Page {
    /// The page of a path from the root.
    pub fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.to_owned(), lines: text.lines().map(str::to_owned).collect() }
    }

    /// README, CONTRIBUTING, SECURITY and all pages of the book.
    pub fn all() -> Vec<Self> {
        let mut names = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).to_vec();
        names.extend(book_pages());
        names.iter().map(|name| Self::read(name)).collect()
    }

    /// Blocks of code, in their order.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        for (number, line) in (1..).zip(&self.lines) {
            match (open, line.trim_start().strip_prefix("```")) {
                (false, Some(info)) => {
                    blocks.push(Block { info: info.trim().to_owned(), line: number + 1, text: String::new() });
                    open = true;
                }
                (true, Some(_)) => open = false,
                (true, None) => blocks.last_mut().unwrap().text += &format!("{line}\n"),
                (false, None) => {}
            }
        }
        assert!(!open, "{}: a block of code is not closed", self.name);
        blocks
    }

    /// Lines of text with their numbers from 1, without blocks of code.
    pub fn text(&self) -> Vec<(usize, &str)> {
        let mut open = false;
        let mut text = Vec::new();
        for (number, line) in (1..).zip(&self.lines) {
            if line.trim_start().starts_with("```") {
                open = !open;
            } else if !open {
                text.push((number, line.as_str()));
            }
        }
        text
    }

    /// Names of the headings, as links write them.
    pub fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for (_, line) in self.text().into_iter().filter(|(_, line)| line.starts_with('#')) {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
            let name: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
            let copies = anchors.iter().filter(|anchor| **anchor == name).count();
            anchors.push(if copies == 0 { name } else { format!("{name}-{copies}") });
        }
        anchors
    }

    /// Targets of links and pictures, with the numbers of their lines.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (number, line) in self.text() {
            // Code within a line may contain brackets.
            let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            for rest in text.split("](").skip(1) {
                links.push((number, rest.split(')').next().unwrap_or_default().to_owned()));
            }
        }
        links
    }
}

/// Pages in `docs/`, sorted, without the list of contents.
pub fn book_pages() -> Vec<String> {
    let mut pages = Vec::new();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    pages.retain(|page| page != "docs/SUMMARY.md");
    pages.sort();
    pages
}
