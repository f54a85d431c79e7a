//! What commands write, and what they never replace: files of the user, inputs, devices and links.

#![cfg(unix)]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use gt_testing::{Resource, skip};
use support::small_run::graphs;
use support::{Place, assert_names, program};

const SMALL: &str = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1";

fn train(more: &str) -> String {
    format!("train --data data.jsonl {SMALL} {more}")
}

fn place() -> Place {
    let place = Place::new();
    place.write("data.jsonl", &graphs());
    place
}

/// A folder with data, and a finished run in `run`.
fn place_with_run() -> Place {
    static RUN: OnceLock<Place> = OnceLock::new();
    let run = RUN.get_or_init(|| {
        let place = place();
        place.done(&train("--out run"));
        place
    });
    let place = place();
    copy(&run.path("run"), &place.path("run"));
    place
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Everything below a folder: files with their bytes, folders, links and devices without.
fn content(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        found.insert(entry.path(), kind.is_file().then(|| fs::read(entry.path()).unwrap()));
        if kind.is_dir() {
            found.extend(content(&entry.path()));
        }
    }
    found
}

/// The error of a command that must fail with exit code 2 and change nothing below its folder.
#[track_caller]
fn spared(place: &Place, line: &str) -> String {
    let before = content(place.0.path());
    let output = place.gt(line);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "gt {line}: {said}");
    let after = content(place.0.path());
    let changed = before.iter().filter(|(path, bytes)| after.get(*path) != Some(*bytes)).map(|(path, _)| path);
    let changed: Vec<_> = changed.chain(after.keys().filter(|path| !before.contains_key(*path))).collect();
    assert!(changed.is_empty(), "gt {line}: {changed:?} changed: {said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said}");
    said
}

#[test]
fn a_new_run_replaces_no_file_of_its_folder() {
    for name in [
        "metrics.jsonl",
        "report.html",
        "best.safetensors",
        "model.safetensors",
        "init.safetensors",
        "events.out.tfevents.0000000001.gt",
        ".gt-notes",
        ".gt-mine.partial",
    ] {
        let place = place();
        fs::create_dir(place.path("mine")).unwrap();
        place.write(&format!("mine/{name}"), "mine");
        let said = spared(&place, &train("--out mine"));
        assert!(said.contains(&format!("error: mine: it holds {name}")) && said.contains("--out"), "{said}");
    }
    // A run that has begun can be resumed, and the error has the command.
    for name in ["config.toml", "checkpoint"] {
        let place = place();
        fs::create_dir_all(place.path("mine/checkpoint")).unwrap();
        place.write("mine/config.toml", "mine");
        let said = spared(&place, &train("--out mine"));
        assert_names(&said, &["gt train --resume --out mine"]);
        let _ = name;
    }
    // Other files stay where they are.
    let place = place();
    fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/notes.txt", "mine");
    place.write("mine/events.out.tfevents.1.elsewhere", "mine");
    place.done(&train("--out mine"));
    assert_eq!(fs::read(place.path("mine/notes.txt")).unwrap(), b"mine");
    assert_eq!(fs::read(place.path("mine/events.out.tfevents.1.elsewhere")).unwrap(), b"mine");
}

#[test]
fn new_runs_of_seeds_and_folds_replace_no_file_of_their_folder() {
    for (more, files) in [
        ("--seeds 1,2", &["2/notes.txt", "1/metrics.jsonl", "members.json"][..]),
        ("--folds 2", &["fold-2/notes.txt", "fold-1/report.html", "out_of_fold.csv"][..]),
    ] {
        for file in files {
            let place = place();
            let path = place.path("mine").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "mine").unwrap();
            let said = spared(&place, &train(&format!("{more} --out mine")));
            assert_names(&said, &["--out"]);
        }
    }
}

#[test]
fn a_new_run_does_not_lie_around_its_own_data() {
    for more in ["--out mine", "--out mine --seeds 1,2", "--out mine/", "--out ./mine/../mine"] {
        let place = place();
        fs::create_dir_all(place.path("mine/deep")).unwrap();
        place.write("mine/deep/data.jsonl", &graphs());
        let said = spared(&place, &format!("train --data mine/deep/data.jsonl {SMALL} {more}"));
        assert_names(&said, &["mine/deep/data.jsonl", "--out"]);
    }
    let place = place();
    fs::create_dir(place.path("mine")).unwrap();
    place.done("data convert data.jsonl mine/t_nodes.csv");
    assert_names(&spared(&place, &format!("train --data mine/t_nodes.csv {SMALL} --out mine")), &["mine/t_nodes.csv"]);
}

