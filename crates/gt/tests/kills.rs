//! Kills and errors at every file operation of a training, a prediction and conversions. No final
//! file is ever half-written, and the same command, or `--resume`, ends with the same bytes.
//!
//! A small C library stands between `gt` and the C library and counts operations. The gate takes a
//! sample of them. `GT_KILLS=N` takes all of them and N random moments for each task;
//! `GT_KILLS_RECORD=FILE` appends the counts. `bench/trials/kills` does both.

#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gt_data::{DataError, FileProblem, content_hash};
use gt_testing::say;
use serde_json::json;
use support::Place;
use support::small_run::{Left, Random, graphs};

const SIGKILL: i32 = 9;
/// Operations of a task that the gate takes.
const SAMPLE: usize = 40;

/// The library between `gt` and the C library.
fn interposer() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kills/interposer.c");
        let library = PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/interposer.so"));
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).args([source, "-ldl"]).status();
        assert!(built.expect("a C compiler is needed, as for gt itself").success());
        library
    })
}

/// What is to be disturbed.
trait Task: Sync {
    fn name(&self) -> &'static str;

    /// Writes the files that are there before.
    fn prepare(&self, place: &Place);

    /// The arguments that begin the task or resume it.
    fn command(&self, place: &Place) -> String;

    /// Checks that no final file is half-written.
    fn check_stopped(&self, place: &Place, story: &str);

    /// Checks that everything is as after an undisturbed task.
    fn check_finished(&self, place: &Place, story: &str);
}

/// How a task is disturbed.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    KillAt(usize),
    FailAt(usize),
    KillAfter(Duration),
}

/// Runs `gt` in a folder, and returns its end and what it said.
fn gt(place: &Place, line: &str, disturbance: Option<Disturbance>, log: Option<&Path>) -> (ExitStatus, String) {
    let said = place.path("said.txt");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command.args(line.split_whitespace()).args(["--threads", "1"]).current_dir(&place.0);
    command.env("GT_CACHE", place.path("cache")).stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap());
    if log.is_some() || disturbance.is_some() {
        command.env("LD_PRELOAD", interposer());
    }
    if let Some(log) = log {
        command.env("GT_OPERATIONS", log);
    }
    match disturbance {
        Some(Disturbance::KillAt(number)) => {
            command.env("GT_KILL_AT", number.to_string());
        }
        Some(Disturbance::FailAt(number)) => {
            command.env("GT_FAIL_AT", number.to_string());
        }
        Some(Disturbance::KillAfter(_)) | None => {}
    }
    let mut child = command.spawn().unwrap();
    if let Some(Disturbance::KillAfter(delay)) = disturbance {
        std::thread::sleep(delay);
        child.kill().unwrap();
    }
    let end = child.wait().unwrap();
    let text = fs::read_to_string(&said).unwrap();
    assert!(!text.contains("panicked"), "gt {line}: {text}");
    (end, text)
}

fn done(place: &Place, line: &str, story: &str) {
    let (end, said) = gt(place, line, None, None);
    assert_eq!(end.code(), Some(0), "gt {line}: {said}; {story}");
}

/// No temporary file is left in a folder.
fn check_tidy(folder: &Path, story: &str) {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.starts_with(".gt-")).collect();
    assert!(left.is_empty(), "{left:?} are left; {story}");
}

/// Disturbs a task in a folder of its own, and lets it finish. Returns whether it was disturbed.
fn disturb(task: &dyn Task, disturbance: Disturbance) -> bool {
    let story = format!("{}: {disturbance:?}", task.name());
    let place = Place::new();
    task.prepare(&place);
    let line = task.command(&place);
    let (end, said) = gt(&place, &line, Some(disturbance), None);
    task.check_stopped(&place, &format!("{story}; {said}"));
    let stopped = match disturbance {
        Disturbance::FailAt(_) => {
            assert!([Some(0), Some(2)].contains(&end.code()), "{story}: {end:?}, {said}");
            end.code() == Some(2)
        }
        _ => {
            assert!(end.signal() == Some(SIGKILL) || end.code() == Some(0), "{story}: {end:?}, {said}");
            end.signal() == Some(SIGKILL)
        }
    };
    if stopped {
        done(&place, &task.command(&place), &story);
    }
    task.check_finished(&place, &story);
    stopped
}

/// The number of file operations of a task, and its duration.
fn measure(task: &dyn Task) -> (usize, Duration) {
    let place = Place::new();
    task.prepare(&place);
    let log = place.path("operations.txt");
    let start = Instant::now();
    let (end, said) = gt(&place, &task.command(&place), None, Some(&log));
    assert_eq!(end.code(), Some(0), "{said}");
    let duration = start.elapsed();
    task.check_finished(&place, "undisturbed");
    (fs::read_to_string(log).unwrap().lines().count(), duration)
}

/// Disturbs a task in several ways, two at a time, and returns the number of stops.
fn disturb_all(task: &dyn Task, disturbances: &[Disturbance]) -> usize {
    let (next, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(&disturbance) = disturbances.get(next.fetch_add(1, Ordering::Relaxed)) {
                    stopped.fetch_add(usize::from(disturb(task, disturbance)), Ordering::Relaxed);
                }
            });
        }
    });
    stopped.into_inner()
}

