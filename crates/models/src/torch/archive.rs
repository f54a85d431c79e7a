//! The checkpoint format of PyTorch 1.6 and later: a zip archive with the pickle in `data.pkl` and
//! storages under `data/`.

use std::collections::HashMap;

use super::contents;
use super::error::{CheckpointError, shown};
use super::pickle::unpickle;
use super::state_dict::StateDict;
use super::storage::ByteOrder;
use super::zip::Archive;

/// Reads a checkpoint that is a zip archive.
pub(super) fn read(bytes: &[u8]) -> Result<StateDict, CheckpointError> {
    let mut archive = Archive::open(bytes)?;
    let folder = folder(&archive)?;
    let order = match archive.read(&format!("{folder}byteorder"))?.map(|range| &bytes[range]) {
        None | Some(b"little") => ByteOrder::Little,
        Some(b"big") => ByteOrder::Big,
        Some(other) => {
            let other = shown(&String::from_utf8_lossy(other));
            return Err(CheckpointError::Archive(format!("byte order `{other}`, expected `little` or `big`")));
        }
    };
    let Some(range) = archive.read(&format!("{folder}data.pkl"))? else {
        return Err(CheckpointError::Format("the archive has no `data.pkl`"));
    };
    let pickle = unpickle(&bytes[..range.end], range.start)?;
    // Tensors share storages; each is looked up and checked once.
    let mut read: HashMap<&str, &[u8]> = HashMap::new();
    contents::state_dict(&pickle, order, bytes.len(), |storage| {
        let problem = |problem: String| CheckpointError::Storage { key: shown(storage.key), problem };
        let found = match read.get(storage.key) {
            Some(&found) => found,
            None => {
                let range = archive.read(&format!("{folder}data/{}", storage.key))?;
                let range = range.ok_or_else(|| problem("the archive does not hold it".to_owned()))?;
                let found = &bytes[range];
                read.insert(storage.key, found);
                found
            }
        };
        let (dtype, total) = (storage.dtype, storage.total);
        if found.len() / dtype.size() != total {
            return Err(problem(format!("{} bytes, expected {total} values of type {dtype:?}", found.len())));
        }
        Ok(found)
    })
}

/// The folder of the checkpoint, with its slash. PyTorch names it `archive`, or like the saved
/// file.
fn folder(archive: &Archive) -> Result<String, CheckpointError> {
    let folders = archive.names().filter_map(|name| name.strip_suffix("data.pkl"));
    let mut folders = folders.filter(|folder| folder.is_empty() || folder.find('/') == Some(folder.len() - 1));
    match (folders.next(), folders.next()) {
        (Some(folder), None) => Ok(folder.to_owned()),
        (None, _) => Err(CheckpointError::Format("the archive has no `data.pkl`")),
        (Some(_), Some(_)) => Err(CheckpointError::Format("the archive has more than one `data.pkl`")),
    }
}
