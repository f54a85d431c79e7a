//! `gt train` in bad circumstances: killed, interrupted, out of space, or with changed files. A
//! resumed run ends with the bytes of an uninterrupted run, or reports why it cannot resume.

#![cfg(unix)]

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gt_testing::{Resource, say, skip};
use support::assert_names;
use support::small_run::{Left, Random, graphs};

/// Cache folder of the tests.
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cache");

/// A tiny model with everything random in it, saved as often as possible.
const BEGIN: &str = "train --data data.jsonl --out run --set model.layers=1 --set model.width=8 --set model.heads=2 \
                     --set model.encoding=laplacian --set model.encoding_size=2 --set model.dropout=0.1 --set train.batch=4 \
                     --set train.checkpoint_seconds=0 --set schedule.name=constant --set schedule.min_lr=0";
const RESUME: &str = "train --resume --out run";
/// Epochs of a run that takes a few seconds.
const EPOCHS: usize = 240;

fn begin(epochs: usize) -> String {
    format!("{BEGIN} --set train.epochs={epochs}")
}

/// A folder with a data set, in which `gt` is called.
struct Place(tempfile::TempDir);

/// How a process ended: its exit code, if it was not killed, and its output.
#[derive(Debug)]
struct End {
    code: Option<i32>,
    said: String,
}

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("data.jsonl"), graphs()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a program in this folder. The output goes to a file, because the test reads no pipe
    /// while it waits.
    fn spawn(&self, program: &str, arguments: &[&str]) -> Child {
        let said = File::create(self.path("said.txt")).unwrap();
        Command::new(program)
            .args(arguments)
            .current_dir(&self.0)
            .env("GT_CACHE", CACHE)
            .stderr(said)
            .stdout(File::create(self.path("out.txt")).unwrap())
            .spawn()
            .unwrap()
    }

    fn start(&self, line: &str) -> Child {
        self.spawn(env!("CARGO_BIN_EXE_gt"), &line.split_whitespace().collect::<Vec<_>>())
    }

    fn end(&self, mut child: Child) -> End {
        let code = child.wait().unwrap().code();
        let said = fs::read_to_string(self.path("said.txt")).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        End { code, said }
    }

    fn gt(&self, line: &str) -> End {
        self.end(self.start(line))
    }

    fn done(&self, line: &str) -> String {
        let end = self.gt(line);
        assert_eq!(end.code, Some(0), "gt {line}: {}", end.said);
        end.said
    }

    /// The error message of a call that must fail with exit code 2.
    fn refused(&self, line: &str) -> String {
        let end = self.gt(line);
        assert_eq!(end.code, Some(2), "gt {line}: {}", end.said);
        assert_eq!(end.said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{}", end.said);
        end.said
    }

    fn begun(&self) -> bool {
        self.path("run/config.toml").exists()
    }

    /// Sends a run a signal after a number of epochs in this call; twice, as `timeout` does.
    fn interrupt(&self, line: &str, epochs: usize, signal: &str) -> End {
        let mut child = self.start(line);
        self.wait_for(&mut child, epochs);
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {0}; kill -{signal} {0}", child.id())])
            .status()
            .unwrap();
        assert!(sent.success());
        self.end(child)
    }

    fn wait_for(&self, child: &mut Child, epochs: usize) {
        let said = || fs::read_to_string(self.path("said.txt")).unwrap();
        while said().lines().filter(|line| line.starts_with("epoch ")).count() < epochs {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended too soon: {}", said());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn checkpoints(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = fs::read_dir(self.path("run/checkpoint")).unwrap().map(|e| e.unwrap().path()).collect();
        found.sort();
        found
    }
}

/// An undisturbed run, and the seconds it takes.
fn undisturbed() -> &'static (Left, f64) {
    static WHOLE: OnceLock<(Left, f64)> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let place = Place::new();
        let start = Instant::now();
        place.done(&begin(EPOCHS));
        let seconds = start.elapsed().as_secs_f64();
        let left = Left::in_folder(&place.path("run"));
        assert_eq!(left.metrics.len(), EPOCHS);
        (left, seconds)
    })
}

