//! Data that is written in any format reads back unchanged.

mod support;

use std::path::Path;

use graph_transformer_data::{
    ColumnChoice, DataError, Dataset, FileRoles, Problem, Reason, TablePaths, read, read_tables, write,
};
use gt_graph::{Level, TargetKind};
use gt_testing::shared;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use proptest::prelude::*;
use support::{Shape, make};

const FILES: [&str; 5] = ["a.parquet", "b.jsonl", "c_nodes.csv", "d_nodes.parquet", "e_nodes.tsv"];

fn shapes() -> impl Strategy<Value = Shape> {
    let features = || (0usize..3, 0usize..3, any::<bool>());
    let level = || prop_oneof![Just(Level::Graph), Just(Level::Node), Just(Level::Edge)];
    let kind = prop_oneof![Just(TargetKind::Float), Just(TargetKind::Class)];
    let target = proptest::option::of((level(), kind, 1usize..4));
    let split = proptest::option::of(level());
    (1usize..8, 0usize..7, features(), features(), target, split, any::<bool>()).prop_map(
        |(graphs, largest, node, edge, target, split, encodings)| Shape {
            graphs,
            largest,
            node,
            edge,
            target,
            split,
            encodings,
        },
    )
}

fn same(a: &Dataset, b: &Dataset) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.schema(), b.schema());
    prop_assert_eq!(
        a.split().map(|s| (s.level, (0..s.codes.len()).map(|r| s.name(r)).collect::<Vec<_>>())),
        b.split().map(|s| (s.level, (0..s.codes.len()).map(|r| s.name(r)).collect::<Vec<_>>()))
    );
    // The hash compares bit for bit, because equality of floats would accept 0.0 for -0.0.
    prop_assert_eq!(graph_transformer_data::content_hash(a.graphs()), graph_transformer_data::content_hash(b.graphs()));
    prop_assert!(a.graphs() == b.graphs());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_format_gives_back_what_it_was_given(shape in shapes(), seed in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let dataset = make(&shape, seed);
        for name in FILES {
            let path = folder.path().join(name);
            write(&dataset, &path).unwrap();
            same(&dataset, &read(&path).unwrap())?;
        }
    }

    #[test]
    fn a_chain_of_conversions_changes_nothing(shape in shapes(), seed in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let first = make(&shape, seed);
        let mut dataset = make(&shape, seed);
        for name in FILES {
            let path = folder.path().join(name);
            write(&dataset, &path).unwrap();
            dataset = read(&path).unwrap();
        }
        same(&first, &dataset)?;
    }
}

fn carried_columns_survive(dataset: &Dataset, folder: &Path) {
    for name in FILES {
        let path = folder.join(name);
        assert!(write(dataset, &path).unwrap().is_empty(), "{name} left something out");
        assert!(*dataset == read(&path).unwrap(), "{name} changed something");
    }
}

#[test]
fn zinc_survives_every_format_with_its_smiles() {
    let Some(path) = shared("data/zinc12k.parquet") else { return };
    let folder = tempfile::tempdir().unwrap();
    let dataset = read(&path).unwrap();
    assert_eq!(dataset.extras().len(), 2);
    carried_columns_survive(&dataset, folder.path());
}

#[test]
fn columns_stay_under_their_names_whatever_those_are() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t_edges.csv"), "src,dst\n0,1\n").unwrap();
    // The columns are in another order than gt writes them.
    for (columns, rows) in [
        ("node_feat1,node_feat0", ["0.5,1.5", "2.5,3.5"]),
        ("node_feat2,node_feat0,node_feat1", ["3,0.5,1.5", "1,2.5,3.5"]),
    ] {
        std::fs::write(folder.path().join("t_nodes.csv"), format!("{columns}\n{}\n", rows.join("\n"))).unwrap();
        let table = read(&folder.path().join("t_nodes.csv")).unwrap();
        for name in ["t.jsonl", "t.parquet"] {
            let path = folder.path().join(name);
            write(&table, &path).unwrap();
            let again = read(&path).unwrap();
            assert_eq!(again.schema(), table.schema(), "{name}");
            let [a, b] = [&again, &table].map(|set| set.graphs().graph(0).node());
            assert_eq!((a.categorical, a.continuous), (b.categorical, b.continuous), "{name}");
        }
    }
}

