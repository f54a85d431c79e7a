//! Link prediction from a data set to scores.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use graph_transformer_train::metrics::area_under_roc;
use graph_transformer_train::{
    DataProblem, NoResult, Observer, PairRows, Prepared, Purpose, QueryGraphs, Resident, RunDirectory, Stop,
    TrainError, Trainer, evaluate, predict_pairs,
};
use gt_data::{Dataset, PairTable, RandomStream};
use gt_graph::{FeatureLayout, FeatureRows, GraphParts, GraphStore, Layout, Schema, Split};
use gt_models::config::TaskName;
use gt_models::{Config, Model, ModelError, PairGroup};
use support::{cpu, last_model, prepare, sit};

const COMMUNITIES: u32 = 4;

struct Silent;

impl Observer for Silent {}

/// Graphs of four communities of 12 nodes: two nodes of one are joined in half of the cases, others
/// in one of thirty. A node shows its community in three of four cases. Without targets. Directed:
/// one community's nodes are joined to those of the next one instead, in this direction.
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
    let model = last_model(folder.path());
    assert_eq!((model.config.data.task, model.config.links.directed), (TaskName::Links, Some(false)));
    let data = Prepared::for_model(dataset, &model, None).unwrap();
    let mut backend = Resident::Cpu.backend(&data, config, Purpose::Evaluation).unwrap();
    backend.load(&model.weights, None).unwrap();
    assert_eq!(evaluate(&data, backend.as_mut(), Split::Test, config.train.batch).unwrap(), *test);
    // The same from pairs scored one graph at a time, in whatever order.
    let links = data.links.as_ref().unwrap();
    let mut scores = Vec::new();
    for graph in 0..data.graphs.len() {
        let [joined, apart] = links.pairs(Split::Test, graph);
        for (pairs, joined) in [(joined, true), (apart, false)] {
            let turned: Vec<(u32, u32)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            let logits = score(&model, &data.graphs, graph, pairs);
            assert_eq!(score(&model, &data.graphs, graph, &turned), logits);
            scores.extend(logits.into_iter().map(|logit| (logit, joined)));
        }
    }
    assert!((area_under_roc(scores) - test.metric.exact).abs() < 1e-4);
    let strange = PairGroup { graph: 0, pairs: vec![(0, 1), (3, 48)] };
    match model.score_pairs(&data.graphs, &[strange]).unwrap_err() {
        ModelError::NoNode { graph: 0, node: 48, nodes: 48 } => {}
        error => panic!("{error}"),
    }
}

fn score(model: &Model, graphs: &GraphStore, graph: usize, pairs: &[(u32, u32)]) -> Vec<f32> {
    model.score_pairs(graphs, &[PairGroup { graph, pairs: pairs.to_vec() }]).unwrap()
}

#[test]
fn direction_is_learned_where_edges_have_one() {
    let dataset = communities(12, true);
    let config = config(&["train.epochs=40", "model.encoding=none"]);
    let folder = tempfile::tempdir().unwrap();
    let (outcome, ..) = sit(&dataset, &config, folder.path(), 0);
    assert!(outcome.last[2].1.metric.exact > 0.75, "{:?}", outcome.last[2]);
    let model = last_model(folder.path());
    assert_eq!(model.config.links.directed, Some(true));
    let pairs: Vec<(u32, u32)> = (0..44).map(|a| (a, a + 1)).collect();
    let turned: Vec<(u32, u32)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
    let mean = |pairs: &[(u32, u32)]| score(&model, dataset.graphs(), 0, pairs).iter().sum::<f32>() / 44.0;
    assert!(mean(&pairs) > mean(&turned) + 0.5);
}

