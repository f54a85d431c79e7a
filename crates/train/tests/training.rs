//! Runs: learning, stopping, resuming with the same bytes, damage, presets.

mod support;

use std::sync::atomic::AtomicBool;

use graph_transformer_train::{EpochRecord, Remedy, RunDirectory, Stop, TrainError, Trainer};
use gt_data::{Dataset, SbmSet, SbmSizes};
use gt_graph::{
    FeatureLayout, FeatureRows, GraphParts, GraphStore, Layout, Level, Split, TargetKind, TargetLayout, TargetRows,
};
use gt_models::{Config, Preset, PublishedSet};
use gt_nn::backend::NotFinite;
use support::{Interrupter, cpu, file, last_model, prepare, sit};

fn clusters() -> Dataset {
    SbmSet::Cluster.generate(5, SbmSizes { train: 12, val: 4, test: 4 }).unwrap()
}

const SMALL: &str = "[model]\nlayers = 2\nwidth = 16\nheads = 4\nencoding = \"laplacian\"\nencoding_size = 3\ndropout = 0.1\ninput_dropout = 0.1\n\
                     [optimizer]\nlr = 3e-3\n[schedule]\npatience = 1\n[train]\nbatch = 4\nepochs = 3\n";

fn config(settings: &[&str]) -> Config {
    Config::from_toml_with(SMALL, &settings.iter().map(|s| s.to_string()).collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_run_stopped_after_any_step_ends_with_the_same_bytes() {
    let dataset = clusters();
    for settings in [&[][..], &["train.accumulate=2"], &["model.norm=layer", "optimizer.name=adamw"]] {
        let config = config(settings);
        let whole = tempfile::tempdir().unwrap();
        let (outcome, ..) = sit(&dataset, &config, whole.path(), 0);
        assert_eq!((outcome.stop, outcome.epochs), (Stop::Epochs, 3));
        let metrics: Vec<EpochRecord> = RunDirectory::open(whole.path()).unwrap().history().unwrap();
        for first in 1..=9 {
            let folder = tempfile::tempdir().unwrap();
            let (stopped, ..) = sit(&dataset, &config, folder.path(), first);
            let mut last = stopped;
            // Every sitting after the first is stopped after two batches, until the end is reached.
            let mut sittings = 1;
            while last.stop == Stop::Interrupted {
                (last, ..) = sit(&dataset, &config, folder.path(), 2);
                sittings += 1;
                assert!(sittings < 20);
            }
            assert_eq!(last.weights_sha256, outcome.weights_sha256, "{settings:?}, first stop after {first}");
            for name in ["model.safetensors", "best.safetensors"] {
                assert!(file(folder.path(), name) == file(whole.path(), name), "{name}, first stop after {first}");
            }
            let history = RunDirectory::open(folder.path()).unwrap().history().unwrap();
            for (a, b) in history.iter().zip(&metrics) {
                assert_eq!((a.epoch, a.lr, &a.train, &a.val, &a.test), (b.epoch, b.lr, &b.train, &b.val, &b.test));
            }
            assert_eq!(history.len(), 3);
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing_and_the_seed_does() {
    let dataset = clusters();
    let weights = |threads: usize, seed: &str| {
        let folder = tempfile::tempdir().unwrap();
        let config = config(&[seed, "train.epochs=2"]);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| sit(&dataset, &config, folder.path(), 0)).0.weights_sha256
    };
    let one = weights(1, "train.seed=41");
    assert_eq!(weights(3, "train.seed=41"), one);
    assert_ne!(weights(1, "train.seed=95"), one);
}

#[test]
fn a_damaged_newest_checkpoint_falls_back_to_the_one_before_and_says_so() {
    let dataset = clusters();
    let config = config(&[]);
    let whole = tempfile::tempdir().unwrap();
    let (outcome, ..) = sit(&dataset, &config, whole.path(), 0);
    let folder = tempfile::tempdir().unwrap();
    sit(&dataset, &config, folder.path(), 2);
    sit(&dataset, &config, folder.path(), 2);
    let checkpoints = folder.path().join("checkpoint");
    let mut names: Vec<_> = std::fs::read_dir(&checkpoints).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    assert_eq!(names.len(), 2);
    let model = names[1].join("model.safetensors");
    let mut bytes = std::fs::read(&model).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&model, bytes).unwrap();
    let (last, notes, _) = sit(&dataset, &config, folder.path(), 0);
    assert!(notes[0].contains("model.safetensors is damaged; taking the one before"), "{notes:?}");
    assert!(notes[1].contains("after 0 epochs and 2 batches"), "{notes:?}");
    assert_eq!(last.weights_sha256, outcome.weights_sha256);
}

#[test]
fn two_processes_cannot_write_one_directory() {
    let folder = tempfile::tempdir().unwrap();
    let first = RunDirectory::open(folder.path()).unwrap();
    let error = RunDirectory::open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("another process is training in it"), "{error}");
    drop(first);
    RunDirectory::open(folder.path()).unwrap();
}

/// Rings whose target is linear in their size, far from 0.
fn rings(count: usize) -> Dataset {
    let layout = Layout {
        node: FeatureLayout { categorical: 1, ..Default::default() },
        edge: FeatureLayout::default(),
        target: Some(TargetLayout { level: Level::Graph, kind: TargetKind::Float, columns: 1 }),
    };
    let mut store = GraphStore::new(layout.clone());
    for number in 0..count {
        let n = 3 + number % 9;
        let src: Vec<u32> = (0..n as u32).collect();
        let dst: Vec<u32> = (0..n as u32).map(|v| (v + 1) % n as u32).collect();
        let kinds: Vec<u32> = (0..n).map(|v| u32::from(v == 0)).collect();
        store
            .push(GraphParts {
                num_nodes: n,
                src: &src,
                dst: &dst,
                node: FeatureRows { categorical: &kinds, ..Default::default() },
                target: Some(TargetRows::Float(&[500.0 + 30.0 * n as f32])),
                ..Default::default()
            })
            .unwrap();
    }
    Dataset::new(gt_graph::Schema::unnamed(&layout), store).unwrap()
}

#[test]
fn standardised_targets_are_undone_in_scores_and_kept_in_the_model() {
    let dataset = rings(60);
    let settings =
        ["data.standardize=true", "model.encoding=none", "train.epochs=12", "model.dropout=0", "model.input_dropout=0"];
    let config = config(&settings);
    let folder = tempfile::tempdir().unwrap();
    let (outcome, _, epochs) = sit(&dataset, &config, folder.path(), 0);
    let (_, test) = outcome.last.iter().find(|(split, _)| *split == Split::Test).unwrap();
    // The deviation of the targets is about 77; without scaling nothing would come near 500 in 12
    // epochs.
    assert!(test.metric.exact < 60.0, "{:?}", test.metric);
    assert!(epochs.last().unwrap().train.loss.exact < 0.8);
    let model = last_model(folder.path());
    let (mean, deviation) = model.scaling.target[0];
    assert!((mean - 710.0).abs() < 30.0 && (deviation - 77.0).abs() < 10.0, "{:?}", model.scaling);
    assert_eq!(model.config, config);
}

#[test]
fn training_learns() {
    let dataset = SbmSet::Cluster.generate(5, SbmSizes { train: 60, val: 10, test: 10 }).unwrap();
    let settings = ["train.epochs=10", "schedule.name=constant", "model.dropout=0", "model.input_dropout=0"];
    let folder = tempfile::tempdir().unwrap();
    let (outcome, _, epochs) = sit(&dataset, &config(&settings), folder.path(), 0);
    let (first, last) = (&epochs[0].train.loss, &epochs.last().unwrap().train.loss);
    assert!(last.exact < first.exact - 0.1, "{first:?} to {last:?}");
    // Six classes: chance is 17 %.
    assert!(outcome.last[2].1.metric.exact > 30.0, "{:?}", outcome.last[2]);
}

#[test]
fn a_loss_that_is_not_finite_names_the_graphs_and_keeps_the_checkpoint() {
    let dataset = rings(20);
    let config = config(&[
        "optimizer.lr=1e30",
        "model.encoding=none",
        "schedule.name=constant",
        "model.norm=none",
        "train.loss=mse",
    ]);
    let data = prepare(&dataset, &config);
    let folder = tempfile::tempdir().unwrap();
    let run = RunDirectory::open(folder.path()).unwrap();
    let flag = AtomicBool::new(false);
    let mut observer = Interrupter { flag: &flag, after: usize::MAX, notes: vec![], epochs: vec![] };
    let trainer = Trainer::new(&data, &config, &run, cpu(&data, &config), &mut observer).unwrap();
    match trainer.run(&flag, &mut observer).unwrap_err() {
        TrainError::NotFinite { what, graphs, remedy, checkpoint: None, .. } => {
            assert_eq!(remedy, Remedy::SmallerRate);
            assert!(what != NotFinite::LossOrGradient && !graphs.is_empty(), "{what} {graphs}");
        }
        error => panic!("{error}"),
    }
}

/// Paths of 3 nodes, one of which carries a feature that no network survives.
fn poisoned(poison: f32) -> Dataset {
    paths(|number| if number == 3 { poison } else { 0.5 })
}

/// Paths of 3 nodes, of which the last one has the given feature.
fn paths(last: impl Fn(usize) -> f32) -> Dataset {
    let layout = Layout {
        node: FeatureLayout { continuous: 1, ..Default::default() },
        edge: FeatureLayout::default(),
        target: Some(TargetLayout { level: Level::Graph, kind: TargetKind::Float, columns: 1 }),
    };
    let mut store = GraphStore::new(layout.clone());
    let mut split = gt_data::Splits::new(Level::Graph);
    for number in 0..20 {
        let value = number as f32 / 20.0;
        let features = [value, 1.0 - value, last(number)];
        store
            .push(GraphParts {
                num_nodes: 3,
                src: &[0, 1, 1, 2],
                dst: &[1, 0, 2, 1],
                node: FeatureRows { continuous: &features, ..Default::default() },
                target: Some(TargetRows::Float(&[value])),
                ..Default::default()
            })
            .unwrap();
        split.push(["train", "train", "train", "val", "test"][number / 4]).unwrap();
    }
    let mut dataset = Dataset::new(gt_graph::Schema::unnamed(&layout), store).unwrap();
    dataset.set_split(split).unwrap();
    dataset
}

#[test]
fn a_step_that_is_left_out_leaves_no_trace_and_one_that_is_not_names_the_last_good_checkpoint() {
    for (poison, dataset) in [3e38, 1e20].map(|poison| (poison, poisoned(poison))) {
        leaves_out_or_stops(poison, &dataset);
    }
}

fn leaves_out_or_stops(poison: f32, dataset: &Dataset) {
    let settings = ["model.encoding=none", "train.epochs=4", "train.checkpoint_seconds=0"];
    let with = |skip: &'static str| config(&[&settings[..], &[skip]].concat());
    let (skipping, stopping) = (with("train.skip_bad_steps=true"), with("train.skip_bad_steps=false"));
    let whole = tempfile::tempdir().unwrap();
    let (outcome, notes, epochs) = sit(dataset, &skipping, whole.path(), 0);
    assert_eq!((outcome.stop, notes.len()), (Stop::Epochs, 4), "{poison}: {notes:?}");
    assert!(notes.iter().all(|note| note.ends_with("; the step is skipped")), "{notes:?}");
    assert!(epochs.iter().all(|epoch| epoch.train.loss.exact.is_finite() && epoch.val.loss.exact.is_finite()));

    let folder = tempfile::tempdir().unwrap();
    sit(dataset, &skipping, folder.path(), 4);
    let data = prepare(dataset, &stopping);
    let run = RunDirectory::open(folder.path()).unwrap();
    let flag = AtomicBool::new(false);
    let mut observer = Interrupter { flag: &flag, after: usize::MAX, notes: vec![], epochs: vec![] };
    let trainer = Trainer::new(&data, &stopping, &run, cpu(&data, &stopping), &mut observer).unwrap();
    assert_eq!(observer.notes[0], "`train.skip_bad_steps` is false, but was true");
    let newest = folder.path().join("checkpoint/00000002");
    match trainer.run(&flag, &mut observer).unwrap_err() {
        TrainError::NotFinite { remedy, checkpoint: Some(checkpoint), .. } => {
            assert_eq!((remedy, checkpoint), (Remedy::LargeValues, newest.clone()));
        }
        error => panic!("{error}"),
    }
    assert!(newest.join("manifest.json").exists());
    drop(run);
    let (last, ..) = sit(dataset, &skipping, folder.path(), 0);
    assert_eq!(last.weights_sha256, outcome.weights_sha256);
}

#[test]
fn an_epoch_without_a_finite_step_is_an_error_in_one_sitting_and_in_two() {
    let dataset = paths(|_| 3e38);
    for (accumulate, interruption, expected) in [("1", 0, 3), ("1", 1, 3), ("2", 0, 2), ("2", 1, 2)] {
        let accumulate = format!("train.accumulate={accumulate}");
        let config = config(&["model.encoding=none", "train.epochs=2", "train.skip_bad_steps=true", &accumulate]);
        let folder = tempfile::tempdir().unwrap();
        if interruption > 0 {
            let (outcome, ..) = sit(&dataset, &config, folder.path(), interruption);
            assert_eq!((outcome.stop, outcome.epochs), (Stop::Interrupted, 0));
        }
        let data = prepare(&dataset, &config);
        let run = RunDirectory::open(folder.path()).unwrap();
        let flag = AtomicBool::new(false);
        let mut observer = Interrupter { flag: &flag, after: usize::MAX, notes: vec![], epochs: vec![] };
        let trainer = Trainer::new(&data, &config, &run, cpu(&data, &config), &mut observer).unwrap();
        match trainer.run(&flag, &mut observer).unwrap_err() {
            TrainError::AllSkipped { epoch, steps, remedy } => {
                assert_eq!((epoch, steps, remedy), (1, expected, Remedy::LargeValues));
            }
            error => panic!("{error}"),
        }
        assert!(observer.epochs.is_empty());
    }
}

#[test]
fn parameters_that_are_not_finite_are_never_saved() {
    let dataset = rings(20);
    let config = config(&["optimizer.lr=3e38", "model.encoding=none", "train.batch=64", "train.epochs=9"]);
    let data = prepare(&dataset, &config);
    let folder = tempfile::tempdir().unwrap();
    let run = RunDirectory::open(folder.path()).unwrap();
    // The one step of the first epoch ruins everything; an interruption then requests a checkpoint.
    let flag = AtomicBool::new(false);
    let mut observer = Interrupter { flag: &flag, after: 1, notes: vec![], epochs: vec![] };
    let trainer = Trainer::new(&data, &config, &run, cpu(&data, &config), &mut observer).unwrap();
    let error = trainer.run(&flag, &mut observer).unwrap_err().to_string();
    assert!(error.contains("are not finite, so they are not saved"), "{error}");
    assert!(!folder.path().join("checkpoint").exists());
}

#[test]
fn every_preset_trains_two_steps() {
    for preset in Preset::all() {
        let dataset = match preset.set {
            PublishedSet::Cluster => SbmSet::Cluster.generate(1, SbmSizes { train: 2, val: 1, test: 1 }).unwrap(),
            PublishedSet::Pattern => SbmSet::Pattern.generate(1, SbmSizes { train: 2, val: 1, test: 1 }).unwrap(),
            PublishedSet::Zinc => rings(10),
        };
        let mut config = preset.config();
        config.train.batch = 1;
        config.train.epochs = 1;
        let folder = tempfile::tempdir().unwrap();
        let (outcome, ..) = sit(&dataset, &config, folder.path(), 2);
        assert!(outcome.weights_sha256.len() == 64, "{}", preset.name());
        assert!(file(folder.path(), "model.safetensors").len() > 2_000_000, "{}", preset.name());
    }
}
