//! Splits: shares, strata, groups, folds, seeds.

mod support;

use std::collections::HashMap;

use graph_transformer_data::{Dataset, Parts, SbmSet, SbmSizes, SplitBy, SplitPlan, make_split, read, usual_level};
use gt_graph::{Level, TargetKind};
use support::{Shape, make};

fn labelled(graphs: usize, kind: TargetKind) -> Dataset {
    let shape = Shape {
        graphs,
        largest: 3,
        node: (0, 0, false),
        edge: (0, 0, false),
        target: Some((Level::Graph, kind, 1)),
        split: None,
        encodings: false,
    };
    make(&shape, 5)
}

fn shares() -> Parts {
    Parts::Shares(vec![("train".into(), 0.8), ("val".into(), 0.1), ("test".into(), 0.1)])
}

fn plan(by: SplitBy, parts: Parts) -> SplitPlan {
    SplitPlan { by, parts, level: Level::Graph, seed: 1 }
}

#[test]
fn random_parts_have_their_shares_and_depend_on_the_seed_alone() {
    let set = labelled(1000, TargetKind::Float);
    let random = plan(SplitBy::Random, shares());
    let split = make_split(&set, &random).unwrap();
    assert_eq!(["train", "val", "test"].map(|p| split.rows(p).len()), [800, 100, 100]);
    assert_eq!(split, make_split(&set, &random).unwrap());
    assert_ne!(split, make_split(&set, &SplitPlan { seed: 2, ..random }).unwrap());
}

#[test]
fn folds_are_equal_and_cover_everything() {
    let set = labelled(103, TargetKind::Float);
    let split = make_split(&set, &plan(SplitBy::Random, Parts::Folds(10))).unwrap();
    let sizes: Vec<usize> = (0..10).map(|f| split.rows(&format!("fold{f}")).len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 103);
    assert!(sizes.iter().all(|s| (10..=11).contains(s)), "{sizes:?}");
}

#[test]
fn strata_keep_the_shares_of_every_class_and_of_missing_labels() {
    let set = labelled(2000, TargetKind::Class);
    let split = make_split(&set, &plan(SplitBy::Stratified, shares())).unwrap();
    let labels = set.graphs().target().unwrap();
    let mut count: HashMap<(Option<u64>, &str), usize> = HashMap::new();
    for row in 0..2000 {
        *count.entry((labels.get(row).map(|v| v as u64), split.name(row))).or_default() += 1;
    }
    for class in [None, Some(0), Some(1), Some(2), Some(3)] {
        let [train, val, test] = ["train", "val", "test"].map(|p| count[&(class, p)]);
        let all = (train + val + test) as f64;
        assert!(
            (train as f64 - 0.8 * all).abs() <= 1.0 && (val as f64 - 0.1 * all).abs() <= 1.0,
            "{class:?}: {train} {val} {test}"
        );
    }
}

#[test]
fn strata_of_numbers_spread_every_tenth() {
    let set = labelled(1000, TargetKind::Float);
    let split = make_split(&set, &plan(SplitBy::Stratified, shares())).unwrap();
    let labels = set.graphs().target().unwrap();
    let mut ranked: Vec<usize> = (0..1000).filter(|&r| labels.get(r).is_some()).collect();
    ranked.sort_by(|&a, &b| labels.get(a).partial_cmp(&labels.get(b)).unwrap());
    for tenth in ranked.chunks(ranked.len().div_ceil(10)) {
        let val = tenth.iter().filter(|&&r| split.name(r) == "val").count();
        assert!((val as f64 - 0.1 * tenth.len() as f64).abs() <= 1.0);
    }
}

