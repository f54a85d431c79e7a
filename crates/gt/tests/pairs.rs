//! `gt predict --pairs`: a link model scores pairs of the user's choice.

mod support;

use gt_data::RandomStream;
use gt_nn::cuda::CudaDevice;
use serde_json::{Value, json};
use support::Place;

const SMALL: &str = "--set model.layers=2 --set model.width=12 --set model.heads=3 --set model.encoding=laplacian --set model.encoding_size=4 \
                     --set train.epochs=2 --set train.batch=7 --set optimizer.lr=1e-2";

/// A ring with chords and edges in both directions; the graph has numbers as targets.
fn graph(number: u64) -> Value {
    let mut random = RandomStream::new(3, 201, number);
    let nodes = 6 + random.below(6);
    let kinds: Vec<[u32; 1]> = (0..nodes).map(|_| [random.below(4)]).collect();
    let ring = (0..nodes).map(|a| (a, (a + 1) % nodes));
    let ends: Vec<(u32, u32)> = ring.chain([(0, 2), (1, 4)]).flat_map(|(a, b)| [(a, b), (b, a)]).collect();
    let (src, dst): (Vec<u32>, Vec<u32>) = ends.into_iter().unzip();
    json!({"num_nodes": nodes, "node_feat": kinds, "edge_index": [src, dst], "y": [f64::from(nodes) / 10.0]})
}

/// Trains a small link model, with the additional arguments `more`. If `damaged`, the model cannot
/// use graph 3 of `new.jsonl`.
fn place(more: &str, damaged: bool) -> Place {
    let place = Place::new();
    let mut graphs: Vec<Value> = (0..20).map(graph).collect();
    let write = |name: &str, graphs: &[Value]| {
        place.write(name, &graphs.iter().map(|graph| format!("{graph}\n")).collect::<String>());
    };
    write("data.jsonl", &graphs);
    write("one.jsonl", &graphs[5..6]);
    place.done(&format!("train --data data.jsonl --out run {SMALL} {more}"));
    if damaged {
        graphs[3]["node_feat"][0] = json!([9]);
    }
    write("new.jsonl", &graphs);
    place
}

fn lines(place: &Place, name: &str) -> Vec<String> {
    std::fs::read_to_string(place.path(name)).unwrap().lines().map(Into::into).collect()
}

const LINKS: &str = "--set data.task=links";

#[test]
fn pairs_that_are_edges_get_the_numbers_of_the_edges_in_whatever_order_and_format() {
    for (more, directed) in [("", false), ("--set model.pairs=ends", false), ("--set links.directed=true", true)] {
        let place = place(&format!("{LINKS} {more}"), false);
        for format in ["csv", "tsv", "parquet"] {
            place.done(&format!("predict run --data new.jsonl --out edges.{format}"));
            // Outputs can be used as inputs.
            place.done(&format!("predict run --data new.jsonl --pairs edges.{format} --out pairs.{format}"));
            let [edges, pairs] =
                ["edges", "pairs"].map(|name| std::fs::read(place.path(&format!("{name}.{format}"))).unwrap());
            assert!(edges == pairs, "{format} {more}");
        }
        let edges = lines(&place, "edges.csv");
        let scores: std::collections::BTreeSet<&str> = edges.iter().filter_map(|line| line.split(',').nth(3)).collect();
        assert!(scores.len() > 100, "a constant answer would not show a wrong order");
        // Pairs in reverse order, each twice, and with exchanged ends.
        let mut asked = vec!["target,source,graph".to_owned()];
        for line in edges[1..].iter().rev() {
            let cells: Vec<&str> = line.split(',').collect();
            let (graph, source, target) = (cells[0], cells[1], cells[2]);
            asked.extend([format!("{target},{source},{graph}"), format!("{target},{source},{graph}")]);
            asked.push(format!("{source},{target},{graph}"));
        }
        place.write("asked.csv", &asked.join("\n"));
        place.done("predict run --data new.jsonl --pairs asked.csv --out answered.csv");
        let answered = lines(&place, "answered.csv");
        assert_eq!(answered.len(), 1 + 3 * (edges.len() - 1));
        let mut turned = 0;
        for (three, line) in answered[1..].chunks(3).zip(edges[1..].iter().rev()) {
            assert!(three[0] == *line && three[1] == *line, "{three:?}, {line}");
            let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
            let (there, back) = (cells(line), cells(&three[2]));
            assert_eq!((&back[0], &back[1], &back[2]), (&there[0], &there[2], &there[1]));
            turned += usize::from(back[3] == there[3]);
        }
        assert_eq!(turned == edges.len() - 1, !directed, "{turned}");
    }
}

#[test]
fn one_graph_needs_no_number_and_any_two_nodes_are_a_pair() {
    let place = place(LINKS, false);
    // An edge, a pair without an edge, and a pair of a node with itself.
    place.write("asked.tsv", "source\ttarget\n0\t1\n0\t3\n4\t4\n");
    place.done("predict run --data one.jsonl --pairs asked.tsv --out p.csv --on-error stop");
    let answered = lines(&place, "p.csv");
    assert_eq!(answered[0], "graph,source,target,link_p1,reason");
    for (line, pair) in answered[1..].iter().zip(["0,0,1", "0,0,3", "0,4,4"]) {
        let score = line.strip_prefix(&format!("{pair},")).and_then(|rest| rest.strip_suffix(','));
        assert!((0.0..=1.0).contains(&score.unwrap().parse::<f64>().unwrap()), "{line}");
    }
    assert_eq!(answered.len(), 4);
    let complaint = place.refused("predict run --data new.jsonl --pairs asked.tsv --out q.csv");
    assert_eq!(complaint, "error: asked.tsv: there is no column \"graph\", and the data has 20 graphs\n");
}

