//! Link prediction from a data set to scores.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use graph_transformer_train::metrics::area_under_roc;
use graph_transformer_train::{Inputs, Observer, PairInputs, Part, RunDirectory, Stop, Task, Training};
use graph_transformer_train::{evaluate, predict_pairs, score_pairs};
use gt_data::{Dataset, PairTable, RandomStream, Readable};
use gt_graph::Schema;
use gt_graph::{FeatureLayout, FeatureRows, GraphBatch, GraphParts, GraphStore, Layout};
use gt_models::config::TaskName;
use gt_models::{Config, ModelHeader};
use gt_nn::cpu::{Engine, Isa};
use support::{file, sit};

const COMMUNITIES: u32 = 4;

struct Silent;

impl Observer for Silent {}

/// Graphs of four communities of 12 nodes: two nodes of one are joined in half of the cases, others in one of thirty. A node shows its community in three of
/// four cases. Without targets. Directed: one community's nodes are joined to those of the next one instead, in this direction.
fn communities(count: usize, directed: bool) -> Dataset {
    let layout = Layout { node: FeatureLayout { categorical: 1, ..Default::default() }, ..Default::default() };
    let mut store = GraphStore::new(layout.clone());
    for number in 0..count {
        let mut random = RandomStream::new(4, 1, number as u64);
        let nodes = 12 * COMMUNITIES;
        let shown: Vec<u32> = (0..nodes)
            .map(|node| if random.below(4) > 0 { node % COMMUNITIES } else { random.below(COMMUNITIES) })
            .collect();
        let (mut src, mut dst) = (vec![], vec![]);
        for b in 0..nodes {
            for a in (0..nodes).filter(|&a| a < b || directed && a > b) {
                let next = a + u32::from(directed);
                if random.below(if next % COMMUNITIES == b % COMMUNITIES { 2 } else { 30 }) == 0 {
                    src.push(a);
                    dst.push(b);
                    if !directed {
                        src.push(b);
                        dst.push(a);
                    }
                }
            }
        }
        let node = FeatureRows { categorical: &shown, ..Default::default() };
        store.push(GraphParts { num_nodes: nodes as usize, src: &src, dst: &dst, node, ..Default::default() }).unwrap();
    }
    Dataset::new(Schema::unnamed(&layout), store).unwrap()
}

fn config(settings: &[&str]) -> Config {
    let base = [
        "data.task=links",
        "model.layers=2",
        "model.width=16",
        "model.heads=4",
        "model.encoding=laplacian",
        "model.encoding_size=4",
        "optimizer.lr=5e-3",
        "schedule.name=constant",
        "train.batch=4",
        "train.epochs=3",
    ];
    let all: Vec<String> = base.iter().chain(settings).map(|s| s.to_string()).collect();
    Config::from_toml_with("", &all).unwrap()
}

#[test]
fn links_of_communities_are_found_and_the_file_says_what_the_model_is() {
    for pairs in ["model.pairs=auto", "model.pairs=ends"] {
        finds_communities(&config(&["train.epochs=40", pairs]));
    }
}

fn finds_communities(config: &Config) {
    let dataset = communities(12, false);
    let folder = tempfile::tempdir().unwrap();
    let (outcome, ..) = sit(&dataset, config, folder.path(), 0);
    let test = &outcome.last[2].1;
    assert!(test.metric.exact > 0.85, "{test:?}");
    assert!(test.others["average_precision"] > 0.8, "{test:?}");
    assert!(test.others["hits@10"] <= test.others["hits@50"] && test.others["hits@50"] <= test.others["hits@100"]);
    let (header, mut engine) = ModelHeader::open(&file(folder.path(), "model.safetensors"), Isa::detect()).unwrap();
    assert_eq!((header.config.data.task, header.config.links.directed), (TaskName::Links, Some(false)));
    let task = Task::for_model(&dataset, &header, None).unwrap();
    assert_eq!(evaluate(&mut engine, &task, Part::Test, config.train.batch).unwrap(), *test);
    // What was asked before does not matter to a batch of fewer nodes.
    let mut batch = GraphBatch::new();
    batch.assemble(&task.graphs, &[0]).unwrap();
    assert_eq!(engine.embed(&batch, task.edges).len(), 48 * config.model.width);
    // The same from pairs asked one graph at a time, in whatever order.
    let links = task.links.as_ref().unwrap();
    let mut scores = Vec::new();
    for graph in 0..task.graphs.len() {
        let [joined, apart] = links.pairs(Part::Test, graph);
        for (pairs, joined) in [(joined, true), (apart, false)] {
            let turned: Vec<(u32, u32)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            let mut ask =
                |pairs: &[(u32, u32)]| score_pairs(&mut engine, &header.config, &task.graphs, graph, pairs).unwrap();
            let logits = ask(pairs);
            assert_eq!(ask(&turned), logits);
            scores.extend(logits.into_iter().map(|logit| (logit, joined)));
        }
    }
    assert!((area_under_roc(scores) - test.metric.exact).abs() < 1e-4);
    let error = score_pairs(&mut engine, &header.config, &task.graphs, 0, &[(0, 1), (3, 48)]).unwrap_err().to_string();
    assert!(error.contains("pair 1 is of nodes 3 and 48, but graph 0 has 48 nodes"), "{error}");
}

