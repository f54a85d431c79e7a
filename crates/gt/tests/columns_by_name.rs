//! Columns of names, chosen columns and the kinds of targets, in every format and through every
//! command.

mod support;

use std::fmt::Write;

use support::Place;

const SMALL: &str = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1 --set train.batch=4 --device cpu";

/// The formats of a file, by the path to give to a command.
const FORMATS: [&str; 4] = ["g.jsonl", "g.parquet", "g_nodes.csv", "p_nodes.parquet"];

/// Graphs of two nodes with names as categories and as classes, in every format and without a
/// schema. `last` is the element of the last node.
fn write(place: &Place, last: &str) {
    let (mut lines, mut nodes, mut edges, mut graphs) =
        (String::new(), "graph,node,element\n".to_owned(), "graph,src,dst,bond\n".to_owned(), "graph,y\n".to_owned());
    for graph in 0..30 {
        let element = if graph == 29 { last } else { ["C", "N", "O"][graph % 3] };
        let class = ["toxic", "safe"][graph % 2];
        let _ = writeln!(
            lines,
            "{{\"node_feat\": [[\"C\"], [\"{element}\"]], \"edge_index\": [[0, 1], [1, 0]], \
             \"edge_attr\": [[\"single\"], [\"double\"]], \"y\": \"{class}\"}}"
        );
        let _ = writeln!(nodes, "{graph},0,C\n{graph},1,{element}");
        let _ = writeln!(edges, "{graph},0,1,single\n{graph},1,0,double");
        let _ = writeln!(graphs, "{graph},{class}");
    }
    place.write("g.jsonl", &lines);
    place.write("g_nodes.csv", &nodes);
    place.write("g_edges.csv", &edges);
    place.write("g_graphs.csv", &graphs);
}

#[test]
fn names_are_the_same_in_every_format_and_come_back_in_predictions() {
    let place = Place::new();
    write(&place, "O");
    place.done("data convert g.jsonl g.parquet");
    place.done("data convert g.jsonl p_nodes.parquet");
    place.done(&format!("train --data g.jsonl --out run {SMALL}"));
    let mut seen: Option<String> = None;
    for format in &FORMATS[..2] {
        place.done(&format!("eval run --data {format}"));
        place.done(&format!("predict run --data {format} --out p.csv"));
        let text = std::fs::read_to_string(place.path("p.csv")).unwrap();
        assert!(text.starts_with("graph,y,y_p_safe,y_p_toxic,reason\n"), "{text}");
        assert!(text.lines().skip(1).all(|line| line.contains(",safe,") || line.contains(",toxic,")), "{text}");
        assert_eq!(*seen.get_or_insert_with(|| text.clone()), text, "{format}");
    }
    // Tables name their columns, and have models of their own.
    let mut seen: Option<String> = None;
    for (format, column) in [("g_nodes.csv", "element"), ("p_nodes.parquet", "node_feat")] {
        place.done(&format!("train --data {format} --out run-{column} {SMALL}"));
        place.done(&format!("predict run-{column} --data {format} --out p.csv"));
        let text = std::fs::read_to_string(place.path("p.csv")).unwrap();
        assert_eq!(*seen.get_or_insert_with(|| text.clone()), text, "{format}");
        place.done(&format!("eval run-{column} --data {format}"));
    }
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(report.contains(">toxic<"), "the report names the classes");
}

#[test]
fn an_unknown_name_is_the_reason_of_its_graph() {
    for (file, run) in [("g.jsonl", "run"), ("g_nodes.csv", "run")] {
        let place = Place::new();
        write(&place, "O");
        place.done(&format!("train --data {file} --out {run} {SMALL}"));
        write(&place, "Xe");
        place.done(&format!("predict {run} --data {file} --out p.csv"));
        let text = std::fs::read_to_string(place.path("p.csv")).unwrap();
        let reasons: Vec<&str> = text.lines().filter(|line| line.contains("Xe")).collect();
        assert!(reasons.len() == 1 && reasons[0].starts_with("29,,"), "{text}");
        let message = place.refused(&format!("eval {run} --data {file}"));
        assert!(message.contains("\"Xe\"") && message.contains("\"N\""), "{message}");
    }
}

/// Graphs with a number as a target, once in `y` and once in a column of its own.
fn write_numbers(place: &Place, value: impl Fn(usize) -> String) {
    let (mut lines, mut nodes, mut edges, mut graphs) =
        (String::new(), "graph,node,kind,size\n".to_owned(), "graph,src,dst\n".to_owned(), "graph,y,gap\n".to_owned());
    for graph in 0..30 {
        let (kind, y) = (graph % 3, value(graph));
        let _ = writeln!(
            lines,
            "{{\"node_feat\": [[0, 0.5], [{kind}, 1.5]], \"edge_index\": [[0, 1], [1, 0]], \"y\": {y}, \"gap\": 0.{graph}1}}"
        );
        let _ = writeln!(nodes, "{graph},0,0,0.5\n{graph},1,{kind},1.5");
        let _ = writeln!(edges, "{graph},0,1\n{graph},1,0");
        let _ = writeln!(graphs, "{graph},{y},0.{graph}1");
    }
    place.write("g.jsonl", &lines);
    place.write("g_nodes.csv", &nodes);
    place.write("g_edges.csv", &edges);
    place.write("g_graphs.csv", &graphs);
}

