//! Contents of batches of pairs: queries, labels, and the edges that must be missing.

use std::collections::BTreeSet;

use gt_graph::encoding::{Coordinates, Laplacian, encode_all};
use gt_graph::{FeatureLayout, FeatureRows, GraphParts, Layout};

use super::*;
use crate::error::TrainError;
use crate::prepared::Prepared;

/// Random graphs, every edge in both directions unless `directed`, whose edges carry the number
/// 100·source + target; the second one has no edges, the third no nodes.
fn graphs(directed: bool) -> Dataset {
    let layout = Layout { edge: FeatureLayout { categorical: 1, ..Default::default() }, ..Default::default() };
    let mut store = GraphStore::new(layout.clone());
    let mut random = RandomStream::new(9, 1, 0);
    for (nodes, chance) in [(30, 5), (4, u32::MAX), (0, 1), (25, 4)] {
        let (mut src, mut dst) = (vec![], vec![]);
        for a in 0..nodes {
            for b in (0..nodes).filter(|&b| if directed { a != b } else { a < b }) {
                if random.below(chance) == 0 {
                    src.push(a);
                    dst.push(b);
                    if !directed {
                        src.push(b);
                        dst.push(a);
                    }
                }
            }
        }
        if nodes > 10 {
            src.push(7);
            dst.push(7);
        }
        let marks: Vec<u32> = src.iter().zip(&dst).map(|(a, b)| 100 * a + b).collect();
        let edge = FeatureRows { categorical: &marks, ..Default::default() };
        store.push(GraphParts { num_nodes: nodes as usize, src: &src, dst: &dst, edge, ..Default::default() }).unwrap();
    }
    Dataset::new(gt_graph::Schema::unnamed(&layout), store).unwrap()
}

fn config(settings: &[&str]) -> Config {
    let base = ["data.task=links", "model.layers=1", "model.width=8", "model.heads=2"];
    Config::from_toml_with("", &base.iter().chain(settings).map(|s| s.to_string()).collect::<Vec<_>>()).unwrap()
}

/// The pairs (by graph) of a set in which an edge lies, in whatever direction.
fn joined(graphs: &GraphStore) -> BTreeSet<(usize, Pair)> {
    graphs.iter().enumerate().flat_map(|(id, graph)| ends(graph).map(move |pair| (id, ascending(pair)))).collect()
}

fn prepare(dataset: &Dataset, settings: &[&str]) -> Prepared {
    Prepared::for_training(dataset.clone(), &config(settings), None).unwrap()
}

fn fill(data: &Prepared, split: Split, random: Option<RandomStream>) -> PreparedBatch {
    let mut batch = PreparedBatch::default();
    data.links.as_ref().unwrap().fill(&data.graphs, split, &[3, 1, 0], random, &mut batch).unwrap();
    batch
}

/// Pairs of a batch, by graph, with their labels.
fn queries(batch: &PreparedBatch) -> Vec<(usize, Pair, u32)> {
    let labels = batch.labels.rows().unwrap();
    let pairs = batch.pairs.as_ref().unwrap().iter().zip(labels.classes().unwrap());
    pairs
        .map(|((a, b), &label)| {
            let place = batch.graphs.graph_of(a as usize);
            let first = batch.graphs.nodes_of(place).start as u32;
            assert_eq!(batch.graphs.graph_of(b as usize), place);
            ([3, 1, 0][place], (a - first, b - first), label)
        })
        .collect()
}

#[test]
fn what_is_held_out_is_in_no_graph_and_no_encoding() {
    for directed in [false, true] {
        let mut dataset = graphs(directed);
        let width = 3;
        let values = encode_all(&Laplacian::new(width), dataset.graphs()).unwrap();
        let of_all = Encodings { laplacian: Some(Coordinates { width, values }), ..Default::default() };
        dataset.set_encodings(of_all.clone()).unwrap();
        let data = prepare(&dataset, &["model.encoding=laplacian", "model.encoding_size=3", "links.hidden=0"]);
        let links = data.links.as_ref().unwrap();
        assert_eq!(links.directed(), directed);
        let seen = joined(&data.graphs);
        let mut held_out = 0;
        for split in [Split::Val, Split::Test] {
            for graph in 0..dataset.graphs().len() {
                let pairs = links.pairs(split, graph)[0];
                assert!(pairs.iter().all(|pair| !seen.contains(&(graph, ascending(*pair)))));
                held_out += pairs.len();
            }
        }
        // Two loops are no links.
        let edges = (dataset.graphs().num_edges() - 2) / if directed { 1 } else { 2 };
        assert_eq!(held_out + links.count(Split::Train), edges);
        assert!((held_out as f64 - 0.2 * edges as f64).abs() < 0.06 * edges as f64, "{held_out} of {edges}");
        let encodings = data.graphs.encodings();
        let values = encode_all(&Laplacian::new(width), &data.graphs).unwrap();
        assert_eq!(encodings.laplacian.as_ref().unwrap().values, values);
        assert_ne!(encodings, &of_all);
        // Features of the edges that are left are still their own.
        for graph in data.graphs.iter() {
            assert!(ends(graph).zip(graph.edge().categorical).all(|((a, b), &mark)| mark == 100 * a + b));
        }
        // No batch of any split has more edges than the graphs.
        for split in Split::ALL {
            for random in [None, Some(RandomStream::new(1, 1, 1))] {
                let batch = fill(&data, split, random).graphs.split();
                for (graph, id) in batch.iter().zip([3, 1, 0]) {
                    assert_eq!(graph.num_edges(), data.graphs.edge_range(id).len());
                    assert!(ends(graph).all(|pair| seen.contains(&(id, ascending(pair)))));
                }
            }
        }
    }
}