#[test]
fn a_run_killed_at_twenty_random_moments_ends_with_the_same_bytes() {
    const KILLS: usize = 20;
    let (whole, seconds) = undisturbed();
    let place = Place::new();
    let mut random = Random(20);
    let (mut alive, mut went_on, mut unfinished) = (0, 0, 0);
    let mut story = String::from("killed after epochs + seconds:");
    for _ in 0..KILLS {
        let mut child = place.start(&if place.begun() { RESUME.to_owned() } else { begin(EPOCHS) });
        // Each call runs at most about nine epochs, so that all calls together do not reach the
        // end.
        let (epochs, delay) = (random.below(8), 2.0 * seconds / EPOCHS as f64 * random.share());
        place.wait_for(&mut child, epochs);
        std::thread::sleep(Duration::from_secs_f64(delay));
        alive += usize::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        let said = place.end(child).said;
        went_on += usize::from(said.contains("resuming after ") && !said.contains("resuming after 0 epochs"));
        unfinished += usize::from(said.contains("it was never completed; taking the one before"));
        story += &format!(" {epochs} + {delay:.4}");
    }
    assert!(alive >= 15, "only {alive} kills hit a living process; {story}");
    assert!(went_on >= 5, "only {went_on} sittings went on from a checkpoint; {story}");
    place.done(RESUME);
    whole.assert_same(&place.path("run"), &story);
    say(format_args!(
        "{alive} kills of a living process; {went_on} sittings went on; {unfinished} kills while a checkpoint was written"
    ));
}

#[test]
fn a_terminal_that_goes_away_stops_no_run_and_costs_no_step() {
    let (whole, _) = undisturbed();
    let place = Place::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_gt"))
        .args(begin(EPOCHS).split_whitespace())
        .current_dir(&place.0)
        .env("GT_CACHE", CACHE)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let epochs = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .filter(|line| line.as_ref().unwrap().starts_with("epoch "));
    // The pipe is closed with its reader, so all later writes fail.
    assert_eq!(epochs.take(2).count(), 2);
    let known = || fs::read_to_string(place.path("run/metrics.jsonl")).unwrap().lines().count();
    while known() < 6 {
        assert!(child.try_wait().unwrap().is_none(), "it ended with its terminal");
        std::thread::sleep(Duration::from_millis(2));
    }
    let signal = if hangups_are_ignored() { "-TERM" } else { "-HUP" };
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    place.done(RESUME);
    whole.assert_same(&place.path("run"), "the terminal went away");
}

/// Whether the tests themselves run under nohup, which programs they start inherit.
fn hangups_are_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[test]
fn a_run_under_nohup_outlives_a_hangup() {
    let place = Place::new();
    let line = format!("{} {}", env!("CARGO_BIN_EXE_gt"), begin(100_000));
    let mut child = place.spawn("nohup", &line.split_whitespace().collect::<Vec<_>>());
    place.wait_for(&mut child, 2);
    let signal =
        |child: &Child, name: &str| Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(signal(&child, "-HUP").success());
    let known = place.path("run/metrics.jsonl");
    let epochs = || fs::read_to_string(&known).unwrap().lines().count();
    let before = epochs();
    while epochs() < before + 20 {
        assert!(child.try_wait().unwrap().is_none(), "the hangup stopped it");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(signal(&child, "-TERM").success());
    assert_eq!(place.end(child).code, Some(130));
}

#[test]
fn a_conversion_that_is_interrupted_leaves_nothing_half_written() {
    let place = Place::new();
    let mut child = place.start("data sbm cluster --train 1500 --val 0 --test 0 --out big.jsonl");
    let partial = || {
        let names = fs::read_dir(&place.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".partial")).count()
    };
    while partial() == 0 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    // The run may have finished before the signal.
    let code = place.end(child).code;
    assert!(code == Some(130) || (code == Some(0) && place.path("big.jsonl").exists()), "{code:?}");
    assert_eq!(partial(), 0);
}