#[test]
fn graphs_without_edges_may_leave_their_features_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.jsonl");
    let lines = [
        r#"{"node_feat": [[1]], "edge_index": [[], []]}"#,
        r#"{"node_feat": [[2]], "edge_index": [[0], [0]], "edge_attr": [[3]], "edge_multi_hot": [[1, 4]]}"#,
        r#"{"node_feat": [[0]], "edge_index": [[], []]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]], "edge_attr": [[1]], "edge_multi_hot": [[]]}"#,
    ];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let dataset = read(&path).unwrap();
    let graphs = dataset.graphs();
    let edges: Vec<_> = (0..4).map(|graph| graphs.graph(graph).edge().categorical).collect();
    assert_eq!(edges, [&[][..], &[3], &[], &[1]]);
    assert_eq!(graphs.graph(1).edge().multi_hot.unwrap().indices, [1, 4]);
}

#[test]
fn carried_columns_of_every_kind_survive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.jsonl");
    let lines = [
        r#"{"num_nodes": 1, "edge_index": [[], []], "name": "007", "weight": 1.5, "count": 3, "good": true, "note": "a, \"b\""}"#,
        r#"{"num_nodes": 2, "edge_index": [[0], [1]], "name": "true", "weight": null, "count": -4, "good": false}"#,
        r#"{"num_nodes": 0, "edge_index": [], "weight": 1e-300, "note": "ä\n€"}"#,
    ];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let dataset = read(&path).unwrap();
    assert_eq!(dataset.extras().len(), 5);
    carried_columns_survive(&dataset, folder.path());
}

#[test]
fn planetoid_tables_load_with_their_words_labels_and_split() {
    for (name, nodes, words, classes, edges, unlabelled) in
        [("cora", 2708, 1433, 7, 10556, 0), ("citeseer", 3327, 3703, 6, 9104, 15)]
    {
        let Some(path) = shared(&format!("data/planetoid/{name}_nodes.parquet")) else { return };
        let dataset = read(&path).unwrap();
        let store = dataset.graphs();
        assert_eq!((store.len(), store.num_nodes(), store.num_edges()), (1, nodes, edges));
        assert_eq!(dataset.schema().node.multi_hot.as_ref().unwrap().size, words);
        let target = dataset.schema().target.as_ref().unwrap();
        assert_eq!((target.level, target.kind, target.columns[0].classes), (Level::Node, TargetKind::Class, classes));
        let labels = store.target().unwrap();
        assert_eq!((0..labels.len()).filter(|&i| labels.get(i).is_none()).count(), unlabelled);
        let split = dataset.split().unwrap();
        assert_eq!(split.level, Level::Node);
        assert_eq!(["val", "test"].map(|part| split.rows(part).len()), [500, 1000]);
        let folder = tempfile::tempdir().unwrap();
        carried_columns_survive(&dataset, folder.path());
    }
}

#[test]
fn foreign_tables_are_read_by_column_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let nodes =
        file("people.csv", "person,age,job,clubs,income,party\nann,31,2,0 4,10.5,a\nbob,44,0,,0,b\ncyd,27,1,3,7,a\n");
    let edges = file("friends.csv", "who,whom,since\nann,bob,1999\nbob,cyd,2003\ncyd,cyd,2004\n");
    let paths = TablePaths { nodes, edges, graphs: None };
    let mapping = FileRoles {
        node: Some("person".into()),
        src: Some("who".into()),
        dst: Some("whom".into()),
        columns: ColumnChoice {
            targets: vec!["age".into()],
            continuous: vec!["age".into(), "since".into()],
            ..Default::default()
        },
        split: Some("party".into()),
        undirected: true,
        ..Default::default()
    };
    let dataset = read_tables(&paths, &mapping).unwrap();
    let graph = dataset.graphs().graph(0);
    assert_eq!((graph.src(), graph.dst()), (&[0, 1, 2, 1, 2][..], &[1, 2, 2, 0, 1][..]), "a self loop is not doubled");
    assert_eq!(graph.node().categorical, [2, 0, 1]);
    assert_eq!(graph.node().continuous, [10.5, 0.0, 7.0]);
    assert_eq!(graph.node().multi_hot.unwrap().row(0), [0, 4]);
    assert_eq!(graph.edge().continuous, [1999.0, 2003.0, 2004.0, 1999.0, 2003.0]);
    assert_eq!(graph.target().unwrap().floats().unwrap(), [31.0, 44.0, 27.0]);
    assert_eq!(dataset.split().unwrap().name(2), "a");
}