#[test]
fn a_refused_run_leaves_no_lock_file() {
    let place = place();
    fs::create_dir(place.path("mine")).unwrap();
    place.write("broken.jsonl", "{\"num_nodes\": 2, \"edge_index\": [[0], [5]]}\n");
    spared(&place, &format!("train --data broken.jsonl {SMALL} --out mine"));
}

/// Commands that would replace one of their inputs, or a file of a run.
const REPLACING: &[&str] = &[
    "import ck ck --config zoo.toml",
    "import ck zoo.toml --config zoo.toml",
    "import ck ./zoo.toml --config zoo.toml",
    "import ck linked --config zoo.toml",
    "import ck hard --config zoo.toml",
    "import ck run/best.safetensors --config zoo.toml",
    "predict run --data data.jsonl --out data.jsonl",
    "predict run --data data.jsonl --out run/../data.jsonl",
    "predict run --data data.jsonl --out linked.jsonl",
    "predict run --data data.jsonl --out hard.jsonl",
    "predict run --data linked.jsonl --out data.jsonl",
    "predict run --data data.jsonl --out run/metrics.jsonl",
    "predict run --data data.jsonl --out metrics.jsonl",
    "predict run/model.safetensors --data data.jsonl --out run/metrics.jsonl",
    "predict model.jsonl --data data.jsonl --out model.jsonl",
    "predict run --data data.jsonl --pairs pairs.csv --out pairs.csv",
    "predict run --data t_nodes.csv --out t_nodes.csv",
    "predict run --data t_nodes.csv --out t_edges.csv",
    "predict run --data t_nodes.csv --out t_graphs.csv",
    "embed run --data data.jsonl --out data.jsonl",
    "embed run --data data.jsonl --out run/metrics.jsonl",
    "embed runs/1 --data data.jsonl --out runs/out_of_fold.csv",
    "attention run --data data.jsonl --graph 0 --out data.jsonl",
    "attention run --data data.jsonl --graph 0 --out run/metrics.jsonl",
    "attention run --data data.jsonl --graph 0 --out runs/members.json",
    "attention run --data data.jsonl --graph 0 --out run/checkpoint/00000001/state.json",
    "encode data.jsonl --lap 2 --out data.jsonl",
    "encode data.jsonl --lap 2 --out linked.jsonl",
    "encode data.jsonl --lap 2 --out run/metrics.jsonl",
    "data split data.jsonl --out data.jsonl",
    "data split data.jsonl --out hard.jsonl",
    "data split t_nodes.csv --out t_nodes.csv",
    "data convert data.jsonl data.jsonl",
    "data convert linked.jsonl hard.jsonl",
    "data convert t_nodes.csv t_nodes.csv",
    "data convert --nodes t_nodes.csv --edges t_edges.csv t_nodes.csv",
    "data convert data.jsonl same_nodes.csv",
    "data convert data.jsonl run/metrics.jsonl",
    "data sbm cluster --train 5 --val 1 --test 1 --out run/metrics.jsonl",
    "data fetch zinc --from zinc12k.parquet --cache .",
    "reproduce table1 --render --results results --into results/tables.md",
    "reproduce table1 --render --results .",
    "train run/config.toml --out run",
];

#[test]
fn a_result_never_replaces_an_input_or_a_file_of_a_run() {
    let place = place_with_run();
    place.done("data convert data.jsonl t_nodes.csv");
    for name in ["ck", "zoo.toml", "pairs.csv", "zinc12k.parquet"] {
        place.write(name, "mine");
    }
    place.write("tables.md", "mine\n<!-- tables -->\n<!-- /tables -->\n");
    fs::copy(place.path("run/model.safetensors"), place.path("model.jsonl")).unwrap();
    symlink("zoo.toml", place.path("linked")).unwrap();
    fs::hard_link(place.path("ck"), place.path("hard")).unwrap();
    symlink("data.jsonl", place.path("linked.jsonl")).unwrap();
    fs::hard_link(place.path("data.jsonl"), place.path("hard.jsonl")).unwrap();
    symlink("run/metrics.jsonl", place.path("metrics.jsonl")).unwrap();
    // Two tables that would have one name, though neither exists.
    symlink("same_graphs.csv", place.path("same_edges.csv")).unwrap();
    copy(&place.path("run"), &place.path("runs"));
    fs::create_dir(place.path("results")).unwrap();
    fs::create_dir(place.path("results/records")).unwrap();
    fs::copy(place.path("tables.md"), place.path("results/tables.md")).unwrap();
    fs::create_dir(place.path("runs/1")).unwrap();
    fs::copy(place.path("run/model.safetensors"), place.path("runs/1/model.safetensors")).unwrap();
    place.write("runs/members.json", "mine");
    place.write("runs/out_of_fold.csv", "mine");
    let reasons = ["it is read as ", "it is a file of the run in ", "two results ", "no records ", "a run has begun "];
    for line in REPLACING {
        let said = spared(&place, line);
        assert!(reasons.iter().any(|reason| said.contains(reason)), "gt {line}: {said}");
    }
    // A model file in the folder of the new run.
    fs::create_dir(place.path("start")).unwrap();
    fs::copy(place.path("run/model.safetensors"), place.path("start/model.safetensors")).unwrap();
    for init in ["start", "start/model.safetensors"] {
        spared(&place, &train(&format!("--init {init} --out start")));
    }
    spared(&place, &train("--init run --out run"));
    // A file of no run, in the folder of one, is written, and replaced by the next call.
    for _ in 0..2 {
        place.done("predict run --data data.jsonl --out run/predictions.csv");
    }
}

