//! `gt config keys`

use anyhow::Result;
use clap::Args;
use gt_models::config::{self, KeyReference};

use crate::console;

/// Lines of text have at most so many characters.
const WIDTH: usize = 100;

#[derive(Args)]
pub struct Arguments {
    /// Print the sections and their keys as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let sections = config::reference();
        if self.json {
            return console::print_json(&sections);
        }
        let texts = sections.iter().map(|section| {
            let title = wrap(&format!("[{}] {}", section.section, section.meaning), WIDTH).join("\n");
            format!("{title}\n\n{}", describe_keys(&section.keys))
        });
        console::print(&texts.collect::<Vec<_>>().join("\n"))
    }
}

/// Key and default of each key, with values and meaning in the third column.
fn describe_keys(keys: &[KeyReference]) -> String {
    let head = ["key".to_owned(), "default".to_owned(), "values, meaning".to_owned()];
    let rows: Vec<[String; 2]> =
        keys.iter().map(|key| [key.key.clone(), key.default_text().unwrap_or("(left out)".into())]).collect();
    let width = |column: usize| {
        rows.iter().chain([&[head[0].clone(), head[1].clone()]]).map(|row| row[column].chars().count()).max()
    };
    let [keys_width, defaults_width] = [width(0).unwrap_or(0), width(1).unwrap_or(0)];
    let line = |key: &str, default: &str, text: &str| {
        format!("  {key:keys_width$}  {default:defaults_width$}  {text}").trim_end().to_owned() + "\n"
    };
    let rest = WIDTH - (keys_width + defaults_width + 6);
    let mut text = line(&head[0], &head[1], &head[2]);
    for ([name, default], key) in rows.iter().zip(keys) {
        let lines = [wrap(&describe_values(key), rest), wrap(&key.meaning, rest)].concat();
        for (index, words) in lines.iter().enumerate() {
            text += &if index == 0 { line(name, default, words) } else { line("", "", words) };
        }
    }
    text
}

/// The names of a key, or its type and limits.
fn describe_values(key: &KeyReference) -> String {
    match (key.names.split_last(), &key.limits) {
        (Some((last, others)), _) => format!("{} or {last}", others.join(", ")),
        (None, Some(limits)) => format!("{}, {limits}", key.kind),
        (None, None) => key.kind.clone(),
    }
}

/// A text in lines of at most `width` characters, divided at blanks.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_blanks() {
        assert_eq!(wrap("one two  three fortytwo", 8), ["one two", "three", "fortytwo"]);
        assert_eq!(wrap("", 8), [""; 0]);
    }
}
