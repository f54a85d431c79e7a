//! The configuration of a run; keys that differ from the defaults are marked.

use std::collections::BTreeSet;

use gt_models::Config;
use maud::{Markup, html};

use super::table::scrolling;

pub(super) fn section(config: &Config) -> Markup {
    let text = config.to_toml();
    html! {
        p.quiet { code { "config.toml" } " of the run; " code { "gt train config.toml" } " trains the same again. "
            mark { "Marked keys" } " differ from the defaults."
        }
        (scrolling("Configuration", &html! {
            pre { code {
                @for (line, changed) in with_changes(&text) {
                    @if changed { mark { (line) } } @else { (line) } "\n"
                }
            } }
        }))
    }
}

/// The lines of a configuration, and whether each is a key that differs from its default.
fn with_changes(text: &str) -> Vec<(&str, bool)> {
    let defaults = Config::default().to_toml();
    let usual: BTreeSet<(&str, &str)> = with_sections(&defaults).collect();
    let lines = with_sections(text);
    lines.map(|(section, line)| (line, line.contains(" = ") && !usual.contains(&(section, line)))).collect()
}

/// The lines of a TOML text, each with the header of its section.
fn with_sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().scan("", |section, line| {
        if line.starts_with('[') {
            *section = line;
        }
        Some((*section, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_differ_from_the_defaults_are_marked() {
        let none = section(&Config::default()).into_string();
        assert_eq!(none.matches("<mark>").count(), 1, "{none}");
        // `optimizer.name` and `schedule.name` are keys of two sections. `model.kind` is left out
        // at its default.
        let text =
            "[data]\nfile = \"a<b = c\"\n[model]\nwidth = 16\nkind = \"gcn\"\nheads = 1\n[schedule]\nname = \"cosine\"";
        let config = Config::from_toml(text).unwrap();
        let page = section(&config).into_string();
        for line in
            ["file = &quot;a&lt;b = c&quot;", "width = 16", "kind = &quot;gcn&quot;", "name = &quot;cosine&quot;"]
        {
            assert!(page.contains(&format!("<mark>{line}</mark>")), "{line} in {page}");
        }
        assert_eq!(page.matches("<mark>").count(), 6, "{page}");
        // The text of the page is the file.
        let code = page.split("<pre><code>").nth(1).unwrap().split("</code>").next().unwrap();
        let plain = code.replace("<mark>", "").replace("</mark>", "").replace("&quot;", "\"").replace("&lt;", "<");
        assert_eq!(plain, config.to_toml());
    }
}