#[test]
fn seeds_that_are_interrupted_resume_with_one_command() {
    let place = Place::new();
    let mut child = place.start(&format!("{} --seeds 1,2", begin(EPOCHS)));
    let begun = || fs::read_to_string(place.path("run/1/metrics.jsonl")).is_ok_and(|text| text.lines().count() > 1);
    while !begun() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too soon");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let End { code, said } = place.end(child);
    assert_eq!(code, Some(130));
    let expected = "interrupted; `gt train --resume --out run` resumes";
    assert_eq!(said.lines().last(), Some(expected), "{said}");
    let said = place.done("train --resume --out run");
    assert_names(&said, &["seed 1: resuming", "seed 2: epoch"]);
    place.done("train --resume --out run/2");
}

#[test]
fn a_run_killed_while_its_first_files_are_written_goes_on_or_says_what_to_do() {
    const KILLS: usize = 10;
    let quick = begin(3);
    let whole = Place::new();
    let start = Instant::now();
    whole.done(&quick);
    let seconds = start.elapsed().as_secs_f64();
    let left = Left::in_folder(&whole.path("run"));
    let (mut before, mut after) = (0, 0);
    for kill in 0..KILLS {
        let place = Place::new();
        let mut child = place.start(&quick);
        let delay = seconds * kill as f64 / KILLS as f64;
        std::thread::sleep(Duration::from_secs_f64(delay));
        child.kill().unwrap();
        place.end(child);
        let story = format!("killed after {delay:.4} s");
        if place.begun() {
            after += 1;
            place.done(RESUME);
        } else {
            before += 1;
            let complaint = place.refused(RESUME);
            assert_names(&complaint, &["run", "--resume"]);
            place.done(&quick);
        }
        left.assert_same(&place.path("run"), &story);
    }
    assert!(before > 0, "all {after} kills came after the beginning");
}

#[test]
fn signals_end_a_run_with_130_and_it_goes_on_to_the_same_bytes_with_any_number_of_threads() {
    let (whole, _) = undisturbed();
    let place = Place::new();
    let sittings = [
        (format!("{} --threads 1", begin(EPOCHS)), "INT"),
        (format!("{RESUME} --threads 2"), "TERM"),
        (format!("{RESUME} --threads 3"), "INT"),
        (format!("{RESUME} --threads 1"), "TERM"),
    ];
    for (number, (line, signal)) in sittings.iter().enumerate() {
        let end = place.interrupt(line, 20, signal);
        assert_eq!(end.code, Some(130), "{signal}: {}", end.said);
        assert_names(end.said.lines().last().unwrap(), &["`gt train --resume --out run`"]);
        assert_eq!(end.said.contains("resuming after "), number > 0, "{}", end.said);
    }
    place.done(&format!("{RESUME} --threads 2"));
    whole.assert_same(&place.path("run"), "interrupted four times");
}

#[test]
fn a_full_disk_stops_a_run_and_with_more_space_it_ends_with_the_same_bytes() {
    let (whole, _) = undisturbed();
    let place = Place::new();
    // Both calls and the mount live in one namespace, so nothing outlives the script. The metrics
    // fill the file system in the middle of the run.
    let script = format!(
        "mkdir run && mount -t tmpfs -o size=512k tmpfs run || exit 99\n\
         \"$GT\" {} 2> first.txt; echo $? > first.code\n\
         cp -r run stopped\n\
         mount -o remount,size=64m run || exit 99\n\
         \"$GT\" {RESUME} 2> second.txt; echo $? > second.code\n\
         cp -r run/. ended",
        begin(EPOCHS)
    );
    let attempt = |flags: &[&str]| {
        let _ = fs::remove_dir_all(place.path("run"));
        let script = ["sh", "-c", &script];
        let mut command = Command::new("unshare");
        command
            .args(flags)
            .args(script)
            .current_dir(&place.0)
            .env("GT", env!("CARGO_BIN_EXE_gt"))
            .env("GT_CACHE", CACHE);
        command.output().is_ok_and(|output| output.status.success())
    };
    if !attempt(&["--mount"]) && !attempt(&["--mount", "--map-root-user"]) {
        return skip(Resource::Privileges, "a small file system cannot be mounted");
    }
    let text = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    assert_eq!(text("first.code"), "2\n", "{}", text("first.txt"));
    let error = text("first.txt").lines().last().unwrap().to_owned();
    assert!(error.starts_with("error: run/") && error.contains("No space left on device"), "{error}");
    assert!(place.path("stopped/checkpoint").read_dir().unwrap().count() >= 1);
    assert_eq!(text("second.code"), "0\n", "{}", text("second.txt"));
    assert!(!text("second.txt").contains("resuming after 0 epochs") && text("second.txt").contains("resuming after "));
    whole.assert_same(&place.path("ended"), &error);
    say(format_args!("full disk: {error}"));
}

