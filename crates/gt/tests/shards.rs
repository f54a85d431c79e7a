//! Files of several chunks: shards together have the rows of the whole file, and a defect in a
//! later chunk leaves no output.

mod support;

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value, json};
use support::Place;

/// Two chunks of 1,024 graphs, and a shorter third chunk.
const GRAPHS: usize = 2600;

/// A graph of the second chunk.
const DAMAGED: usize = 2000;

const QUERIES: [&str; 3] = ["predict", "embed", "embed --level graph"];

/// A path of two to four nodes in five categories.
fn graph(number: usize) -> Value {
    let nodes = 2 + number % 3;
    let features: Vec<[usize; 1]> = (0..nodes).map(|node| [(number + node) % 5]).collect();
    let (src, dst): (Vec<usize>, Vec<usize>) = (1..nodes).flat_map(|node| [(node - 1, node), (node, node - 1)]).unzip();
    let y = (number % 7) as f64 + 0.5 * nodes as f64;
    let split = ["train", "train", "val", "test"][number % 4];
    json!({"num_nodes": nodes, "node_feat": features, "edge_index": [src, dst], "y": [y], "split": split})
}

fn lines(graphs: Range<usize>) -> Vec<String> {
    graphs.map(|number| format!("{}\n", graph(number))).collect()
}

/// A model file, trained once for all tests.
static MODEL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let place = Place::new();
    place.write("small.jsonl", &lines(0..60).concat());
    let model = "--set model.layers=1 --set model.width=8 --set model.heads=2";
    place.done(&format!("train --data small.jsonl --out run {model} --set train.epochs=1 --set train.batch=16"));
    fs::read(place.path("run/model.safetensors")).unwrap()
});

/// A folder with the model and the graphs, as JSON lines and as Parquet.
fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("model.safetensors"), &*MODEL).unwrap();
    place.write("all.jsonl", &lines(0..GRAPHS).concat());
    place.done("data convert all.jsonl all.parquet");
    place
}

/// Writes one graph of the file anew, after a change.
fn damage(place: &Place, name: &str, change: impl Fn(&mut Value)) {
    let mut damaged = graph(DAMAGED);
    change(&mut damaged);
    let mut all = lines(0..GRAPHS);
    all[DAMAGED] = format!("{damaged}\n");
    place.write(name, &all.concat());
}

fn unknown_category(graph: &mut Value) {
    graph["node_feat"][1][0] = json!(9);
}

/// Runs a query, and returns the summary.
fn run(place: &Place, query: &str, data: &str, out: &str, more: &str) -> Value {
    let line = place.done(&format!("{query} model.safetensors --data {data} --out {out} --json {more}"));
    serde_json::from_str(&line).unwrap()
}

fn read(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path(name)).unwrap()
}

fn rows(text: &str) -> Vec<Map<String, Value>> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The graph that a line of any text format belongs to: the first number in it.
fn graph_of(line: &str) -> usize {
    let digits = line.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap()
}

/// Joins outputs under one header, and orders their lines by graph.
fn join_texts(parts: &[String], has_header: bool) -> String {
    let start = |part: &str| if has_header { part.find('\n').unwrap() + 1 } else { 0 };
    let header = &parts[0][..start(&parts[0])];
    let mut lines = Vec::new();
    for part in parts {
        assert_eq!(&part[..start(part)], header);
        lines.extend(part[start(part)..].split_inclusive('\n'));
    }
    lines.sort_by_key(|line| graph_of(line));
    header.to_owned() + &lines.concat()
}

/// Every row of a Parquet file as a separate batch. Fails if the file has other columns than the
/// file before.
fn parquet_rows(path: &Path, columns: &mut Option<String>) -> Vec<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(path).unwrap()).unwrap();
    let own = format!("{:?}", reader.schema().fields());
    assert_eq!(*columns.get_or_insert_with(|| own.clone()), own, "{}", path.display());
    let batches = reader.build().unwrap().map(Result::unwrap);
    batches.flat_map(|batch| (0..batch.num_rows()).map(move |row| batch.slice(row, 1))).collect()
}