fn metric(place: &Place, run: &str) -> String {
    let line = place.done(&format!("eval {run} --json"));
    serde_json::from_str::<serde_json::Value>(&line).unwrap()["metric"].as_str().unwrap().to_owned()
}

#[test]
fn whole_floats_are_classes_unless_the_task_is_regression() {
    for file in ["g.jsonl", "g_nodes.csv"] {
        let place = Place::new();
        write_numbers(&place, |graph| format!("{}.0", graph % 3));
        place.done(&format!("train --data {file} --out auto {SMALL}"));
        assert_eq!(metric(&place, "auto"), "accuracy", "{file}");
        place.done(&format!("train --data {file} --out numbers --task regression {SMALL}"));
        assert_eq!(metric(&place, "numbers"), "mae", "{file}");
        // Class 4 does not occur, so the numbers are no classes.
        write_numbers(&place, |graph| format!("{}.0", [0, 1, 2, 5][graph % 4]));
        place.done(&format!("train --data {file} --out gap {SMALL}"));
        assert_eq!(metric(&place, "gap"), "mae", "{file}");
        place.done(&format!("train --data {file} --out six --task classification {SMALL}"));
        assert_eq!(metric(&place, "six"), "accuracy", "{file}");
        // Whole numbers are classes, or numbers.
        write_numbers(&place, |graph| format!("{}", graph % 7));
        place.done(&format!("train --data {file} --out whole --task regression {SMALL}"));
        assert_eq!(metric(&place, "whole"), "mae", "{file}");
        write_numbers(&place, |graph| if graph == 7 { "1.5".into() } else { "1.0".into() });
        let message = place.refused(&format!("train --data {file} --out bad --task classification {SMALL}"));
        let number = if file == "g.jsonl" { "graph 7" } else { "row 8" };
        assert!([number, "\"y\"", "1.5", "--task regression"].iter().all(|word| message.contains(word)), "{message}");
    }
}

#[test]
fn columns_are_chosen_in_every_format_and_the_model_remembers_them() {
    for (file, ignored, kept) in [("g.jsonl", "node_feat0", "node_feat1"), ("g_nodes.csv", "kind", "size")] {
        let place = Place::new();
        write_numbers(&place, |graph| format!("{}.25", graph % 3));
        place.done(&format!("train --data {file} --out run --target gap --ignore {ignored} {SMALL}"));
        place.done(&format!("train --data {file} --out same --target gap --features {kept} {SMALL}"));
        for run in ["run", "same"] {
            assert_eq!(metric(&place, run), "mae");
            place.done(&format!("predict {run} --data {file} --out {run}.csv"));
        }
        let text = std::fs::read_to_string(place.path("run.csv")).unwrap();
        assert!(text.starts_with("graph,gap,reason\n0,"), "{text}");
        assert_eq!(text, std::fs::read_to_string(place.path("same.csv")).unwrap());
        // A file that gt wrote has its own schema, from which columns are chosen as well.
        place.done(&format!("data convert {file} c.parquet"));
        place.done(&format!("data convert {file} c.jsonl"));
        for converted in ["c.parquet", "c.jsonl"] {
            place.done(&format!("eval run --data {converted}"));
            place.done(&format!("predict run --data {converted} --out c.csv"));
            assert_eq!(text, std::fs::read_to_string(place.path("c.csv")).unwrap(), "{converted}");
            place.done(&format!(
                "train --data {converted} --out {converted}.run --target gap --ignore {ignored} {SMALL}"
            ));
            place.done(&format!("predict {converted}.run --data {converted} --out c.csv"));
            assert_eq!(text, std::fs::read_to_string(place.path("c.csv")).unwrap(), "{converted}");
        }
        place.done(&format!("train --data {file} --out without {SMALL} --target gap --ignore y"));
        let train = format!("train --data {file} --out no {SMALL}");
        let message = place.refused(&format!("{train} --ignore nothing"));
        assert!(
            ["\"nothing\"", ignored, kept, "\"y\"", "\"gap\""].iter().all(|word| message.contains(word)),
            "{message}"
        );
        let message = place.refused(&format!("{train} --target gap --ignore gap"));
        assert!(message.contains("`gap`") && message.contains("data.ignore"), "{message}");
        let message = place.refused(&format!("{train} --target {kept} --features {kept}"));
        assert!(message.contains(kept) && message.contains("data.features"), "{message}");
        let message = place.refused(&format!("{train} --task links --target gap"));
        assert!(message.contains("data.target"), "{message}");
    }
}