#[test]
fn direction_is_learned_where_edges_have_one() {
    let dataset = communities(12, true);
    let config = config(&["train.epochs=40", "model.encoding=none"]);
    let folder = tempfile::tempdir().unwrap();
    let (outcome, ..) = sit(&dataset, &config, folder.path(), 0);
    assert!(outcome.last[2].1.metric.exact > 0.75, "{:?}", outcome.last[2]);
    let (header, mut engine) = ModelHeader::open(&file(folder.path(), "model.safetensors"), Isa::detect()).unwrap();
    assert_eq!(header.config.links.directed, Some(true));
    let pairs: Vec<(u32, u32)> = (0..44).map(|a| (a, a + 1)).collect();
    let turned: Vec<(u32, u32)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
    let mut mean = |pairs: &[(u32, u32)]| {
        score_pairs(&mut engine, &header.config, dataset.graphs(), 0, pairs).unwrap().iter().sum::<f32>() / 44.0
    };
    assert!(mean(&pairs) > mean(&turned) + 0.5);
}

/// A trained model, and graphs made ready for it.
fn model_and_inputs(dataset: Dataset, config: &Config) -> (ModelHeader, Engine<f32>, Inputs) {
    let folder = tempfile::tempdir().unwrap();
    sit(&dataset, config, folder.path(), 0);
    let (header, engine) = ModelHeader::open(&file(folder.path(), "model.safetensors"), Isa::detect()).unwrap();
    let unusable = [(2, "it is damaged".to_owned())].into();
    let inputs = Inputs::new(Readable { dataset, unusable }, &header, None).unwrap();
    (header, engine, inputs)
}

/// Asks about a table of pairs; the lines of the answers.
fn ask(
    header: &ModelHeader,
    engine: &mut Engine<f32>,
    inputs: &Inputs,
    text: &str,
) -> (Vec<String>, BTreeMap<usize, String>) {
    let folder = tempfile::tempdir().unwrap();
    let [asked, answered] = ["asked.csv", "answered.csv"].map(|name| folder.path().join(name));
    std::fs::write(&asked, text).unwrap();
    let mut pairs = PairInputs::new(PairTable::read(&asked).unwrap(), inputs).unwrap();
    predict_pairs(engine, header, inputs, &mut pairs).unwrap().write(&answered).unwrap();
    let lines = std::fs::read_to_string(&answered).unwrap().lines().map(Into::into).collect();
    (lines, pairs.unanswered().clone())
}