/// A trained model, and its graphs in a file, of which the third has a node that the model does not
/// know.
fn model_and_graphs(dataset: &Dataset, config: &Config) -> (Model, QueryGraphs) {
    let folder = tempfile::tempdir().unwrap();
    sit(dataset, config, folder.path(), 0);
    let model = last_model(folder.path());
    let path = folder.path().join("graphs.jsonl");
    gt_data::write(dataset, &path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(Into::into).collect();
    lines[2] = lines[2].replacen("\"node_feat\":[[", "\"node_feat\":[[9", 1);
    std::fs::write(&path, lines.join("\n")).unwrap();
    let graphs = QueryGraphs::read(&path, &model).unwrap();
    (model, graphs)
}

/// Scores a table of pairs; the lines of the result, and the rows without a score.
fn score_table(model: &Model, graphs: &QueryGraphs, text: &str) -> (Vec<String>, BTreeMap<usize, NoResult>) {
    let folder = tempfile::tempdir().unwrap();
    let [pairs, scored] = ["pairs.csv", "scored.csv"].map(|name| folder.path().join(name));
    std::fs::write(&pairs, text).unwrap();
    let mut rows = PairRows::new(PairTable::read(&pairs).unwrap(), graphs).unwrap();
    predict_pairs(model, graphs, &mut rows).unwrap().write(&scored).unwrap();
    let lines = std::fs::read_to_string(&scored).unwrap().lines().map(Into::into).collect();
    (lines, rows.unusable().clone())
}

#[test]
fn more_pairs_than_one_pass_takes_get_the_scores_of_few() {
    for pairs in ["model.pairs=auto", "model.pairs=ends"] {
        let config = config(&["train.epochs=1", pairs]);
        let (model, graphs) = model_and_graphs(&communities(4, false), &config);
        // Every pair of graph 1 thirty times, 69,120 in all, and those of graph 3 between them.
        let all: Vec<(u32, u32)> = (0..48).flat_map(|a| (0..48).map(move |b| (a, b))).collect();
        let mut asked: Vec<(usize, (u32, u32))> = (0..30).flat_map(|_| all.iter().map(|pair| (1, *pair))).collect();
        (0..all.len()).for_each(|at| asked.insert(20 * at, (3, all[at])));
        let rows: String = asked.iter().map(|(graph, (a, b))| format!("{graph},{a},{b}\n")).collect();
        let (lines, unusable) = score_table(&model, &graphs, &format!("graph,source,target\n{rows}"));
        assert!(unusable.is_empty());
        let mut expected = BTreeMap::new();
        for graph in [1, 3] {
            let logits = score(&model, graphs.store(), graphs.position(graph).unwrap(), &all);
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
fn pairs_without_a_score_keep_their_rows_and_say_why() {
    let (mut model, graphs) = model_and_graphs(&communities(4, false), &config(&["train.epochs=1"]));
    let text = "graph,source,target\n2,500,0\n0,5,5\n4,0,1\n3,0,48\n,1,2\n0,x,1\n1,7,-1\n0,5,5\n";
    let (lines, unusable) = score_table(&model, &graphs, text);
    assert_eq!(unusable.keys().copied().collect::<Vec<_>>(), [1, 3, 4, 5, 6, 7]);
    assert!(matches!(unusable[&1], NoResult::OfGraph { graph: 2, .. }), "{}", unusable[&1]);
    assert_eq!(unusable[&3], NoResult::NoGraph { graph: 4, graphs: 4 });
    assert_eq!(unusable[&3].to_string(), "column \"graph\": there is no graph 4; the data has 4");
    assert_eq!(unusable[&4], NoResult::NoNode { column: "target", node: 48, graph: 3, nodes: 48 });
    assert_eq!(unusable[&4].to_string(), "column \"target\": there is no node 48; graph 3 has 48 nodes");
    let cells: Vec<&str> = ["2,500,0", "0,5,5", "4,0,1", "3,0,48", ",1,2", "0,,1", "1,7,", "0,5,5"].into();
    for (row, (line, cells)) in lines[1..].iter().zip(cells).enumerate() {
        let rest = line.strip_prefix(&format!("{cells},")).unwrap_or_else(|| panic!("{line}"));
        match unusable.get(&(row + 1)) {
            Some(_) => assert!(rest.starts_with(','), "{line}"),
            None => assert!((0.0..=1.0).contains(&rest.trim_end_matches(',').parse::<f32>().unwrap()), "{line}"),
        }
    }
    assert_eq!(lines[2], lines[8]);

    let last = model.weights.parameters().list().len() - 1;
    let count = model.weights.parameters().list()[last].len();
    model.weights.set_parameter(last, &vec![f32::INFINITY; count]);
    let (lines, unusable) = score_table(&model, &graphs, "graph,source,target\n0,1,2\n9,0,1\n");
    assert_eq!(lines[1], "0,1,2,,the model's result is not a finite number");
    assert_eq!(unusable.len(), 2);
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
            assert_eq!(last.weights_sha256, outcome.weights_sha256, "{settings:?}, first stop after {first}");
            let history = |path: &Path| {
                let records = RunDirectory::open(path).unwrap().history().unwrap();
                records.into_iter().map(|r| (r.epoch, r.train, r.val, r.test)).collect::<Vec<_>>()
            };
            assert_eq!(history(folder.path()), history(whole.path()), "{settings:?}, first stop after {first}");
        }
    }
}

#[test]
fn a_run_does_not_resume_with_other_links() {
    let (folder, config) = (tempfile::tempdir().unwrap(), config(&[]));
    sit(&communities(10, false), &config, folder.path(), 2);
    let run = RunDirectory::open(folder.path()).unwrap();
    // Fewer graphs, and links of another kind, which is no change of the configuration.
    for dataset in [communities(9, false), communities(10, true)] {
        let data = prepare(&dataset, &config);
        let error = Trainer::new(&data, &config, &run, cpu(&data, &config), &mut Silent).err().unwrap().to_string();
        assert!(error.contains("the data it began with was another"), "{error}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing_and_the_seed_does() {
    let dataset = communities(6, false);
    let weights = |threads: usize, seed: &str| {
        let folder = tempfile::tempdir().unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| sit(&dataset, &config(&[seed]), folder.path(), 0)).0.weights_sha256
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
        match Prepared::for_training(dataset, &config(&[]), None).unwrap_err() {
            TrainError::Data(problem) => problem,
            error => panic!("{error}"),
        }
    };
    assert!(matches!(refused(alone), DataProblem::NoLinks(Split::Train)));
    let mut few = GraphStore::new(Layout::default());
    few.push(GraphParts { num_nodes: 3, src: &[0, 1], dst: &[1, 0], ..Default::default() }).unwrap();
    assert!(matches!(refused(few), DataProblem::CannotSplit(_)));
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