#[test]
fn several_graphs_in_foreign_tables_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("m_nodes.csv"),
        "graph,node,atom\nwater,1,8\nwater,2,1\nwater,3,1\nhcl,1,17\nhcl,2,1\n",
    )
    .unwrap();
    std::fs::write(folder.path().join("m_edges.csv"), "graph,src,dst\nwater,1,2\nhcl,2,1\nwater,1,3\n").unwrap();
    let dataset = read(&folder.path().join("m_nodes.csv")).unwrap();
    assert_eq!(dataset.graphs().len(), 2);
    assert_eq!(dataset.graphs().graph(0).dst(), [1, 2]);
    assert_eq!(dataset.graphs().graph(1).src(), [1]);
    // A table of graphs provides their order and targets.
    std::fs::write(folder.path().join("m_graphs.csv"), "graph,y,split\nhcl,1.1,train\nnothing,,val\nwater,1.8,test\n")
        .unwrap();
    let dataset = read(&folder.path().join("m_nodes.csv")).unwrap();
    assert_eq!(dataset.graphs().iter().map(|g| g.num_nodes()).collect::<Vec<_>>(), [2, 0, 3]);
    let target = dataset.graphs().target().unwrap();
    assert_eq!([0, 1, 2].map(|i| target.get(i).map(|v| v as f32)), [Some(1.1), None, Some(1.8)]);
    assert_eq!(dataset.split().unwrap().rows("test"), [2]);
}

/// Writes rows of Parquet files to a new file, as pandas or polars do: without the metadata of the
/// files.
fn rewrite(files: &[(&Path, std::ops::Range<usize>)], out: &Path) {
    let mut writer = None;
    for (file, rows) in files {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let file = std::fs::File::open(file).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).unwrap();
        let batch = reader.with_batch_size(rows.end).build().unwrap().next().unwrap().unwrap();
        let writer = writer.get_or_insert_with(|| {
            let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
            let out = std::fs::File::create(out).unwrap();
            ArrowWriter::try_new_with_options(out, batch.schema(), options).unwrap()
        });
        writer.write(&batch.slice(rows.start, rows.len())).unwrap();
    }
    writer.unwrap().close().unwrap();
}

#[test]
fn rows_that_another_program_selects_keep_their_schema() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let target = Some((Level::Graph, TargetKind::Class, 2));
    let shape = Shape {
        graphs: 9,
        largest: 6,
        node: (2, 1, false),
        edge: (1, 0, false),
        target,
        split: None,
        encodings: false,
    };
    let (all, some, two) = (place("all.parquet"), place("some.parquet"), place("two.parquet"));
    let dataset = make(&shape, 5);
    write(&dataset, &all).unwrap();
    rewrite(&[(&all, 3..7)], &some);
    let found = read(&some).unwrap();
    assert_eq!((found.schema(), found.graphs().len()), (dataset.schema(), 4));
    assert_eq!(found.graphs().graph(1).node().categorical, dataset.graphs().graph(4).node().categorical);

    // Rows of one data set in two files can be joined. Rows of two data sets cannot.
    rewrite(&[(&some, 0..4), (&all, 0..3)], &two);
    assert_eq!((read(&two).unwrap().schema(), read(&two).unwrap().graphs().len()), (dataset.schema(), 7));
    let mut wider = dataset.schema().clone();
    wider.node.categorical[0].size += 1;
    let other = place("other.parquet");
    write(&Dataset::new(wider, dataset.graphs().clone()).unwrap(), &other).unwrap();
    rewrite(&[(&all, 0..5), (&other, 0..2)], &two);
    match read(&two).unwrap_err() {
        DataError::Graph { graph: 5, reason: Reason::Column { column, problem: Problem::OtherSchema }, .. } => {
            assert_eq!(column, "graph_transformer");
        }
        error => panic!("{error}"),
    }
}
