//! Parquet files that make the decoder panic end in an error message, without a panic message.

use std::cell::Cell;
use std::path::Path;
use std::process::Command;

use gt_data::{SbmSet, SbmSizes, panic_is_contained, read, write};

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Damages a valid file one byte at a time, until reading it makes the decoder panic.
fn break_decoder(path: &Path) {
    let valid = std::fs::read(path).unwrap();
    for at in 0..valid.len() {
        for value in [0x00, 0x7f, 0xff] {
            let mut bytes = valid.clone();
            bytes[at] = value;
            std::fs::write(path, bytes).unwrap();
            let before = PANICS.get();
            let result = read(path);
            if PANICS.get() > before {
                let error = result.unwrap_err().to_string();
                return assert!(error.contains("a page contradicts itself"), "{error}");
            }
        }
    }
    panic!("no damage makes the decoder panic: the guard may be superfluous");
}

#[test]
fn a_panic_of_the_decoder_is_an_error_without_its_message() {
    std::panic::set_hook(Box::new(|panic| match panic_is_contained() {
        true => PANICS.set(PANICS.get() + 1),
        false => eprintln!("{panic}"),
    }));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.parquet");
    let sizes = SbmSizes { train: 2, val: 1, test: 1 };
    write(&SbmSet::Cluster.generate(1, sizes).unwrap(), &path).unwrap();
    break_decoder(&path);
    let output = Command::new(env!("CARGO_BIN_EXE_gt")).args(["data", "info"]).arg(&path).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.starts_with("error: ") && message.contains("a page contradicts itself"), "{message}");
    assert!(!message.contains("panicked"), "{message}");
}
