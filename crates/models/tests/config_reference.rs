//! `docs/reference/configuration.md` and the code describe the same keys. `GT_BLESS=1` rewrites it.

use std::path::Path;

use graph_transformer_models::config::{self, KeyReference};

#[test]
fn the_page_of_the_keys_is_made_from_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = render_page();
    if std::env::var("GT_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&file, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap().replace("\r\n", "\n");
    let line = (1..).zip(page.lines()).find(|(number, line)| stored.lines().nth(number - 1) != Some(line));
    assert_eq!(line, None, "docs/reference/configuration.md: this line is missing; run the test with GT_BLESS=1");
    assert_eq!(stored, page, "docs/reference/configuration.md: run the test with GT_BLESS=1");
}

fn render_page() -> String {
    let head = "\
<!-- Made from the doc comments in crates/models/src/config by
     GT_BLESS=1 cargo test -p graph-transformer-models --test config_reference -->

# Configuration keys

This page lists every key of a configuration file. `gt config keys` prints the same list, and
`gt config keys --json` prints JSON for programs.

* A configuration is a TOML file with the sections below. The file lists only the keys you change.
* Write names and text in quotes: `norm = \"layer\"`.
* `--set SECTION.KEY=VALUE` changes a key on the command line: `--set model.norm=layer`.
* `gt config check FILE` reports all problems of a file at once.
* A default of (left out) follows other keys or the data, as the meaning says.

[training.md](training.md) explains how to choose values.
";
    let sections = config::reference().into_iter().map(|section| {
        let rows: String = section.keys.iter().map(render_row).collect();
        format!(
            "\n## `[{}]`\n\n{}\n\n| key | default | values | meaning |\n|---|---|---|---|\n{rows}",
            section.section,
            wrap(&section.meaning)
        )
    });
    head.to_owned() + &sections.collect::<String>()
}

fn render_row(key: &KeyReference) -> String {
    let default = key.default_text().map_or("(left out)".into(), |text| format!("`{text}`"));
    let names: Vec<String> = key.names.iter().map(|name| format!("`{name}`")).collect();
    let values = match &key.limits {
        _ if !names.is_empty() => names.join(", "),
        Some(limits) => format!("{}, {limits}", key.kind),
        None => key.kind.clone(),
    };
    let cells = [format!("`{}`", key.key), default, values, key.meaning.clone()];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// Lines of at most 100 characters.
fn wrap(text: &str) -> String {
    let mut wrapped = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        let letters = word.chars().count();
        if length > 0 {
            let fits = length + 1 + letters <= 100;
            wrapped.push(if fits { ' ' } else { '\n' });
            length = if fits { length + 1 } else { 0 };
        }
        wrapped += word;
        length += letters;
    }
    wrapped
}