#[test]
fn groups_stay_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.jsonl");
    let lines: Vec<String> = (0..200)
        .map(|i| format!(r#"{{"num_nodes": 1, "edge_index": [[], []], "scaffold": "s{}"}}"#, i * i % 37))
        .collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let set = read(&path).unwrap();
    let split = make_split(&set, &plan(SplitBy::Group("scaffold".into()), shares())).unwrap();
    let mut part: HashMap<usize, &str> = HashMap::new();
    for row in 0..200 {
        assert_eq!(*part.entry(row * row % 37).or_insert(split.name(row)), split.name(row));
    }
    assert!(split.rows("train").len() > 140);
    let message = make_split(&set, &plan(SplitBy::Group("colour".into()), shares())).unwrap_err().to_string();
    assert_eq!(message, "there is no column \"colour\" to group by; there are: scaffold");
    let bare = SbmSet::Cluster.generate(1, SbmSizes { train: 2, val: 1, test: 1 }).unwrap();
    let message = make_split(&bare, &plan(SplitBy::Group("colour".into()), shares())).unwrap_err().to_string();
    assert_eq!(message, "there is no column \"colour\" to group by; the graphs carry none");
}

#[test]
fn shares_that_add_up_to_little_more_than_1_fit() {
    let set = SbmSet::Pattern.generate(1, SbmSizes { train: 400, val: 0, test: 0 }).unwrap();
    let shares = [("train", 0.500_000_5), ("val", 0.250_000_2), ("test", 0.250_000_2)];
    let parts = Parts::Shares(shares.map(|(name, share)| (name.to_owned(), share)).to_vec());
    let edges = set.graphs().num_edges();
    assert!(edges > 2_000_000, "{edges}");
    let split = make_split(&set, &SplitPlan { level: Level::Edge, ..plan(SplitBy::Random, parts) }).unwrap();
    assert_eq!(["train", "val", "test"].map(|part| split.rows(part).len()).iter().sum::<usize>(), edges);
}

#[test]
fn one_graph_is_split_by_its_nodes() {
    let set = SbmSet::Cluster.generate(1, SbmSizes { train: 1, val: 0, test: 0 }).unwrap();
    assert_eq!(usual_level(&set), Level::Node);
    let split = make_split(&set, &SplitPlan { level: Level::Node, ..plan(SplitBy::Stratified, shares()) }).unwrap();
    assert_eq!(split.codes.len(), set.graphs().num_nodes());
    assert_eq!(usual_level(&labelled(5, TargetKind::Float)), Level::Graph);
}

#[test]
fn both_directions_of_an_edge_go_to_the_same_part() {
    let shape = Shape {
        graphs: 4,
        largest: 30,
        node: (0, 0, false),
        edge: (0, 0, false),
        target: Some((Level::Edge, TargetKind::Class, 1)),
        split: None,
        encodings: false,
    };
    let sbm = SbmSet::Cluster.generate(2, SbmSizes { train: 1, val: 0, test: 0 }).unwrap();
    for (set, by) in
        [(make(&shape, 5), SplitBy::Stratified), (make(&shape, 6), SplitBy::Random), (sbm, SplitBy::Random)]
    {
        let split = make_split(&set, &SplitPlan { level: Level::Edge, ..plan(by, shares()) }).unwrap();
        let mut parts: HashMap<(usize, u32, u32), &str> = HashMap::new();
        for (id, graph) in set.graphs().iter().enumerate() {
            for (row, (&a, &b)) in set.graphs().edge_range(id).zip(graph.src().iter().zip(graph.dst())) {
                assert_eq!(*parts.entry((id, a.min(b), a.max(b))).or_insert(split.name(row)), split.name(row));
            }
        }
        let val = parts.values().filter(|name| **name == "val").count() as f64;
        assert!((val - 0.1 * parts.len() as f64).abs() <= 5.0, "{val} of {}", parts.len());
    }
}

#[test]
fn impossible_plans_are_refused_with_a_reason() {
    let set = labelled(5, TargetKind::Float);
    let refuse = |by, parts| make_split(&set, &plan(by, parts)).unwrap_err().to_string();
    assert_eq!(refuse(SplitBy::Random, Parts::Folds(6)), "5 graphs cannot be dealt into 6 folds");
    assert!(
        refuse(SplitBy::Random, Parts::Shares(vec![("a".into(), 0.5)]))
            .starts_with("shares must be positive and add up to 1, not 0.5")
    );
    assert_eq!(
        refuse(SplitBy::Random, Parts::Shares(vec![("a".into(), 0.99), ("b".into(), 0.01)])),
        "part \"b\" would be empty: 5 graphs are too few with a share of 0.01"
    );
    assert_eq!(
        refuse(SplitBy::Stratified, shares()),
        "part \"val\" would be empty: 5 graphs are too few to stratify with a share of 0.1"
    );
    let unlabelled = Shape {
        target: None,
        graphs: 3,
        largest: 1,
        node: (0, 0, false),
        edge: (0, 0, false),
        split: None,
        encodings: false,
    };
    let error = make_split(&make(&unlabelled, 1), &plan(SplitBy::Stratified, shares())).unwrap_err();
    assert_eq!(error.to_string(), "there are no graph targets to stratify by");
}
