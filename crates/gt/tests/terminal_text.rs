//! Names, categories, classes and file names never reach a terminal with the characters that it
//! obeys.

#![cfg(unix)]

mod support;

use std::process::Output;

use support::{Place, program};

/// Red text, a title, a bell, a return to the line's beginning, C1 controls, reversed text.
const EVIL: &str = "\u{1b}[31m\u{1b}]0;title\u{7}\r\u{9b}2J\u{7f}\u{202e}\u{2066}";

fn gt(place: &Place, arguments: &[&str]) -> Output {
    program().args(arguments).current_dir(&place.0).output().unwrap()
}

/// Runs `gt`, and checks that nothing it prints is obeyed by a terminal. Returns both outputs.
#[track_caller]
fn printed(place: &Place, code: i32, arguments: &[&str]) -> String {
    let output = gt(place, arguments);
    let mut both = String::new();
    for text in [output.stdout, output.stderr] {
        let text = String::from_utf8(text).unwrap();
        let obeyed = |c: char| c != '\n' && (c.is_control() || "\u{202e}\u{2066}".contains(c));
        assert!(!text.contains(obeyed), "{arguments:?}: {text:?}");
        both.push_str(&text);
    }
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {both}");
    both
}

/// A network whose columns, categories, classes and file names are evil.
fn write(place: &Place, name: &str, category: impl Fn(usize) -> String) {
    let cell = |text: String| format!("\"{text}\"");
    let mut nodes = format!("node,{},{}\n", cell(format!("{EVIL}kind")), cell(format!("{EVIL}class")));
    (0..60).for_each(|node| {
        let class = cell(format!("{EVIL}{}", ["yes", "no"][node % 2]));
        nodes.push_str(&format!("{node},{},{class}\n", cell(category(node))));
    });
    let mut edges = "source,target\n".to_owned();
    (0..60).for_each(|node| edges.push_str(&format!("{node},{}\n{},{node}\n", (node + 1) % 60, (node + 1) % 60)));
    place.write(&format!("{name}_nodes.csv"), &nodes);
    place.write(&format!("{name}_edges.csv"), &edges);
}

#[test]
fn names_from_files_are_printed_without_what_a_terminal_obeys() {
    let place = Place::new();
    let name = format!("{}net", EVIL.replace('/', ""));
    write(&place, &name, |node| format!("{EVIL}{}", node % 3));
    let (file, target, run) = (format!("{name}_nodes.csv"), format!("{EVIL}class"), format!("{EVIL}run"));
    let described = printed(&place, 0, &["data", "info", &file]);
    assert!(described.contains("\\u{1b}[31m") && described.contains("\\u{202e}"), "{described}");
    let described = printed(&place, 0, &["data", "info", &file, "--json"]);
    assert!(described.contains("\\u001b[31m") && described.contains("\\u202e"), "{described}");
    serde_json::from_str::<serde_json::Value>(described.trim()).unwrap();

    let tiny = ["--set", "model.layers=1", "--set", "model.width=8", "--set", "train.epochs=1", "--device", "cpu"];
    let train = [&["train", "--data", &file, "--target", &target, "--out", &run], &tiny[..]].concat();
    assert!(printed(&place, 0, &train).contains("\\u{202e}"));
    // The folder is there already.
    assert!(printed(&place, 2, &train).contains("\\u{202e}"));
    printed(&place, 0, &["eval", &run, "--data", &file, "--split", "test"]);
    printed(&place, 0, &["eval", &run, "--data", &file, "--split", "test", "--json"]);
    let out = format!("{EVIL}out.csv");
    printed(&place, 0, &["predict", &run, "--data", &file, "--out", &out]);
    printed(&place, 0, &["config", "check", &format!("{run}/config.toml")]);
    printed(&place, 0, &["data", "split", &file, "--level", "node", "--out", "split_nodes.parquet"]);

    // Errors excerpt values, names and arguments.
    write(&place, "other", |node| format!("{EVIL}unknown{}", node % 3));
    for (arguments, fact) in [
        (vec!["predict", &run, "--data", "other_nodes.csv", "--out", "other.csv"], "unknown"),
        (vec!["data", "info", &format!("{EVIL}missing.jsonl")], "missing.jsonl"),
        (vec!["train", "--data", &file, "--target", &format!("{EVIL}wrong"), "--out", "run2"], "wrong"),
        (vec!["train", "--data", &file, "--set", &format!("model.{EVIL}key=1"), "--out", "run2"], "key"),
        (vec!["data", "info", &file, &format!("--{EVIL}option")], "option"),
        (vec![&format!("{EVIL}command")], "command"),
    ] {
        let error = printed(&place, 2, &arguments);
        assert!(error.contains(fact) && error.contains("\\u{202e}"), "{arguments:?}: {error}");
    }
}
