//! Reading for a trained model: what is wrong with one graph is noted, what is wrong with the file is an error.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use graph_transformer_data::{Dataset, Readable, read, read_leniently, write};
use gt_graph::{FeatureSchema, Schema, Vocabulary};
use gt_graph::{Level, TargetKind};
use support::{Shape, make};

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// One categorical column on nodes and edges.
fn expected() -> Schema {
    let one = |name: &str| FeatureSchema {
        categorical: vec![Vocabulary { name: name.into(), size: 3 }],
        ..Default::default()
    };
    Schema { node: one("node_feat"), edge: one("edge_attr"), target: None }
}

#[test]
fn lines_that_are_no_graph_are_noted_and_the_others_stay() {
    let lines = [
        "{\"num_nodes\": 2, \"node_fe",
        r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0, 1], [1, 0]], "edge_attr": [[1], [0]], "lap_pe": [[0.5], [0.25]], "y": "none"}"#,
        r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0, 1], [1, 0]], "edge_attr": [[1], [0]], "lap_pe": [[0.5], [0.25]]}"#,
        r#"{"num_nodes": 2, "node_feat": [[1], [null]], "edge_index": [[0, 1], [1, 0]], "edge_attr": [[1], [0]], "lap_pe": [[0.5], [0.25]]}"#,
        r#"{"num_nodes": 2, "node_feat": [[1], [2]], "edge_index": [[0, 5], [1, 0]], "edge_attr": [[1], [0]], "lap_pe": [[1.5], [1.25]]}"#,
        r#"{"num_nodes": 2, "node_feat": [[1], [-2]], "edge_index": [[0, 1], [1, 0]], "edge_attr": [[1], [0]], "lap_pe": [[2.5], [2.25]]}"#,
        r#"{"num_nodes": 1, "node_feat": [[70]], "edge_index": [[], []], "edge_attr": [], "lap_pe": [[9.5]], "split": "val"}"#,
        r#"{"num_nodes": 0, "node_feat": [], "edge_index": [[], []], "edge_attr": [], "lap_pe": []}"#,
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "g.jsonl", &lines.join("\n"));
    let Readable { dataset, unusable } = read_leniently(&path, &expected()).unwrap();
    let graphs = dataset.graphs();
    assert_eq!(graphs.len(), 8);
    assert_eq!(unusable.keys().copied().collect::<Vec<_>>(), [0, 3, 4, 5]);
    assert!(unusable[&0].starts_with("line 1: it is not JSON: EOF while parsing"), "{}", unusable[&0]);
    // Whatever stands for a target is not read.
    assert_eq!(graphs.graph(1).node().categorical, [1, 2]);
    assert_eq!(unusable[&3], "column `node_feat`: row 1, value 0 is null");
    assert_eq!(unusable[&4], "edge 1 starts at node 5, but the graph has 2 nodes");
    assert!(unusable[&5].starts_with("column `node_feat`: -2 is not a category"), "{}", unusable[&5]);
    // What is left lies where it belongs, encodings included, and values beyond what the model knows are not the reader's business.
    let coordinates = graphs.encodings().laplacian.as_ref().unwrap();
    assert_eq!(coordinates.rows(graphs.node_range(2)), [0.5, 0.25]);
    assert_eq!(coordinates.rows(graphs.node_range(6)), [9.5]);
    assert_eq!(graphs.graph(6).node().categorical, [70]);
    assert_eq!((graphs.graph(7).num_nodes(), dataset.split()), (0, None));
    assert!(read(&path).is_err());
}

#[test]
fn graphs_with_other_columns_than_the_model_are_noted() {
    let lines = [
        r#"{"node_feat": [[1, 2]], "edge_index": [[0], [0]], "edge_attr": [[1]]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]], "edge_attr": [[2]]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]]}"#,
        r#"{"num_nodes": 1, "edge_index": [[0], [0]], "edge_attr": [[1]]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[], []]}"#,
        r#"{"node_feat": [[1]], "node_multi_hot": [[1]], "edge_index": [[], []]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]], "edge_attr_float": [[0.5, 1.5]]}"#,
        r#"{"node_feat": [[1]], "edge_index": [[0], [0]], "edge_attr": [[1]], "edge_attr_float": [[0.5]]}"#,
        r#"{"node_feat": [[], []], "edge_index": [[], []]}"#,
        r#"{"node_feat": [[2]], "node_multi_hot": null, "edge_index": [[], []], "edge_attr": null}"#,
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "g.jsonl", &lines.join("\n"));
    let Readable { dataset, unusable } = read_leniently(&path, &expected()).unwrap();
    let reasons: Vec<_> = unusable.iter().map(|(&graph, reason)| (graph, reason.as_str())).collect();
    let expected_reasons = [
        (0, "column `node_feat`: rows of 2 values, the model has 1"),
        (2, "column `edge_attr`: the key is missing, but the model has it"),
        (3, "column `node_feat`: the key is missing, but the model has it"),
        (5, "column `node_multi_hot`: the model has no such column"),
        (6, "column `edge_attr`: the key is missing, but the model has it"),
        (7, "column `edge_attr_float`: the model has no such column"),
        (8, "column `node_feat`: rows of 0 values, the model has 1"),
    ];
    assert_eq!(reasons, expected_reasons);
    let graphs = dataset.graphs();
    assert_eq!((graphs.len(), graphs.graph(9).node().categorical), (10, &[2][..]));
    assert_eq!(graphs.graph(1).edge().categorical, [2]);
    // Without edges there is nothing to say about them.
    assert_eq!((graphs.graph(4).node().categorical, graphs.graph(4).num_edges()), (&[1][..], 0));
}