#[test]
fn a_link_stays_and_the_file_behind_it_is_replaced() {
    let place = place_with_run();
    fs::create_dir(place.path("far")).unwrap();
    place.write("far/p.csv", "old");
    symlink("far/p.csv", place.path("p.csv")).unwrap();
    symlink("far/new.parquet", place.path("new.parquet")).unwrap();
    place.done("predict run --data data.jsonl --out p.csv");
    place.done("data convert data.jsonl new.parquet");
    place.done("predict run --data data.jsonl --out plain.csv");
    assert!(place.path("p.csv").is_symlink() && place.path("new.parquet").is_symlink());
    assert_eq!(fs::read(place.path("far/p.csv")).unwrap(), fs::read(place.path("plain.csv")).unwrap());
    assert!(place.path("far/new.parquet").is_file());
    assert!(!place.files().iter().chain(&names(&place.path("far"))).any(|name| name.starts_with(".gt-")));
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// What a reader of a new named pipe gets from a command.
fn through_pipe(place: &Place, name: &str, line: &str) -> Vec<u8> {
    let pipe = place.path(name);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    place.done(line);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo(), "gt {line}: the pipe was replaced");
    reader.join().unwrap()
}

#[test]
fn pipes_are_written_through() {
    let place = place_with_run();
    for name in ["plain.csv", "plain.jsonl", "plain.parquet"] {
        place.done(&format!("predict run --data data.jsonl --out {name}"));
    }
    let plain = |name: &str| fs::read(place.path(name)).unwrap();
    let predict = |name: &str| through_pipe(&place, name, &format!("predict run --data data.jsonl --out {name}"));
    assert_eq!(predict("pipe"), plain("plain.csv"), "a pipe takes CSV");
    assert_eq!(predict("pipe.jsonl"), plain("plain.jsonl"));
    assert_eq!(predict("pipe.parquet"), plain("plain.parquet"));
    place.done("data convert data.jsonl set.parquet");
    assert_eq!(
        through_pipe(&place, "set-pipe.parquet", "data convert data.jsonl set-pipe.parquet"),
        plain("set.parquet")
    );
    // Standard output, if it is a pipe.
    assert_eq!(place.done("predict run --data data.jsonl --out /dev/stdout").into_bytes(), plain("plain.csv"));
    // A file behind standard output belongs to the shell, which may append to it.
    let line = "predict run --data data.jsonl --out /dev/stdout";
    place.write("log.txt", "mine");
    let log = File::options().append(true).open(place.path("log.txt")).unwrap();
    let output = program().args(line.split_whitespace()).current_dir(&place.0).stdout(log).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_names(&said, &["/dev/stdout", "log.txt"]);
    assert_eq!(plain("log.txt"), b"mine");
    // One of a set of tables cannot be a pipe.
    assert!(Command::new("mkfifo").arg(place.path("t_edges.csv")).status().unwrap().success());
    spared(&place, "data convert data.jsonl t_nodes.csv");
}

#[test]
fn devices_are_written_through_and_sockets_refused() {
    let place = place_with_run();
    let _listener = std::os::unix::net::UnixListener::bind(place.path("socket.csv")).unwrap();
    spared(&place, "predict run --data data.jsonl --out socket.csv");
    assert!(fs::metadata(place.path("socket.csv")).unwrap().file_type().is_socket());
    // A device like /dev/null, which the test may lose.
    let null = place.path("null");
    let made = Command::new("mknod").arg(&null).args(["c", "1", "3"]).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) || File::options().write(true).open(&null).is_err() {
        return skip(Resource::Privileges, "a device cannot be made");
    }
    place.done("predict run --data data.jsonl --out null");
    place.done("attention run --data data.jsonl --graph 0 --out null");
    assert!(fs::metadata(&null).unwrap().file_type().is_char_device());
    // The formats of data sets and models follow from names, which this device does not have.
    spared(&place, "data convert data.jsonl null");
    fs::rename(&null, place.path("null.jsonl")).unwrap();
    place.done("data convert data.jsonl null.jsonl");
    assert!(fs::metadata(place.path("null.jsonl")).unwrap().file_type().is_char_device());
}

