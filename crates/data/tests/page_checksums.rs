//! Parquet files carry a checksum for every page: no damaged page gives other values.

mod support;

use std::fs;
use std::path::Path;

use graph_transformer_data::{Records, read, write};
use gt_graph::{Level, TargetKind};
use parquet::file::reader::{FileReader, SerializedFileReader};
use support::{Shape, make};

/// The ranges of the pages' bodies in a file, and whether each header has a checksum.
fn pages(path: &Path) -> Vec<(std::ops::Range<usize>, bool)> {
    let bytes = fs::read(path).unwrap();
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let mut pages = Vec::new();
    for group in reader.metadata().row_groups() {
        for column in group.columns() {
            let (start, length) = column.byte_range();
            let (mut at, end) = (start as usize, (start + length) as usize);
            while at < end {
                let (body, compressed, checksum) = header(&bytes, at);
                let stored = checksum.map(|checksum| checksum as u32);
                assert!(stored.is_none_or(|stored| stored == crc32fast::hash(&bytes[body..body + compressed])));
                pages.push((body..body + compressed, stored.is_some()));
                at = body + compressed;
            }
        }
    }
    pages
}

/// Where the body of a page begins, its length and its checksum: a reader of Thrift's compact
/// protocol, as far as page headers need one.
fn header(bytes: &[u8], mut at: usize) -> (usize, usize, Option<i64>) {
    fn varint(bytes: &[u8], at: &mut usize) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[*at];
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let (mut compressed, mut checksum, mut depth, mut ids) = (0, None, 0, vec![0u8]);
    loop {
        let head = bytes[at];
        at += 1;
        if head == 0 {
            ids.pop();
            if depth == 0 {
                return (at, compressed, checksum);
            }
            depth -= 1;
            continue;
        }
        *ids.last_mut().unwrap() += head >> 4;
        let id = *ids.last().unwrap();
        match head & 15 {
            1 | 2 => {}
            5 | 6 => {
                let value = varint(bytes, &mut at);
                let value = (value >> 1) as i64 ^ -((value & 1) as i64);
                match (depth, id) {
                    (0, 3) => compressed = value as usize,
                    (0, 4) => checksum = Some(value),
                    _ => {}
                }
            }
            8 => at += varint(bytes, &mut at) as usize,
            12 => {
                depth += 1;
                ids.push(0);
            }
            other => panic!("type {other} in a page header"),
        }
    }
}

#[test]
fn no_damaged_page_gives_other_graphs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graphs.parquet");
    let shape = Shape {
        graphs: 40,
        largest: 6,
        node: (1, 2, true),
        edge: (2, 1, false),
        target: Some((Level::Node, TargetKind::Float, 2)),
        split: Some(Level::Graph),
        encodings: true,
    };
    let dataset = make(&shape, 1);
    write(&dataset, &path).unwrap();
    let whole = fs::read(&path).unwrap();
    let expected = read(&path).unwrap();
    let pages = pages(&path);
    assert!(pages.len() > 10 && pages.iter().all(|(_, checked)| *checked), "{pages:?}");
    let mut refused = 0;
    for (body, _) in &pages {
        for at in body.clone() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&path, damaged).unwrap();
            let error = read(&path).expect_err("a damaged page").to_string();
            assert!(error.contains("graphs.parquet"), "byte {at}: {error}");
            refused += 1;
        }
    }
    // Headers of pages, the structures between pages and footer.
    let footer = u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into().unwrap()) as usize;
    let in_page = |at: &usize| pages.iter().any(|(body, _)| body.contains(at));
    for at in (4..whole.len() - 8 - footer).filter(|at| !in_page(at)) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, damaged).unwrap();
        if let Ok(found) = read(&path) {
            assert_eq!(found, expected, "byte {at}");
        }
    }
    assert!(refused > 1_000, "{refused} bytes");
}

#[test]
fn tables_of_rows_carry_checksums_in_every_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let mut writer = graph_transformer_data::RecordWriter::create(&path).unwrap();
    // Two row groups, of which the first is filled by two calls.
    let rows = 50_000;
    for part in 0..2 {
        let mut records = Records::default();
        records.integers("graph", (part * rows..(part + 1) * rows).map(Some));
        records.reals("y", (0..rows).map(|row| if row % 7 == 0 { f32::NAN } else { row as f32 }));
        records.texts("reason", (0..rows).map(|row| (row % 7 == 0).then_some("no result")));
        writer.write(&records).unwrap();
    }
    assert_eq!(writer.commit().unwrap(), 100_000);
    let pages = pages(&path);
    assert!(pages.len() >= 6 && pages.iter().all(|(_, checked)| *checked), "{pages:?}");
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&path).unwrap());
    let reader = reader.unwrap();
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups, [65_536, 34_464]);
    let mut next = 0i64;
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let numbers = batch.column(0).as_any().downcast_ref::<arrow_array::Int64Array>().unwrap().clone();
        for number in numbers.iter() {
            assert_eq!(number, Some(next));
            next += 1;
        }
    }
    assert_eq!(next, 100_000);
}