#[test]
fn a_schema_of_the_file_tells_its_columns() {
    let schema = r#"{"graph_transformer": {"format_version": 1, "schema": {"node": {"categorical": [{"name": "a", "size": 3}, {"name": "b", "size": 3}]}, "edge": {}}}, "#;
    let [one, two] =
        [r#""node_feat": [[1]], "edge_index": [[], []]}"#, r#""node_feat": [[2, 1]], "edge_index": [[], []]}"#];
    let folder = tempfile::tempdir().unwrap();
    // It may stand there twice, as in files that were joined.
    for (name, lines, odd) in [
        ("first", [format!("{schema}{one}"), format!("{{{two}"), format!("{schema}{two}")], 0),
        ("second", [format!("{schema}{two}"), format!("{{{one}"), format!("{{{two}")], 1),
    ] {
        let path = file(folder.path(), &format!("{name}.jsonl"), &lines.join("\n"));
        let Readable { dataset, unusable } = read_leniently(&path, &expected()).unwrap();
        let reason = "column `node_feat`: rows of 1 values, the schema has 2".to_owned();
        assert_eq!(unusable.into_iter().collect::<Vec<_>>(), [(odd, reason)]);
        assert_eq!(dataset.graphs().graph(2).node().categorical, [2, 1]);
        let complaint = read(&path).unwrap_err().to_string();
        let text = format!("graph {odd}, column `node_feat`: rows of 1 values, the schema has 2");
        assert!(complaint.ends_with(&text), "{complaint}");
    }
    let other = schema.replace("\"b\"", "\"c\"");
    let path = file(folder.path(), "other.jsonl", &format!("{schema}{two}\n{other}{two}\n"));
    let complaint = read(&path).unwrap_err().to_string();
    assert!(complaint.contains("graph 1, column `graph_transformer`: the schema belongs into"), "{complaint}");
}

/// A categorical and a continuous column on nodes, in the order in which they lie in one list.
fn mixed(first: bool) -> Schema {
    let names = ["node_feat0", "node_feat1"];
    let (category, number) = if first { (names[0], names[1]) } else { (names[1], names[0]) };
    let categorical = vec![Vocabulary { name: category.into(), size: 3 }];
    let node = FeatureSchema { categorical, continuous: vec![number.into()], ..Default::default() };
    Schema { node, ..Default::default() }
}

#[test]
fn positions_tell_categories_from_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let line = |rows: &str| format!("{{\"edge_index\": [[], []], \"node_feat\": {rows}}}\n");
    // However they are written.
    let text = [
        line("[[1.0, 0]]"),
        line("[[2, 0.5]]"),
        line("[[1.5, 0.5]]"),
        line("[[1]], \"node_feat_float\": [[3]]"),
        line("[[1]]"),
        line("[[1, 2, 3]]"),
    ];
    let path = file(folder.path(), "g.jsonl", &text.concat());
    let Readable { dataset, unusable } = read_leniently(&path, &mixed(true)).unwrap();
    let reasons: Vec<_> = unusable.iter().map(|(&graph, reason)| (graph, reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            (2, "column `node_feat`: 1.5 is not a category (0, 1, 2, …)"),
            (4, "column `node_feat_float`: the key is missing, but the model has it"),
            (5, "column `node_feat`: rows of 3 values, the model has 2"),
        ]
    );
    let rows = |graph: usize| {
        (dataset.graphs().graph(graph).node().categorical, dataset.graphs().graph(graph).node().continuous)
    };
    assert_eq!([rows(0), rows(1), rows(3)], [(&[1][..], &[0.0][..]), (&[2], &[0.5]), (&[1], &[3.0])]);
    // The other way round, and named by the position either way.
    let swapped = file(folder.path(), "s.jsonl", &(line("[[0.5, 2]]") + &line("[[1, 0]]")));
    let Readable { dataset, unusable } = read_leniently(&swapped, &mixed(false)).unwrap();
    assert!(unusable.is_empty());
    assert_eq!(dataset.graphs().graph(1).node().categorical, [0]);
    assert_eq!(dataset.schema().node.names().collect::<Vec<_>>(), ["node_feat1", "node_feat0"]);
    assert_eq!(read(&swapped).unwrap().schema().node.names().collect::<Vec<_>>(), ["node_feat1", "node_feat0"]);
}

