//! The committed tables fit the committed records.

use std::path::Path;

use graph_transformer_reproduce::{Paper, Results, ResultsFolder};

#[test]
fn committed_tables_are_those_of_the_committed_records() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/paper");
    let records = ResultsFolder::new(&folder).records().unwrap();
    assert_eq!(records.len(), 148);
    let rendered = Results { paper: &Paper::load(), records: &records }.page().to_markdown();
    let committed = std::fs::read_to_string(folder.join("tables.md")).unwrap();
    let differs = rendered.lines().zip(committed.lines()).find(|(now, then)| now != then);
    assert!(rendered == committed, "`gt reproduce all --render` changes tables.md, first here: {differs:?}");
}
