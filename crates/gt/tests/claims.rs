//! Inputs that claim much: small files that state a billion values, and files without an end. They
//! end in an error of one line, within 4 GB of address space.

#[path = "../../data/tests/support/forged.rs"]
mod forged;
mod support;

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};

use forged::{Column, forge};
use support::{Place, TEST_CACHE, assert_names};

const SMALL: &str = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1";

/// Runs `gt` with a limit on memory, and protection against a program that does not end.
fn limited(place: &Place, line: &str, setting: Option<&str>) -> Output {
    let mut command = Command::new("bash");
    let script = "ulimit -v 4000000 && exec timeout 300 \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_gt")]).args(line.split_whitespace());
    command.args(["--threads", "2"]).current_dir(&place.0).env("GT_CACHE", TEST_CACHE);
    if let Some(setting) = setting {
        command.env("GT_MAX_DECODED", setting);
    }
    command.output().unwrap()
}

/// The only line of the error of a call that must fail with exit code 2.
#[track_caller]
fn refused(place: &Place, line: &str) -> String {
    let output = limited(place, line, None);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "gt {line}: {message}");
    assert!(message.starts_with("error: ") && message.trim_end().lines().count() == 1, "gt {line}: {message}");
    message
}

fn write(path: &Path, rows: u64, columns: &[Column]) -> u64 {
    let bytes = forge(rows, columns);
    std::fs::write(path, &bytes).unwrap();
    bytes.len() as u64
}

/// A model that predicts a number of each graph, from graphs without features.
fn train(place: &Place) {
    let graph = |at: usize| {
        let part = ["train", "train", "train", "train", "val", "test"][at];
        format!("{{\"num_nodes\": 3, \"edge_index\": [[0], [{}]], \"y\": {at}.5, \"split\": \"{part}\"}}", at % 3)
    };
    place.write("good.jsonl", &(0..6).map(graph).collect::<Vec<_>>().join("\n"));
    place.done(&format!("train --data good.jsonl --out run {SMALL}"));
}

#[test]
fn forged_parquet_is_read_if_it_claims_little() {
    let place = Place::new();
    let columns = [
        Column::number("num_nodes", 3, 2),
        Column::empty("edge_index", 3),
        Column::text("name", 3, 10),
        Column::repeated_text("title", 3, 10),
    ];
    write(&place.path("few.parquet"), 3, &columns);
    let output = place.done("data info few.parquet --json");
    assert_names(&output, &["3", "2"]);
    place.done("data convert few.parquet few.jsonl");
    let text = std::fs::read_to_string(place.path("few.jsonl")).unwrap();
    assert_eq!(text.matches("\"name\":\"xxxxxxxxxx\"").count(), 3, "{text}");
    assert_eq!(text.matches("\"title\":\"xxxxxxxxxx\"").count(), 3, "{text}");
    let columns = [Column::number("num_nodes", 1, 5), Column::items("node_feat", 5), Column::empty("edge_index", 1)];
    write(&place.path("one.parquet"), 1, &columns);
    assert_names(&place.done("data info one.parquet --json"), &["5"]);
}

#[test]
fn run_lengths_of_parquet_claim_no_rows_values_or_texts() {
    const BILLION: u64 = 1_000_000_000;
    let place = Place::new();
    train(&place);
    let graphs = |rows| [Column::number("num_nodes", rows, 0), Column::empty("edge_index", rows)];
    let nodes =
        [Column::number("num_nodes", 1, 7), Column::items("node_feat", BILLION), Column::empty("edge_index", 1)];
    let named = |column| [graphs(100_000), [column, Column::empty("rw_pe", 100_000)]].into_iter().flatten();
    let texts: Vec<Column> = named(Column::text("name", 100_000, 100_000)).take(3).collect();
    let beginnings: Vec<Column> = named(Column::repeated_text("name", 100_000, 100_000)).take(3).collect();
    let files: [(&str, u64, &[Column]); 4] = [
        ("rows", 20 * BILLION, &graphs(20 * BILLION)),
        ("nodes", 1, &nodes),
        ("texts", 100_000, &texts),
        ("beginnings", 100_000, &beginnings),
    ];
    for (name, rows, columns) in files {
        let bytes = write(&place.path(&format!("{name}.parquet")), rows, columns);
        assert!(bytes < 250_000, "{name}: {bytes}");
        let mut lines = vec![format!("data info {name}.parquet")];
        // A prediction reads no carried column.
        if !["texts", "beginnings"].contains(&name) {
            lines.push(format!("predict run --data {name}.parquet --out out.csv"));
        }
        for line in lines {
            let message = refused(&place, &line);
            assert_names(&message, &[&format!("{name}.parquet"), "256 MB", "GT_MAX_DECODED"]);
        }
    }
}

#[test]
fn run_lengths_of_a_table_claim_no_rows() {
    let place = Place::new();
    let rows = 1_000_000_000;
    write(&place.path("x_nodes.parquet"), rows, &[Column::number("x", rows, 0)]);
    write(&place.path("x_edges.parquet"), 1, &[Column::number("src", 1, 0), Column::number("dst", 1, 0)]);
    assert_names(&refused(&place, "data info x_nodes.parquet"), &["x_nodes.parquet", "256 MB", "GT_MAX_DECODED"]);
}

