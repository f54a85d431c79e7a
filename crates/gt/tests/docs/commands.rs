//! Every `sh` block of a page runs, line by line, in a folder with small files of the names that
//! the page uses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::page::{Block, Page};
use crate::samples;

/// Blocks that need a download, a compiler, a GPU or hours, by page.
const NOT_RUN: [(&str, usize); 10] = [
    ("CONTRIBUTING.md", 4),
    ("README.md", 2),
    ("docs/explanation/benchmarks.md", 1),
    ("docs/explanation/cuda.md", 2),
    ("docs/explanation/reproduction.md", 1),
    ("docs/reference/commands.md", 4),
    ("docs/reference/model-file.md", 1),
    ("docs/reference/outputs.md", 1),
    ("docs/reference/training.md", 1),
    ("docs/reference/using-a-model.md", 1),
];

#[test]
fn every_command_of_a_page_runs() {
    let samples = samples::Samples::new();
    let pages = Page::all();
    // Two pages at a time: commands of a page depend on each other.
    let (left, right) = pages.split_at(pages.len() / 2);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let samples = &samples;
        [left, right]
            .map(|half| {
                scope.spawn(move || half.iter().filter_map(|page| run_page(page, samples).err()).collect::<Vec<_>>())
            })
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn blocks_that_do_not_run_are_few_and_known() {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for page in Page::all() {
        for block in page.blocks() {
            match block.info.as_str() {
                "sh,no_run" => *found.entry(page.name.clone()).or_default() += 1,
                "bash" | "shell" | "console" | "" => {
                    panic!("{}, line {}: a block is `sh`, `sh,no_run` or `text`", page.name, block.line)
                }
                _ => {}
            }
        }
    }
    let known: BTreeMap<String, usize> = NOT_RUN.map(|(page, count)| (page.to_owned(), count)).into();
    assert_eq!(found, known);
}

/// Runs the commands of a page in their order.
fn run_page(page: &Page, samples: &samples::Samples) -> Result<(), String> {
    let blocks: Vec<Block> = page.blocks().into_iter().filter(|block| block.info == "sh").collect();
    if blocks.is_empty() {
        return Ok(());
    }
    let place = samples.copy();
    for block in blocks {
        for (offset, command) in commands(&block.text) {
            let at = format!("{}, line {}: {command}", page.name, block.line + offset);
            if !command.starts_with("gt ") {
                return Err(format!("{at}\nis no command of gt; such a block is `sh,no_run`"));
            }
            let short = shortened(&command);
            make_room(place.path(), &short);
            let output = shell(place.path(), &short);
            if !output.status.success() {
                return Err(format!("{at}\n({short})\n{}", String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    Ok(())
}

/// Commands of a block with their lines, without comments; a backslash joins lines.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    let mut joined = false;
    for (number, line) in text.lines().enumerate() {
        let code = line.split(" #").next().unwrap_or_default().trim();
        if code.is_empty() || code.starts_with('#') {
            continue;
        }
        let (code, more) = code.strip_suffix('\\').map_or((code, false), |code| (code.trim(), true));
        match commands.last_mut() {
            Some((_, command)) if joined => *command += &format!(" {code}"),
            _ => commands.push((number, code.to_owned())),
        }
        joined = more;
    }
    commands
}

/// A command that does the same in less time: trainings have one epoch, sets are small.
fn shortened(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut short = words.clone();
    let insert: &[&str] = match words[1..] {
        ["train", ..] if !words.contains(&"--resume") => {
            // The last value of a key would win.
            let epochs = short.iter().position(|word| word.starts_with("train.epochs="));
            if let Some(at) = epochs {
                short.drain(at - 1..=at);
            }
            &["--set", "train.epochs=1"]
        }
        ["data", "sbm", ..] if !words.contains(&"--train") => &["--train", "8", "--val", "2", "--test", "2"],
        ["bench", ..] => &["--steps", "1"],
        _ => &[],
    };
    // A redirection stays at the end.
    let end = short.iter().position(|word| *word == ">").unwrap_or(short.len());
    short.splice(end..end, insert.iter().copied());
    short.join(" ")
}

/// A page may train into a directory that the samples have.
fn make_room(place: &Path, command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let out = words.iter().position(|word| *word == "--out").map(|at| words[at + 1]);
    if let Some(run) = out.filter(|_| words[1] == "train" && !words.contains(&"--resume")) {
        let _ = std::fs::remove_dir_all(place.join(run));
    }
}

/// Runs a line with `gt` on the path and a cache of the folder's own.
pub fn shell(place: &Path, line: &str) -> std::process::Output {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_gt")).parent().unwrap().to_owned();
    let path = std::env::join_paths(
        std::iter::once(folder).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(place).env("PATH", path.unwrap()).env("GT_CACHE", place.join("cache"));
    command.output().unwrap()
}