/// Checks that `count` shards together are the whole.
fn check_shards(place: &Place, query: &str, data: &str, format: &str, count: usize) {
    let case = format!("{query} {data} {format} {count}");
    let whole = run(place, query, data, &format!("whole.{format}"), "");
    let names: Vec<String> = (1..=count).map(|index| format!("{index}.{format}")).collect();
    let summaries: Vec<Value> = (1..=count)
        .map(|index| run(place, query, data, &format!("{index}.{format}"), &format!("--shard {index}/{count}")))
        .collect();
    for key in ["rows", "graphs", "unusable"] {
        let sum: u64 = summaries.iter().map(|summary| summary[key].as_u64().unwrap()).sum();
        assert_eq!(sum, whole[key].as_u64().unwrap(), "{case}: {key}");
    }
    assert_eq!(whole["graphs"], GRAPHS, "{case}");
    if format == "parquet" {
        let mut columns = None;
        let expected = parquet_rows(&place.path("whole.parquet"), &mut columns);
        let mut found: Vec<RecordBatch> =
            names.iter().flat_map(|name| parquet_rows(&place.path(name), &mut columns)).collect();
        found.sort_by_key(|row| row.column(0).as_primitive::<Int64Type>().value(0));
        assert_eq!(found.len() as u64, whole["rows"].as_u64().unwrap(), "{case}");
        assert!(found == expected, "{case}");
    } else {
        let parts: Vec<String> = names.iter().map(|name| read(place, name)).collect();
        assert!(join_texts(&parts, format != "jsonl") == read(place, &format!("whole.{format}")), "{case}");
    }
}

#[test]
fn shards_joined_and_ordered_by_graph_are_the_whole_output() {
    let place = place();
    for query in QUERIES {
        for format in ["csv", "tsv", "jsonl", "parquet"] {
            check_shards(&place, query, "all.jsonl", format, 3);
        }
        check_shards(&place, query, "all.parquet", "parquet", 3);
    }
}

#[test]
fn shards_may_be_fewer_or_more_than_chunks() {
    let place = place();
    for (format, count) in [("csv", 2), ("csv", 4), ("parquet", 4), ("jsonl", 4)] {
        check_shards(&place, "predict", "all.parquet", format, count);
    }
    // The fourth shard of three chunks has columns, but no graphs.
    run(&place, "predict", "all.jsonl", "none.csv", "--shard 4/4");
    assert_eq!(read(&place, "none.csv"), "graph,y,reason\n");
}

#[test]
fn a_shard_counts_and_stops_at_its_own_graphs() {
    let place = place();
    damage(&place, "damaged.jsonl", unknown_category);
    check_shards(&place, "predict", "damaged.jsonl", "csv", 3);
    for (shard, stops) in [("1/3", false), ("2/3", true), ("3/3", false)] {
        let more = format!("--shard {shard} --on-error stop");
        if stops {
            place.refused(&format!("predict model.safetensors --data damaged.jsonl --out p.csv {more}"));
        } else {
            run(&place, "predict", "damaged.jsonl", "o.csv", &more);
        }
    }
}

#[test]
fn shards_that_do_not_exist_are_usage_errors() {
    let place = place();
    for query in QUERIES {
        for shard in ["4/3", "0/3", "1/0", "x"] {
            let line = format!("{query} model.safetensors --data all.jsonl --out p.csv --shard {shard}");
            let message = place.refused(&line);
            assert!(message.contains("--shard") && message.contains(&format!("'{shard}'")), "{message}");
        }
    }
}

