//! Small files under the names that pages use.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::commands::shell;

/// A folder with files and trained models. Each page gets a copy.
pub struct Samples(tempfile::TempDir);

impl Samples {
    pub fn new() -> Self {
        let samples = Self(tempfile::tempdir().unwrap());
        let place = samples.place();
        std::fs::create_dir_all(&place).unwrap();
        write_molecules(&place);
        write_network(&place);
        std::fs::write(place.join("mine.toml"), "[model]\nlayers = 2\nwidth = 16\nheads = 2\n").unwrap();
        let small = "--set train.epochs=1 --set model.layers=1 --set model.width=16 --set model.heads=2";
        for line in [
            "gt data convert new.jsonl new.parquet",
            "gt data convert zinc.jsonl zinc12k.parquet",
            "gt data convert --nodes papers.csv --edges citations.csv papers.parquet",
            "gt data convert papers.parquet cora_nodes.parquet",
            &format!("gt train --data mine.jsonl {small} --out runs/mine"),
            &format!("gt train --data papers.parquet {small} --set data.task=links --out runs/links"),
        ] {
            let output = shell(&place, line);
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        }
        // The same content under the other names of the pages.
        for (from, names) in [
            ("mine.jsonl", &["molecules.jsonl", "other.jsonl"][..]),
            ("papers.parquet", &["cora.parquet", "network.parquet", "net.parquet"]),
            ("pairs.csv", &["p.csv"]),
        ] {
            for name in names {
                std::fs::copy(place.join(from), place.join(name)).unwrap();
            }
        }
        std::fs::copy(place.join("zinc12k.parquet"), place.join("cache/zinc12k.parquet")).unwrap();
        copy_folder(&place.join("runs/links"), &place.join("runs/net"));
        samples
    }

    fn place(&self) -> PathBuf {
        self.0.path().join("place")
    }

    /// A folder of a page's own.
    pub fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(&self.place(), copy.path());
        copy
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// A ring of atoms with one more atom, as a record of JSON lines.
fn molecule(number: usize) -> serde_json::Map<String, Value> {
    let ring = 4 + number % 5;
    let kinds: Vec<[usize; 1]> = (0..=ring).map(|atom| [(atom * (1 + number % 3)) % 3]).collect();
    let bonds = (0..ring).map(|atom| (atom, (atom + 1) % ring)).chain([(0, ring)]);
    let both: Vec<(usize, usize)> = bonds.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
    let (sources, targets): (Vec<usize>, Vec<usize>) = both.iter().copied().unzip();
    let orders: Vec<[usize; 1]> = both.iter().map(|(a, b)| [1 + (a + b) % 2]).collect();
    let record = json!({"node_feat": kinds, "edge_index": [sources, targets], "edge_attr": orders});
    record.as_object().unwrap().clone()
}

/// `mine.jsonl` has targets, `new.jsonl` has none, and `zinc.jsonl` has split and schema of ZINC.
fn write_molecules(place: &Path) {
    let [mut mine, mut new, mut zinc] = [const { String::new() }; 3];
    for number in 0..60 {
        let mut record = molecule(number);
        if number < 8 {
            record.insert("id".into(), json!(number + 100));
            record.insert("name".into(), json!(format!("molecule {number}")));
            let _ = writeln!(new, "{}", json!(record));
            record.retain(|key, _| key != "id" && key != "name");
        }
        record.insert("y".into(), json!([0.5 * (number % 5) as f64 - 0.75]));
        let _ = writeln!(mine, "{}", json!(record));
        let split = if number < 40 { "train" } else { ["val", "test"][number % 2] };
        record.insert("split".into(), json!(split));
        if number == 0 {
            let column = |name: &str, size: usize| json!({"categorical": [{"name": name, "size": size}]});
            let target = json!({"level": "graph", "kind": "float", "columns": [{"name": "y"}]});
            let schema = json!({"node": column("atom", 28), "edge": column("bond", 4), "target": target});
            record.insert("graph_transformer".into(), json!({"format_version": 1, "schema": schema}));
        }
        let _ = writeln!(zinc, "{}", json!(record));
    }
    for (name, text) in [("mine.jsonl", mine), ("new.jsonl", new), ("zinc.jsonl", zinc)] {
        std::fs::write(place.join(name), text).unwrap();
    }
    std::fs::create_dir_all(place.join("cache")).unwrap();
}

/// Tables of papers with numbers as ids and of people with names, and pairs of papers.
fn write_network(place: &Path) {
    let mut papers = "node,words,label,split\n".to_owned();
    let mut citations = "src,dst\n".to_owned();
    let mut people = "id,age,city\n".to_owned();
    let mut friends = "src,dst\n".to_owned();
    for node in 0..60 {
        let split = ["train", "train", "val", "test"][node % 4];
        let _ = writeln!(papers, "{node},{} {},{},{split}", node % 7, 7 + node % 5, node % 3);
        let _ = writeln!(people, "person {node},{},{}", 20 + node * 7 % 50, node % 4);
        for other in [(node + 1) % 60, (node + 3) % 60] {
            let _ = writeln!(citations, "{node},{other}\n{other},{node}");
            let _ = writeln!(friends, "person {node},person {other}");
        }
    }
    let pairs = "source,target\n0,1\n0,2\n3,50\n".to_owned();
    for (name, text) in [
        ("papers.csv", papers),
        ("citations.csv", citations),
        ("people.csv", people),
        ("friends.csv", friends),
        ("pairs.csv", pairs),
    ] {
        std::fs::write(place.join(name), text).unwrap();
    }
}