#[test]
fn rows_without_an_answer_have_a_reason_or_end_the_call() {
    let place = place(LINKS, true);
    place.write("asked.csv", "graph,source,target\n3,0,1\n0,0,3\n0,one,2\n20,0,1\n1,2,70\n");
    let output = place.gt("predict run --data new.jsonl --pairs asked.csv --out p.csv --json");
    assert_eq!(output.status.code(), Some(0));
    let damaged = r#"graph 3: node 0, column "node_feat": 9 is beyond the vocabulary of 4 entries (0 to 3); to accept unknown categories, train with --set data.other=true"#;
    let told = String::from_utf8(output.stderr).unwrap();
    let warning = format!("warning: 4 of 5 rows have no prediction: row 1: {damaged}; the column `reason` has all");
    assert!(told.contains(&warning), "{told}");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&line["rows"], &line["graphs"], &line["unusable"]), (&5.into(), &20.into(), &4.into()));
    let not_an_integer = r#"column "source": "one" is not a whole number from 0"#;
    assert_eq!(line["reasons"][1], json!({"row": 3, "reason": not_an_integer}));
    let answered = lines(&place, "p.csv");
    let cell = |reason: &str| format!("\"{}\"", reason.replace('"', "\"\""));
    assert_eq!(answered[1], format!("3,0,1,,{}", cell(damaged)));
    assert!(answered[2].starts_with("0,0,3,0.") && answered[2].ends_with(','), "{}", answered[2]);
    assert_eq!(answered[3], format!("0,,2,,{}", cell(not_an_integer)));
    let no_graph = r#"column "graph": there is no graph 20; the data has 20"#;
    assert_eq!(answered[4], format!("20,0,1,,{}", cell(no_graph)));
    assert!(
        answered[5].starts_with("1,2,70,,\"column \"\"target\"\": there is no node 70; graph 1 has "),
        "{}",
        answered[5]
    );

    let stop = |row: &str| {
        place.write("row.csv", &format!("graph,source,target\n0,0,1\n{row}\n"));
        place.refused("predict run --data new.jsonl --pairs row.csv --out q.csv --on-error stop")
    };
    assert_eq!(stop("3,0,1"), format!("error: row.csv: row 2: {damaged}\n"));
    assert_eq!(stop("0,,2"), "error: row.csv: row 2: column \"source\": the value is missing; fill it in\n");
    assert_eq!(stop("20,0,1"), format!("error: row.csv: row 2: {no_graph}\n"));
    assert!(stop("1,70,2").starts_with("error: row.csv: row 2: column \"source\": there is no node 70; graph 1 has "));
    // A graph that no row names has no effect.
    place.write("row.csv", "graph,source,target\n0,0,1\n");
    place.done("predict run --data new.jsonl --pairs row.csv --out q.csv --on-error stop");
}

#[test]
fn what_cannot_be_asked_is_refused_in_a_sentence() {
    let place = place(LINKS, false);
    place.write("asked.csv", "graph,source,target\n0,0,1\n");
    place.write("empty.csv", "");
    place.write("other.csv", "graph,from,to\n0,0,1\n");
    let ask = |pairs: &str, more: &str| {
        let complaint = place.refused(&format!("predict run --data new.jsonl --pairs {pairs} {more}"));
        complaint.strip_prefix("error: ").unwrap_or(&complaint).trim_end().to_owned()
    };
    assert!(ask("empty.csv", "--out p.csv").starts_with("empty.csv: it is empty"));
    let missing = ask("other.csv", "--out p.csv");
    assert!(
        missing.starts_with("other.csv: there is no column \"source\"") && missing.contains("\"from\""),
        "{missing}"
    );
    assert!(ask("none.csv", "--out p.csv").starts_with("none.csv: "));
    assert_eq!(
        ask("asked.csv", "--out asked.csv"),
        "asked.csv: it is read as --pairs and would be replaced; name another file to write"
    );
    assert!(ask("asked.csv", "--out p.xlsx").contains("expected .parquet, .csv"));
    // Links are computed on the CPU only; without a GPU that is the first error, as without
    // --pairs.
    let complaint = ask("asked.csv", "--out p.csv --device cuda");
    let expected = match CudaDevice::open(0) {
        Ok(_) => "link prediction".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(complaint.contains(&expected), "{complaint}");
    assert_eq!(
        place.refused("predict run --data new.jsonl --out p.csv --device cuda"),
        format!("error: {complaint}\n")
    );
    place.done(&format!("train --data data.jsonl --out targets {SMALL}"));
    assert_eq!(
        place.refused("predict targets --data new.jsonl --pairs asked.csv --out p.csv"),
        "error: --pairs is for models of links (data.task = \"links\"), and this one predicts targets of graphs\n"
    );
}