#[test]
fn several_targets_of_more_than_two_classes_and_wrong_losses_have_a_remedy() {
    let place = Place::new();
    write_numbers(&place, |graph| format!("[[{}, {}]]", graph % 3, graph % 2));
    let train = format!("train --data g.jsonl --out run {SMALL}");
    let message = place.refused(&train);
    assert!(["`y0` with 3 classes", "--target"].iter().all(|word| message.contains(word)), "{message}");
    place.done(&format!("{train} --target y0"));
    assert_eq!(metric(&place, "run"), "accuracy");
    place.done("predict run --data g.jsonl --out p.csv");
    write_numbers(&place, |graph| format!("{}.5", graph % 3));
    let message = place.refused(&format!("train --data g.jsonl --out loss {SMALL} --set train.loss=cross-entropy"));
    assert!(message.contains("--task classification"), "{message}");
    let message = place.refused(&format!("train --data g.jsonl --out select {SMALL} --set train.select=accuracy"));
    assert!(message.contains("--task classification"), "{message}");
    write_numbers(&place, |graph| format!("{}", graph % 3));
    let train = format!("train --data g.jsonl --out l1 {SMALL} --set train.loss=l1");
    assert!(place.refused(&train).contains("--task regression"));
    place.done(&format!("{train} --task regression"));
}

#[test]
fn conversion_takes_kinds_of_columns_in_every_format() {
    let place = Place::new();
    write_numbers(&place, |graph| format!("{}.0", graph % 2 * 3));
    place.done("data convert g.jsonl c.jsonl --categorical y --continuous node_feat0");
    let text = std::fs::read_to_string(place.path("c.jsonl")).unwrap();
    assert!(text.contains("\"kind\":\"class\"") && text.contains("\"y\":[3]"), "{text}");
    assert!(text.contains("[[0.0,0.5],[1.0,1.5]]"), "{text}");
    let message = place.refused("data convert g.jsonl c.jsonl --src from");
    assert!(message.contains("g.jsonl") && message.contains("--src"), "{message}");
}

#[test]
fn rare_and_unknown_categories_share_an_entry_and_vocabularies_can_be_larger() {
    for file in ["g.jsonl", "g_nodes.csv"] {
        let place = Place::new();
        write(&place, "Xe");
        let output = place.gt(&format!("train --data {file} --out run {SMALL} --set data.rare=20"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("categorical, 2 values: C, other") && said.contains("none is rare"), "{said}");
        write(&place, "Kr");
        place.done(&format!("predict run --data {file} --out p.csv --on-error stop"));
        let text = std::fs::read_to_string(place.path("p.csv")).unwrap();
        assert!(text.lines().skip(1).all(|line| line.ends_with(',')), "{text}");
        let column = if file == "g.jsonl" { "node_feat" } else { "element" };
        let larger = |size: usize| {
            format!("train --data {file} --out l{size} {SMALL} --set data.vocabulary={{{column}={size}}}")
        };
        place.done(&larger(9));
        assert!(place.refused(&larger(2)).contains(&format!("\"{column}\"")));
        let message = place.refused(&format!("train --data {file} --out no {SMALL} --set data.vocabulary={{y0=3}}"));
        assert!(message.contains("\"y0\""), "{message}");
    }
}

#[test]
fn what_was_understood_is_printed_in_short_lines() {
    let place = Place::new();
    write(&place, "Xe");
    let text = std::fs::read_to_string(place.path("g.jsonl")).unwrap();
    // The validation part has one class only, and graphs of the training part.
    let split = |(at, line): (usize, &str)| {
        let part = match at {
            20 | 22 => "val",
            23..27 => "test",
            _ => "train",
        };
        line.replace("}", &format!(", \"split\": \"{part}\", \"name\": {at}}}\n"))
    };
    place.write("g.jsonl", &text.lines().enumerate().map(split).collect::<String>());
    let output = place.gt(&format!("train --data g.jsonl --out run {SMALL}"));
    let said = String::from_utf8(output.stderr).unwrap();
    let info = place.done("data info g.jsonl");
    for line in [
        "task: classification, one class per graph",
        "  y: 2 classes: safe (15), toxic (15)",
        "note: y: class safe does not occur in the split `val`",
        "  node_feat: categorical, 4 values: C, N, O, Xe",
        "  edge_attr: categorical, 2 values: double, single",
        "columns that are not read: name",
        "note: 2 graphs of the split `val` equal graphs of `train`, apart from targets",
    ] {
        assert!(said.lines().any(|own| own == line), "{line}: {said}");
        assert!(info.lines().any(|own| own == line), "{line}: {info}");
    }
    write_numbers(&place, |graph| format!("{}.0", graph % 2));
    place.write(
        "g.jsonl",
        &std::fs::read_to_string(place.path("g.jsonl")).unwrap().replace("[[0, 1], [1, 0]]", "[[0], [1]]"),
    );
    let output = place.gt(&format!("train --data g.jsonl --out one-way {SMALL} --features node_feat1"));
    let said = String::from_utf8(output.stderr).unwrap();
    for words in ["--task regression", "one direction only", "0.5 to 1.5", "not read: node_feat0, gap"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 80 || line.contains("epoch")), "{said}");
}
