//! Reports of a run: `report.html` in a real browser, event files in the real TensorBoard.

mod browser;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use browser::Browser;
use gt_testing::{Resource, skip};
use serde_json::{Value, json};

fn gt(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command
        .args(line.split_whitespace())
        .current_dir(folder)
        .env("GT_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command
}

fn done(folder: &Path, line: &str) -> Output {
    let output = gt(folder, line).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "gt {line}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

const SMALL: &str = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.batch=4";

/// Rings of some sizes with a target each, written as JSON.
fn rings(folder: &Path, target: impl Fn(usize) -> Value) -> PathBuf {
    let line = |number: usize| {
        let n = 3 + number % 7;
        let kinds: Vec<[usize; 1]> = (0..n).map(|v| [v % 2]).collect();
        let (src, dst): (Vec<usize>, Vec<usize>) = (0..n).map(|v| (v, (v + 1) % n)).unzip();
        json!({ "num_nodes": n, "node_feat": kinds, "edge_index": [src, dst], "y": target(number) }).to_string()
    };
    let lines: Vec<String> = (0..60).map(line).collect();
    let file = folder.join("rings<b>.jsonl");
    std::fs::write(&file, lines.join("\n")).unwrap();
    file
}

/// Script that returns every section with a short form of its heading, and the properties of a
/// usable page.
const STRUCTURE: &str = "
    const all = selector => [...document.querySelectorAll(selector)];
    return {
        h1: all('h1').map(h => h.textContent),
        sections: all('section h2').map(h => h.textContent),
        unnamed_drawings: all('svg').filter(s => !s.querySelector('title') || !s.querySelector('desc')).length,
        unscoped_headers: all('th').filter(h => !h.scope).length,
        scripts: all('script').length,
        smuggled: all('main b b, h1 *, img').length,
        curves: all('.curves svg').length,
        points: all('.predictions .points').length,
        cells: all('.predictions td').length,
    }";

/// Script that returns widths, and the least contrast of texts against the page.
const LOOK: &str = "
    const light = color => {
        const parts = color.match(/[\\d.]+/g).slice(0, 3).map(c => c / 255);
        const [r, g, b] = parts.map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const page = light(getComputedStyle(document.body).backgroundColor);
    const contrast = color => { const [a, b] = [light(color), page].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05) };
    const of = (selector, key) => [...document.querySelectorAll(selector)].map(e => contrast(getComputedStyle(e)[key]));
    return {
        window: innerWidth,
        content: document.documentElement.scrollWidth,
        page,
        text: Math.min(...of('h1, h2, h3, p, td, th, dt, dd, li, footer', 'color'), ...of('svg text', 'fill')),
        lines: Math.min(...of('.curve, .dots', 'stroke')),
    }";

/// Opens a report on a phone and a desktop, in light and dark, and checks common properties.
fn check_report(browser: &Browser, file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    for outside in ["http:", "https:", "//www", "@import", "url("] {
        assert!(!text.contains(outside), "`{outside}` in the report");
    }
    let mut pages = Vec::new();
    for width in [360, 1280] {
        for scheme in ["light", "dark"] {
            browser.open(file, width, scheme);
            let look = browser.ask(LOOK);
            assert_eq!(look["window"], width, "{look}");
            assert!(look["content"].as_u64().unwrap() <= width as u64, "it scrolls sideways: {look}");
            assert!(look["text"].as_f64().unwrap() >= 4.5, "{scheme}: {look}");
            assert!(look["lines"].as_f64().is_none_or(|contrast| contrast >= 3.0), "{scheme}: {look}");
            pages.push(look["page"].as_f64().unwrap());
        }
    }
    assert!(pages[0] > 0.8 && pages[1] < 0.1, "{pages:?}");
    assert_eq!(browser.console(), Vec::<String>::new());
    let requests = browser.requests();
    assert!(requests.iter().all(|url| url.starts_with("file:") || url.starts_with("data:")), "{requests:?}");
    assert!(!requests.is_empty());
    let structure = browser.ask(STRUCTURE);
    let sections =
        ["Results", "Predictions", "Training", "Worst predictions", "Data", "Speed", "Machine", "Configuration"];
    assert_eq!(structure["sections"], json!(sections));
    for fault in ["unnamed_drawings", "unscoped_headers", "scripts", "smuggled"] {
        assert_eq!(structure[fault], 0, "{fault}: {structure}");
    }
    structure
}

#[test]
fn a_real_browser_shows_reports_of_all_tasks_without_fault() {
    let Some(browser) = Browser::start() else { return skip(Resource::Browser, "Chromium or chromedriver is missing") };
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let train = |line: &str, target: &dyn Fn(usize) -> Value| {
        let data = rings(folder, target);
        let name = line.split(' ').next().unwrap();
        let mut command = gt(folder, &format!("train --set train.epochs=3 {SMALL} --out {line} --data"));
        let output = command.arg(data).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let file = folder.join(name).join("report.html");
        assert!(String::from_utf8(output.stdout).unwrap().contains(&format!("report: {name}/report.html")));
        check_report(&browser, &file)
    };
    // The names of the file and the run contain markup that has to stay text.
    let numbers = train("a<i>&amp;", &|number| json!([0.5 * (number % 7) as f64 - 1.0]));
    assert_eq!((&numbers["h1"], &numbers["curves"]), (&json!(["a<i>&amp;"]), &json!(1)));
    assert_eq!((&numbers["points"], &numbers["cells"]), (&json!(1), &json!(0)));
    // Three classes of whole graphs: a matrix of three by three.
    // Each class also has labels, precision, recall and F1.
    let classes = train("classes", &|number| json!([number % 3]));
    assert_eq!((&classes["points"], &classes["cells"]), (&json!(0), &json!(21)));
    let labels = train("labels", &|number| {
        json!([number % 2, number % 3 / 2, if number % 5 > 0 { json!(1) } else { json!(null) }])
    });
    assert_eq!(labels["cells"], 15);
    let links = train("links --set data.task=links", &|_| json!([0]));
    assert_eq!((&links["points"], &links["cells"]), (&json!(0), &json!(5)));
}

/// Writes `base.toml`, a complete configuration: no key follows the data.
fn complete_config(folder: &Path) {
    let output = gt(folder, "config show").output().unwrap();
    std::fs::write(folder.join("base.toml"), output.stdout).unwrap();
}

/// Trains on graphs in fixed splits with a target each, and returns the report.
fn report_of(folder: &Path, more: &str, target: impl Fn(usize) -> Value) -> String {
    let text = std::fs::read_to_string(rings(folder, target)).unwrap();
    let with_split = |(number, line): (usize, &str)| {
        let mut graph: Value = serde_json::from_str(line).unwrap();
        graph["split"] = json!(if number < 40 { "train" } else { ["val", "test"][number % 2] });
        format!("{graph}\n")
    };
    std::fs::write(folder.join("d.jsonl"), text.lines().enumerate().map(with_split).collect::<String>()).unwrap();
    let _ = std::fs::remove_dir_all(folder.join("run"));
    complete_config(folder);
    done(folder, &format!("train base.toml --data d.jsonl --out run --set train.epochs=2 {SMALL} {more}"));
    std::fs::read_to_string(folder.join("run/report.html")).unwrap()
}

#[test]
fn the_headline_has_a_baseline_and_the_test_curve_is_hidden() {
    let place = tempfile::tempdir().unwrap();
    // Training mean 5; the test graphs have 8, and an untrained network predicts neither.
    let number = |number: usize| json!([if number < 40 { 4.0 + 2.0 * (number % 2) as f64 } else { 8.0 }]);
    let page = report_of(place.path(), "", number);
    assert!(page.contains("baseline 3.0000: the mean of the training targets"), "{page}");
    assert!(page.contains("The score is not better than the baseline"), "{page}");
    assert!(page.contains("curve val") && !page.contains("curve test") && page.contains("test split is not drawn"));
    assert!(page.contains("<mark>width = 8</mark>") && !page.contains("<mark>residual"), "{page}");
    // Of the ten test graphs, four have the most frequent training class.
    let class =
        |number: usize| json!([if number < 40 { usize::from(number.is_multiple_of(4)) } else { number % 5 / 2 }]);
    let page = report_of(place.path(), "", class);
    assert!(page.contains("baseline 40.000 %: the most frequent training class"), "{page}");
    for part in ["ROC curve", "Precision–recall curve", "curve thin blue", "F1</th>"] {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    let page = report_of(place.path(), "--set model.metrics=paper", class);
    assert!(page.contains("baseline 33.333 %: the most frequent training class"), "{page}");
    assert!(page.contains("curve test") && !page.contains("test split is not drawn"));
    assert!(!page.contains("ROC curve") && !page.contains("curve thin") && !page.contains("F1</th>"), "{page}");
    let page = report_of(place.path(), "--set data.task=links", number);
    assert!(page.contains("baseline 0.5000: random scores"), "{page}");
}

/// The cells of the table of the worst predictions, by row.
fn worst(page: &str) -> Vec<Vec<String>> {
    let section = page.split("id=\"worst\"").nth(1).unwrap().split("</section>").next().unwrap();
    let body = section.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
    let text = |cell: &str| cell.split_once('>').unwrap().1.split('<').next().unwrap().to_owned();
    let cells = |row: &str| row.split("<t").skip(1).filter(|cell| !cell.starts_with('r')).map(text).collect();
    body.split("<tr>").skip(1).map(cells).collect()
}

#[test]
fn the_worst_predictions_are_those_of_gt_predict_at_their_place_in_the_data() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    // One number per edge of a ring with a chord; edges are listed in descending order.
    let graph = |number: usize| {
        let n = 4 + number % 3;
        let (src, dst): (Vec<usize>, Vec<usize>) = (0..n).rev().map(|v| ((v + 1) % n, v)).chain([(0, 2)]).unzip();
        let kinds: Vec<[usize; 1]> = (0..n).map(|v| [(v + number) % 3]).collect();
        let targets: Vec<f64> = src.iter().map(|v| (v * v * (1 + number)) as f64 * 0.37).collect();
        let split = ["train", "train", "val", "test"][number % 4];
        json!({"node_feat": kinds, "edge_index": [src, dst], "y": targets, "split": split})
    };
    let graphs: Vec<Value> = (0..24).map(graph).collect();
    let lines: Vec<String> = graphs.iter().map(Value::to_string).collect();
    std::fs::write(folder.join("d.jsonl"), lines.join("\n")).unwrap();
    complete_config(folder);
    done(folder, &format!("train base.toml --data d.jsonl --out run --set train.epochs=2 {SMALL}"));
    done(folder, "predict run --data d.jsonl --out p.jsonl");
    let mut misses: Vec<(f64, String, String)> = Vec::new();
    let text = std::fs::read_to_string(folder.join("p.jsonl")).unwrap();
    for row in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let number = |key: &str| row[key].as_u64().unwrap() as usize;
        let (of, source, target) = (number("graph"), number("source"), number("target"));
        let graph = &graphs[of];
        if graph["split"] != "test" {
            continue;
        }
        let ends = [&graph["edge_index"][0], &graph["edge_index"][1]].map(|ends| ends.as_array().unwrap());
        let edge = (0..ends[0].len()).find(|&at| ends[0][at] == source && ends[1][at] == target).unwrap();
        let error = row["y"].as_f64().unwrap() - graph["y"][edge].as_f64().unwrap();
        misses.push((error.abs(), of.to_string(), format!("{source} → {target}")));
    }
    misses.sort_by(|a, b| b.0.total_cmp(&a.0));
    let table = worst(&std::fs::read_to_string(folder.join("run/report.html")).unwrap());
    assert_eq!(table.len(), 10);
    for (row, (size, graph, edge)) in table.iter().zip(&misses) {
        let error: f64 = row[4].replace('−', "-").parse().unwrap();
        assert!((error.abs() - size).abs() < 0.02, "{row:?}: {size}");
        assert_eq!((&row[0], &row[1]), (graph, edge), "{row:?}");
    }
}

/// The scalars of a run as the real TensorBoard reads them: `{tag: [[step, value], …]}`.
fn scalars(run: &Path) -> Option<Value> {
    let script = "import json, sys\n\
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n\
        events = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0}).Reload()\n\
        print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()['scalars']}))";
    let python = |script: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(run);
        // The folder in which continuous integration has installed TensorBoard.
        if let Some(folder) = std::env::var_os("GT_TENSORBOARD") {
            command.env("PYTHONPATH", folder);
        }
        command.output()
    };
    if !python("import tensorboard").is_ok_and(|output| output.status.success()) {
        skip(Resource::TensorBoard, "python3 cannot import tensorboard");
        return None;
    }
    let output = python(script).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn history(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
}

/// Checks that the events are the epochs of `metrics.jsonl`, each once.
fn check_events(run: &Path, epochs: usize) {
    let files = std::fs::read_dir(run)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("events.out.tfevents."));
    assert_eq!(files.count(), 1);
    let Some(found) = scalars(run) else { return };
    let history = history(run);
    assert_eq!(history.len(), epochs);
    // The test split stays hidden.
    let tags: [(&str, &str); 6] = [
        ("loss/train", "/train/loss/exact"),
        ("loss/val", "/val/loss/exact"),
        ("accuracy/train", "/train/metric/exact"),
        ("accuracy/val", "/val/metric/exact"),
        ("lr", "/lr"),
        ("seconds", "/seconds"),
    ];
    for (tag, key) in tags {
        let expected: Vec<Value> = history
            .iter()
            .map(|epoch| json!([epoch["epoch"], f64::from(epoch.pointer(key).unwrap().as_f64().unwrap() as f32)]))
            .collect();
        assert_eq!(found[tag], json!(expected), "{tag}");
    }
    assert_eq!(found.as_object().unwrap().len(), tags.len());
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_has_a_report_and_a_resumed_one_all_epochs_once() {
    const EPOCHS: usize = 40;
    let place = tempfile::tempdir().unwrap();
    let (folder, run) = (place.path(), place.path().join("run"));
    done(folder, "data sbm cluster --out c.parquet --train 40 --val 4 --test 4");
    let line = format!("train --data c.parquet --out run --set train.epochs={EPOCHS} {SMALL}");
    let mut child = gt(folder, &line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while history(&run).len() < 2 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let before = history(&run).len();
    assert!((2..EPOCHS).contains(&before), "{before} epochs");
    let report = || std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(
        report().contains("Interrupted; the run can be resumed.") && report().contains("after the last whole epoch")
    );
    check_events(&run, before);
    if let Some(browser) = Browser::start() {
        check_report(&browser, &run.join("report.html"));
    }
    // A crash may leave an epoch that is not in the checkpoint. The epoch is trained again.
    let mut metrics = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let mut torn = history(&run).pop().unwrap();
    torn["epoch"] = json!(before + 1);
    metrics += &format!("{torn}\n{{\"epoch\": ");
    std::fs::write(run.join("metrics.jsonl"), metrics).unwrap();
    done(folder, "train --resume --out run");
    check_events(&run, EPOCHS);
    let whole = report();
    assert!(whole.contains("Finished: all epochs are done."));
    let curve = whole.split("class=\"curve val\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(curve.matches(['M', 'L']).count(), EPOCHS);
    // A finished run can be resumed again.
    let output = done(folder, "train --resume --out run --json");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["report"], "run/report.html");
    check_events(&run, EPOCHS);
    assert_eq!(report().matches(result["weights_sha256"].as_str().unwrap()).count(), 1);
}