#[test]
fn positions_tell_columns_that_the_model_has_in_another_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "g.jsonl", "{\"node_feat\": [[0.5, 2, 1.5]], \"edge_index\": [[], []]}\n");
    let schema = |categorical: &[&str], continuous: &[&str]| {
        let categorical = categorical.iter().map(|name| Vocabulary { name: (*name).into(), size: 5 }).collect();
        let continuous = continuous.iter().map(|name| (*name).into()).collect();
        Schema { node: FeatureSchema { categorical, continuous, multi_hot: None }, ..Default::default() }
    };
    let [zero, one, two] = ["node_feat0", "node_feat1", "node_feat2"];
    for (expected, categorical, continuous) in [
        (schema(&[], &[two, zero, one]), &[][..], &[1.5, 0.5, 2.0][..]),
        (schema(&[one], &[two, zero]), &[2], &[1.5, 0.5]),
        (schema(&[], &[zero, one, two]), &[], &[0.5, 2.0, 1.5]),
        // Names that tell nothing.
        (schema(&[], &["a", "c", "b"]), &[], &[0.5, 2.0, 1.5]),
    ] {
        let Readable { dataset, unusable } = read_leniently(&path, &expected).unwrap();
        let rows = dataset.graphs().graph(0).node();
        assert_eq!((unusable.len(), rows.categorical, rows.continuous), (0, categorical, continuous));
        assert!(dataset.schema().node.names().eq(expected.node.names()));
    }
}

