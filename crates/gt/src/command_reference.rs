//! `docs/reference/commands.md` and the code describe the same commands. `GT_BLESS=1` rewrites the
//! page.

use std::path::Path;

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory};

/// Commands whose examples need a download, a GPU or hours.
const NOT_RUN: [&str; 4] = ["gt data fetch", "gt reproduce", "gt import", "gt check"];

const HEAD: &str = "\
<!-- Made from the program's help by
     GT_BLESS=1 cargo test -p graph-transformer --bin gt command_reference -->

# Commands

This page lists every command of `gt` with its arguments and options. `gt COMMAND --help` prints
the same text.

* Every command takes `--help`, and `--threads N`: the number of threads (default: physical cores).
  Results do not depend on the number of threads.
* `--json` prints output for programs, where a command has this option.
* `GT_CACHE` names the folder of the cache. `GT_SIMD=avx512`, `avx2` or `portable` chooses the CPU's
  kernels.
* `GT_MAX_DECODED=8G` raises the memory that the contents of a data file may take. The default is
  256 MB, or 64 times the size of the file ([limits](file-formats.md#limits)).

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a check failed |
| 2 | bad usage, bad input, too little memory or too few threads, or a file that cannot be written |
| 101 | an error in the program: one line that begins with `internal error`; please report that line |
| 130 | interrupted; `gt train` and `gt reproduce` resume where they stopped, other commands leave no half-written file |
| 134 (SIGABRT) | an allocation failed; the last line is `memory allocation of N bytes failed` or `memory allocation failed`; no half-written file has its final name |

";

#[test]
fn the_page_of_the_commands_is_made_from_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
    let page = render_page();
    if std::env::var("GT_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&file, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap().replace("\r\n", "\n");
    let line = (1..).zip(page.lines()).find(|(number, line)| stored.lines().nth(number - 1) != Some(line));
    assert_eq!(line, None, "docs/reference/commands.md: this line is missing; run the test with GT_BLESS=1");
    assert_eq!(stored, page, "docs/reference/commands.md: run the test with GT_BLESS=1");
}

fn render_page() -> String {
    let mut program = crate::Arguments::command();
    program.build();
    let mut commands = Vec::new();
    list_commands(&program, "gt", &mut commands);
    let link = |(name, command): &(String, &Command)| {
        let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
        format!("| [`{name}`](#{}) | {} |\n", name.replace(' ', "-"), cell(&about))
    };
    let links: String = commands.iter().map(link).collect();
    let sections: String = commands.iter().map(|(name, command)| render_command(name, command)).collect();
    format!("{HEAD}| command | does |\n|---|---|\n{links}{sections}")
}

/// Commands that do something, in the order of the help.
fn list_commands<'a>(command: &'a Command, name: &str, all: &mut Vec<(String, &'a Command)>) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let name = format!("{name} {}", below.get_name());
        if below.has_subcommands() {
            list_commands(below, &name, all);
        } else {
            all.push((name, below));
        }
    }
}

fn render_command(name: &str, command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = command.get_long_about().or(command.get_about()).map(StyledStr::to_string).unwrap_or_default();
    let about: String = about.split("\n\n").map(|text| format!("{}\n\n", wrap(&ended(&prose(text))))).collect();
    let mut section = format!("\n## {name}\n\n{about}```text\n{usage}\n```\n");
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| is_shown(arg)).collect();
    let mut headings: Vec<Option<&str>> = shown.iter().map(|arg| arg.get_help_heading()).collect();
    headings.dedup();
    for heading in headings {
        let rows = shown.iter().filter(|arg| arg.get_help_heading() == heading).map(|arg| render_argument(arg));
        let title = heading.unwrap_or(if shown[0].is_positional() { "argument or option" } else { "option" });
        section += &format!("\n| {} | default | meaning |\n|---|---|---|\n{}", cell(title), rows.collect::<String>());
    }
    let after = command.get_after_help().map(StyledStr::to_string).unwrap_or_default();
    let (text, examples) = after.split_once("Examples:\n").unwrap_or((&after, ""));
    for paragraph in text.split("\n\n").map(str::trim).filter(|text| !text.is_empty()) {
        section += &format!("\n{}\n", wrap(&prose(paragraph)));
    }
    if !examples.is_empty() {
        let kind = if NOT_RUN.contains(&name) { "sh,no_run" } else { "sh" };
        let lines: String = examples.lines().map(|line| example(line.trim())).collect();
        section += &format!("\n```{kind}\n{lines}```\n");
    }
    section
}

/// The option of every command is described once, at the top of the page.
fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !["help", "threads"].contains(&argument.get_id().as_str())
}

fn render_argument(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let help = argument.get_long_help().or(argument.get_help()).map(StyledStr::to_string).unwrap_or_default();
    // Defaults that follow other things are a part of the text.
    let (help, described) =
        match help.rsplit_once("[default: ").and_then(|(text, rest)| Some((text, rest.strip_suffix(']')?))) {
            Some((text, default)) => (text.trim().to_owned(), default.to_owned()),
            None => (help, String::new()),
        };
    let defaults = argument.get_default_values().iter().filter(|_| takes_value);
    let defaults: Vec<String> = defaults.map(|value| format!("`{}`", value.to_string_lossy())).collect();
    let default = if defaults.is_empty() { described } else { defaults.join(", ") };
    let mut meaning = help.replace('\n', " ");
    if let Some(variable) = argument.get_env() {
        meaning += &format!("; `{}` sets it, too", variable.to_string_lossy());
    }
    let values = argument.get_possible_values();
    if takes_value && !values.is_empty() {
        let list: Vec<String> = values
            .iter()
            .map(|value| match value.get_help() {
                Some(text) => format!("`{}` ({text})", value.get_name()),
                None => format!("`{}`", value.get_name()),
            })
            .collect();
        meaning += &format!(": {}", list.join(", "));
    }
    format!("| `{}` | {} | {} |\n", argument.to_string().replace('|', "\\|"), cell(&default), cell(&meaning))
}

/// An example with its remark as a comment of the shell; a long one is broken before an option.
fn example(line: &str) -> String {
    let line = match line.split_once("   (") {
        Some((command, remark)) => format!("{command}   # {}", remark.trim_end_matches(')')),
        None => line.to_owned(),
    };
    let cut = line.get(..90).filter(|_| line.len() > 100).and_then(|start| start.rfind(" --"));
    match cut {
        Some(at) => format!("{} \\\n   {}\n", &line[..at], &line[at..]),
        None => format!("{line}\n"),
    }
}

fn cell(text: &str) -> String {
    prose(text).replace('|', "\\|")
}

/// Text of the help as Markdown: nothing outside of code is a tag.
fn prose(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    let pieces = pieces.map(|(at, piece)| if at % 2 == 0 { piece.replace('<', "&lt;") } else { piece.to_owned() });
    pieces.collect::<Vec<_>>().join("`")
}

fn ended(text: &str) -> String {
    if text.ends_with(['.', '?', ':']) { text.to_owned() } else { format!("{text}.") }
}

/// Lines of at most 100 characters.
fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().unwrap();
        if line.is_empty() {
            *line = word.to_owned();
        } else if line.chars().count() + 1 + word.chars().count() <= 100 {
            *line += " ";
            *line += word;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}
