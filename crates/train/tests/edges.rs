//! Targets that belong to edges: learned from the end nodes or from the edges' own stream, split by
//! graphs or by edges.

mod support;

use graph_transformer_train::{DataProblem, Prepared, Purpose, Resident, TrainError, evaluate};
use gt_data::{Dataset, RandomStream, Splits};
use gt_graph::Schema;
use gt_graph::{
    FeatureLayout, FeatureRows, GraphParts, GraphStore, Layout, Level, Split, TargetKind, TargetLayout, TargetRows,
};
use gt_models::Config;
use gt_nn::HeadInput;
use support::{last_model, prepare, sit};

/// Random undirected graphs of nodes of four kinds. The class of an edge is whether its ends are of
/// one kind, its number the sum of their kinds; both directions have the same. Some graphs in
/// between have no edges, one no nodes. Edges may carry a feature that says nothing.
fn graphs(count: usize, nodes: u32, kind: TargetKind, features: bool) -> Dataset {
    let one = FeatureLayout { categorical: 1, ..Default::default() };
    let layout = Layout {
        node: one.clone(),
        edge: if features { one } else { FeatureLayout::default() },
        target: Some(TargetLayout { level: Level::Edge, kind, columns: 1 }),
    };
    let mut store = GraphStore::new(layout.clone());
    for number in 0..count {
        let mut random = RandomStream::new(3, 1, number as u64);
        let nodes = if number == 7 { 0 } else { nodes };
        let kinds: Vec<u32> = (0..nodes).map(|_| random.below(4)).collect();
        let (mut src, mut dst) = (vec![], vec![]);
        for a in 0..nodes {
            for b in 0..a {
                let same = kinds[a as usize] == kinds[b as usize];
                if number % 5 != 3 && random.below(if same { nodes / 6 } else { nodes / 2 }) == 0 {
                    src.extend([a, b]);
                    dst.extend([b, a]);
                }
            }
        }
        let ends: Vec<(u32, u32)> =
            src.iter().zip(&dst).map(|(a, b)| (kinds[*a as usize], kinds[*b as usize])).collect();
        let classes: Vec<u32> = ends.iter().map(|(a, b)| u32::from(a == b)).collect();
        let numbers: Vec<f32> = ends.iter().map(|(a, b)| (a + b) as f32).collect();
        let noise: Vec<u32> = src.iter().map(|_| random.below(3)).collect();
        let target = match kind {
            TargetKind::Class => TargetRows::Class(&classes),
            TargetKind::Float => TargetRows::Float(&numbers),
        };
        store
            .push(GraphParts {
                num_nodes: nodes as usize,
                src: &src,
                dst: &dst,
                node: FeatureRows { categorical: &kinds, ..Default::default() },
                edge: FeatureRows { categorical: if features { &noise } else { &[] }, ..Default::default() },
                target: Some(target),
            })
            .unwrap();
    }
    Dataset::new(Schema::unnamed(&layout), store).unwrap()
}

fn config(settings: &[&str]) -> Config {
    let base = ["model.layers=2", "model.width=16", "model.heads=4", "optimizer.lr=5e-3", "schedule.name=constant"];
    let all: Vec<String> = base.iter().chain(settings).map(|s| s.to_string()).collect();
    Config::from_toml_with("", &all).unwrap()
}

/// Trains; the test split's metric, which the model's file must give again.
fn test_metric(dataset: &Dataset, config: &Config) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, ..) = sit(dataset, config, folder.path(), 0);
    let (split, scores) = outcome.last.last().unwrap();
    assert_eq!(*split, Split::Test);
    let model = last_model(folder.path());
    let data = Prepared::for_model(dataset.clone(), &model, None).unwrap();
    let mut backend = Resident::Cpu.backend(&data, config, Purpose::Evaluation).unwrap();
    backend.load(&model.weights, None).unwrap();
    assert_eq!(evaluate(&data, backend.as_mut(), Split::Test, config.train.batch).unwrap(), *scores);
    scores.metric.exact
}

#[test]
fn edges_of_new_graphs_are_classified_from_their_ends_and_from_their_stream() {
    let plain = graphs(60, 12, TargetKind::Class, false);
    let featured = graphs(60, 12, TargetKind::Class, true);
    let cases: [(&Dataset, &[&str], HeadInput); 5] = [
        (&plain, &[], HeadInput::Pairs),
        (&plain, &["model.norm=layer", "model.graph=full"], HeadInput::Pairs),
        (&plain, &["model.edges=true"], HeadInput::Edges),
        (&featured, &[], HeadInput::Edges),
        (&featured, &["model.pairs=ends", "model.variant=paper"], HeadInput::Pairs),
    ];
    for (dataset, settings, reads) in cases {
        let config = config(&[settings, &["train.batch=8", "train.epochs=30"]].concat());
        assert_eq!(prepare(dataset, &config).network.reads, reads, "{settings:?}");
        // Mean recall of two classes: chance is 50 %.
        let accuracy = test_metric(dataset, &config);
        assert!(accuracy > 90.0, "{settings:?}: {accuracy}");
    }
}

#[test]
fn edges_of_one_graph_are_split_in_pairs_and_learned() {
    for (kind, features) in [(TargetKind::Class, false), (TargetKind::Class, true), (TargetKind::Float, false)] {
        let dataset = graphs(1, 80, kind, features);
        let config = config(&["train.epochs=120"]);
        let data = prepare(&dataset, &config);
        let graph = dataset.graphs().graph(0);
        let split = |edge: usize| Split::ALL.into_iter().find(|split| data.belongs(*split, edge)).unwrap();
        // Both directions of an edge are listed one after the other.
        assert!((0..graph.num_edges()).step_by(2).all(|edge| split(edge) == split(edge + 1)));
        let metric = test_metric(&dataset, &config);
        match kind {
            TargetKind::Class => assert!(metric > 85.0, "{features}: {metric}"),
            // The numbers' mean absolute deviation is about 1.5.
            TargetKind::Float => assert!(metric < 0.4, "{metric}"),
        }
    }
}

#[test]
fn a_split_of_nodes_is_refused_for_targets_of_edges() {
    let mut dataset = graphs(1, 20, TargetKind::Class, false);
    let mut split = Splits::new(Level::Node);
    (0..20).for_each(|node| split.push(["train", "val", "test"][node % 3]).unwrap());
    dataset.set_split(split).unwrap();
    match Prepared::for_training(dataset, &config(&[]), None).unwrap_err() {
        TrainError::Data(DataProblem::SplitLevel { divided: Level::Node, targets: Level::Edge }) => {}
        error => panic!("{error}"),
    }
}
