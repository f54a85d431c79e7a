//! PATTERN and CLUSTER follow their specification.

use std::collections::HashSet;

use graph_transformer_data::{Dataset, SbmSet, SbmSizes};

fn means(set: &Dataset) -> (f64, f64) {
    let graphs = set.graphs().len() as f64;
    (set.graphs().num_nodes() as f64 / graphs, set.graphs().num_edges() as f64 / graphs)
}

/// Every graph is undirected, simple, sorted in row-major order, with 5..=34 nodes per block.
fn check_structure(set: &Dataset, blocks: usize) {
    for graph in set.graphs().iter() {
        assert!((5 * blocks..=34 * blocks).contains(&graph.num_nodes()));
        let edges: Vec<(u32, u32)> = graph.src().iter().copied().zip(graph.dst().iter().copied()).collect();
        assert!(edges.is_sorted());
        let known: HashSet<_> = edges.iter().copied().collect();
        assert_eq!(known.len(), edges.len());
        assert!(edges.iter().all(|&(s, d)| s != d && known.contains(&(d, s))));
    }
}

#[test]
fn cluster_has_its_expected_statistics() {
    let set = SbmSet::Cluster.generate(41, SbmSizes { train: 3000, val: 0, test: 0 }).unwrap();
    check_structure(&set, 6);
    // Expectations are exact. Over 3,000 graphs the means scatter by 0.39 nodes and about 28 edges.
    let (nodes, edges) = means(&set);
    assert!((nodes - 117.0).abs() < 4.0 * 0.39, "{nodes}");
    assert!((edges - 4289.6).abs() < 4.0 * 28.0, "{edges}");
    let (mut inside, mut inside_pairs, mut outside, mut outside_pairs) = (0u64, 0u64, 0u64, 0u64);
    for graph in set.graphs().iter() {
        let label = graph.target().unwrap().classes().unwrap();
        let seeds = graph.node().categorical;
        let mut block = [0u64; 6];
        label.iter().for_each(|&c| block[c as usize] += 1);
        assert!(block.iter().all(|&size| (5..=34).contains(&size)));
        // One node per block has the block's number plus one as its feature.
        let carried: Vec<(u32, u32)> =
            seeds.iter().zip(label).filter(|(u, _)| **u > 0).map(|(&u, &c)| (u, c)).collect();
        assert_eq!(carried.len(), 6);
        assert!(carried.iter().all(|&(u, c)| u == c + 1));
        let same: u64 = block.iter().map(|n| n * (n - 1)).sum();
        inside_pairs += same;
        outside_pairs += (graph.num_nodes() * (graph.num_nodes() - 1)) as u64 - same;
        for (&s, &d) in graph.src().iter().zip(graph.dst()) {
            *if label[s as usize] == label[d as usize] { &mut inside } else { &mut outside } += 1;
        }
    }
    assert!((inside as f64 / inside_pairs as f64 - 0.55).abs() < 0.002);
    assert!((outside as f64 / outside_pairs as f64 - 0.25).abs() < 0.002);
}

#[test]
fn pattern_has_its_expected_statistics() {
    let set = SbmSet::Pattern.generate(41, SbmSizes { train: 2000, val: 400, test: 400 }).unwrap();
    check_structure(&set, 6);
    let graphs = set.graphs();
    let (nodes, edges) = means(&set);
    // For the mean pattern size s and its mean square t, the specification predicts 97.5 + s nodes
    // and 3750.9 + (t - s)/2 + 97.5 s edges.
    let sizes: Vec<f64> =
        graphs.iter().map(|g| g.target().unwrap().classes().unwrap().iter().sum::<u32>().into()).collect();
    let s = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let t = sizes.iter().map(|x| x * x).sum::<f64>() / sizes.len() as f64;
    assert!((nodes - 97.5 - s).abs() < 4.0 * 0.37, "{nodes} with patterns of {s}");
    assert!((edges - (3750.9 + 0.5 * (t - s) + 97.5 * s)).abs() < 4.0 * 35.0, "{edges}");
    assert!((s - 19.5).abs() < 4.0 * 0.866, "mean pattern size {s}");
    let share = sizes.iter().sum::<f64>() / graphs.num_nodes() as f64;
    assert!((0.14..0.20).contains(&share), "{share}");
    let mut counts = [0u64; 3];
    graphs.iter().for_each(|g| g.node().categorical.iter().for_each(|&u| counts[u as usize] += 1));
    let total: u64 = counts.iter().sum();
    assert!(counts.iter().all(|&n| (n as f64 / total as f64 - 1.0 / 3.0).abs() < 0.02), "{counts:?}");
}

/// The multiset of features and the number of inner edges of the pattern planted in a graph.
fn planted(set: &Dataset, index: usize) -> ([usize; 3], usize) {
    let graph = set.graphs().graph(index);
    let label = graph.target().unwrap().classes().unwrap();
    let mut features = [0; 3];
    (0..graph.num_nodes()).filter(|&i| label[i] == 1).for_each(|i| features[graph.node().categorical[i] as usize] += 1);
    let inner = graph
        .src()
        .iter()
        .zip(graph.dst())
        .filter(|(s, d)| label[**s as usize] == 1 && label[**d as usize] == 1)
        .count();
    (features, inner)
}

#[test]
fn pattern_instances_are_shared_by_the_splits_as_published() {
    let set = SbmSet::Pattern.generate(3, SbmSizes { train: 1000, val: 200, test: 200 }).unwrap();
    // Each instance has ten training, two validation and two test graphs, in this order.
    for instance in [0, 1, 57, 99] {
        let first = planted(&set, 10 * instance);
        for index in (10 * instance..10 * instance + 10)
            .chain(1000 + 2 * instance..1002 + 2 * instance)
            .chain(1200 + 2 * instance..1202 + 2 * instance)
        {
            assert_eq!(planted(&set, index), first);
        }
    }
    assert_ne!(planted(&set, 0), planted(&set, 10));
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    for set in [SbmSet::Cluster, SbmSet::Pattern] {
        let file = |seed: u64, threads: usize| {
            let path = folder.path().join(format!("{set:?}-{seed}-{threads}.parquet"));
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                graph_transformer_data::write(
                    &set.generate(seed, SbmSizes { train: 700, val: 20, test: 20 }).unwrap(),
                    &path,
                )
                .unwrap()
            });
            std::fs::read(path).unwrap()
        };
        let one = file(5, 1);
        for threads in [2, 3, 8] {
            assert!(file(5, threads) == one, "{set:?} differs on {threads} threads");
        }
        assert!(file(6, 2) != one);
    }
}

#[test]
fn a_larger_training_set_keeps_the_test_graphs() {
    let small = SbmSet::Cluster.generate(9, SbmSizes { train: 3, val: 1, test: 2 }).unwrap();
    let large = SbmSet::Cluster.generate(9, SbmSizes { train: 5, val: 1, test: 2 }).unwrap();
    assert_eq!(small.graphs().graph(2), large.graphs().graph(2));
    assert_eq!(small.graphs().graph(4), large.graphs().graph(6));
    assert!(SbmSet::Cluster.generate(9, SbmSizes { train: 0, val: 0, test: 0 }).is_err());
}
