//! `gt reproduce`: finished runs stay finished, unfinished runs resume on any machine, and our
//! results stand next to the paper's.

#![cfg(unix)]

mod support;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;
use support::assert_names;

/// Tiny networks on a tiny stand-in for ZINC, saved as often as possible.
const TINY: &str = "--results r --zinc zinc.jsonl --device cpu --set model.layers=1 --set model.width=8 --set model.heads=2 \
                    --set train.batch=4 --set train.checkpoint_seconds=0 --set schedule.name=constant --set schedule.min_lr=0";
/// Epochs of a run that takes about a second.
const LONG: &str = "--set train.epochs=150 --cell zinc-sparse-lappe-bn --seeds 41";

/// A folder in which `gt` is called.
struct Place(tempfile::TempDir);

/// How a call ended, and its output.
struct End {
    code: Option<i32>,
    said: String,
    printed: String,
}

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("zinc.jsonl"), molecules()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn start(&self, line: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_gt"))
            .args(line.split_whitespace())
            .current_dir(&self.0)
            .env("GT_CACHE", self.path("cache"))
            .stderr(File::create(self.path("said.txt")).unwrap())
            .stdout(File::create(self.path("printed.txt")).unwrap())
            .spawn()
            .unwrap()
    }

    fn end(&self, mut child: Child) -> End {
        let code = child.wait().unwrap().code();
        let [said, printed] = ["said.txt", "printed.txt"].map(|file| fs::read_to_string(self.path(file)).unwrap());
        assert!(!said.contains("panicked"), "{said}");
        End { code, said, printed }
    }

    fn gt(&self, line: &str) -> End {
        self.end(self.start(line))
    }

    /// A call that must succeed; returns its output.
    fn done(&self, line: &str) -> End {
        let end = self.gt(line);
        assert_eq!(end.code, Some(0), "gt {line}: {}", end.said);
        end
    }

    /// A call that must succeed; returns its output as JSON.
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.done(&format!("{line} --json")).printed).unwrap()
    }

    /// The error message of a call that must fail with exit code 2.
    fn refused(&self, line: &str) -> String {
        let end = self.gt(line);
        assert_eq!(end.code, Some(2), "gt {line}: {}", end.said);
        end.said
    }

    fn record(&self, run: &str) -> Value {
        let text = fs::read_to_string(self.path(&format!("r/records/{run}.json"))).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Waits until a run has written complete checkpoints.
    fn wait_for_checkpoints(&self, child: &mut Child, run: &str) {
        let manifest = |folder: &Path| folder.join("manifest.json").exists();
        let folder = self.path(&format!("r/unfinished/{run}/checkpoint"));
        loop {
            let found = fs::read_dir(&folder).into_iter().flatten().flatten();
            if found.filter(|entry| manifest(&entry.path())).count() >= 2 {
                return;
            }
            assert!(child.try_wait().unwrap().is_none(), "it ended too soon");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Small rings with a chord; a number that follows from their size.
fn molecules() -> String {
    let graph = |i: usize| {
        let nodes = 4 + i * 7 % 6;
        let kinds: Vec<String> = (0..nodes).map(|v| format!("[{}]", (v * v + i) % 3)).collect();
        let mut ends: Vec<(usize, usize)> = (0..nodes).map(|v| (v, (v + 1) % nodes)).collect();
        ends.push((0, nodes / 2));
        let both: Vec<(usize, usize)> = ends.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        let list = |of: fn(&(usize, usize)) -> usize| {
            both.iter().map(|pair| of(pair).to_string()).collect::<Vec<_>>().join(", ")
        };
        let bonds: Vec<String> = both.iter().map(|(a, b)| format!("[{}]", 1 + (a + b) % 3)).collect();
        format!(
            "{{\"node_feat\": [{}], \"edge_index\": [[{}], [{}]], \"edge_attr\": [{}], \"y\": [{:.2}]}}\n",
            kinds.join(", "),
            list(|pair| pair.0),
            list(|pair| pair.1),
            bonds.join(", "),
            nodes as f64 / 4.0 + (i % 5) as f64 / 10.0
        )
    };
    (0..40).map(graph).collect()
}

/// The names in a list.
fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn deleting_a_record_makes_exactly_that_run_again() {
    let place = Place::new();
    let call = format!(
        "reproduce table1 {TINY} --set train.epochs=2 --cell zinc-sparse-none-bn --cell zinc-sparse-lappe --seeds 41,95 --jobs 3"
    );
    let first = place.json(&call);
    assert_eq!(first["finished"].as_array().unwrap().len(), 6);
    assert_eq!(place.list("r/unfinished"), [""; 0]);
    let files = place.list("r/records");
    assert_eq!(files.len(), 6);
    let read = |name: &String| fs::read(place.path("r/records").join(name)).unwrap();
    let before: Vec<Vec<u8>> = files.iter().map(read).collect();

    let again = place.json(&call);
    assert_eq!(names(&again["finished"]), [""; 0]);

    let gone = "zinc-sparse-lappe-ln-95";
    let record = place.record(gone);
    fs::remove_file(place.path(&format!("r/records/{gone}.json"))).unwrap();
    let third = place.json(&call);
    assert_eq!(names(&third["finished"]), [gone]);
    assert_eq!(place.record(gone)["weights_sha256"], record["weights_sha256"]);
    for (name, bytes) in files.iter().zip(&before) {
        assert!(read(name) == *bytes || name.starts_with(gone), "{name} was touched");
    }
}

#[test]
fn a_record_tells_everything_about_its_run() {
    let place = Place::new();
    place.done(&format!(
        "reproduce table1 {TINY} --set train.epochs=3 --cell zinc-sparse-lappe-bn --seeds 22 --keep-runs"
    ));
    let record = place.record("zinc-sparse-lappe-bn-22");
    let size = fs::metadata(place.path("r/records/zinc-sparse-lappe-bn-22.json")).unwrap().len();
    assert!(size < 8000, "{size}");
    assert_eq!(
        (&record["preset"], &record["seed"], &record["epochs"]),
        (&"zinc-sparse-lappe-bn".into(), &22.into(), &3.into())
    );
    assert_eq!(record["config"]["model"]["encoding"], "laplacian");
    assert_eq!(record["config"]["train"]["seed"], 22);
    assert!(names(&record["changes"]).contains(&"train.epochs=3"));
    for part in ["train", "val", "test"] {
        for form in ["paper", "exact"] {
            assert!(record["last"][part][form].is_number(), "{part} {form}");
            assert!(record["best"][part][form].is_number(), "{part} {form}");
        }
    }
    assert_eq!(record["curve"].as_array().unwrap().len(), 3);
    assert!(record["seconds"].as_f64().unwrap() >= record["device_seconds"].as_f64().unwrap());
    assert_eq!(record["sittings"].as_array().unwrap().len(), 1);
    assert_eq!(record["sittings"][0]["device"], "CPU");
    let version = record["version"].as_str().unwrap();
    assert!(version.starts_with(env!("CARGO_PKG_VERSION")), "{version}");
    assert_eq!(place.done("--version").printed, format!("gt {version}\n"));
    assert_eq!(record["data"]["content_sha256"].as_str().unwrap().len(), 64);
    // The curve is that of the run, and the hash is that of its weights. Neither depends on the
    // path of the data.
    let kept = place.path("r/runs/zinc-sparse-lappe-bn-22");
    let metrics = fs::read_to_string(kept.join("metrics.jsonl")).unwrap();
    let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    let close = |a: &Value, b: &Value| (a.as_f64().unwrap() / b.as_f64().unwrap() - 1.0).abs() < 1e-5;
    assert!(close(&record["curve"][2][1], &last["val"]["loss"]["paper"]));
    assert!(kept.join("model.safetensors").exists());
    assert!(record["config"]["data"]["file"].as_str().unwrap().starts_with("zinc-"));
}

#[test]
fn what_a_killed_program_left_of_a_finished_run_is_kept_if_that_is_wanted() {
    let place = Place::new();
    let call = format!("reproduce table1 {TINY} --set train.epochs=1 --cell zinc-sparse-lappe-bn --seeds 22");
    let run = "zinc-sparse-lappe-bn-22";
    place.done(&format!("{call} --keep-runs"));
    let leave = || {
        fs::create_dir_all(place.path("r/unfinished")).unwrap();
        fs::rename(place.path(&format!("r/runs/{run}")), place.path(&format!("r/unfinished/{run}"))).unwrap();
    };
    leave();
    place.done(&format!("{call} --keep-runs"));
    assert!(place.path(&format!("r/runs/{run}/model.safetensors")).exists());
    leave();
    place.done(&call);
    assert_eq!((place.list("r/unfinished"), place.list("r/runs")), (vec![], vec![]));
    // A record that is not UTF-8 text.
    fs::write(place.path(&format!("r/records/{run}.json")), [0xff, 0xfe]).unwrap();
    let complaint = place.refused(&call);
    assert_names(&complaint, &[&format!("records/{run}.json")]);
}

#[test]
fn cells_that_were_made_in_several_precisions_are_named() {
    let place = Place::new();
    let call = format!("reproduce table1 {TINY} --set train.epochs=1 --cell zinc-sparse-lappe-bn");
    place.done(&format!("{call} --seeds 22,41"));
    let page = || fs::read_to_string(place.path("r/tables.md")).unwrap();
    assert!(!page().contains("tf32"));
    let file = place.path("r/records/zinc-sparse-lappe-bn-41.json");
    let record = fs::read_to_string(&file).unwrap();
    let other = record.replace("\"f32\"", "\"tf32\"");
    assert_ne!(record, other);
    fs::write(file, other).unwrap();
    place.done(&format!("{call} --render"));
    let page = page();
    let of_cell = |line: &&str| line.contains("zinc-sparse-lappe-bn (") && line.contains("tf32");
    assert_names(page.lines().find(of_cell).expect(&page), &["f32", "tf32"]);
}

#[test]
fn a_run_is_what_gt_train_makes_of_the_preset() {
    let place = Place::new();
    let settings = format!("{} --set train.epochs=4", TINY.strip_prefix("--results r --zinc zinc.jsonl ").unwrap());
    let trained = place.json(&format!("train --preset zinc-full-lappe-ln --seed 95 --data zinc.jsonl {settings}"));
    place.done(&format!("reproduce table1 {TINY} --set train.epochs=4 --cell zinc-full-lappe-ln --seeds 95"));
    let record = place.record("zinc-full-lappe-ln-95");
    assert_eq!(record["last"], trained["last"]);
    assert_eq!(record["parameters"], trained["params"]);
}

#[test]
fn a_killed_run_goes_on_elsewhere_and_ends_with_the_same_weights() {
    let call = format!("reproduce table1 {TINY} {LONG}");
    let undisturbed = Place::new();
    undisturbed.done(&call);
    let run = "zinc-sparse-lappe-bn-41";
    let expected = undisturbed.record(run);

    let place = Place::new();
    let mut child = place.start(&call);
    place.wait_for_checkpoints(&mut child, run);
    child.kill().unwrap();
    assert_eq!(place.end(child).code, None);
    assert_eq!(place.list("r/records"), [""; 0]);
    // The folder of results is copied to another machine.
    let other = Place::new();
    fs::rename(place.path("r"), other.path("r")).unwrap();
    let end = other.done(&call);
    assert_names(&end.said, &["begun", "resuming"]);
    let record = other.record(run);
    for key in ["weights_sha256", "last", "best", "curve", "epochs", "config", "data"] {
        assert_eq!(record[key], expected[key], "{key}");
    }
    assert_eq!(record["sittings"].as_array().unwrap().len(), 2);
    assert_eq!(other.list("r/unfinished"), [""; 0]);
}

#[test]
fn a_budget_stops_between_epochs_and_the_next_call_goes_on() {
    let place = Place::new();
    let call = format!("reproduce table1 {TINY} {LONG}");
    let run = "zinc-sparse-lappe-bn-41";
    let nothing = place.json(&format!("{call} --budget 0"));
    place.done(&format!("{} --budget 1e300", call.replace("--results r", "--results endless").replace("=150", "=1")));
    assert_eq!((names(&nothing["left"]), place.list("r/unfinished")), (vec![run], vec![]));

    let end = place.done(&format!("{call} --budget 0.0005"));
    assert_names(&end.said, &["budget", "0 runs", "1 left"]);
    assert_eq!(place.list("r/unfinished"), [run]);
    // An unfinished run is small enough to copy: one checkpoint, and no duplicates of its contents.
    assert_eq!(place.list(&format!("r/unfinished/{run}/checkpoint")).len(), 1);
    let files = place.list(&format!("r/unfinished/{run}"));
    assert_eq!(files, [".lock", "checkpoint", "config.toml", "metrics.jsonl", "sittings.json"]);
    let state = fs::read_dir(place.path(&format!("r/unfinished/{run}/checkpoint"))).unwrap().next().unwrap().unwrap();
    let state: Value = serde_json::from_slice(&fs::read(state.path().join("state.json")).unwrap()).unwrap();
    assert_eq!(state["batch"], 0, "it stopped within an epoch");
    assert!(state["epoch"].as_u64().unwrap() > 0);

    place.done(&call);
    let undisturbed = Place::new();
    undisturbed.done(&call);
    assert_eq!(place.record(run)["weights_sha256"], undisturbed.record(run)["weights_sha256"]);
    assert_eq!(place.record(run)["curve"], undisturbed.record(run)["curve"]);
}

#[test]
fn a_signal_ends_it_with_130_and_the_command_that_goes_on() {
    let place = Place::new();
    let call = format!("reproduce table1 {TINY} {LONG}");
    let mut child = place.start(&call);
    place.wait_for_checkpoints(&mut child, "zinc-sparse-lappe-bn-41");
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let end = place.end(child);
    assert_eq!(end.code, Some(130), "{}", end.said);
    assert!(end.said.contains("`gt reproduce table1 "), "{}", end.said);
    place.done(&call);
    assert_eq!(place.list("r/records"), ["zinc-sparse-lappe-bn-41.json"]);
}

#[test]
fn a_run_that_another_process_is_at_is_left_to_it() {
    let place = Place::new();
    let call = format!("reproduce table1 {TINY} --set train.epochs=3000 --cell zinc-sparse-lappe-bn");
    let other = Place::new();
    let mut child = other.start(&format!("{call} --seeds 41"));
    other.wait_for_checkpoints(&mut child, "zinc-sparse-lappe-bn-41");
    std::os::unix::fs::symlink(other.path("r"), place.path("r")).unwrap();
    let second = place.gt(&format!("{call} --seeds 41,95 --budget 0.0005 --json"));
    child.kill().unwrap();
    other.end(child);
    assert_eq!(second.code, Some(0), "{}", second.said);
    let told: Value = serde_json::from_str(&second.printed).unwrap();
    assert_eq!(names(&told["elsewhere"]), ["zinc-sparse-lappe-bn-41"]);
}

#[test]
fn processes_that_share_a_folder_make_every_run_once() {
    let places = [Place::new(), Place::new(), Place::new()];
    fs::create_dir(places[0].path("r")).unwrap();
    places[1..].iter().for_each(|place| std::os::unix::fs::symlink(places[0].path("r"), place.path("r")).unwrap());
    let call = format!("reproduce table1 {TINY} --set train.epochs=1 --cell zinc --seeds 41,95,22 --jobs 3 --json");
    let children = places.each_ref().map(|place| place.start(&call));
    let mut finished = 0;
    for (place, child) in places.iter().zip(children) {
        let end = place.end(child);
        assert_eq!(end.code, Some(0), "{}", end.said);
        let told: Value = serde_json::from_str(&end.printed).unwrap();
        finished += told["finished"].as_array().unwrap().len();
    }
    assert_eq!((finished, places[0].list("r/records").len()), (24, 24));
    places[0].done(&call);
    assert_eq!(places[0].list("r/unfinished"), [""; 0]);
}

#[test]
fn a_run_that_fails_does_not_keep_the_others_from_being_made() {
    let place = Place::new();
    fs::create_dir_all(place.path("r/unfinished")).unwrap();
    fs::write(place.path("r/unfinished/zinc-sparse-none-bn-41"), "in the way").unwrap();
    let end = place
        .gt(&format!("reproduce table1 {TINY} --set train.epochs=1 --cell zinc-sparse-none-bn --seeds 41,95 --json"));
    assert_eq!(end.code, Some(1), "{}", end.said);
    assert_names(&end.said, &["1 run", "zinc-sparse-none-bn-41"]);
    let told: Value = serde_json::from_str(&end.printed).unwrap();
    assert_eq!(names(&told["finished"]), ["zinc-sparse-none-bn-95"]);
    assert_names(told["failed"][0]["reason"].as_str().unwrap(), &["r/unfinished/zinc-sparse-none-bn-41"]);
}

#[test]
fn records_that_cannot_be_used_are_named() {
    let place = Place::new();
    let call = format!("reproduce table1 {TINY} --set train.epochs=1 --cell zinc-sparse-none-bn --seeds 41");
    place.done(&call);
    let file = place.path("r/records/zinc-sparse-none-bn-41.json");
    let good = fs::read_to_string(&file).unwrap();
    let complaint = |text: &str| {
        fs::write(&file, text).unwrap();
        let said = place.refused(&call);
        assert!(said.contains("records/zinc-sparse-none-bn-41.json: "), "{said}");
        said
    };
    complaint(&good[..good.len() / 2]);
    assert_names(&complaint("{\"a\": 1}"), &["`gt reproduce`"]);
    assert_names(&complaint(&good.replace("\"format\": 1", "\"format\": 7")), &["format 7"]);
    assert_names(&complaint(&good.replace("\"epochs\":", "\"eras\":")), &["`epochs`"]);
    assert_names(&complaint(&good.replace("\"seed\": 41", "\"seed\": 42")), &["zinc-sparse-none-bn-42.json"]);
    fs::write(&file, &good).unwrap();
    let said = place.refused(&call.replace("train.epochs=1", "train.epochs=2"));
    assert_names(&said, &["train.epochs=1", "train.epochs=2", "--results"]);
}

#[test]
fn trials_need_a_folder_of_their_own() {
    let place = Place::new();
    for trial in ["--set train.epochs=1", "--graphs 10"] {
        let said = place.refused(&format!("reproduce table1 {trial}"));
        assert_names(&said, &["--results"]);
    }
    let other_data = place.gt("reproduce table1 --zinc zinc.jsonl --device cpu --cell zinc-sparse-none-bn --seeds 41");
    assert_eq!(other_data.code, Some(1));
    assert_names(&other_data.said, &["zinc.jsonl", "ZINC-12k", "--results"]);
    let said = place.refused("reproduce table2 --cell zinc-sparse-none-bn");
    assert_names(&said, &["`zinc-sparse-none-bn`"]);
    // The paper's own folder is recognised in every notation.
    for same in ["./results/paper".to_owned(), place.path("results/paper").display().to_string()] {
        let said = place.refused(&format!("reproduce table1 --graphs 10 --results {same}"));
        assert_names(&said, &["--results"]);
    }
    let said = place.refused("reproduce claims --cell zinc-gcn");
    assert_names(&said, &["claims", "--cell"]);
    let said = place.refused("reproduce table1 --seeds 41,41");
    assert_names(&said, &["--seeds"]);
    let end = place.gt("reproduce table1 --results r --device cpu --cell zinc-sparse-none-bn --seeds 41");
    assert_names(&end.said, &["`gt data fetch zinc`"]);
}

#[test]
fn drawn_sets_have_the_seed_that_was_fixed_beforehand() {
    let place = Place::new();
    let call = format!("reproduce all {TINY} --set train.epochs=1 --graphs 20 --seeds 41 --jobs 2");
    let cells = "--cell cluster-sparse-lappe-bn --cell cluster-sparse-lappe-bn-draw2";
    let told = place.json(&format!("{call} {cells}"));
    assert_eq!((names(&told["finished"]).len(), names(&told["elsewhere"]).len()), (2, 0), "{told}");
    let [first, second] = ["", "-draw2"].map(|end| place.record(&format!("cluster-sparse-lappe-bn{end}-41")));
    assert_eq!((&first["data"]["seed"], &second["data"]["seed"]), (&41.into(), &42.into()));
    assert_eq!(first["data"]["graphs"], 24);
    assert_ne!(first["data"]["content_sha256"], second["data"]["content_sha256"]);
    let page = fs::read_to_string(place.path("r/tables.md")).unwrap();
    assert_names(&page, &["second draw", "2 of the records", "train.epochs=1"]);
    let said = place.refused(&format!("{} {cells}", call.replace("--graphs 20", "--graphs 30")));
    assert_names(&said, &["24", "36", "--results"]);
}

#[test]
fn scores_that_are_not_finite_are_a_failure_and_no_record() {
    let place = Place::new();
    let end = place.gt(&format!(
        "reproduce table1 {TINY} --set model.norm=none --set model.layers=2 --set train.batch=40 --set train.epochs=1 \
         --set optimizer.lr=1e25 --cell zinc-sparse-none-bn --seeds 41"
    ));
    assert_eq!(end.code, Some(1), "{}", end.said);
    assert_names(&end.said, &["zinc-sparse-none-bn-41", "not finite"]);
    assert_eq!(place.list("r/records"), [""; 0]);
    place.done("reproduce table1 --render --results r");
}

#[test]
fn the_file_for_the_tables_is_looked_at_before_any_run() {
    let place = Place::new();
    fs::write(place.path("page.md"), "no marks\n").unwrap();
    let call = format!("reproduce table1 {TINY} --set train.epochs=1 --cell zinc-sparse-none-bn --seeds 41");
    let said = place.refused(&format!("{call} --into page.md"));
    assert_names(&said, &["page.md", "`<!-- tables -->`"]);
    assert_eq!(place.list("r/records"), [""; 0]);
}

#[test]
fn pages_have_every_cell_and_say_what_was_not_run() {
    let place = Place::new();
    let all = place.json("reproduce all --render --results r");
    let cells = all["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 45);
    assert!(cells.iter().all(|cell| cell["verdict"] == "not run" && cell["ours"].is_null()));
    let [markdown, html] =
        ["md", "html"].map(|end| fs::read_to_string(place.path(&format!("r/tables.{end}"))).unwrap());
    for cell in cells {
        let name = cell["cell"].as_str().unwrap();
        assert!(markdown.contains(&format!("| `{name}` |")), "{name}");
        assert!(html.contains(&format!("<code>{name}</code>")), "{name}");
    }
    assert_eq!(markdown.matches("| not run |").count(), 45);
    assert_eq!(html.matches("<td>not run</td>").count(), 45);
    assert!(markdown.contains("0.226 ± 0.014") && markdown.contains("86.508 ± 0.085"));
    assert!(!html.contains("://"), "the page loads something");
    let printed = place.done("reproduce table3 --render --results r").printed;
    assert_eq!(printed.lines().filter(|line| line.contains("not run")).count(), 9, "{printed}");
}

/// Writes a record of a run that never ran, from a template.
fn write_record(place: &Place, template: &Value, cell: &str, seed: u64, test: f64, train: f64) {
    let mut record = template.clone();
    for key in ["cell", "preset"] {
        record[key] = cell.into();
    }
    record["seed"] = seed.into();
    record["changes"] = Value::Array(Vec::new());
    record["last"]["test"]["paper"] = test.into();
    record["last"]["train"]["paper"] = train.into();
    record["device_seconds"] = 36.0.into();
    record["sittings"][0]["device_seconds"] = 36.0.into();
    fs::write(place.path(&format!("r/records/{cell}-{seed}.json")), record.to_string()).unwrap();
}

#[test]
fn verdicts_claims_and_hours_follow_from_the_records() {
    let place = Place::new();
    place.done(&format!("reproduce table1 {TINY} --set train.epochs=1 --cell zinc-sparse-none-bn --seeds 41"));
    let template = place.record("zinc-sparse-none-bn-41");
    fs::remove_file(place.path("r/records/zinc-sparse-none-bn-41.json")).unwrap();
    // The same four seeds around a mean: the deviation is 0.01 on ZINC, 0.5 on the others.
    let runs = |cell: &str, mean: f64, train: f64| {
        let step = if cell.starts_with("zinc") { 0.01 } else { 0.5 } * 0.75f64.sqrt();
        for (seed, sign) in [(41, 1.0), (95, -1.0), (22, 1.0), (35, -1.0)] {
            write_record(&place, &template, cell, seed, mean + sign * step, train);
        }
    };
    runs("zinc-sparse-lappe-bn", 0.23, 0.06);
    runs("zinc-gcn", 0.46, 0.3);
    runs("zinc-gat", 0.33, 0.3);
    runs("pattern-sparse-none-bn", 84.0, 84.0);
    runs("pattern-sparse-lappe-bn", 84.5, 86.0);
    runs("pattern-sparse-wl-bn", 76.0, 97.0);
    // The only run in two sittings: 36 seconds on a GPU, then 18 on the CPU.
    let mut template = template.clone();
    template["sittings"] = Value::Array(vec![template["sittings"][0].clone(); 2]);
    template["sittings"][0]["device"] = "GPU".into();
    template["sittings"][1]["device_seconds"] = 54.0.into();
    write_record(&place, &template, "zinc-full-none-ln", 41, 0.74, 0.43);

    let told = place.json("reproduce all --render --results r");
    let cell = |name: &str| told["cells"].as_array().unwrap().iter().find(|cell| cell["cell"] == name).unwrap();
    let verdict = |name: &str| cell(name)["verdict"].as_str().unwrap();
    assert_eq!(verdict("zinc-sparse-lappe-bn"), "reproduced");
    assert_eq!(verdict("zinc-gcn"), "worse");
    assert_eq!(verdict("zinc-gat"), "better");
    assert_eq!(verdict("zinc-full-none-ln"), "inconclusive", "one seed has no deviation");
    assert_eq!(verdict("cluster-gat"), "not run");
    let units = cell("zinc-sparse-lappe-bn")["test_units"].as_f64().unwrap();
    assert!((units - 0.004 / 0.014f64.hypot(0.01)).abs() < 1e-6, "{units}");
    // The paper prints no hours for the eight runs of GCN and GAT.
    let hours = |device: &str| told["hours"]["ours"][device].as_f64().unwrap();
    assert!((hours("CPU, f32") - (24.0 * 36.0 + 18.0) / 3600.0).abs() < 1e-9);
    assert!((hours("GPU, f32") - 36.0 / 3600.0).abs() < 1e-9);
    assert_eq!((&told["hours"]["runs"], &told["hours"]["not_printed"]), (&25.into(), &8.into()));
    let paper = told["hours"]["paper"].as_f64().unwrap();
    assert!((paper - (4.0 * (2.25 + 19.71 + 12.67 + 9.73) + 2.09)).abs() < 1e-9, "{paper}");

    let claims = place.json("reproduce claims --results r");
    let status = |number: usize| claims["claims"][number]["status"].as_str().unwrap();
    assert_eq!(status(0), "not enough records");
    assert_eq!(status(2), "not enough records", "CLUSTER and PATTERN are missing");
    runs("zinc-gat", 0.22, 0.1);
    let claims = place.json("reproduce claims --results r");
    assert_eq!(claims["claims"][2]["status"], "does not hold", "one contradiction is enough");
    let checks = claims["claims"][3]["checks"].as_array().unwrap();
    assert_eq!(checks.iter().filter(|check| check["holds"] == true).count(), 4, "WL-PE overfits PATTERN");
    let full = claims["claims"][1]["checks"].as_array().unwrap();
    assert!(full.iter().all(|check| check["holds"].is_null()), "a single run on full graphs is no evidence");
    write_record(&place, &template, "zinc-sparse-none-ln", 41, 0.28, 0.03);
    let claims = place.json("reproduce claims --results r");
    let full = claims["claims"][1]["checks"].as_array().unwrap();
    assert!(full.iter().all(|check| check["holds"].is_null()), "nor are two single runs");
    let page = fs::read_to_string(place.path("r/tables.md")).unwrap();
    assert!(page.contains("| 1 of 4 |") && page.contains("**worse**"));
}
