//! `--keep` copies columns of the data to predictions and embeddings, in every format.

mod support;

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use support::{Place, assert_names};

const SMALL: &str =
    "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1 --set train.batch=8";

/// An id that no 64-bit float holds.
const LARGE: u64 = 9_007_199_254_740_993;

/// Graphs of two nodes with an id, a name, a list and the target; `feature` gives a node's category.
fn molecules(feature: impl Fn(usize) -> i64) -> String {
    let mut lines = String::new();
    for graph in 0..20_usize {
        let (id, split) = (LARGE + graph as u64, ["train", "val", "test"][graph.saturating_sub(14) / 3]);
        let _ = writeln!(
            lines,
            "{{\"node_feat\": [[{}], [1]], \"edge_index\": [[0, 1], [1, 0]], \"y\": [{}.5], \"split\": \"{split}\", \
             \"id\": {id}, \"name\": \"m, {graph}\", \"reason\": \"r{graph}\", \"sizes\": [{graph}, 7]}}",
            feature(graph),
            graph % 4,
        );
    }
    lines
}

fn read(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.path(name)).unwrap()
}

#[test]
fn ids_and_names_are_copied_from_every_format_of_graphs() {
    let place = Place::new();
    place.write("g.jsonl", &molecules(|graph| (graph % 2) as i64));
    place.done("data convert g.jsonl g.parquet");
    place.done("data convert g.jsonl t_nodes.csv");
    for data in ["g.jsonl", "g.parquet", "t_nodes.csv"] {
        place.done(&format!("train --data {data} --out run-{data} {SMALL}"));
        for query in ["predict", "embed --level graph"] {
            place.done(&format!("{query} run-{data} --data {data} --out p.csv --keep name,id"));
            let text = read(&place, "p.csv");
            assert!(text.starts_with("graph,name,id,"), "{data} {query}: {text}");
            let row = text.lines().nth(18).unwrap();
            assert!(row.starts_with(&format!("17,\"m, 17\",{},", LARGE + 17)), "{data} {query}: {row}");
        }
        // The file's own column `reason` does not hide that of the output.
        place.done(&format!("predict run-{data} --data {data} --out all.jsonl --keep all"));
        let first = read(&place, "all.jsonl").lines().next().unwrap().to_owned();
        for part in [&format!("\"id\":{LARGE}"), "\"name\":\"m, 0\"", "\"kept_reason\":\"r0\"", "\"reason\":null"] {
            assert!(first.contains(part), "{data}: {part} in {first}");
        }
    }
    // The type of an id survives from Parquet to Parquet.
    place.done("predict run-g.parquet --data g.parquet --out p.parquet --keep id,sizes");
    let file = std::fs::File::open(place.path("p.parquet")).unwrap();
    let batch = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().next().unwrap().unwrap();
    assert_eq!(batch["id"].as_primitive::<Int64Type>().value(2), (LARGE + 2) as i64);
    place.done("predict run-g.parquet --data g.parquet --out p.jsonl --keep id,sizes");
    assert!(read(&place, "p.jsonl").starts_with(&format!("{{\"graph\":0,\"id\":{LARGE},\"sizes\":")));
}

#[test]
fn the_truth_can_be_copied_next_to_the_prediction() {
    let place = Place::new();
    place.write("g.jsonl", &molecules(|graph| (graph % 2) as i64));
    place.done(&format!("train --data g.jsonl --out run {SMALL}"));
    place.done("predict run --data g.jsonl --out p.csv --keep y,split");
    let text = read(&place, "p.csv");
    assert!(text.starts_with("graph,kept_y,split,y,reason\n0,[0.5],train,"), "{text}");
}

#[test]
fn a_graph_without_a_prediction_keeps_its_id() {
    let place = Place::new();
    place.write("g.jsonl", &molecules(|graph| (graph % 2) as i64));
    place.write("new.jsonl", &molecules(|graph| if graph == 3 { 9 } else { 0 }));
    place.done(&format!("train --data g.jsonl --out run {SMALL}"));
    place.done("predict run --data new.jsonl --out p.csv --keep id");
    let text = read(&place, "p.csv");
    let row = text.lines().nth(4).unwrap();
    assert!(row.starts_with(&format!("3,{},,", LARGE + 3)), "{row}");
    assert_names(row, &["node_feat", "9"]);
}

