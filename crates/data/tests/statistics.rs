//! Statistics of `gt data info`.

use graph_transformer_data::{Info, PartInfo, read};
use gt_testing::shared;

#[test]
fn oddities_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.jsonl");
    let lines = [
        r#"{"num_nodes": 4, "edge_index": [[0, 1, 0, 2, 0], [1, 0, 1, 2, 2]], "y": [1, null], "split": "a"}"#,
        r#"{"num_nodes": 2, "edge_index": [[0, 1], [1, 0]], "y": [0, 1], "split": "a"}"#,
        r#"{"num_nodes": 0, "edge_index": [[], []], "y": [1, 1], "split": "b"}"#,
    ];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let info = Info::new(&read(&path).unwrap());
    let (name, a) = &info.splits[0];
    assert_eq!(name, "a");
    assert_eq!((a.graphs, a.nodes, a.edges, a.nodes_mean), (2, 6, 7, 3.0));
    assert_eq!((a.isolated_nodes, a.self_loops, a.multi_edges, a.directed_graphs), (1, 1, 1, 1));
    assert_eq!((a.degree_min, a.degree_max), (0, 2));
    assert_eq!(a.targets[0].classes, [1, 1]);
    assert_eq!((a.targets[1].count, a.targets[1].missing, a.targets[1].mean), (1, 1, 1.0));
    let (_, b) = &info.splits[1];
    assert_eq!((b.graphs, b.nodes_min, b.nodes_max, b.degree_min), (1, 0, 0, 0));
}

#[test]
fn ids_are_not_counted_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.jsonl");
    let line = r#"{"node_feat": [[4294967294, 1]], "edge_index": [[], []], "y": [4294967294]}"#;
    // Some editors write a byte order mark at the beginning of a file.
    std::fs::write(&path, format!("\u{feff}{line}\n{line}")).unwrap();
    let info = Info::new(&read(&path).unwrap());
    assert_eq!(info.node_vocab, [4_294_967_295, 2]);
    assert_eq!(info.node_categories, [vec![], vec![0, 2]]);
    let target = &info.splits[0].1.targets[0];
    assert_eq!((target.classes.len(), target.max, &target.histogram.counts[..]), (0, 4_294_967_294.0, &[2][..]));
}

/// Checks every number under "Numbers to test against" of the data's own description.
#[test]
fn zinc_has_its_published_numbers() {
    let Some(path) = shared("data/zinc12k.parquet") else { return };
    let info = Info::new(&read(&path).unwrap());
    let close = |found: f64, expected: f64, digits: i32| {
        assert!((found - expected).abs() <= 0.5000001 * 10f64.powi(-digits), "{found} is not {expected}");
    };
    let expected = [
        ("train", 10_000, 23.1664, 49.8558, 0.015297, 2.010820, -42.036564, 3.804839),
        ("val", 1_000, 23.083, 49.692, 0.031455, 1.984630, -20.340498, 3.742521),
        ("test", 1_000, 23.117, 49.720, 0.012414, 2.017003, -9.675988, 3.453538),
    ];
    for ((name, part), (split, graphs, nodes, edges, mean, sd, min, max)) in info.splits.iter().zip(expected) {
        let PartInfo { nodes_mean, edges_mean, targets, .. } = part;
        assert_eq!((name.as_str(), part.graphs), (split, graphs));
        close(*nodes_mean, nodes, 4);
        close(*edges_mean, edges, 4);
        for (found, expected) in
            [(targets[0].mean, mean), (targets[0].sd, sd), (targets[0].min, min), (targets[0].max, max)]
        {
            close(found, expected, 6);
        }
        assert_eq!(targets[0].missing, 0);
    }
    assert_eq!((info.node_vocab, info.edge_vocab), (vec![28], vec![4]));
    let atoms =
        [194841, 26567, 30200, 3744, 10086, 4904, 2021, 1142, 1908, 596, 326, 814, 544, 94, 25, 42, 6, 1, 1, 1, 1];
    assert_eq!(info.node_categories[0][..21], atoms);
    assert_eq!(info.edge_categories[0], [0, 2 * 222129, 2 * 76067, 2 * 789]);
}

#[test]
fn zinc_begins_with_its_published_first_row() {
    let Some(path) = shared("data/zinc12k.parquet") else { return };
    let dataset = read(&path).unwrap();
    let first = dataset.graphs().graph(0);
    assert_eq!((first.num_nodes(), first.num_edges()), (29, 64));
    assert_eq!(first.target().unwrap().floats().unwrap(), [0.83503556]);
    // Mean absolute errors of the training mean and the training median, for validation and test.
    let target = dataset.graphs().target().unwrap().floats().unwrap();
    let mean = target[..10_000].iter().map(|&v| f64::from(v)).sum::<f64>() / 10_000.0;
    let mut sorted = target[..10_000].to_vec();
    sorted.sort_by(f32::total_cmp);
    let median = (f64::from(sorted[4_999]) + f64::from(sorted[5_000])) / 2.0;
    assert!((median - 0.441003).abs() < 5e-7);
    for (guess, val, test) in [(mean, 1.4785, 1.5768), (median, 1.4381, 1.5474)] {
        for (range, expected) in [(10_000..11_000, val), (11_000..12_000, test)] {
            let mae = target[range].iter().map(|&v| (f64::from(v) - guess).abs()).sum::<f64>() / 1_000.0;
            assert!((mae - expected).abs() <= 5e-5, "{mae} is not {expected}");
        }
    }
}
