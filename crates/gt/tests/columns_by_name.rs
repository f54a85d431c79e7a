//! Columns of names, chosen columns and the kinds of targets, in every format and through every
//! command.

mod support;

use std::fmt::Write;

use gt_models::{Model, parameter_name};
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

#[test]
fn a_missing_cell_names_remedies_that_work() {
    let place = Place::new();
    let cell = |node: usize| if node == 5 { String::new() } else { format!("{}.5", node % 3) };
    let nodes: String = (0..40).map(|node| format!("{node},{},{}\n", node % 2, cell(node))).collect();
    place.write("p_nodes.csv", &format!("node,kind,income\n{nodes}"));
    let edges: String = (0..40).map(|node| format!("{node},{}\n", (node + 1) % 40)).collect();
    place.write("p_edges.csv", &format!("src,dst\n{edges}"));
    for command in
        ["data info p_nodes.csv", "data convert p_nodes.csv out.jsonl", "data split p_nodes.csv --out s.jsonl"]
    {
        let message = place.refused(command);
        assert!(["row 6", "income", "--ignore income", "--target income"].iter().all(|word| message.contains(word)));
    }
    place.done(&format!("train --data p_nodes.csv --out run {SMALL} --target income"));
    assert_eq!(metric(&place, "run"), "mae");
    let info = place.done("data info p_nodes.csv --target income");
    assert!(info.contains("task: regression") && info.contains("1 missing"), "{info}");
    place.done(&format!("train --data p_nodes.csv --out links {SMALL} --ignore income --task links"));
    place.done("data split p_nodes.csv --out s.jsonl --target income");
    place.done("data convert p_nodes.csv c.jsonl --ignore income");
    place.done("encode p_nodes.csv --walk 2 --out e.jsonl --ignore income");
    // A model needs the value.
    place.done(&format!("train --data c.jsonl --out kind {SMALL} --task links"));
    place.write("g.jsonl", "{\"node_feat\": [[0, 1.5], [1, null]], \"edge_index\": [[0], [1]], \"y\": 0.5}\n");
    let message = place.refused("data info g.jsonl");
    assert!(message.contains("--ignore node_feat1") && !message.contains("--target"), "{message}");
    place.done("data info g.jsonl --ignore node_feat1");
}

#[test]
fn info_takes_the_columns_of_train_and_shows_names() {
    for file in ["g.jsonl", "g.parquet", "g_nodes.csv"] {
        let place = Place::new();
        write_numbers(&place, |graph| format!("{}.0", graph % 3));
        if file == "g.parquet" {
            place.done("data convert g.jsonl g.parquet --task regression --continuous node_feat1");
        }
        let ignored = if file == "g_nodes.csv" { "kind" } else { "node_feat0" };
        let info = place.done(&format!("data info {file} --target gap --ignore {ignored}"));
        assert!(info.contains("targets: 1 real number per graph") || info.contains("`gap` mean"), "{info}");
        assert!(info.contains("task: regression, 1 number per graph") && !info.contains("categorical"), "{info}");
        let info = place.done(&format!("data info {file} --task links"));
        assert!(info.contains("task: links"), "{info}");
        let info = place.done(&format!("data info {file} --task classification --continuous {ignored}"));
        assert!(info.contains("task: classification") && info.contains(&format!("`{ignored}` continuous")), "{info}");
        assert!(place.refused(&format!("data info {file} --ignore nothing")).contains("\"nothing\""));
    }
    let place = Place::new();
    write(&place, "Xe");
    let info = place.done("data info g_nodes.csv");
    assert!(info.contains("node `element`: C: 40, N: 10, O: 9, Xe: 1"), "{info}");
    assert!(info.contains("`y` 2 classes: safe: 15, toxic: 15"), "{info}");
    // A training takes kinds of columns as well, and its configuration keeps them.
    write_numbers(&place, |graph| format!("{}", graph % 3));
    place.done(&format!("train --data g_nodes.csv --out run {SMALL} --continuous kind,y"));
    assert_eq!(metric(&place, "run"), "mae");
    let config = std::fs::read_to_string(place.path("run/config.toml")).unwrap();
    assert!(config.contains("continuous = [\"kind\", \"y\"]"), "{config}");
    let message = place.refused(&format!("train --data g_nodes.csv --out two {SMALL} --continuous y --categorical y"));
    assert!(message.contains("data.categorical") && message.contains("data.continuous"), "{message}");
}

