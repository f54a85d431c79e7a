//! Encodings of the cache, between the sittings of a run: damaged ones are computed anew, and other
//! ones are noticed.

mod support;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use graph_transformer_train::{EncodingCache, Outcome, Prepared, RunDirectory, Trainer};
use gt_data::{Dataset, SbmSet, SbmSizes};
use gt_models::Config;
use sha2::{Digest, Sha256};
use support::{Interrupter, cpu};

fn clusters() -> Dataset {
    SbmSet::Cluster.generate(5, SbmSizes { train: 8, val: 2, test: 2 }).unwrap()
}

fn config() -> Config {
    let text = "[model]\nlayers = 1\nwidth = 8\nheads = 2\nencoding = \"laplacian\"\nencoding_size = 3\n\
                [train]\nbatch = 4\nepochs = 2\n";
    Config::from_toml(text).unwrap()
}

/// One sitting with encodings of a cache; interrupted after some batches. Also returns the notes.
fn sit(run: &Path, cache: &Path, after: usize) -> (Outcome, Vec<String>) {
    let (config, cache) = (config(), EncodingCache::new(cache));
    let data = Prepared::for_training(clusters(), &config, Some(&cache)).unwrap();
    let run = RunDirectory::open(run).unwrap();
    let flag = AtomicBool::new(false);
    let mut observer = Interrupter { flag: &flag, after, notes: vec![], epochs: vec![] };
    let trainer = Trainer::new(&data, &config, &run, cpu(&data, &config), &mut observer).unwrap();
    let outcome = trainer.run(&flag, &mut observer).unwrap();
    (outcome, observer.notes)
}

fn cached(cache: &Path) -> PathBuf {
    EncodingCache::new(cache).files().unwrap()[0].path.clone()
}

#[test]
fn a_bit_of_a_cached_encoding_cannot_change_the_weights_of_a_resumed_run() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let (whole, _) = sit(&place("whole"), &place("cache"), usize::MAX);
    for at in 0..20 {
        let run = place(&format!("run-{at}"));
        sit(&run, &place("cache"), 3);
        let file = cached(&place("cache"));
        let mut bytes = std::fs::read(&file).unwrap();
        let position = bytes.len() * (2 * at + 1) / 40;
        bytes[position] ^= 1 << (at % 8);
        std::fs::write(&file, bytes).unwrap();
        let (resumed, notes) = sit(&run, &place("cache"), usize::MAX);
        assert_eq!(resumed.weights_sha256, whole.weights_sha256, "byte {position}");
        assert!(!notes.iter().any(|note| note.contains("encodings")), "{notes:?}");
    }
}

#[test]
fn a_resumed_run_notices_other_encodings_than_those_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let (whole, _) = sit(&place("whole"), &place("cache"), usize::MAX);
    sit(&place("run"), &place("cache"), 3);
    // The file of another machine: its hash is right, and its numbers differ.
    let file = cached(&place("cache"));
    let mut bytes = std::fs::read(&file).unwrap();
    // The sign of the first value: after the hash, the length of a header, and the header.
    let header = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
    bytes[40 + header + 3] ^= 0x80;
    let digest = Sha256::digest(&bytes[32..]);
    bytes[..32].copy_from_slice(&digest);
    std::fs::write(&file, bytes).unwrap();
    let (resumed, notes) = sit(&place("run"), &place("cache"), 2);
    assert_ne!(resumed.weights_sha256, whole.weights_sha256);
    let others = |notes: &[String]| notes.iter().filter(|note| note.contains("encodings differ")).count();
    assert_eq!(others(&notes), 1, "{notes:?}");
    // The sitting after that goes on with the encodings of the last one.
    let (_, notes) = sit(&place("run"), &place("cache"), usize::MAX);
    assert_eq!(others(&notes), 0, "{notes:?}");
}