#[test]
fn more_pairs_than_one_pass_takes_get_the_scores_of_few() {
    for pairs in ["model.pairs=auto", "model.pairs=ends"] {
        let config = config(&["train.epochs=1", pairs]);
        let (header, mut engine, inputs) = model_and_inputs(communities(4, false), &config);
        // Every pair of graph 1 thirty times, 69,120 in all, and those of graph 3 between them.
        let all: Vec<(u32, u32)> = (0..48).flat_map(|a| (0..48).map(move |b| (a, b))).collect();
        let mut asked: Vec<(usize, (u32, u32))> = (0..30).flat_map(|_| all.iter().map(|pair| (1, *pair))).collect();
        (0..all.len()).for_each(|at| asked.insert(20 * at, (3, all[at])));
        let rows: String = asked.iter().map(|(graph, (a, b))| format!("{graph},{a},{b}\n")).collect();
        let (lines, unanswered) = ask(&header, &mut engine, &inputs, &format!("graph,source,target\n{rows}"));
        assert!(unanswered.is_empty());
        let mut expected = BTreeMap::new();
        for graph in [1, 3] {
            let logits = score_pairs(&mut engine, &header.config, inputs.graphs(), graph, &all).unwrap();
            expected.extend(all.iter().zip(logits).map(|(pair, logit)| ((graph, *pair), logit)));
        }
        assert_eq!(lines[0], "graph,source,target,link_p1,reason");
        assert_eq!(lines.len(), 1 + asked.len());
        for (line, (graph, (a, b))) in lines[1..].iter().zip(asked) {
            let probability = (1.0 / (1.0 + f64::from(-expected[&(graph, (a, b))]).exp())) as f32;
            assert_eq!(*line, format!("{graph},{a},{b},{probability:?},"));
        }
    }
}

#[test]
fn pairs_without_an_answer_keep_their_rows_and_say_why() {
    let (header, mut engine, inputs) = model_and_inputs(communities(4, false), &config(&["train.epochs=1"]));
    let text = "graph,source,target\n2,500,0\n0,5,5\n4,0,1\n3,0,48\n,1,2\n0,x,1\n1,7,-1\n0,5,5\n";
    let (lines, unanswered) = ask(&header, &mut engine, &inputs, text);
    let expected = [
        (1, "graph 2: it is damaged"),
        (3, "column `graph`: there is no graph 4; the data has 4"),
        (4, "column `target`: there is no node 48; graph 3 has 48 nodes"),
        (5, "column `graph`: the cell is empty"),
        (6, "column `source`: `x` is not an integer"),
        (7, "column `target`: `-1` is less than 0"),
    ];
    assert_eq!(unanswered, expected.map(|(row, reason)| (row, reason.to_owned())).into());
    let cells: Vec<&str> = ["2,500,0", "0,5,5", "4,0,1", "3,0,48", ",1,2", "0,,1", "1,7,", "0,5,5"].into();
    for (row, (line, cells)) in lines[1..].iter().zip(cells).enumerate() {
        let rest = line.strip_prefix(&format!("{cells},")).unwrap_or_else(|| panic!("{line}"));
        match unanswered.get(&(row + 1)) {
            Some(reason) => assert_eq!(rest, format!(",{reason}")),
            None => assert!((0.0..=1.0).contains(&rest.trim_end_matches(',').parse::<f32>().unwrap()), "{line}"),
        }
    }
    assert_eq!(lines[2], lines[8]);

    let last = engine.parameters().list().len() - 1;
    engine.set_parameter(last, &vec![f32::INFINITY; engine.parameters().list()[last].len()]);
    engine.refresh();
    let (lines, unanswered) = ask(&header, &mut engine, &inputs, "graph,source,target\n0,1,2\n9,0,1\n");
    assert_eq!(lines[1], "0,1,2,,the model's result is not a finite number");
    assert_eq!(unanswered.len(), 2);
}

#[test]
fn a_run_stopped_after_any_step_ends_with_the_same_bytes() {
    let dataset = communities(10, false);
    for settings in
        [&["links.hidden=0.4", "model.dropout=0.1"][..], &["links.hidden=0", "links.negatives=2", "model.pairs=ends"]]
    {
        let config = config(settings);
        let whole = tempfile::tempdir().unwrap();
        let (outcome, ..) = sit(&dataset, &config, whole.path(), 0);
        assert_eq!((outcome.stop, outcome.epochs), (Stop::Epochs, 3));
        for first in 1..=8 {
            let folder = tempfile::tempdir().unwrap();
            let (mut last, ..) = sit(&dataset, &config, folder.path(), first);
            let mut sittings = 1;
            while last.stop == Stop::Interrupted {
                (last, ..) = sit(&dataset, &config, folder.path(), 2);
                sittings += 1;
                assert!(sittings < 20);
            }
            assert_eq!(last.weights, outcome.weights, "{settings:?}, first stop after {first}");
            let history = |path: &Path| {
                let records = RunDirectory::open(path).unwrap().history().unwrap();
                records.into_iter().map(|r| (r.epoch, r.train, r.val, r.test)).collect::<Vec<_>>()
            };
            assert_eq!(history(folder.path()), history(whole.path()), "{settings:?}, first stop after {first}");
        }
    }
}