/// Kills a task and lets it fail, at a sample of its operations or, with `GT_KILLS`, at all of them
/// and at random moments.
fn disturb_everywhere(task: &dyn Task) {
    let random_kills: Option<usize> = std::env::var("GT_KILLS").ok().map(|text| text.parse().unwrap());
    let (operations, duration) = measure(task);
    let step = if random_kills.is_some() { 1 } else { operations.div_ceil(SAMPLE) };
    let numbers = || (1..=operations).step_by(step);
    let kills: Vec<_> = numbers().map(Disturbance::KillAt).collect();
    let errors: Vec<_> = numbers().map(Disturbance::FailAt).collect();
    let [killed, failed] = [&kills, &errors].map(|all| disturb_all(task, all));
    // Some moments come after the end, so moments are drawn until enough kills hit the task.
    let mut random = Random(operations as u64);
    let (wanted, mut moments, mut killed_randomly) = (random_kills.unwrap_or(0), 0, 0);
    while killed_randomly < wanted {
        let left = wanted - killed_randomly;
        let drawn: Vec<_> = (0..left).map(|_| Disturbance::KillAfter(duration.mul_f64(random.share()))).collect();
        killed_randomly += disturb_all(task, &drawn);
        moments += left;
        assert!(moments < 20 * wanted, "{}: {killed_randomly} of {moments} kills hit the task", task.name());
    }
    assert!(killed * 10 >= kills.len() * 9, "{}: {killed} of {} kills hit the task", task.name(), kills.len());
    assert!(failed * 4 >= errors.len(), "{}: {failed} of {} errors ended the task", task.name(), errors.len());
    let record = json!({
        "task": task.name(), "operations": operations,
        "kills_at_operations": kills.len(), "killed": killed,
        "errors_at_operations": errors.len(), "ended_by_error": failed,
        "kills_at_random_moments": moments, "killed_at_random_moments": killed_randomly,
        "corrupt_final_files": 0, "other_bytes_in_the_end": 0,
    });
    say(format_args!("{record}"));
    if let Ok(file) = std::env::var("GT_KILLS_RECORD") {
        let mut file = fs::File::options().create(true).append(true).open(file).unwrap();
        writeln!(file, "{record}").unwrap();
    }
}

const BEGIN: &str = "train --data data.jsonl --out run --set model.layers=1 --set model.width=8 --set model.heads=2 \
                     --set model.encoding=laplacian --set model.encoding_size=2 --set model.dropout=0.1 --set train.batch=8 \
                     --set train.checkpoint_seconds=0 --set schedule.name=constant --set schedule.min_lr=0 --set train.epochs=4";

struct Training {
    whole: Left,
    config: String,
}

impl Training {
    fn new() -> Self {
        let place = Place::new();
        place.write("data.jsonl", &graphs());
        done(&place, BEGIN, "undisturbed");
        let run = place.path("run");
        Self { whole: Left::in_folder(&run), config: fs::read_to_string(run.join("config.toml")).unwrap() }
    }
}

impl Task for Training {
    fn name(&self) -> &'static str {
        "training"
    }

    fn prepare(&self, place: &Place) {
        place.write("data.jsonl", &graphs());
    }

    fn command(&self, place: &Place) -> String {
        let begun = place.path("run/config.toml").exists();
        if begun { "train --resume --out run".into() } else { BEGIN.into() }
    }

    fn check_stopped(&self, place: &Place, story: &str) {
        let read = |name: &str| fs::read(place.path("run").join(name)).ok();
        let whole = |name: &str, expected: &[u8]| {
            assert!(read(name).is_none_or(|found| found == expected), "{name} is not whole; {story}");
        };
        whole("model.safetensors", &self.whole.model);
        whole("best.safetensors", &self.whole.best);
        whole("config.toml", self.config.as_bytes());
        let report = read("report.html").is_none_or(|page| page.trim_ascii_end().ends_with(b"</html>"));
        assert!(report, "report.html is not whole; {story}");
    }

    fn check_finished(&self, place: &Place, story: &str) {
        self.check_stopped(place, story);
        self.whole.assert_same(&place.path("run"), story);
        check_tidy(&place.path("run"), story);
    }
}

/// A task that replaces one file.
struct Replacement {
    name: &'static str,
    line: String,
    out: &'static str,
    new: Vec<u8>,
    /// The folder of the inputs.
    _inputs: Option<Place>,
}

const OLD: &[u8] = b"what was there before";

impl Replacement {
    fn new(name: &'static str, line: String, out: &'static str, inputs: Option<Place>) -> Self {
        let mut task = Self { name, line, out, new: Vec::new(), _inputs: inputs };
        let place = Place::new();
        task.prepare(&place);
        done(&place, &task.line, "undisturbed");
        task.new = fs::read(place.path(out)).unwrap();
        assert_ne!(task.new, OLD);
        task
    }