#[test]
fn a_raised_limit_reads_a_file_that_claims_more() {
    let place = Place::new();
    let rows = 5_000_000;
    write(
        &place.path("many.parquet"),
        rows,
        &[Column::number("num_nodes", rows, 0), Column::empty("edge_index", rows)],
    );
    let message = refused(&place, "data info many.parquet");
    let setting = message.split("GT_MAX_DECODED=").nth(1).unwrap().trim();
    let output = limited(&place, "data info many.parquet --json", Some(setting));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_names(&String::from_utf8(output.stdout).unwrap(), &["5000000"]);
    let output = limited(&place, "data info many.parquet", Some("much"));
    assert_eq!(output.status.code(), Some(2));
    assert_names(&String::from_utf8(output.stderr).unwrap(), &["GT_MAX_DECODED", "much"]);
}

#[test]
fn a_hundred_lines_claim_no_hundred_million_nodes() {
    let place = Place::new();
    train(&place);
    let line = "{\"num_nodes\": 1000000, \"edge_index\": [[], []], \"y\": 0.5}\n";
    place.write("claims.jsonl", &line.repeat(100));
    for command in [
        &format!("train --data claims.jsonl --out other {SMALL}"),
        "encode claims.jsonl --lap 8 --out encoded.parquet",
        "data info claims.jsonl",
        "predict run --data claims.jsonl --on-error stop --out out.csv",
    ] {
        let message = refused(&place, command);
        assert_names(&message, &["claims.jsonl", "graph 1", "1000000 nodes", "GT_MAX_DECODED"]);
    }
}

#[test]
fn endless_files_end_in_an_error() {
    let place = Place::new();
    train(&place);
    for name in ["zero.jsonl", "zero_nodes.csv"] {
        std::os::unix::fs::symlink("/dev/zero", place.path(name)).unwrap();
    }
    place.write("zero_edges.csv", "src,dst\n");
    // Files without content on the disk, but of any length.
    for name in ["long.jsonl", "long_nodes.csv"] {
        File::create(place.path(name)).unwrap().set_len(1 << 40).unwrap();
    }
    place.write("long_edges.csv", "src,dst\n");
    // The schema of tables is a file of its own.
    place.write("good_nodes.csv", "x\n0.5\n");
    place.write("good_edges.csv", "src,dst\n");
    std::os::unix::fs::symlink("/dev/zero", place.path("good_schema.csv.json")).unwrap();
    assert_names(&refused(&place, "data info good_nodes.csv"), &["good_schema.csv.json", "256 MB"]);
    for (file, facts) in [
        ("zero.jsonl", ["line 1", "256 MB"]),
        ("zero_nodes.csv", ["line 1", "16 MB"]),
        ("long.jsonl", ["line 1", "256 MB"]),
        ("long_nodes.csv", ["line 1", "16 MB"]),
    ] {
        for line in [format!("data info {file}"), format!("predict run --data {file} --out out.csv")] {
            assert_names(&refused(&place, &line), &[&[file][..], &facts].concat());
        }
    }
}

#[test]
fn a_key_of_its_own_in_every_record_claims_no_table() {
    let place = Place::new();
    let line = |at: usize| format!("{{\"num_nodes\": 1, \"edge_index\": [[], []], \"key{at}\": 1}}\n");
    place.write("keys.jsonl", &(0..20_000).map(line).collect::<String>());
    assert_names(&refused(&place, "data info keys.jsonl"), &["keys.jsonl", "256 MB", "GT_MAX_DECODED"]);
}

#[test]
fn columns_are_limited() {
    let place = Place::new();
    let names = |count: usize| (0..count).map(|at| format!("c{at}")).collect::<Vec<_>>().join(",");
    let values = |count: usize| vec!["1"; count].join(",");
    place.write("x_edges.csv", "src,dst\n");
    place.write("x_nodes.csv", &format!("{}\n{}\n", names(60_000), values(60_000)));
    place.done("data info x_nodes.csv");
    place.write("x_nodes.csv", &format!("{}\n{}\n", names(70_000), values(70_000)));
    assert_names(&refused(&place, "data info x_nodes.csv"), &["x_nodes.csv", "65536"]);
    let row = format!("{{\"node_feat\": [[{}]], \"edge_index\": [[], []]}}\n", values(70_000));
    place.write("wide.jsonl", &row);
    assert_names(&refused(&place, "data info wide.jsonl"), &["wide.jsonl", "65536"]);
}

#[test]
fn the_time_of_a_prediction_is_linear_in_the_classes() {
    const CLASSES: usize = 30_000;
    let place = Place::new();
    let graph = |at: usize| {
        let (part, class) = (["train", "val", "test"][at % 3], if at == 0 { CLASSES - 1 } else { at });
        format!("{{\"num_nodes\": 3, \"edge_index\": [[0], [1]], \"y\": {class}, \"split\": \"{part}\"}}\n")
    };
    place.write("classes.jsonl", &(0..200).map(graph).collect::<String>());
    place.done(&format!("train --data classes.jsonl --out run {SMALL}"));
    // The time of a probability must not depend on the classes: 180 billion exponentials otherwise.
    let output = limited(&place, "predict run --data classes.jsonl --out out.csv", None);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(place.path("out.csv")).unwrap();
    assert_eq!((text.lines().count(), text.lines().next().unwrap().split(',').count()), (201, CLASSES + 3));
}
