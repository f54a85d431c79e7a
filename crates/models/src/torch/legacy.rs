//! The checkpoint format before PyTorch 1.6: pickles of a magic number, a protocol version, the
//! machine, the object and the storages' keys. Then each storage follows its number of elements.

use std::collections::HashMap;

use super::contents;
use super::error::{CheckpointError, shown};
use super::globals::StorageRef;
use super::pickle::{Pickle, Value, unpickle};
use super::state_dict::StateDict;
use super::storage::ByteOrder;

/// `0x1950a86a20f9469cfc6c`, lowest byte first.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const PROTOCOL: i64 = 1001;

/// Reads a checkpoint that is a stream of pickles.
pub(super) fn read(bytes: &[u8]) -> Result<StateDict, CheckpointError> {
    let end = skip(bytes, 0, |root| {
        let is_magic = matches!(root, Value::Long(found) if found == MAGIC);
        is_magic.then_some(()).ok_or("it is a pickle, but does not start with PyTorch's magic number")
    })?;
    let end = skip(bytes, end, |root| {
        let is_known = matches!(root, Value::Int(PROTOCOL));
        is_known.then_some(()).ok_or("it has another protocol version than 1001")
    })?;
    // The machine that wrote the file; the storages are little endian whatever it was.
    let end = skip(bytes, end, |_| Ok(()))?;
    let object = unpickle(bytes, end)?;
    let keys = unpickle(bytes, object.end)?;
    let storages = storages(bytes, &object, &keys)?;
    contents::state_dict(&object, ByteOrder::Little, bytes.len(), |storage| {
        let missing =
            || CheckpointError::Storage { key: shown(storage.key), problem: "the file does not hold it".to_owned() };
        storages.get(storage.key).copied().ok_or_else(missing)
    })
}

/// Checks the value that the pickle at `start` describes, and returns the pickle's end. Only one
/// pickle is in memory at a time.
fn skip(
    bytes: &[u8],
    start: usize,
    check: impl FnOnce(Value) -> Result<(), &'static str>,
) -> Result<usize, CheckpointError> {
    let pickle = unpickle(bytes, start)?;
    check(pickle.root).map_err(CheckpointError::Format)?;
    Ok(pickle.end)
}

/// The bytes of every storage, by key.
fn storages<'a>(
    bytes: &'a [u8],
    object: &Pickle<'a>,
    keys: &Pickle<'a>,
) -> Result<HashMap<&'a str, &'a [u8]>, CheckpointError> {
    // The lengths of elements are only known from the object.
    let mut claims: HashMap<&str, &StorageRef> = HashMap::new();
    for storage in &object.heap.storages {
        let first = claims.entry(storage.key).or_insert(storage);
        if (first.dtype, first.total) != (storage.dtype, storage.total) {
            let problem = format!(
                "both {} values of type {:?} and {} values of type {:?}",
                first.total, first.dtype, storage.total, storage.dtype
            );
            return Err(CheckpointError::Storage { key: shown(storage.key), problem });
        }
    }
    let Value::List(list) = keys.root else {
        return Err(CheckpointError::Format("it has no list of storages"));
    };
    let mut storages = HashMap::new();
    let mut rest = &bytes[keys.end..];
    for &key in &keys.heap.lists[list] {
        let Value::Text(key) = key else {
            return Err(CheckpointError::Format("its list of storages holds something else than keys"));
        };
        let problem = |problem: String| CheckpointError::Storage { key: shown(key), problem };
        let claim = claims.get(key).ok_or_else(|| problem("no tensor uses it, so its type is unknown".to_owned()))?;
        let (count, values) =
            rest.split_first_chunk::<8>().ok_or_else(|| problem("the file ends before it".to_owned()))?;
        let count = u64::from_le_bytes(*count);
        if usize::try_from(count) != Ok(claim.total) {
            return Err(problem(format!("{count} values in the file, expected {}", claim.total)));
        }
        let length = claim.total.checked_mul(claim.dtype.size()).filter(|&length| length <= values.len());
        let length = length.ok_or_else(|| {
            problem(format!("{count} values of type {:?}, but only {} bytes are left", claim.dtype, values.len()))
        })?;
        if storages.insert(key, &values[..length]).is_some() {
            return Err(problem("it is in the file twice".to_owned()));
        }
        rest = &values[length..];
    }
    Ok(storages)
}
