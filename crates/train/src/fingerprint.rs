//! Hashes by which a resumed run recognises its data and its encodings.

use gt_data::Dataset;
use gt_graph::GraphStore;
use sha2::{Digest, Sha256};

/// SHA-256 of graphs, features, targets, split and encodings, as they were read. Computed encodings
/// are left out, because another machine may round them differently: see [`of_encodings`].
pub(crate) fn of_data(dataset: &Dataset) -> String {
    let mut hash = Sha256::new();
    hash.update(gt_data::content_hash(dataset.graphs()));
    if let Some(split) = dataset.split() {
        hash.update(format!("{} {:?}", split.level, split.names));
        split.codes.iter().for_each(|code| hash.update(code.to_le_bytes()));
    }
    add_encodings(&mut hash, dataset.graphs());
    hex(&hash.finalize())
}

/// SHA-256 of the encodings of graphs, wherever they come from: the data, the cache, or a solver.
pub(crate) fn of_encodings(graphs: &GraphStore) -> String {
    let mut hash = Sha256::new();
    add_encodings(&mut hash, graphs);
    hex(&hash.finalize())
}

fn add_encodings(hash: &mut Sha256, graphs: &GraphStore) {
    let encodings = graphs.encodings();
    for coordinates in [&encodings.laplacian, &encodings.random_walk].into_iter().flatten() {
        hash.update((coordinates.width as u64).to_le_bytes());
        add_words(hash, &coordinates.values, |value| value.to_le_bytes());
    }
    add_words(hash, encodings.weisfeiler_lehman.as_deref().unwrap_or_default(), |role| role.to_le_bytes());
}

/// Adds blocks of values. An update for each value costs several times as much as its hash.
fn add_words<T: Copy>(hash: &mut Sha256, values: &[T], to_bytes: impl Fn(T) -> [u8; 4]) {
    const BLOCK: usize = 1 << 12;
    let mut bytes = Vec::with_capacity(4 * BLOCK);
    for block in values.chunks(BLOCK) {
        bytes.clear();
        bytes.extend(block.iter().flat_map(|value| to_bytes(*value)));
        hash.update(&bytes);
    }
}

/// SHA-256 of bytes, in hexadecimal.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