#[test]
fn rows_of_nodes_take_the_columns_of_nodes_and_of_their_graph() {
    let place = Place::new();
    let (mut nodes, mut edges, mut graphs) =
        ("graph,node,person,age,y\n".to_owned(), "graph,src,dst\n".to_owned(), "graph,town\n".to_owned());
    for graph in 0..9 {
        let _ = writeln!(graphs, "g{graph},town {graph}");
        for (node, person) in ["ann", "bob", "eve"].into_iter().enumerate() {
            let _ = writeln!(nodes, "g{graph},{person},{person} {graph},{}.5,{}", node + graph, (node + graph) % 2);
        }
        let _ = writeln!(edges, "g{graph},ann,bob\ng{graph},bob,eve");
    }
    place.write("p_nodes.csv", &nodes);
    place.write("p_edges.csv", &edges);
    place.write("p_graphs.csv", &graphs);
    place.done(&format!("train --data p_nodes.csv --ignore person --out run {SMALL}"));
    place.done("predict run --data p_nodes.csv --out p.csv --keep person,town");
    let text = read(&place, "p.csv");
    assert!(text.starts_with("graph,node,person,town,y,"), "{text}");
    assert!(text.lines().nth(5).unwrap().starts_with("1,1,bob 1,town 1,"), "{text}");
    // All columns that the model does not read; the file's own ids get another name.
    place.done("predict run --data p_nodes.csv --out all.csv --keep all");
    let text = read(&place, "all.csv");
    assert!(text.starts_with("graph,node,kept_graph,kept_node,person,kept_y,town,y,"), "{text}");
    assert!(text.lines().nth(5).unwrap().starts_with("1,1,g1,bob,bob 1,0,town 1,"), "{text}");
}

#[test]
fn a_list_with_a_value_per_node_is_divided_among_the_rows_of_nodes() {
    let place = Place::new();
    let mut lines = String::new();
    for graph in 0..12_usize {
        let (y, split) = (graph % 2, ["train", "val", "test"][graph / 4]);
        let _ = writeln!(
            lines,
            "{{\"node_feat\": [[{y}], [1]], \"edge_index\": [[0, 1], [1, 0]], \"y\": [{y}, 1], \"split\": \"{split}\", \
             \"who\": [\"a{graph}\", \"b{graph}\"], \"town\": \"t{graph}\"}}"
        );
    }
    place.write("g.jsonl", &lines);
    place.done("data convert g.jsonl g.parquet");
    place.done(&format!("train --data g.jsonl --out run {SMALL}"));
    for data in ["g.jsonl", "g.parquet"] {
        place.done(&format!("predict run --data {data} --out p.csv --keep town"));
        assert!(read(&place, "p.csv").lines().nth(4).unwrap().starts_with("1,1,t1,"));
    }
    place.done("predict run --data g.jsonl --out p.csv --keep who,town");
    let text = read(&place, "p.csv");
    assert!(text.lines().nth(4).unwrap().starts_with("1,1,b1,t1,"), "{text}");
}

#[test]
fn shards_have_the_same_columns() {
    let place = Place::new();
    place.write("g.jsonl", &molecules(|graph| (graph % 2) as i64));
    place.done(&format!("train --data g.jsonl --out run {SMALL}"));
    for shard in ["1/2", "2/2"] {
        place.done(&format!("predict run --data g.jsonl --out p.csv --keep id,name --shard {shard}"));
        assert!(read(&place, "p.csv").starts_with("graph,id,name,y,reason\n"));
    }
}

#[test]
fn columns_that_cannot_be_kept_are_errors_and_leave_no_file() {
    let place = Place::new();
    place.write("g.jsonl", &molecules(|graph| (graph % 2) as i64));
    place.done("data convert g.jsonl g.parquet");
    place.done("data convert g.jsonl t_nodes.csv");
    place.done(&format!("train --data g.jsonl --out run {SMALL}"));
    place.done(&format!("train --data t_nodes.csv --out run-t {SMALL}"));
    for (model, data) in [("run", "g.jsonl"), ("run", "g.parquet"), ("run-t", "t_nodes.csv")] {
        let message = place.refused(&format!("predict {model} --data {data} --out p.csv --keep id,colour"));
        assert_names(&message, &["colour"]);
    }
    for data in ["g.jsonl", "g.parquet"] {
        let message = place.refused(&format!("predict run --data {data} --out p.csv --keep node_feat"));
        assert_names(&message, &["node_feat", "keep"]);
    }
    place.refused("predict run --data g.jsonl --out p.csv --keep id,id");
    place.refused("predict run --data g.jsonl --out p.csv --keep id,");
}

#[test]
fn a_key_that_appears_late_is_named_and_the_remedy_works() {
    let place = Place::new();
    place.write("g.jsonl", &molecules(|graph| (graph % 2) as i64));
    place.done(&format!("train --data g.jsonl --out run {SMALL}"));
    let line = "{\"node_feat\": [[0]], \"edge_index\": [[], []], \"id\": 1}\n";
    let late = "{\"node_feat\": [[0]], \"edge_index\": [[], []], \"id\": 2, \"late\": \"x\"}\n";
    place.write("new.jsonl", &(line.repeat(1500) + late));
    let message = place.refused("predict run --data new.jsonl --out p.csv --keep all");
    assert_names(&message, &["late", "--keep late"]);
    place.done("predict run --data new.jsonl --out p.csv --keep late,id");
    let text = read(&place, "p.csv");
    assert!(text.lines().nth(1501).unwrap().starts_with("1500,x,2,"), "{}", text.lines().nth(1501).unwrap());
}
