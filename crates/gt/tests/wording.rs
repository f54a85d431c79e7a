//! Help pages and error messages, compared word for word with `golden/`. `GT_BLESS=1` rewrites the
//! files.

#![cfg(unix)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use support::Place;

/// Files by name.
type Files = BTreeMap<String, String>;

#[test]
fn help_and_errors_read_as_in_the_golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut printed = help_pages();
    printed.insert("errors.txt".into(), errors());
    if std::env::var("GT_BLESS").is_ok_and(|value| value == "1") {
        write(&folder, &printed);
    }
    let golden = read(&folder);
    let names: BTreeSet<&String> = printed.keys().chain(golden.keys()).collect();
    let differences: Vec<String> =
        names.into_iter().filter_map(|name| difference(name, golden.get(name), printed.get(name))).collect();
    assert!(
        differences.is_empty(),
        "crates/gt/tests/golden/ differs from what `gt` prints:\n{}\nIf `gt` is right, run the test with GT_BLESS=1.",
        differences.join("\n")
    );
}

/// Runs `gt` with the same width of lines and the same environment on every machine.
fn gt(place: &Place, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command.args(line.split_whitespace()).current_dir(place.path(""));
    command.env("COLUMNS", "100").env_remove("GT_CACHE").env_remove("GT_SIMD").output().unwrap()
}

/// A file for `gt` and one for each of its commands, with the pages of the command's own commands.
fn help_pages() -> Files {
    let (first, commands) = help_page("gt");
    let pages = commands.iter().map(|name| (format!("{name}.txt"), help_tree(&format!("gt {name}"))));
    pages.chain([("gt.txt".to_owned(), first)]).collect()
}

fn help_tree(command: &str) -> String {
    let (page, commands) = help_page(command);
    let below = commands.iter().map(|name| help_tree(&format!("{command} {name}")));
    [page].into_iter().chain(below).collect::<Vec<_>>().join("\n")
}

/// The help page of a command and the names of the commands below it.
fn help_page(command: &str) -> (String, Vec<String>) {
    let (_, arguments) = command.split_at("gt".len());
    let output = gt(&Place::new(), &format!("{arguments} --help"));
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]), "{command} --help");
    let page = String::from_utf8(output.stdout).unwrap();
    let list = page.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Descriptions continue on lines that are indented further.
    let names = list.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|rest| rest.split_whitespace().next()).filter(|name| *name != "help");
    let names = names.map(str::to_owned).collect();
    (format!("$ {command} --help\n{page}"), names)
}

/// One error of each kind that users meet.
fn errors() -> String {
    let place = Place::new();
    place.write("good.jsonl", "{\"num_nodes\": 2, \"edge_index\": [[0], [1]], \"y\": [0.5]}\n");
    place.write("bad.jsonl", "{\"num_nodes\": 2, \"edge_index\": [[0], [5]]}\n");
    place.write("cut.jsonl", "{\"num_nodes\": 2, \"edge_in");
    place.write("short.parquet", "PAR1");
    place.write("graphs.xyz", "2\n");
    place.write("bad.toml", "[model]\nlayer = 3\nwidth = 10\nheads = 4\n\n[train]\nepochs = \"many\"\n");
    place.write("broken.toml", "[model\n");
    let lines = [
        "frobnicate",
        "data info",
        "data info nowhere.parquet",
        "data info graphs.xyz",
        "data info bad.jsonl",
        "data info cut.jsonl",
        "data info short.parquet",
        "data convert good.jsonl graphs.csv",
        "data convert good.jsonl no/where.parquet",
        "encode good.jsonl --out encoded.parquet",
        "encode --lap 0",
        "config check bad.toml",
        "config check broken.toml",
        "config check --set model.heads=3",
        "train --preset zink",
        "train --data good.jsonl --out run",
        "eval nowhere",
        "predict good.jsonl --data good.jsonl --out predictions.csv",
        "check --device tpu",
    ];
    let files = place.files();
    let error = |line: &str| {
        let output = gt(&place, line);
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "gt {line}");
        assert_eq!(place.files(), files, "gt {line}");
        format!("$ gt {line}\n{}", String::from_utf8(output.stderr).unwrap())
    };
    lines.map(error).join("\n")
}

fn read(folder: &Path) -> Files {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap())
    });
    files.collect()
}

fn write(folder: &Path, files: &Files) {
    for name in read(folder).keys() {
        std::fs::remove_file(folder.join(name)).unwrap();
    }
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// The first line in which two versions of a file differ; a missing file has no lines.
fn difference(name: &str, golden: Option<&String>, printed: Option<&String>) -> Option<String> {
    let [golden, printed] = [golden, printed].map(|text| text.map_or(vec![], |text| text.split('\n').collect()));
    let lines = golden.len().max(printed.len());
    let line = (0..lines).find(|line| golden.get(*line) != printed.get(*line))?;
    let [old, new] = [golden, printed].map(|text| text.get(line).copied().unwrap_or("(no line)"));
    Some(format!("{name}, line {}:\n  golden:  {old}\n  printed: {new}", line + 1))
}
