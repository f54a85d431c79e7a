//! Files that the cases share.

use std::fmt::Write;

use crate::support::Place;

/// Writes all files:
///
/// * `m.jsonl`: 30 graphs with names as categories and edge features. They have a number `y`, a
///   number `gap` and a text `name`;
/// * `c.jsonl`: the graphs with classes; `plain.jsonl`: without edge features; `none.jsonl`: without
///   targets;
/// * `t_nodes.csv`, `t_edges.csv`: a network of 40 nodes with the columns kind, size and label;
/// * `gap_nodes.csv`: the network with a missing size; `one_nodes.csv`: with each edge once;
///   `ids_nodes.csv`: with a serial number per node;
/// * `big.jsonl`: a path of 1,001 nodes.
pub fn write(place: &Place) {
    write_graphs(place);
    write_network(place);
}

fn write_graphs(place: &Place) {
    let [mut numbers, mut classes, mut plain, mut none] = [const { String::new() }; 4];
    for graph in 0..30 {
        let element = ["C", "N", "O"][graph % 3];
        let (y, class) = (format!("{}.25", graph % 5), ["toxic", "safe"][graph % 2]);
        let nodes = format!("\"node_feat\": [[\"C\"], [\"{element}\"]], \"edge_index\": [[0, 1], [1, 0]]");
        let edges = "\"edge_attr\": [[\"single\"], [\"double\"]]";
        let more = format!("\"gap\": {graph}.5, \"name\": \"{}\"", ["a", "b", "c", "d", "e"][graph % 5]);
        let _ = writeln!(numbers, "{{{nodes}, {edges}, \"y\": {y}, {more}}}");
        let _ = writeln!(classes, "{{{nodes}, {edges}, \"y\": \"{class}\", {more}}}");
        let _ = writeln!(plain, "{{{nodes}, \"y\": {y}}}");
        let _ = writeln!(none, "{{{nodes}, \"gap\": {y}}}");
    }
    place.write("m.jsonl", &numbers);
    place.write("c.jsonl", &classes);
    place.write("plain.jsonl", &plain);
    place.write("none.jsonl", &none);
    let (from, to): (Vec<usize>, Vec<usize>) = (1..1001).flat_map(|node| [(node - 1, node), (node, node - 1)]).unzip();
    let nodes = vec!["[\"C\"]"; 1001].join(", ");
    place.write("big.jsonl", &format!("{{\"node_feat\": [{nodes}], \"edge_index\": [{from:?}, {to:?}]}}\n"));
}

fn write_network(place: &Place) {
    let [mut nodes, mut gaps, mut ids] = [const { String::new() }; 3];
    let (mut edges, mut once) = ("src,dst\n".to_owned(), "src,dst\n".to_owned());
    for node in 0..40 {
        let (kind, size) = (["x", "y", "z"][node % 3], format!("{}.5", node % 4));
        let label = ["a", "b"][node % 2];
        let _ = writeln!(nodes, "{node},{kind},{size},{label}");
        let _ = writeln!(gaps, "{node},{kind},{},{label}", if node == 7 { "" } else { &size });
        let _ = writeln!(ids, "{node},s{node},{size},{label}");
        let next = (node + 1) % 40;
        let _ = writeln!(edges, "{node},{next}\n{next},{node}");
        let _ = writeln!(once, "{node},{next}");
    }
    for (name, second, rows, edges) in [
        ("t", "kind", &nodes, &edges),
        ("gap", "kind", &gaps, &edges),
        ("one", "kind", &nodes, &once),
        ("ids", "serial", &ids, &edges),
    ] {
        place.write(&format!("{name}_nodes.csv"), &format!("node,{second},size,label\n{rows}"));
        place.write(&format!("{name}_edges.csv"), edges);
    }
}
