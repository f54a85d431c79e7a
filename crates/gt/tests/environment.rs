//! Environments that give the program too little: threads, file size, descriptors, memory, or no
//! output. The program ends with exit code 0 or 2, never with a signal or a panic.

#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use gt_testing::{Resource, skip};
use support::{Place, TEST_CACHE};

const TINY: &str = "--device cpu --set model.layers=1 --set model.width=8 --set model.heads=2 --set model.encoding=none \
                    --set train.epochs=1";

/// A folder with small graphs and a model of them.
fn trained() -> Place {
    let place = Place::new();
    let ring = |graph: usize| {
        let nodes = 3 + graph % 5;
        let list =
            |shift: usize| (0..nodes).map(|node| ((node + shift) % nodes).to_string()).collect::<Vec<_>>().join(", ");
        let features = (0..nodes).map(|node| format!("[{}]", node % 3)).collect::<Vec<_>>().join(", ");
        let y = graph as f64 / 7.0 + 0.1;
        format!("{{\"node_feat\": [{features}], \"edge_index\": [[{}], [{}]], \"y\": [{y:.3}]}}\n", list(0), list(1))
    };
    place.write("data.jsonl", &(0..40).map(ring).collect::<String>());
    place.done(&format!("train --data data.jsonl --out run {TINY}"));
    place
}

/// Runs `gt` in a shell that first lowers limits; `after` may redirect.
fn limited(place: &Place, limits: &str, line: &str, after: &str) -> Output {
    let script = format!("{limits}; exec {} {line} {after}", env!("CARGO_BIN_EXE_gt"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(&place.0).env("GT_CACHE", TEST_CACHE).output().unwrap()
}

/// Checks that a call ended with exit code 0, or with 2 and an error of one line. Returns whether it
/// succeeded.
#[track_caller]
fn ended_well(output: &Output, call: &str) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("internal error") && !said.contains("panicked"), "{call}: {said}");
    match output.status.code() {
        Some(0) => true,
        Some(2) => {
            assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{call}: {said}");
            false
        }
        code => panic!("{call}: exit code {code:?}: {said}"),
    }
}

#[test]
fn threads_that_cannot_start_are_an_error_with_a_remedy() {
    let place = trained();
    for line in
        ["data info data.jsonl", "predict run --data data.jsonl --out out.csv", "data info data.jsonl --threads 1"]
    {
        // No thread can have a stack of a petabyte.
        let output = limited(&place, "export RUST_MIN_STACK=1125899906842624", line, "");
        assert!(!ended_well(&output, line));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("error: cannot start ") && said.contains("ulimit -u"), "{said}");
        assert!(!place.path("out.csv").exists());
    }
}

#[test]
fn any_number_of_processes_is_enough_or_an_error() {
    let place = trained();
    place.write("config.toml", "");
    // A user of its own: the limit counts all processes of a user, and spares the superuser.
    let user = 40_000 + std::process::id() % 20_000;
    let probe = |program: &str| {
        let switch =
            Command::new("setpriv").args([&format!("--reuid={user}"), "--clear-groups", program, "--version"]).output();
        switch.is_ok_and(|output| output.status.success())
    };
    if !probe("prlimit") || !probe(env!("CARGO_BIN_EXE_gt")) {
        return skip(Resource::Privileges, "the program cannot run as another user");
    }
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).unwrap();
    let mut ends = Vec::new();
    for limit in 1..=8 {
        let lines = [
            "data info data.jsonl --threads 2".to_owned(),
            format!("predict run --data data.jsonl --out out-{limit}.csv --threads 2"),
            "eval run --data data.jsonl --split test --threads 2".to_owned(),
            format!("train --data data.jsonl --out run-{limit} --threads 2 {TINY}"),
            format!("train --data data.jsonl --out runs-{limit} --seeds 1,2 --parallel --threads 2 {TINY}"),
        ];
        for line in lines {
            let mut call = Command::new("setpriv");
            call.args([&format!("--reuid={user}"), "--clear-groups", "prlimit", &format!("--nproc={limit}")]);
            call.arg(env!("CARGO_BIN_EXE_gt")).args(line.split_whitespace()).current_dir(&place.0);
            let output = call.env("GT_CACHE", place.path("cache")).output().unwrap();
            ends.push((limit, ended_well(&output, &format!("{limit} processes: gt {line}"))));
        }
    }
    assert!(ends.iter().any(|(limit, done)| *limit == 1 && !done), "the limit has no effect: {ends:?}");
    assert!(ends.iter().filter(|(limit, _)| *limit == 8).all(|(_, done)| *done), "{ends:?}");
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_leaves_no_file() {
    let place = trained();
    let before = place.files();
    for line in [
        "data convert data.jsonl out.parquet",
        "data convert data.jsonl out.jsonl",
        "data split data.jsonl --out split.jsonl",
        "data sbm cluster --train 5 --val 1 --test 1 --out drawn.parquet",
        "encode data.jsonl --lap 2 --out encoded.parquet",
        "predict run --data data.jsonl --out out.csv",
        "embed run --data data.jsonl --out rows.parquet",
    ] {
        // One block is 512 or 1024 bytes.
        let output = limited(&place, "ulimit -f 1", line, "");
        assert!(!ended_well(&output, line));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("File too large"), "{line}: {said}");
        assert_eq!(place.files(), before, "{line}");
    }
    let output = limited(&place, "ulimit -f 0", "data info data.jsonl", "> info.txt");
    assert!(!ended_well(&output, "info > info.txt"));
}