#[test]
fn a_run_does_not_go_on_with_other_links() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(&[]));
    sit(&communities(10, false), &config, folder.path(), 2);
    let run = RunDirectory::open(folder.path()).unwrap();
    // Fewer graphs, and links of another kind, which is no change of the configuration.
    for dataset in [communities(9, false), communities(10, true)] {
        let task = Task::new(&dataset, &config, None).unwrap();
        let error = Training::new(&task, &config, &run, &mut Silent).err().unwrap().to_string();
        assert!(error.contains("the data it began with was another"), "{error}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing_and_the_seed_does() {
    let dataset = communities(6, false);
    let weights = |threads: usize, seed: &str| {
        let folder = tempfile::tempdir().unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| sit(&dataset, &config(&[seed]), folder.path(), 0)).0.weights
    };
    let one = weights(1, "train.seed=41");
    assert_eq!(weights(3, "train.seed=41"), one);
    assert_ne!(weights(1, "train.seed=95"), one);
}

#[test]
fn complete_empty_and_edgeless_graphs_are_no_trouble() {
    let mut store = GraphStore::new(Layout::default());
    let mut push = |nodes: u32, joined: &dyn Fn(u32, u32) -> bool| {
        let all = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|&(a, b)| joined(a, b));
        let (src, dst): (Vec<u32>, Vec<u32>) = all.unzip();
        store.push(GraphParts { num_nodes: nodes as usize, src: &src, dst: &dst, ..Default::default() }).unwrap();
    };
    push(0, &|_, _| false);
    push(5, &|_, _| false);
    push(1, &|_, _| true);
    push(12, &|a, b| a != b);
    push(12, &|a, b| a != b && a + b > 1);
    let dataset = Dataset::new(Schema::default(), store).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (outcome, ..) = sit(&dataset, &config(&["links.negatives=3"]), folder.path(), 0);
    assert_eq!(outcome.epochs, 3);
    // One pair in all has no edge.
    assert!(outcome.last[2].1.loss.exact.is_finite() && !outcome.last[2].1.others.contains_key("hits@10"));

    let mut alone = GraphStore::new(Layout::default());
    let loops: Vec<u32> = (0..40).collect();
    alone.push(GraphParts { num_nodes: 40, src: &loops, dst: &loops, ..Default::default() }).unwrap();
    let refused = |store: GraphStore| {
        let dataset = Dataset::new(Schema::default(), store).unwrap();
        Task::new(&dataset, &config(&[]), None).map(|_| ()).unwrap_err().to_string()
    };
    assert!(refused(alone).contains("its part `train` has no edges between different nodes"));
    let mut few = GraphStore::new(Layout::default());
    few.push(GraphParts { num_nodes: 3, src: &[0, 1], dst: &[1, 0], ..Default::default() }).unwrap();
    let complaint = refused(few);
    let parts = ["part `val` would be empty: 2 edges are too few with a share of", "; data.split sets the shares"];
    assert!(parts.iter().all(|part| complaint.contains(part)), "{complaint}");
}

#[test]
fn citations_of_cora_are_found() {
    let Some(nodes) = gt_testing::shared("data/planetoid/cora_nodes.parquet") else { return };
    let dataset = gt_data::read(&nodes).unwrap();
    let config = config(&[
        "model.encoding=none",
        "model.width=32",
        "model.dropout=0.5",
        "model.input_dropout=0.5",
        "optimizer.lr=1e-2",
        "train.epochs=40",
    ]);
    let folder = tempfile::tempdir().unwrap();
    let (outcome, ..) = sit(&dataset, &config, folder.path(), 0);
    let (_, test) = &outcome.last[2];
    assert!(test.metric.exact > 0.75 && test.others["hits@100"] > 0.4, "{test:?}");
}
