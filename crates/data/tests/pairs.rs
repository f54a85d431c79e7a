//! Tables of pairs of nodes.

use graph_transformer_data::{DataError, FileProblem, PairTable, Problem, Records};

#[test]
fn cells_are_numbers_from_0_or_say_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.csv");
    let text =
        "target,note,graph,source\n1,a,0,2\n 3 ,b,,x\n-4,c,7,1.0\n99999999999999999999,d,0.5,99999999999999999\n";
    std::fs::write(&path, text).unwrap();
    let table = PairTable::read(&path).unwrap();
    assert_eq!((table.rows(), table.names_graphs(), table.path()), (4, true, path.as_path()));
    let wrong = |text: &str| Err(Problem::NotCounted(text.into()));
    assert_eq!(table.row(0), [Ok(0), Ok(2), Ok(1)]);
    assert_eq!(table.row(1), [Err(Problem::Null), wrong("x"), Ok(3)]);
    assert_eq!(table.row(2), [Ok(7), wrong("1.0"), wrong("-4")]);
    let expected = [wrong("0.5"), Ok(99999999999999999), wrong("99999999999999999999")];
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
        assert_eq!(table.row(1), [Ok(0), Err(Problem::NotCounted("0.5".into())), Err(Problem::Null)]);
        // CSV detects numbers by their notation, Parquet by their type.
        assert_eq!(table.row(0)[1].is_ok(), name == "p.parquet");
        assert_eq!(table.row(0)[2], Ok(3));
    }
    let mut records = Records::default();
    records.integers("source", [Some(1), Some(2)]);
    records.texts("target", [Some("ann"), None]);
    let path = folder.path().join("text.parquet");
    records.write(&path).unwrap();
    let table = PairTable::read(&path).unwrap();
    assert_eq!(table.row(0)[2], Err(Problem::NotCounted("ann".into())));
    assert_eq!(table.row(1)[2], Err(Problem::Null));
}

#[test]
fn files_that_hold_no_pairs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let problem = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        match PairTable::read(&path).unwrap_err() {
            DataError::File { path: named, problem } if named == path => problem,
            other => panic!("{other}"),
        }
    };
    let missing = |column: &str, found: &[&str]| FileProblem::MissingColumn {
        column: column.into(),
        found: found.iter().map(|name| (*name).to_owned()).collect(),
        hint: "",
    };
    let cases = [
        ("a.csv", "", FileProblem::NoColumns),
        ("b.csv", "graph,source,target\n", FileProblem::NoRows),
        ("c.csv", "graph,src,dst\n0,1,2\n", missing("source", &["graph", "src", "dst"])),
        ("d.tsv", "source\tTarget\n1\t2\n", missing("target", &["source", "Target"])),
        ("e.csv", "source,target,source\n1,2,3\n", FileProblem::SameName("source".into())),
        ("f.csv", "source,target\n1,2\n3\n", FileProblem::CellCount { line: 3, found: 1, expected: 2 }),
        ("g.jsonl", "{}", FileProblem::NotATable),
        ("h.parquet", "", FileProblem::Parquet("it is too short to be a Parquet file".into())),
    ];
    for (name, text, expected) in cases {
        assert_eq!(problem(name, text), expected);
    }
    let none = PairTable::read(&folder.path().join("none.csv"));
    assert!(matches!(none, Err(DataError::Io { .. })));
}