#[test]
fn closed_streams_are_an_error_only_where_a_result_is_lost() {
    let place = trained();
    let closed = ["<&-", ">&-", "2>&-", "<&- 2>&-", "<&- >&-", "<&- >&- 2>&-"];
    for (number, closed) in closed.into_iter().enumerate() {
        for (line, prints) in [
            ("data info data.jsonl".to_owned(), true),
            ("data info data.jsonl --json".into(), true),
            ("eval run --data data.jsonl --split test".into(), true),
            (format!("predict run --data data.jsonl --out out-{number}.csv"), false),
            (format!("data convert data.jsonl out-{number}.parquet"), false),
        ] {
            let output = limited(&place, "true", &line, closed);
            let lost = prints && closed.contains(">&-") && closed.replace("2>&-", "").contains(">&-");
            assert_eq!(output.status.code(), Some(if lost { 2 } else { 0 }), "{line} {closed}");
            if lost && !closed.contains("2>&-") {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(said.contains("error: standard output is closed"), "{line} {closed}: {said}");
            }
        }
        let [csv, parquet] =
            ["csv", "parquet"].map(|end| fs::read(place.path(&format!("out-{number}.{end}"))).unwrap());
        assert!(csv.starts_with(b"graph,") && parquet.starts_with(b"PAR1"), "{closed}");
    }
}

#[test]
fn any_number_of_descriptors_is_enough_or_an_error() {
    let place = trained();
    let mut done = 0;
    for limit in 3..=14 {
        for line in [
            "data info data.jsonl".to_owned(),
            format!("data convert data.jsonl out-{limit}.parquet"),
            format!("predict run --data data.jsonl --out out-{limit}.csv"),
            format!("train --data data.jsonl --out run-{limit} {TINY}"),
        ] {
            let output = limited(&place, &format!("ulimit -n {limit}"), &line, "");
            // With too few descriptors, the system cannot even load the program.
            if output.status.code() != Some(127) {
                done += usize::from(ended_well(&output, &format!("{limit} descriptors: {line}")));
            }
        }
        for out in [format!("out-{limit}.parquet"), format!("out-{limit}.csv")] {
            let unfinished = place.files().into_iter().filter(|name| name.contains(&out) && *name != out).count();
            assert_eq!(unfinished, 0, "{:?}", place.files());
        }
    }
    assert!(done > 8, "only {done} calls succeeded");
}

#[test]
fn a_reader_that_has_left_is_no_error() {
    let place = trained();
    for line in ["data info data.jsonl", "data info data.jsonl --json", "config show --preset zinc", "config keys"] {
        let mut call = support::program();
        call.args(line.split_whitespace()).current_dir(&place.0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = call.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