#[test]
fn a_checkpoint_that_cannot_be_written_stops_the_run_and_names_the_file() {
    let (whole, _) = undisturbed();
    let place = Place::new();
    // No file may become larger than 2 KiB. The configuration and the first metrics fit, a model
    // does not.
    let script = format!("ulimit -f 4; exec \"$0\" {}", begin(EPOCHS));
    let end = place.end(place.spawn("sh", &["-c", &script, env!("CARGO_BIN_EXE_gt")]));
    assert_eq!(end.code, Some(2), "{}", end.said);
    let error = end.said.lines().last().unwrap();
    assert!(error.starts_with("error: run/") && error.contains("File too large"), "{error}");
    assert!(fs::read_to_string(place.path("run/metrics.jsonl")).unwrap().lines().count() < 20, "it went on for long");
    place.done(RESUME);
    whole.assert_same(&place.path("run"), error);
}

#[test]
fn a_line_of_metrics_that_was_cut_off_or_lost_is_made_good() {
    let place = Place::new();
    let end = place.interrupt(&begin(EPOCHS), 5, "INT");
    assert_eq!(end.code, Some(130));
    let metrics = place.path("run/metrics.jsonl");
    let text = fs::read_to_string(&metrics).unwrap();
    let cut: String = text.lines().take(2).map(|line| format!("{line}\n")).collect::<String>() + "{\"epoch\": 3, \"lr";
    fs::write(&metrics, cut).unwrap();
    assert_eq!(place.interrupt(RESUME, 10, "INT").code, Some(130));
    let healed = fs::read_to_string(&metrics).unwrap();
    assert!(healed.starts_with(&text), "{healed}");
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_any_work() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    let complaint = place.refused(&begin(3).replace("--out run", "--out file/run"));
    assert!(complaint.starts_with("error: file/run: Not a directory"), "{complaint}");
    let complaint = place.refused(&begin(3).replace("--out run", "--out file"));
    assert!(complaint.starts_with("error: file: "), "{complaint}");
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir(place.path("run")).unwrap();
    fs::set_permissions(place.path("run"), fs::Permissions::from_mode(0o555)).unwrap();
    // The superuser may write everywhere, unless this capability is dropped.
    let mut arguments =
        vec!["--bounding-set", "-dac_override", "--inh-caps", "-dac_override", env!("CARGO_BIN_EXE_gt")];
    let can_write = File::create(place.path("run/probe")).is_ok();
    let line = begin(3);
    arguments.extend(line.split_whitespace());
    let end = if can_write {
        fs::remove_file(place.path("run/probe")).unwrap();
        if !Command::new("setpriv").args(&arguments[..4]).arg("true").status().is_ok_and(|s| s.success()) {
            return skip(Resource::Privileges, "the superuser's rights cannot be dropped");
        }
        place.end(place.spawn("setpriv", &arguments))
    } else {
        place.gt(&line)
    };
    assert_eq!(end.code, Some(2), "{}", end.said);
    assert!(end.said.starts_with("error: run/.lock: Permission denied"), "{}", end.said);
    assert_eq!(fs::read_dir(place.path("run")).unwrap().count(), 0);
}