    fn prediction() -> Self {
        let inputs = Place::new();
        inputs.write("data.jsonl", &graphs());
        done(&inputs, BEGIN, "undisturbed");
        let run = inputs.path("run").display().to_string();
        Self::new("prediction", format!("predict {run} --data data.jsonl --out p.parquet"), "p.parquet", Some(inputs))
    }

    fn conversion() -> Self {
        Self::new("conversion", "data convert data.jsonl converted.jsonl".into(), "converted.jsonl", None)
    }
}

impl Task for Replacement {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&self, place: &Place) {
        // So many that the output takes several writes.
        place.write("data.jsonl", &graphs().repeat(100));
        fs::write(place.path(self.out), OLD).unwrap();
    }

    fn command(&self, _: &Place) -> String {
        self.line.clone()
    }

    fn check_stopped(&self, place: &Place, story: &str) {
        let found = fs::read(place.path(self.out)).unwrap();
        assert!(found == OLD || found == self.new, "{} is neither old nor new; {story}", self.out);
    }

    fn check_finished(&self, place: &Place, story: &str) {
        assert!(fs::read(place.path(self.out)).unwrap() == self.new, "{} differs; {story}", self.out);
        check_tidy(place.0.path(), story);
    }
}

/// A task that replaces a set of tables.
struct Tables {
    /// Hashes of the graphs of the old and of the new set.
    sets: [String; 2],
    new: Vec<Vec<u8>>,
    /// Stops after which the set was neither the old nor the new one, and reported as such.
    reported: AtomicUsize,
}

const TABLES: [&str; 4] = ["t_nodes.csv", "t_edges.csv", "t_graphs.csv", "t_schema.csv.json"];

impl Tables {
    fn new() -> Self {
        let mut task = Self { sets: Default::default(), new: Vec::new(), reported: AtomicUsize::new(0) };
        let place = Place::new();
        task.prepare(&place);
        let hash = || content_hash(gt_data::read(&place.path(TABLES[0])).unwrap().graphs());
        task.sets[0] = hash();
        done(&place, &task.command(&place), "undisturbed");
        task.sets[1] = hash();
        task.new = TABLES.map(|name| fs::read(place.path(name)).unwrap()).into();
        task
    }
}

impl Task for Tables {
    fn name(&self) -> &'static str {
        "conversion to tables"
    }

    fn prepare(&self, place: &Place) {
        let all = graphs();
        place.write("old.jsonl", &all.lines().take(9).map(|line| format!("{line}\n")).collect::<String>());
        done(place, "data convert old.jsonl t_nodes.csv", "undisturbed");
        place.write("data.jsonl", &all);
    }

    fn command(&self, _: &Place) -> String {
        "data convert data.jsonl t_nodes.csv".into()
    }

    fn check_stopped(&self, place: &Place, story: &str) {
        match gt_data::read(&place.path(TABLES[0])) {
            Ok(found) => assert!(self.sets.contains(&content_hash(found.graphs())), "a mixed set is read; {story}"),
            Err(DataError::File { problem: FileProblem::OpenSet, .. }) => {
                self.reported.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => panic!("{error}; {story}"),
        }
    }

    fn check_finished(&self, place: &Place, story: &str) {
        for (name, new) in TABLES.iter().zip(&self.new) {
            assert!(fs::read(place.path(name)).unwrap() == *new, "{name} differs; {story}");
        }
        check_tidy(place.0.path(), story);
    }
}

#[test]
fn a_training_that_is_killed_or_fails_at_any_file_operation_ends_with_the_same_bytes() {
    disturb_everywhere(&Training::new());
}

#[test]
fn a_prediction_that_is_killed_or_fails_leaves_the_old_file_or_the_new_one() {
    disturb_everywhere(&Replacement::prediction());
}

#[test]
fn a_conversion_that_is_killed_or_fails_leaves_the_old_file_or_the_new_one() {
    disturb_everywhere(&Replacement::conversion());
}

#[test]
fn tables_of_a_conversion_that_is_killed_or_fails_are_old_or_new_or_reported() {
    let task = Tables::new();
    disturb_everywhere(&task);
    assert!(task.reported.into_inner() > 0, "nothing happened between the first and the last rename");
}

#[test]
fn the_name_of_a_new_file_is_brought_to_the_disk() {
    let place = Place::new();
    place.write("data.jsonl", &graphs());
    let log = place.path("operations.txt");
    let (end, said) = gt(&place, "data convert data.jsonl new.parquet", None, Some(&log));
    assert_eq!(end.code(), Some(0), "{said}");
    let text = fs::read_to_string(log).unwrap();
    let operations: Vec<&str> = text.lines().collect();
    let renamed = operations.iter().position(|line| *line == "rename new.parquet").expect("it is renamed");
    let synced = format!("fsync {}", place.0.path().canonicalize().unwrap().display());
    assert!(operations[renamed..].contains(&&*synced), "{operations:?}");
    assert!(operations[..renamed].iter().any(|line| line.starts_with("fsync ") && line.ends_with(".partial")));
}
