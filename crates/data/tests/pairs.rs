//! Tables of pairs of nodes.

use graph_transformer_data::{PairTable, Records};

#[test]
fn cells_are_numbers_from_0_or_say_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.csv");
    let text =
        "target,note,graph,source\n1,a,0,2\n 3 ,b,,x\n-4,c,7,1.0\n99999999999999999999,d,0.5,99999999999999999\n";
    std::fs::write(&path, text).unwrap();
    let table = PairTable::read(&path).unwrap();
    assert_eq!((table.rows(), table.names_graphs(), table.path()), (4, true, path.as_path()));
    let wrong = |text: &str| Err(text.to_owned());
    assert_eq!(table.row(0), [Ok(0), Ok(2), Ok(1)]);
    assert_eq!(table.row(1), [wrong("the cell is empty"), wrong("`x` is not an integer"), Ok(3)]);
    assert_eq!(table.row(2), [Ok(7), wrong("`1.0` is not an integer"), wrong("`-4` is less than 0")]);
    let expected =
        [wrong("`0.5` is not an integer"), Ok(99999999999999999), wrong("`99999999999999999999` is not an integer")];
    assert_eq!(table.row(3), expected);
}

#[test]
fn all_kinds_of_tables_hold_pairs() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["p.csv", "p.tsv", "p.parquet"] {
        let mut records = Records::default();
        records.reals("source", [1.0, 0.5]);
        records.integers("target", [Some(3), None]);
        let path = folder.path().join(name);
        records.write(&path).unwrap();
        let table = PairTable::read(&path).unwrap();
        assert!(!table.names_graphs());
        assert_eq!(table.row(1), [Ok(0), Err("`0.5` is not an integer".into()), Err("the cell is empty".into())]);
        // CSV knows numbers by how they are written, Parquet by what they are.
        assert_eq!(table.row(0)[1].is_ok(), name == "p.parquet");
        assert_eq!(table.row(0)[2], Ok(3));
    }
    let mut records = Records::default();
    records.integers("source", [Some(1), Some(2)]);
    records.texts("target", [Some("ann"), None]);
    let path = folder.path().join("text.parquet");
    records.write(&path).unwrap();
    let table = PairTable::read(&path).unwrap();
    assert_eq!(table.row(0)[2], Err("`ann` is text, not an integer".into()));
    assert_eq!(table.row(1)[2], Err("the cell is empty".into()));
}

#[test]
fn files_that_hold_no_pairs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let complaint = |name: &str, text: Option<&str>| {
        let path = folder.path().join(name);
        text.inspect(|text| std::fs::write(&path, text).unwrap());
        let message = PairTable::read(&path).unwrap_err().to_string();
        message.replace(&format!("{}/", folder.path().display()), "")
    };
    let cases = [
        ("a.csv", "", "a.csv: it is empty; expected the columns `graph`, `source` and `target`"),
        ("b.csv", "graph,source,target\n", "b.csv: it has no rows"),
        ("c.csv", "graph,src,dst\n0,1,2\n", "c.csv: there is no column `source`; there are `graph`, `src`, `dst`"),
        ("d.tsv", "source\tTarget\n1\t2\n", "d.tsv: there is no column `target`; there are `source`, `Target`"),
        ("e.csv", "source,target,source\n1,2,3\n", "e.csv: two columns are named `source`"),
        ("f.csv", "source,target\n1,2\n3\n", "f.csv: line 3 has 1 cells, the header has 2"),
        ("g.jsonl", "{}", "g.jsonl: a table should be a .csv, .tsv or .parquet file"),
        ("h.parquet", "", "h.parquet: not a readable Parquet file: it is too short to be a Parquet file"),
    ];
    for (name, text, expected) in cases {
        assert_eq!(complaint(name, Some(text)), expected);
    }
    assert!(complaint("none.csv", None).starts_with("none.csv: "));
}