#[test]
fn a_set_of_tables_is_written_whole_or_not_at_all() {
    let place = place();
    // The last table cannot be written.
    fs::create_dir(place.path("t_graphs.csv")).unwrap();
    place.write("t_nodes.csv", "mine");
    assert_names(&spared(&place, "data convert data.jsonl t_nodes.csv"), &["t_graphs.csv"]);
}

#[test]
fn tables_of_one_name_in_two_formats_have_two_schemas() {
    let place = place();
    let other = graphs().replace("\"y\"", "\"node_attr\": 1, \"y\"").replace("\"node_attr\": 1, ", "");
    place.write("other.jsonl", &other.replace("\"node_feat\": [[0]", "\"node_feat\": [[7]"));
    place.done("data convert data.jsonl t_nodes.csv");
    place.done("data convert t_nodes.csv before.parquet");
    let written = fs::read(place.path("t_schema.csv.json")).unwrap();
    for format in ["parquet", "tsv"] {
        place.done(&format!("data convert --target y --ignore node_feat data.jsonl t_nodes.{format}"));
        assert!(place.path(&format!("t_schema.{format}.json")).exists());
    }
    assert_eq!(fs::read(place.path("t_schema.csv.json")).unwrap(), written);
    place.done("data convert t_nodes.csv after.parquet");
    assert_eq!(fs::read(place.path("before.parquet")).unwrap(), fs::read(place.path("after.parquet")).unwrap());
}

#[test]
fn tables_that_were_not_all_written_are_reported() {
    let place = place();
    place.done("data convert data.jsonl t_nodes.csv");
    let schema = fs::read_to_string(place.path("t_schema.csv.json")).unwrap();
    place.write("t_schema.csv.json", &schema.replacen('{', "{\"unfinished\": true, ", 1));
    for line in ["data info t_nodes.csv", "data convert --nodes t_nodes.csv --edges t_edges.csv --src src t.parquet"] {
        assert_names(&spared(&place, line), &["t_schema.csv.json"]);
    }
    place.done("data convert data.jsonl t_nodes.csv");
    place.done("data info t_nodes.csv");
}

/// A command that has begun its file and is stopped there, and its temporary file.
fn stopped_writer(place: &Place, out: &str) -> (Child, PathBuf) {
    let line = format!("data sbm cluster --train 1500 --val 0 --test 0 --out {out}");
    let temporary = |before: &[String]| {
        let mut new =
            names(place.0.path()).into_iter().filter(|name| name.starts_with(".gt-") && !before.contains(name));
        new.next().map(|name| place.path(&name))
    };
    // A machine under load may not stop the command in time.
    for _ in 0..10 {
        let before = names(place.0.path());
        let mut child =
            program().args(line.split_whitespace()).current_dir(&place.0).stderr(Stdio::null()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
            let Some(path) = temporary(&before).filter(|path| is_locked(path)) else { continue };
            signal(&child, "-STOP");
            if path.exists() {
                return (child, path);
            }
            signal(&child, "-CONT");
            child.wait().unwrap();
            break;
        }
    }
    panic!("no command could be stopped while it wrote");
}

fn is_locked(file: &Path) -> bool {
    File::open(file).is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn half_written_files_of_the_dead_are_removed_and_those_of_the_living_stay() {
    let place = place();
    let (mut dead, left) = stopped_writer(&place, "dead.jsonl");
    dead.kill().unwrap();
    dead.wait().unwrap();
    assert!(left.exists());
    let (mut living, kept) = stopped_writer(&place, "living.jsonl");
    // The second writer has removed the file of the first.
    assert!(!left.exists() && kept.exists());
    place.done("data convert data.jsonl other.parquet");
    assert!(kept.exists(), "the file of a living process was removed");
    signal(&living, "-CONT");
    assert_eq!(living.wait().unwrap().code(), Some(0));
    let mut text = String::new();
    File::open(place.path("living.jsonl")).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 1500);
    assert!(!names(place.0.path()).iter().any(|name| name.starts_with(".gt-")));
}
