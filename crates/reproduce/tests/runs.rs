//! Runs without the program: small networks on a small draw of CLUSTER, on the CPU.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use graph_transformer_reproduce::{
    Cell, DataSource, Limits, Paper, Plan, PlanOutcome, ReproduceError, ResultsFolder, RunEvent, Runner, SharedData,
};
use gt_nn::cuda::Precision;

const TRAIN_GRAPHS: usize = 4;

fn settings() -> Vec<String> {
    ["model.layers=1", "model.width=8", "model.heads=2", "train.batch=4", "train.epochs=1"].map(str::to_owned).into()
}

fn plan(presets: &[&str], folder: &ResultsFolder, paper: &Paper) -> Plan {
    let cells: Vec<Cell> = presets.iter().map(|preset| Cell::first_draw(preset)).collect();
    let records = folder.records().unwrap();
    Plan::new(&cells, &[41], &settings(), Some(TRAIN_GRAPHS), folder, &records, paper).unwrap()
}

/// Trains one run after the other; what happened is added to `events`.
fn train(plan: &Plan, folder: &ResultsFolder, paper: &Paper, events: &Mutex<Vec<String>>) -> PlanOutcome {
    folder.prepare().unwrap();
    let data = SharedData::new(DataSource {
        zinc: None,
        encodings: folder.path().join("data"),
        train_graphs: Some(TRAIN_GRAPHS),
        allow_other_data: true,
    });
    let observe = |event: RunEvent<'_>| {
        let line = match event {
            RunEvent::Started { run, graphs, device, .. } => format!("{run} started: {graphs} graphs, {device}"),
            RunEvent::Epoch { run, metric, record } => format!("{run} epoch {}: {metric}", record.epoch),
            RunEvent::Note { run, text } => format!("{run} note: {text}"),
            RunEvent::Finished { record, progress, .. } => {
                format!("{}-{} finished: {}/{}", record.cell, record.seed, progress.finished, progress.planned)
            }
            RunEvent::Failed { run, error } => format!("{run} failed: {error}"),
        };
        events.lock().unwrap().push(line);
    };
    let runner = Runner {
        folder,
        data: &data,
        paper,
        limits: &Limits::new(Arc::new(AtomicBool::new(false)), None),
        gpu: None,
        precision: Precision::F32,
        kernel_cache: None,
        jobs: 1,
        settings: settings(),
        keep_runs: false,
        version: "1.2.3 (test)".to_owned(),
        observe: &observe,
    };
    runner.run(&plan.jobs)
}

#[test]
fn a_run_reports_start_epochs_and_record() {
    let place = tempfile::tempdir().unwrap();
    let (folder, paper, events) = (ResultsFolder::new(place.path()), Paper::load(), Mutex::default());
    let outcome = train(&plan(&["cluster-sparse-none-bn"], &folder, &paper), &folder, &paper, &events);
    assert_eq!(outcome.finished, ["cluster-sparse-none-bn-41"]);
    let expected = [
        "cluster-sparse-none-bn-41 started: 8 graphs, CPU",
        "cluster-sparse-none-bn-41 epoch 1: accuracy",
        "cluster-sparse-none-bn-41 finished: 1/1",
    ];
    assert_eq!(*events.lock().unwrap(), expected);

    let records = folder.records().unwrap();
    let record = &records["cluster-sparse-none-bn-41"];
    assert_eq!((&*record.version, record.changes.clone()), ("1.2.3 (test)", settings()));
    let again = plan(&["cluster-sparse-none-bn"], &folder, &paper);
    assert_eq!((again.jobs.len(), again.done.len()), (0, 1), "a run with a record is not planned again");
    let page = graph_transformer_reproduce::Results { paper: &paper, records: &records }.page();
    assert!(page.to_markdown().contains("| 1 of 4 |"));
}

#[test]
fn a_run_without_data_fails_and_the_others_are_finished() {
    let place = tempfile::tempdir().unwrap();
    let (folder, paper, events) = (ResultsFolder::new(place.path()), Paper::load(), Mutex::default());
    let plan = plan(&["zinc-sparse-none-bn", "cluster-sparse-none-bn"], &folder, &paper);
    let outcome = train(&plan, &folder, &paper, &events);
    assert_eq!(outcome.finished, ["cluster-sparse-none-bn-41"]);
    assert!(matches!(&outcome.failed[..], [(run, ReproduceError::NoZinc)] if run == "zinc-sparse-none-bn-41"));
    let failed = format!("zinc-sparse-none-bn-41 failed: {}", ReproduceError::NoZinc);
    assert!(events.lock().unwrap().contains(&failed));
}

#[test]
fn records_of_other_settings_or_graphs_are_typed_errors() {
    let place = tempfile::tempdir().unwrap();
    let (folder, paper, events) = (ResultsFolder::new(place.path()), Paper::load(), Mutex::default());
    train(&plan(&["cluster-sparse-none-bn"], &folder, &paper), &folder, &paper, &events);
    let records = folder.records().unwrap();
    let cells = [Cell::first_draw("cluster-sparse-none-bn")];
    let plan = |settings: &[String], graphs| Plan::new(&cells, &[41], settings, graphs, &folder, &records, &paper);
    assert!(matches!(
        plan(&[], Some(TRAIN_GRAPHS)).err(),
        Some(ReproduceError::OtherSettings { recorded, requested, .. }) if recorded == settings() && requested.is_empty()
    ));
    assert!(matches!(
        plan(&settings(), None).err(),
        Some(ReproduceError::OtherGraphCount { recorded: 8, requested: 12_000, .. })
    ));
}

#[test]
fn damaged_and_misnamed_records_are_typed_errors() {
    use graph_transformer_reproduce::RecordProblem;

    let place = tempfile::tempdir().unwrap();
    let folder = ResultsFolder::new(place.path());
    folder.prepare().unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/paper/records/zinc-gcn-41.json");
    let good = std::fs::read_to_string(committed).unwrap();
    let problem = |name: &str, text: &str| {
        let path = folder.record(name);
        std::fs::write(&path, text).unwrap();
        let error = folder.records().map(BTreeMap::into_keys).err();
        std::fs::remove_file(&path).unwrap();
        match error {
            Some(ReproduceError::Record { path: named, problem }) if named == path => problem,
            _ => panic!("{name} is no error"),
        }
    };
    assert!(matches!(problem("zinc-gcn-41", &good[..good.len() / 2]), RecordProblem::Damaged(_)));
    assert!(matches!(problem("zinc-gcn-41", "{}"), RecordProblem::NoRecord));
    let newer = good.replace("\"format\": 1", "\"format\": 7");
    assert!(matches!(problem("zinc-gcn-41", &newer), RecordProblem::OtherFormat { found: 7, known: 1 }));
    let incomplete = good.replace("\"epochs\":", "\"eras\":");
    assert!(matches!(problem("zinc-gcn-41", &incomplete), RecordProblem::Incomplete(_)));
    assert!(matches!(problem("zinc-gcn-42", &good), RecordProblem::Misnamed { run } if run == "zinc-gcn-41"));
}