#[test]
fn a_run_goes_on_only_with_its_own_configuration_and_data() {
    let place = Place::new();
    assert_eq!(place.interrupt(&begin(40), 5, "TERM").code, Some(130));
    let config = fs::read_to_string(place.path("run/config.toml")).unwrap();
    let edited = config.replace("width = 8\n", "width = 16\n");
    assert_ne!(edited, config);
    fs::write(place.path("run/config.toml"), &edited).unwrap();
    let complaint = place.refused(RESUME);
    assert_names(&complaint, &["run/config.toml", "`model.width`", "16", "8", "--out"]);
    fs::write(place.path("run/config.toml"), &config).unwrap();

    let data = fs::read_to_string(place.path("data.jsonl")).unwrap();
    let changed = data.replacen("\"y\": [1.", "\"y\": [2.", 1);
    assert_ne!(changed, data);
    fs::write(place.path("other.jsonl"), &changed).unwrap();
    let complaint = place.refused(&format!("{RESUME} --data other.jsonl"));
    assert_names(&complaint, &["run", "`other.jsonl`"]);
    assert_eq!(fs::read_to_string(place.path("run/config.toml")).unwrap(), config, "a refused call changed the run");

    // The data may move to another path.
    fs::rename(place.path("data.jsonl"), place.path("moved.jsonl")).unwrap();
    place.done(&format!("{RESUME} --data moved.jsonl"));
    assert_eq!(Left::in_folder(&place.path("run")).metrics.len(), 40);
}

#[test]
fn a_directory_without_a_run_or_without_a_whole_checkpoint_is_no_silent_restart() {
    let place = Place::new();
    assert_names(&place.refused(RESUME), &["run", "--resume"]);
    assert!(!place.path("run").exists());
    fs::create_dir(place.path("run")).unwrap();
    assert_names(&place.refused(RESUME), &["run", "--resume"]);
    fs::remove_dir(place.path("run")).unwrap();
    fs::write(place.path("run"), "").unwrap();
    let complaint = place.refused(RESUME);
    assert!(complaint.contains("error: run: ") && !complaint.contains("--resume"), "{complaint}");
    fs::remove_file(place.path("run")).unwrap();

    assert_eq!(place.interrupt(&begin(EPOCHS), 5, "INT").code, Some(130));
    let checkpoints = place.checkpoints();
    assert_eq!(checkpoints.len(), 2);
    let state = checkpoints[1].join("state.json");
    let text = fs::read_to_string(&state).unwrap();
    fs::write(&state, &text[..text.len() / 2]).unwrap();
    fs::remove_file(checkpoints[0].join("moments.safetensors")).unwrap();
    let complaint = place.refused(RESUME);
    assert_names(&complaint, &["run/checkpoint", "state.json", "moments.safetensors: No such file"]);
    // One complete checkpoint is enough, and the problem of the other one is printed.
    fs::write(&state, &text).unwrap();
    fs::rename(&checkpoints[1], place.path("kept")).unwrap();
    assert_names(&place.refused(RESUME), &["run/checkpoint", "moments.safetensors: No such file"]);
    fs::rename(place.path("kept"), &checkpoints[1]).unwrap();
    assert_eq!(place.interrupt(RESUME, 8, "INT").code, Some(130));
    fs::remove_dir_all(place.path("run/checkpoint")).unwrap();
    assert_names(&place.refused(RESUME), &["run/checkpoint", "--out"]);
}

#[test]
fn a_second_process_in_the_same_directory_is_refused() {
    let place = Place::new();
    let mut first = place.start(&begin(100_000));
    place.wait_for(&mut first, 1);
    for line in [RESUME.to_owned(), begin(3)] {
        let output = Command::new(env!("CARGO_BIN_EXE_gt"))
            .args(line.split_whitespace())
            .current_dir(&place.0)
            .env("GT_CACHE", CACHE)
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2));
        // The error is not about the run that has begun in this folder.
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(complaint.starts_with("error: run: ") && !complaint.contains("--resume"), "{complaint}");
    }
    first.kill().unwrap();
    place.end(first);
    // The operating system has released the lock.
    assert_eq!(place.interrupt(RESUME, 1, "INT").code, Some(130));
}

#[test]
fn a_run_that_cannot_begin_leaves_no_directory() {
    let place = Place::new();
    fs::write(place.path("data.jsonl"), "{\"num_nodes\": 2, \"edge_index\": [[0], [5]]}\n").unwrap();
    assert_names(&place.refused(&begin(3)), &["data.jsonl", "graph 0", "edge 0", "node 5"]);
    assert!(!place.path("run").exists());
}