#[test]
fn encodings_that_some_graphs_lack_are_left_aside() {
    let folder = tempfile::tempdir().unwrap();
    let line = |more: &str| format!("{{\"node_feat\": [[1], [2]], \"edge_index\": [[], []]{more}}}\n");
    let (lap, roles) = (r#", "lap_pe": [[0.5], [0.25]]"#, r#", "wl_pe": [0, 1]"#);
    let whole = line(&format!("{lap}{roles}"));
    for odd in [line(lap), line(roles), line(&format!(r#"{roles}, "lap_pe": [[0.5, 1.0], [0.25, 1.0]]"#))] {
        let path = file(folder.path(), "g.jsonl", &(whole.clone() + &odd + &whole));
        let Readable { dataset, unusable } = read_leniently(&path, &expected()).unwrap();
        let encodings = dataset.graphs().encodings();
        assert!(unusable.is_empty(), "{unusable:?}");
        let (lacks_lap, lacks_roles) = (odd.contains("wl_pe"), !odd.contains("wl_pe"));
        assert_eq!((encodings.laplacian.is_none(), encodings.weisfeiler_lehman.is_none()), (lacks_lap, lacks_roles));
        assert!(read(&path).is_err());
    }
    // A line that is no graph has no say in it.
    let path = file(folder.path(), "broken.jsonl", &format!("{whole}{{\"num_nodes\": 2, \n{whole}"));
    let Readable { dataset, unusable } = read_leniently(&path, &expected()).unwrap();
    assert!(unusable.len() == 1 && dataset.graphs().encodings().laplacian.is_some());
}

#[test]
fn rows_that_do_not_go_together_are_told_under_a_schema_of_both_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let schema = r#"{"graph_transformer": {"format_version": 1, "schema": {"node": {"categorical": [{"name": "node_feat0", "size": 3}], "continuous": ["node_feat1"]}, "edge": {}}}, "#;
    let line = |rows: &str| format!("\"edge_index\": [[], []], \"node_feat\": {rows}}}\n");
    for (rows, end) in [
        ("[[1, 0.5], [0]]", "graph 1, column `node_feat`: row 1 has 1 values, row 0 has 2"),
        ("[[1, 0.5], [0, null]]", "graph 1, column `node_feat`: row 1, value 1 is null"),
    ] {
        let path = file(folder.path(), "g.jsonl", &format!("{schema}{}{{{}", line("[[1, 2]]"), line(rows)));
        let complaint = read(&path).unwrap_err().to_string();
        assert!(complaint.ends_with(end), "{complaint}");
        let Readable { dataset, unusable } = read_leniently(&path, &mixed(true)).unwrap();
        assert!(end.ends_with(&unusable[&1]) && unusable.len() == 1, "{unusable:?}");
        assert_eq!(dataset.graphs().graph(0).node().continuous, [2.0]);
    }
}

#[test]
fn values_beyond_a_stated_vocabulary_are_told_with_their_graph() {
    let folder = tempfile::tempdir().unwrap();
    let schema = r#"{"graph_transformer": {"format_version": 1, "schema": {"node": {"categorical": [{"name": "a", "size": 3}]}, "edge": {}, "target": {"level": "graph", "kind": "class", "columns": [{"name": "y", "classes": 2}]}}}, "#;
    let line = |rows: &str, y: u32| format!("\"node_feat\": {rows}, \"edge_index\": [[], []], \"y\": [{y}]}}\n");
    let good = format!("{schema}{}{{{}", line("[[1]]", 0), line("[[2]]", 1));
    for (odd, end) in [
        (line("[[9]]", 0), "graph 2, column `a`: 9 is beyond its vocabulary of 3 entries"),
        (line("[[1.5]]", 0), "graph 2, column `node_feat`: 1.5 is not a category (0, 1, 2, …)"),
        (line("[[1]]", 7), "graph 2, target `y`: class 7 of 2"),
    ] {
        let path = file(folder.path(), "g.jsonl", &format!("{good}{{{odd}"));
        let complaint = read(&path).unwrap_err().to_string();
        assert!(complaint.ends_with(end), "{complaint}");
    }
}

#[test]
fn problems_of_the_whole_file_stay_errors() {
    let folder = tempfile::tempdir().unwrap();
    let complaint = |path: &Path| read_leniently(path, &expected()).unwrap_err().to_string();
    // No graph is one for the model, and they do not go together.
    let wide =
        "{\"node_feat\": [[1, 2]], \"edge_index\": [[], []]}\n{\"node_feat\": [[1, 2, 3]], \"edge_index\": [[], []]}\n";
    let text = complaint(&file(folder.path(), "wide.jsonl", wide));
    // Nor does a graph without edges speak for the edges of the others.
    let edgeless = "{\"node_feat\": [[1]], \"edge_index\": [[], []]}\n";
    let edges = "{\"node_feat\": [[1]], \"edge_index\": [[0], [0]], \"edge_attr\": [[1, 2]]}\n";
    let path = file(folder.path(), "edges.jsonl", &(edgeless.to_owned() + edges));
    let Readable { dataset, unusable } = read_leniently(&path, &expected()).unwrap();
    assert_eq!((unusable.len(), dataset.schema().edge.categorical.len()), (0, 2));
    assert!(text.ends_with("graph 1, column `node_feat`: rows of 3 values, earlier graphs have 2"), "{text}");
    let text = complaint(&file(folder.path(), "list.jsonl", "[\n1\n]\n"));
    assert!(text.contains("list.jsonl: no line of it is a graph: line 1: "), "{text}");
    let text = complaint(&file(folder.path(), "other.jsonl", "{\"foo\": 1}\n{}\n"));
    assert!(text.contains("other.jsonl: no line of it is a graph: column `num_nodes`: the key is missing"), "{text}");
    let both = r#"{"num_nodes": 1, "edge_index": [[], []], "split": "train", "node_split": ["a"]}"#;
    let text = read(&file(folder.path(), "both.jsonl", both)).unwrap_err().to_string();
    assert!(text.ends_with("column `node_split`: there is a split of graphs already, and a file has one"), "{text}");
    assert!(complaint(&folder.path().join("none.jsonl")).contains("none.jsonl: "));
    assert!(complaint(&file(folder.path(), "half.parquet", "PAR1")).contains("not a readable Parquet file"));
}

#[test]
fn numbers_without_a_decimal_point_are_what_the_model_takes_them_for() {
    let folder = tempfile::tempdir().unwrap();
    let line = r#"{"node_feat": [[1], [2]], "edge_index": [[], []]}"#;
    let path = file(folder.path(), "g.jsonl", line);
    let continuous =
        Schema { node: FeatureSchema { continuous: vec!["x".into()], ..Default::default() }, ..Default::default() };
    let readable = read_leniently(&path, &continuous).unwrap();
    assert_eq!(readable.dataset.graphs().graph(0).node().continuous, [1.0, 2.0]);
    assert_eq!(read(&path).unwrap().graphs().graph(0).node().categorical, [1, 2]);
}

#[test]
fn a_real_number_among_categories_is_a_reason_for_its_graph_alone() {
    let folder = tempfile::tempdir().unwrap();
    let line = |kind: &str| format!("{{\"node_feat\": [[1, {kind}]], \"edge_index\": [[], []]}}\n");
    let path = file(folder.path(), "g.jsonl", &(line("2") + &line("0.5") + &line("3.0")));
    let name = |name: &str| Vocabulary { name: name.into(), size: 4 };
    let node = FeatureSchema { categorical: vec![name("a"), name("b")], ..Default::default() };
    let readable = read_leniently(&path, &Schema { node, ..Default::default() }).unwrap();
    assert_eq!(
        readable.unusable.into_iter().collect::<Vec<_>>(),
        [(1, "column `node_feat`: 0.5 is not a category (0, 1, 2, …)".into())]
    );
    assert_eq!(readable.dataset.graphs().graph(2).node().categorical, [1, 3]);
}

/// A Parquet file of one continuous column, as others write it.
fn parquet(path: &Path, graphs: &[&[f32]]) {
    let mut features = ListBuilder::new(ListBuilder::new(Float32Builder::new()));
    let mut edges = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
    for values in graphs {
        for value in *values {
            features.values().values().append_value(*value);
            features.values().append(true);
        }
        features.append(true);
        for ends in [0, values.len() as i64 - 1] {
            edges.values().values().append_value(ends);
            edges.values().append(true);
        }
        edges.append(true);
    }
    let sizes = Int64Array::from_iter_values(graphs.iter().map(|values| values.len() as i64));
    let columns: [(&str, ArrayRef); 3] = [
        ("num_nodes", Arc::new(sizes)),
        ("node_feat", Arc::new(features.finish())),
        ("edge_index", Arc::new(edges.finish())),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let out = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(out, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn numbers_that_are_not_finite_are_noted_in_parquet_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.parquet");
    parquet(&path, &[&[1.0, 2.0], &[3.0, f32::NAN, 4.0], &[f32::INFINITY], &[5.0]]);
    let schema =
        Schema { node: FeatureSchema { continuous: vec!["x".into()], ..Default::default() }, ..Default::default() };
    let Readable { dataset, unusable } = read_leniently(&path, &schema).unwrap();
    assert_eq!(unusable[&1], "node 1, continuous column 0: NaN is not a finite number");
    assert_eq!(unusable[&2], "node 0, continuous column 0: inf is not a finite number");
    assert_eq!((unusable.len(), dataset.graphs().graph(3).node().continuous), (2, &[5.0][..]));
    assert_eq!(dataset.graphs().node_range(1).len(), 3, "the rows of a graph stay");

    let nodes = "graph,node,y,x\n0,0,1,1.5\n0,1,1,NaN\n1,0,1,\n2,0,1,2.5\n";
    let path = file(folder.path(), "t_nodes.csv", nodes);
    file(folder.path(), "t_edges.csv", "graph,src,dst\n0,0,1\n");
    let Readable { dataset, unusable } = read_leniently(&path, &schema).unwrap();
    assert_eq!(unusable.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(unusable[&0], "node 1, continuous column 0: NaN is not a finite number");
    assert_eq!(dataset.graphs().graph(2).node().continuous, [2.5]);
    assert!(dataset.schema().target.is_none());
}

#[test]
fn whole_files_read_as_ever_but_without_labels_in_all_formats() {
    let shape = Shape {
        graphs: 9,
        largest: 7,
        node: (2, 1, true),
        edge: (1, 2, false),
        target: Some((Level::Node, TargetKind::Class, 2)),
        split: Some(Level::Graph),
        encodings: true,
    };
    let dataset: Dataset = make(&shape, 4);
    let folder = tempfile::tempdir().unwrap();
    for name in ["g.parquet", "g.jsonl", "g_nodes.csv", "h_nodes.parquet"] {
        let path = folder.path().join(name);
        write(&dataset, &path).unwrap();
        let Readable { dataset: found, unusable } = read_leniently(&path, &dataset.schema().clone()).unwrap();
        assert!(unusable.is_empty(), "{name}: {unusable:?}");
        assert_eq!((found.graphs().target(), found.split()), (None, None), "{name}");
        assert_eq!(found.graphs().encodings(), dataset.graphs().encodings(), "{name}");
        for (a, b) in found.graphs().iter().zip(dataset.graphs().iter()) {
            assert_eq!((a.src(), a.dst(), a.node(), a.edge()), (b.src(), b.dst(), b.node(), b.edge()), "{name}");
        }
    }
}