#[test]
fn an_unusable_graph_of_a_later_chunk_has_a_reason_and_the_others_a_result() {
    let place = place();
    damage(&place, "damaged.jsonl", unknown_category);
    place.done("data convert damaged.jsonl damaged.parquet");
    for query in QUERIES {
        run(&place, query, "all.jsonl", "whole.jsonl", "");
        let expected = rows(&read(&place, "whole.jsonl"));
        for data in ["damaged.jsonl", "damaged.parquet"] {
            let summary = run(&place, query, data, "damaged-rows.jsonl", "");
            assert_eq!((&summary["unusable"], &summary["reasons"][0]["graph"]), (&json!(1), &json!(DAMAGED)));
            let found = rows(&read(&place, "damaged-rows.jsonl"));
            assert_eq!(found.len(), expected.len(), "{query} {data}");
            for (found, expected) in found.iter().zip(&expected) {
                if found["graph"] != DAMAGED {
                    assert_eq!(found, expected, "{query} {data}");
                    continue;
                }
                let reason = found["reason"].as_str().unwrap();
                assert!(reason.contains("\"node_feat\"") && reason.contains('9'), "{query} {data}: {reason}");
                for (key, value) in found.iter().filter(|(key, _)| *key != "reason") {
                    let is_index = key == "graph" || key == "node";
                    assert!(if is_index { *value == expected[key] } else { value.is_null() }, "{found:?}");
                }
            }
        }
    }
}

/// Checks that a query ends with exit code 2, and neither makes a file nor changes one.
fn check_leaves_nothing(place: &Place, query: &str, data: &str, more: &str) -> String {
    let mut message = String::new();
    for format in ["csv", "tsv", "jsonl", "parquet"] {
        let line = format!("{query} model.safetensors --data {data} --out p.{format} {more}");
        message = place.refused(&line);
        place.write(&format!("p.{format}"), "as before");
        place.refused(&line);
        assert_eq!(read(place, &format!("p.{format}")), "as before", "{line}");
        fs::remove_file(place.path(&format!("p.{format}"))).unwrap();
        assert!(!place.files().iter().any(|name| name.starts_with(".gt-")), "{line}");
    }
    message
}

#[test]
fn stopping_in_a_later_chunk_neither_makes_nor_changes_a_file() {
    let place = place();
    damage(&place, "damaged.jsonl", unknown_category);
    // A schema that differs from that of the first record is a defect of the file, also without
    // --on-error stop.
    damage(&place, "other.jsonl", |graph| {
        graph["graph_transformer"] = json!({"format_version": 1, "schema": {"node": {}, "edge": {}}});
    });
    for query in QUERIES {
        let message = check_leaves_nothing(&place, query, "damaged.jsonl", "--on-error stop");
        for token in ["damaged.jsonl", "graph 2000", "\"node_feat\"", "9"] {
            assert!(message.contains(token), "{query}: {message}");
        }
        let message = check_leaves_nothing(&place, query, "other.jsonl", "");
        assert!(message.contains("other.jsonl"), "{query}: {message}");
    }
}

#[test]
fn chunks_have_the_results_of_the_whole_file_and_of_its_parts() {
    let place = place();
    // Parts that end in the middle of chunks and batches.
    let parts = [0..1000, 1000..1700, 1700..GRAPHS];
    for query in QUERIES {
        run(&place, query, "all.jsonl", "whole.jsonl", "");
        run(&place, query, "all.parquet", "native.jsonl", "");
        assert!(read(&place, "whole.jsonl") == read(&place, "native.jsonl"), "{query}");
        let mut joined = Vec::new();
        for part in parts.clone() {
            place.write("part.jsonl", &lines(part.clone()).concat());
            run(&place, query, "part.jsonl", "part-rows.jsonl", "");
            for mut row in rows(&read(&place, "part-rows.jsonl")) {
                row["graph"] = json!(row["graph"].as_u64().unwrap() as usize + part.start);
                joined.push(row);
            }
        }
        assert!(joined == rows(&read(&place, "whole.jsonl")), "{query}");
    }
    // The library reads and predicts without chunks.
    let model = gt_models::Model::open(place.path("model.safetensors")).unwrap();
    let whole = model.predict(gt_data::read(&place.path("all.jsonl")).unwrap().graphs()).unwrap();
    run(&place, "predict", "all.jsonl", "whole.csv", "");
    let written = read(&place, "whole.csv");
    let values: Vec<f32> =
        written.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect();
    assert!(values == whole.values);
}