#[test]
fn pairs_with_label_0_are_never_edges_and_those_with_label_1_always() {
    for directed in [false, true] {
        let dataset = graphs(directed);
        let data = prepare(&dataset, &["links.negatives=2", "model.pairs=ends"]);
        let all: BTreeSet<(usize, Pair)> = dataset
            .graphs()
            .iter()
            .enumerate()
            .flat_map(|(id, graph)| ends(graph).map(move |pair| (id, if directed { pair } else { ascending(pair) })))
            .collect();
        for split in Split::ALL {
            for random in [None, Some(RandomStream::new(1, 1, 1))] {
                let pairs = queries(&fill(&data, split, random));
                assert!(pairs.iter().all(|&(graph, pair, label)| (label == 1) == all.contains(&(graph, pair))));
                assert!(pairs.iter().all(|(_, (a, b), _)| a != b));
                let links = pairs.iter().filter(|(.., label)| *label == 1).count();
                assert!(links > 0 && pairs.len() == 3 * links, "{links} of {}", pairs.len());
            }
        }
    }
}

#[test]
fn a_step_hides_the_links_that_it_scores_and_no_others() {
    for directed in [false, true] {
        let data = prepare(&graphs(directed), &["links.hidden=0.3"]);
        let ready = fill(&data, Split::Train, Some(RandomStream::new(1, 1, 1)));
        let hidden: BTreeSet<(usize, Pair)> = queries(&ready)
            .iter()
            .filter(|(.., label)| *label == 1)
            .map(|(id, pair, _)| (*id, ascending(*pair)))
            .collect();
        let seen: BTreeSet<(usize, Pair)> =
            joined(&ready.graphs.split()).into_iter().map(|(place, pair)| ([3, 1, 0][place], pair)).collect();
        assert!(hidden.is_disjoint(&seen));
        assert_eq!(hidden.union(&seen).copied().collect::<BTreeSet<_>>(), joined(&data.graphs));
        let links = data.links.as_ref().unwrap().count(Split::Train) as f64;
        let count = queries(&ready).iter().filter(|(.., label)| *label == 1).count();
        assert_eq!(count, (0.3 * links).ceil() as usize);
    }
}

#[test]
fn steps_draw_anew_and_evaluation_does_not() {
    let data = prepare(&graphs(false), &[]);
    let drawn = |number| queries(&fill(&data, Split::Train, Some(RandomStream::new(1, 1, number))));
    assert_eq!(drawn(4), drawn(4));
    assert_ne!(drawn(4), drawn(5));
    let again = prepare(&graphs(false), &["train.seed=7"]);
    for split in Split::ALL {
        assert_eq!(queries(&fill(&data, split, None)), queries(&fill(&again, split, None)));
    }
    let other = prepare(&graphs(false), &["data.split_seed=7"]);
    assert_ne!(queries(&fill(&data, Split::Test, None)), queries(&fill(&other, Split::Test, None)));
}

#[test]
fn a_split_of_edges_in_the_file_is_kept_unless_it_tears_a_link_apart() {
    let mut dataset = graphs(false);
    let edges = dataset.graphs().num_edges();
    let mut split = gt_data::Splits::new(Level::Edge);
    // The two rows of an edge are adjacent. The links of the split `spare` are neither messages nor
    // queries.
    (0..edges).for_each(|edge| split.push(["train", "train", "val", "test", "spare"][edge / 2 % 5]).unwrap());
    dataset.set_split(split.clone()).unwrap();
    // The loop of the first graph shifts the pairs of the last.
    match Prepared::for_training(dataset.clone(), &config(&[]), None).unwrap_err() {
        TrainError::Data(DataProblem::DividedLink { graph: 3, .. }) => {}
        error => panic!("{error}"),
    }
    let of_last = dataset.graphs().edge_range(3).start;
    split.codes[of_last..].iter_mut().for_each(|code| *code = 0);
    dataset.set_split(split.clone()).unwrap();
    let data = prepare(&dataset, &[]);
    let links = data.links.as_ref().unwrap();
    let graph = dataset.graphs().graph(0);
    let expected = |name: &str| {
        sorted(ends(graph).enumerate().filter(|(e, (a, b))| a < b && split.name(*e) == name).map(|(_, pair)| pair))
    };
    for part in Split::ALL {
        assert_eq!(links.pairs(part, 0)[0], expected(part.name()));
    }
    let seen = joined(&data.graphs);
    assert!(expected("spare").iter().all(|pair| !seen.contains(&(0, *pair))));
}