#[test]
fn a_single_class_to_train_on_is_a_warning_before_the_training() {
    let place = Place::new();
    write_numbers(&place, |_| "3.25".into());
    let said = |line: &str| String::from_utf8(place.gt(line).stderr).unwrap();
    let warning = |text: &str| text.lines().find(|line| line.starts_with("warning: ")).map(str::to_owned);
    let numbers = warning(&said(&format!("train --data g.jsonl --out numbers {SMALL}"))).unwrap();
    assert!(numbers.contains("y: all 24 labels") && numbers.contains("the value 3.25"), "{numbers}");
    write(&place, "O");
    let text = std::fs::read_to_string(place.path("g.jsonl")).unwrap();
    place.write("g.jsonl", &text.replace("toxic", "safe"));
    let classes = said(&format!("train --data g.jsonl --out classes {SMALL}"));
    let found = warning(&classes).unwrap();
    assert!(found.contains("y: all 24 labels") && found.contains("the class safe"), "{found}");
    assert!(classes.find("warning: ") < classes.find("\nepoch "), "{classes}");
    place.write("g.jsonl", &text);
    assert_eq!(warning(&said(&format!("train --data g.jsonl --out two {SMALL}"))), None);
}

#[test]
fn unknown_categories_of_one_network_take_a_trained_entry_on_request() {
    let place = Place::new();
    // No element is rare. Isotopes are numbers.
    let write = |name: &str, odd: &str| {
        let element = |node: usize| if node == 7 { odd } else { ["C", "N", "O"][node % 3] };
        let isotope = |node: usize| if node == 7 && odd == "Xe" { 9 } else { node % 4 };
        let row = |node: usize| format!("{node},{},{},{}\n", element(node), isotope(node), ["a", "b"][node % 2]);
        let edge = |node: usize| format!("{node},{},s\n{},{node},s\n", (node + 1) % 60, (node + 1) % 60);
        place.write(
            &format!("{name}_nodes.csv"),
            &format!("node,element,isotope,label\n{}", (0..60).map(row).collect::<String>()),
        );
        place.write(&format!("{name}_edges.csv"), &format!("src,dst,bond\n{}", (0..60).map(edge).collect::<String>()));
    };
    write("net", "N");
    write("new", "Xe");
    let train = |more: &str| format!("train --data net_nodes.csv {SMALL} {more}");
    place.done(&train("--out plain"));
    let output = place.gt("predict plain --data new_nodes.csv --out p.csv");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("\"Xe\""), "{said}");
    assert!(said.contains("train with --set data.other=true"), "{said}");

    let said = String::from_utf8(place.gt(&train("--out other --set data.other=true")).stderr).unwrap();
    assert!(said.contains("4 values: C, N, O, other") && said.contains("5 values: 0, 1, 2, 3, other"), "{said}");
    place.done("predict other --data new_nodes.csv --out p.csv --on-error stop");
    let rows = |name: &str| -> Vec<String> {
        std::fs::read_to_string(place.path(name)).unwrap().lines().skip(1).map(str::to_owned).collect()
    };
    assert!(rows("p.csv").len() == 60 && rows("p.csv").iter().all(|line| line.ends_with(',')), "{:?}", rows("p.csv"));
    place.done("eval other --data new_nodes.csv --split all");
    place.done("predict other --data net_nodes.csv --out known.csv --on-error stop");
    assert_ne!(rows("p.csv")[7], rows("known.csv")[7], "the entry is no known category");
    // Training sees the entry: it changes, and the same seed gives the same bytes.
    let entry = |run: &str| -> Vec<f32> {
        let Model { weights, .. } = Model::open(place.path(run).join("model.safetensors")).unwrap();
        let name = |parameter: &gt_nn::Parameter| parameter_name(weights.network(), parameter.role());
        let elements = weights.parameters().list().iter().position(|own| name(own).starts_with("embedding_h")).unwrap();
        weights.parameter(elements)[3 * 8..4 * 8].to_vec()
    };
    let longer = train("--set data.other=true --set optimizer.weight_decay=0 --set train.epochs=40");
    let line = place.done(&format!("{longer} --out long --json"));
    let trained: serde_json::Value = serde_json::from_str(line.lines().last().unwrap()).unwrap();
    let scored: serde_json::Value = serde_json::from_str(&place.done("eval long --split val --json")).unwrap();
    assert_eq!(trained["best"]["val"]["exact"], scored["exact"], "evaluation hides nothing");
    place.done(&format!("{longer} --out again"));
    assert_eq!(entry("long"), entry("again"));
    assert_ne!(entry("long"), entry("other"));
}
