//! Computed encodings are kept in the cache folder, never next to the data.

mod support;

use std::fs;
use std::process::Output;

use serde_json::Value;
use support::{Place, program};

/// Runs the program with a cache folder of the test's own.
fn gt(place: &Place, line: &str) -> Output {
    let mut command = program();
    command.env("GT_CACHE", place.path("cache"));
    command.args(line.split_whitespace()).current_dir(&place.0).output().unwrap()
}

fn done(place: &Place, line: &str) -> String {
    let output = gt(place, line);
    assert_eq!(output.status.code(), Some(0), "gt {line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn encodings(place: &Place) -> (u64, u64) {
    let info: Value = serde_json::from_str(&done(place, "cache info --json")).unwrap();
    let of = |key: &str| info["content"]["encodings"][key].as_u64().unwrap();
    (of("files"), of("bytes"))
}

#[test]
fn encodings_are_cached_away_from_the_data_until_they_are_cleared() {
    let place = Place::new();
    done(&place, "data sbm cluster --out data.parquet --train 6 --val 2 --test 2");
    assert_eq!(encodings(&place), (0, 0));
    let small = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1 --json";
    let train = |encoding: &str, out: &str| {
        let line = format!("train --data data.parquet --out {out} --set model.encoding={encoding} {small}");
        let result: Value = serde_json::from_str(done(&place, &line).lines().last().unwrap()).unwrap();
        result["last"].clone()
    };
    let first = train("laplacian", "one");
    let (files, bytes) = encodings(&place);
    assert!(files == 1 && bytes > 1000, "{files} files, {bytes} bytes");
    // The same graphs and encoding need no further file, and have the same effect from the cache.
    assert_eq!(train("laplacian", "two"), first);
    assert_eq!(encodings(&place), (files, bytes));
    train("random-walk", "three");
    assert_eq!(encodings(&place).0, 2);
    let mut names: Vec<String> =
        fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["cache", "data.parquet", "one", "three", "two"]);

    let stranger = place.path("cache/encodings/mine.txt");
    fs::write(&stranger, "a file of the user").unwrap();
    let text = done(&place, "cache clear");
    assert!(text.contains("2 files"), "{text}");
    assert_eq!(encodings(&place), (0, 0));
    assert!(stranger.exists(), "only files of this program are removed");
    assert_eq!(train("laplacian", "four"), first);
}
