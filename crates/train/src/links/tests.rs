//! What a batch of pairs holds, and what it must not.

use std::collections::BTreeSet;

use gt_graph::encoding::{Coordinates, Laplacian, encode_all};
use gt_graph::{FeatureLayout, FeatureRows, GraphBatch, GraphParts, Layout};

use super::*;
use crate::batches::Ready;
use crate::task::Task;

/// Random graphs, every edge in both directions unless `directed`, whose edges carry the number 100·source + target; the second one has no edges, the third no nodes.
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

fn fill(task: &Task, part: Part, random: Option<RandomStream>) -> Ready {
    let mut ready = Ready { batch: GraphBatch::new(), labels: Labels::Float(vec![]), pairs: None };
    let ids = [3, 1, 0];
    task.links.as_ref().unwrap().fill(&task.graphs, part, &ids, random, &mut ready).unwrap();
    ready
}

/// Pairs of a batch, by graph, with their labels.
fn asked(ready: &Ready) -> Vec<(usize, Pair, u32)> {
    let labels = ready.labels.rows();
    let pairs = ready.pairs.as_ref().unwrap().list().zip(labels.classes().unwrap());
    pairs
        .map(|((a, b), &label)| {
            let place = ready.batch.graph_of(a as usize);
            let first = ready.batch.nodes_of(place).start as u32;
            assert_eq!(ready.batch.graph_of(b as usize), place);
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
        let config = config(&["model.encoding=laplacian", "model.encoding_size=3", "links.hidden=0"]);
        let task = Task::new(&dataset, &config, None).unwrap();
        let links = task.links.as_ref().unwrap();
        assert_eq!(links.directed(), directed);
        let seen = joined(&task.graphs);
        let mut held_out = 0;
        for part in [Part::Val, Part::Test] {
            for graph in 0..dataset.graphs().len() {
                let pairs = links.pairs(part, graph)[0];
                assert!(pairs.iter().all(|pair| !seen.contains(&(graph, ascending(*pair)))));
                held_out += pairs.len();
            }
        }
        // Two loops are no links.
        let edges = (dataset.graphs().num_edges() - 2) / if directed { 1 } else { 2 };
        assert_eq!(held_out + links.count(Part::Train), edges);
        assert!((held_out as f64 - 0.2 * edges as f64).abs() < 0.06 * edges as f64, "{held_out} of {edges}");
        let encodings = task.graphs.encodings();
        let values = encode_all(&Laplacian::new(width), &task.graphs).unwrap();
        assert_eq!(encodings.laplacian.as_ref().unwrap().values, values);
        assert_ne!(encodings, &of_all);
        // Features of the edges that are left are still their own.
        for graph in task.graphs.iter() {
            assert!(ends(graph).zip(graph.edge().categorical).all(|((a, b), &mark)| mark == 100 * a + b));
        }
        // Nor do batches of any part have more edges than these.
        for part in Part::ALL {
            for random in [None, Some(RandomStream::new(1, 1, 1))] {
                let batch = fill(&task, part, random).batch.split();
                for (graph, id) in batch.iter().zip([3, 1, 0]) {
                    assert_eq!(graph.num_edges(), task.graphs.edge_range(id).len());
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
        let task = Task::new(&dataset, &config(&["links.negatives=2", "model.pairs=ends"]), None).unwrap();
        let all: BTreeSet<(usize, Pair)> = dataset
            .graphs()
            .iter()
            .enumerate()
            .flat_map(|(id, graph)| ends(graph).map(move |pair| (id, if directed { pair } else { ascending(pair) })))
            .collect();
        for part in Part::ALL {
            for random in [None, Some(RandomStream::new(1, 1, 1))] {
                let pairs = asked(&fill(&task, part, random));
                assert!(pairs.iter().all(|&(graph, pair, label)| (label == 1) == all.contains(&(graph, pair))));
                assert!(pairs.iter().all(|(_, (a, b), _)| a != b));
                let links = pairs.iter().filter(|(.., label)| *label == 1).count();
                assert!(links > 0 && pairs.len() == 3 * links, "{links} of {}", pairs.len());
            }
        }
    }
}

#[test]
fn a_step_hides_the_links_it_asks_about_and_no_others() {
    for directed in [false, true] {
        let task = Task::new(&graphs(directed), &config(&["links.hidden=0.3"]), None).unwrap();
        let ready = fill(&task, Part::Train, Some(RandomStream::new(1, 1, 1)));
        let hidden: BTreeSet<(usize, Pair)> = asked(&ready)
            .iter()
            .filter(|(.., label)| *label == 1)
            .map(|(id, pair, _)| (*id, ascending(*pair)))
            .collect();
        let seen: BTreeSet<(usize, Pair)> =
            joined(&ready.batch.split()).into_iter().map(|(place, pair)| ([3, 1, 0][place], pair)).collect();
        assert!(hidden.is_disjoint(&seen));
        assert_eq!(hidden.union(&seen).copied().collect::<BTreeSet<_>>(), joined(&task.graphs));
        let links = task.links.as_ref().unwrap().count(Part::Train) as f64;
        let asked = asked(&ready).iter().filter(|(.., label)| *label == 1).count();
        assert_eq!(asked, (0.3 * links).ceil() as usize);
    }
}

#[test]
fn steps_draw_anew_and_evaluation_does_not() {
    let task = Task::new(&graphs(false), &config(&[]), None).unwrap();
    let drawn = |number| asked(&fill(&task, Part::Train, Some(RandomStream::new(1, 1, number))));
    assert_eq!(drawn(4), drawn(4));
    assert_ne!(drawn(4), drawn(5));
    let again = Task::new(&graphs(false), &config(&["train.seed=7"]), None).unwrap();
    for part in Part::ALL {
        assert_eq!(asked(&fill(&task, part, None)), asked(&fill(&again, part, None)));
    }
    let other = Task::new(&graphs(false), &config(&["data.split_seed=7"]), None).unwrap();
    assert_ne!(asked(&fill(&task, Part::Test, None)), asked(&fill(&other, Part::Test, None)));
}

#[test]
fn a_split_of_edges_in_the_file_is_kept_unless_it_tears_a_link_apart() {
    let mut dataset = graphs(false);
    let edges = dataset.graphs().num_edges();
    let mut split = gt_data::Splits::new(Level::Edge);
    // Pairs of one edge lie side by side; `spare` is neither seen nor asked about.
    (0..edges).for_each(|edge| split.push(["train", "train", "val", "test", "spare"][edge / 2 % 5]).unwrap());
    dataset.set_split(split.clone()).unwrap();
    let error = Task::new(&dataset, &config(&[]), None).map(|_| ()).unwrap_err().to_string();
    // The loop of the first graph shifts the pairs of the last.
    assert!(error.contains("graph 3: the edges between nodes "), "{error}");
    assert!(error.contains("lie in two parts of the split, `"), "{error}");
    let of_last = dataset.graphs().edge_range(3).start;
    split.codes[of_last..].iter_mut().for_each(|code| *code = 0);
    dataset.set_split(split.clone()).unwrap();
    let task = Task::new(&dataset, &config(&[]), None).unwrap();
    let links = task.links.as_ref().unwrap();
    let graph = dataset.graphs().graph(0);
    let expected = |name: &str| {
        sorted(ends(graph).enumerate().filter(|(e, (a, b))| a < b && split.name(*e) == name).map(|(_, pair)| pair))
    };
    for part in Part::ALL {
        assert_eq!(links.pairs(part, 0)[0], expected(part.name()));
    }
    let seen = joined(&task.graphs);
    assert!(expected("spare").iter().all(|pair| !seen.contains(&(0, *pair))));
}
