//! PyTorch checkpoints: exact values from every layout that PyTorch writes, an error for everything
//! else, and nothing executed.
//!
//! The files are made by `checkpoints/generate.py`, which has PyTorch read them too.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use graph_transformer_models::torch::{CheckpointError, MAX_INSTRUCTIONS, StateDict, Values, read_state_dict};
use gt_testing::PeakMemory;
use safetensors::SafeTensors;

#[global_allocator]
static MEMORY: PeakMemory = PeakMemory::new();

/// Reads bytes that may be hostile; every tensor that comes out has the values its shape says, and
/// memory stays within a multiple of the file.
fn survives(bytes: &[u8], what: &str) -> Result<StateDict, CheckpointError> {
    let (result, peak) = MEMORY.measure(|| catch_unwind(AssertUnwindSafe(|| read_state_dict(bytes))));
    let result = result.unwrap_or_else(|_| panic!("{what}: the reader panicked"));
    let limit = (1 << 16) + 160 * bytes.len().min(MAX_INSTRUCTIONS) + 12 * bytes.len();
    assert!(peak <= limit, "{what}: {peak} bytes were in use at once for a file of {}", bytes.len());
    for tensor in result.iter().flat_map(StateDict::tensors) {
        assert_eq!(tensor.values().len(), tensor.shape().iter().product::<usize>(), "{what}: {}", tensor.name());
    }
    if let Err(error) = &result {
        let sentence = error.to_string();
        assert!(sentence.len() < 2000 && !sentence.contains(char::is_control), "{what}: {sentence}");
    }
    result
}

fn alone() -> impl Drop {
    MEMORY.alone()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkpoints")
}

fn checkpoint(name: &str) -> Vec<u8> {
    fs::read(folder().join(format!("{name}.pt"))).unwrap()
}

/// The tensors of a state dictionary: name, shape, and the values' bits.
type Bits = Vec<(String, Vec<usize>, Vec<u64>)>;

fn bits(state: &StateDict) -> Bits {
    let bits = |values: &Values| match values {
        Values::F32(values) => values.iter().map(|v| f64::from(*v).to_bits()).collect(),
        Values::F64(values) => values.iter().map(|v| v.to_bits()).collect(),
        Values::I64(values) => values.iter().map(|&v| v as u64).collect(),
    };
    state.tensors().iter().map(|t| (t.name().to_owned(), t.shape().to_vec(), bits(t.values()))).collect()
}

/// What PyTorch finds, in its order.
fn expected(name: &str) -> Bits {
    use safetensors::Dtype;
    let bytes = fs::read(folder().join(format!("{name}.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let tensor = |name: &str| {
        let view = file.tensor(name).unwrap();
        let data = view.data();
        let element = |e: &[u8]| match view.dtype() {
            // The language has no such type yet, so these are written out.
            Dtype::F16 => HALVES[data.chunks(2).position(|other| other == e).unwrap()].to_bits(),
            Dtype::BF16 => f64::from(f32::from_le_bytes([0, 0, e[0], e[1]])).to_bits(),
            Dtype::F32 => f64::from(f32::from_le_bytes(e.try_into().unwrap())).to_bits(),
            Dtype::F64 | Dtype::I64 => u64::from_le_bytes(e.try_into().unwrap()),
            Dtype::I32 => i64::from(i32::from_le_bytes(e.try_into().unwrap())) as u64,
            Dtype::I16 => i64::from(i16::from_le_bytes(e.try_into().unwrap())) as u64,
            Dtype::I8 => i64::from(e[0] as i8) as u64,
            Dtype::U8 | Dtype::BOOL => u64::from(e[0]),
            other => panic!("{name}: {other:?}"),
        };
        let size = view.dtype().bitsize() / 8;
        (name.to_owned(), view.shape().to_vec(), data.chunks(size).map(element).collect())
    };
    header.metadata().as_ref().unwrap()["order"].split('\n').map(tensor).collect()
}

/// The values of `f16` in `types.pt`, rounded as half precision does.
const HALVES: [f64; 10] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    65504.0,
    1.0 / 16777216.0,
    1023.0 / 16777216.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1365.0 / 4096.0,
];

#[test]
fn every_layout_gives_the_values_that_pytorch_finds() {
    let _alone = alone();
    for (values, files) in [
        ("small", &["zip", "legacy", "zip_protocol_4", "no_checksums", "zip64", "training", "training_legacy"][..]),
        ("small", &["nested_state_dict", "nested_model_state_dict", "nested_model"]),
        ("parameters", &["parameters", "big_endian"]),
        ("awkward", &["awkward", "awkward_legacy"]),
        ("types", &["types", "types_legacy"]),
        ("parts", &["legacy_parts"]),
    ] {
        for file in files {
            let state = survives(&checkpoint(file), file).unwrap_or_else(|e| panic!("{file}: {e}"));
            assert_eq!(bits(&state), expected(values), "{file}");
        }
    }
}

#[test]
fn tensors_are_found_by_name() {
    let _alone = alone();
    let state = read_state_dict(&checkpoint("zip")).unwrap();
    let weight = state.get("MLP_layer.2.weight").unwrap();
    assert_eq!((weight.name(), weight.shape()), ("MLP_layer.2.weight", &[1, 2][..]));
    assert_eq!(state.get("batch_norm1_h.num_batches_tracked").unwrap().values().to_f64(), [1.0]);
    assert!(state.get("MLP_layer.1.weight").is_none());
    assert!(!state.is_empty() && state.len() == state.tensors().len());
}

#[test]
fn malicious_checkpoints_are_refused_by_name() {
    let _alone = alone();
    for name in ["zip", "zip_protocol_4", "legacy", "plain_2", "plain_4"] {
        let error = survives(&checkpoint(&format!("malicious_{name}")), name).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the checkpoint calls `posix.system`, which no weights file needs; it was not run",
            "{name}"
        );
    }
    let error = survives(&checkpoint("malicious_plain_0"), "plain_0").unwrap_err();
    assert!(matches!(error, CheckpointError::Format(_)), "{error}");
    assert!(!Path::new("was_run_by_a_checkpoint").exists());
}

// Hand-made checkpoints of the legacy format, whose pickles carry no checksum.

const HEAD: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.";

/// A checkpoint whose object is `object` and whose only storage, `s`, holds the floats 0, 1, …,
/// `n - 1`.
fn legacy(object: &[u8], n: usize) -> Vec<u8> {
    let mut bytes = [HEAD, b"\x80\x02", object, b".\x80\x02](X\x01\0\0\0se."].concat();
    bytes.extend((n as u64).to_le_bytes());
    bytes.extend((0..n).flat_map(|i| (i as f32).to_le_bytes()));
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn integer(value: i64) -> Vec<u8> {
    [b"\x8a\x08", &value.to_le_bytes()[..]].concat()
}

fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &items.concat()[..], b"t"].concat()
}

fn integers(values: &[i64]) -> Vec<u8> {
    tuple(&values.iter().map(|&v| integer(v)).collect::<Vec<_>>())
}

/// A tensor over storage `s` of `n` floats.
fn tensor(n: i64, offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let storage = b"ctorch\nFloatStorage\n".to_vec();
    let id = tuple(&[text("storage"), storage, text("s"), text("cpu"), integer(n), b"N".to_vec()]);
    let arguments = [[&id[..], b"Q"].concat(), integer(offset), integers(shape), integers(strides)];
    let rest = [b"\x89".to_vec(), b"ccollections\nOrderedDict\n)R".to_vec()];
    [b"ctorch._utils\n_rebuild_tensor_v2\n", &tuple(&[&arguments[..], &rest[..]].concat())[..], b"R"].concat()
}

fn dictionary(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<u8> = entries.iter().flat_map(|(name, value)| [text(name), value.clone()].concat()).collect();
    [b"}(", &entries[..], b"u"].concat()
}

fn complaint(bytes: &[u8]) -> String {
    survives(bytes, "a hand-made checkpoint").unwrap_err().to_string()
}

#[test]
fn the_hand_made_checkpoints_are_like_real_ones() {
    let _alone = alone();
    let object = dictionary(&[("w", tensor(6, 1, &[2, 2], &[1, 3])), ("b", tensor(6, 5, &[], &[]))]);
    let state = survives(&legacy(&object, 6), "hand-made").unwrap();
    assert_eq!(state.get("w").unwrap().values(), &Values::F32(vec![1.0, 4.0, 2.0, 5.0]));
    assert_eq!(state.get("b").unwrap().values(), &Values::F32(vec![5.0]));
    assert!(survives(&legacy(&dictionary(&[("w", tensor(0, 0, &[0, i64::MAX, 1], &[1, 1, 1]))]), 0), "none").is_ok());
}

#[test]
fn globals_beyond_weights_are_refused_by_name() {
    let _alone = alone();
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("nt", "system"),
        ("builtins", "eval"),
        ("__builtin__", "getattr"),
        ("subprocess", "Popen"),
        ("torch", "load"),
        ("torch", "FloatStorage.from_file"),
        ("torch.storage", "_load_from_bytes"),
        ("torch._utils", "_rebuild_wrapper_subclass"),
        ("collections", "OrderedDict.__init__.__globals__"),
        ("collections", "defaultdict"),
        ("", ""),
    ] {
        let wanted = format!("the checkpoint calls `{module}.{name}`, which no weights file needs; it was not run");
        for global in
            [format!("c{module}\n{name}\n").into_bytes(), [text(module), text(name), b"\x93".to_vec()].concat()]
        {
            assert_eq!(complaint(&legacy(&dictionary(&[("w", global.clone())]), 0)), wanted);
            assert_eq!(complaint(&[b"\x80\x04", &global[..], b"."].concat()), wanted);
        }
    }
    let ugly = format!("cos\nsystem\u{1b}[31m{}\n", "x".repeat(100_000));
    assert!(complaint(&legacy(ugly.as_bytes(), 0)).contains("`os.system\\u{1b}[31mxxx"));
}

#[test]
fn instructions_beyond_weights_are_refused_with_their_place() {
    let _alone = alone();
    for (code, name) in [
        (&b"(ios\nsystem\n"[..], "INST"),
        (b"(o", "OBJ"),
        (b"\x82\x01", "EXT1"),
        (b"\x92", "NEWOBJ_EX"),
        (b"Pkey\n", "PERSID"),
        (b"\x97", "NEXT_BUFFER"),
        (b"2", "DUP"),
        (b"\xff", "0xff"),
    ] {
        let bytes = legacy(code, 0);
        let offset = HEAD.len() + 2 + usize::from(code[0] == b'(');
        let wanted = format!(
            "the pickle's instruction {name} at byte {offset} does not belong in a weights file; it was not run"
        );
        assert_eq!(complaint(&bytes), wanted);
    }
}

#[test]
fn calls_other_than_those_of_pytorch_are_refused() {
    let _alone = alone();
    for (object, wanted) in [
        (&b"ccollections\nOrderedDict\nK\x01\x85R"[..], "OrderedDict is called with (an integer), not as PyTorch does"),
        (b"ctorch\nFloatStorage\n)R", "Storage(F32) is called with (), not as PyTorch does"),
        (b"ctorch\nSize\n]\x85\x81", "Size is called with (a list), not as PyTorch does"),
        (b"K\x01)R", "a call of an integer"),
        (b"]}b", "a dictionary as the attributes of a list"),
        (b"K\x01Q", "a persistent identifier that is an integer"),
        (b")Q", "a persistent identifier that is not of a storage"),
        (b"}K\x01K\x02K\x03e", "no mark on the stack"),
        (b"}(K\x01u", "a key without a value"),
        (b"K\x01K\x01a", "items are appended to an integer"),
        (b"h\x07", "no value 7 in the memo"),
        (b"K\x01(\x85", "1 values needed, 0 on the stack"),
        (b"", "the stack is empty"),
        (b"X\xff\xff\xff\xffabc", "4294967295 bytes needed"),
        (b"X\x01\0\0\0\xff", "a text that is not UTF-8"),
        (b"cos\n", "a name without an end"),
        (b"\x80\x06", "protocol 6, expected 2 to 5"),
        (b"\x95\xff\xff\xff\xff\xff\xff\xff\xff", "a frame of 18446744073709551615 bytes"),
    ] {
        let found = complaint(&legacy(object, 0));
        assert!(found.starts_with("damaged pickle at byte ") && found.contains(wanted), "{found}");
    }
}

#[test]
fn tensors_that_do_not_fit_their_storage_are_named() {
    let _alone = alone();
    let one = |tensor: Vec<u8>| complaint(&legacy(&dictionary(&[("layer.weight", tensor)]), 6));
    for (tensor, wanted) in [
        (
            tensor(6, 0, &[2, 4], &[4, 1]),
            "tensor `layer.weight`: shape [2, 4] with strides [4, 1] from value 0 on exceeds its storage of 6 values",
        ),
        (
            tensor(6, 6, &[], &[]),
            "tensor `layer.weight`: shape [] with strides [] from value 6 on exceeds its storage of 6 values",
        ),
        (tensor(6, 0, &[2], &[-1]), "tensor `layer.weight`: -1 in its strides"),
        (tensor(6, 0, &[-2], &[1]), "tensor `layer.weight`: -2 in its shape"),
        (
            tensor(6, 0, &[i64::MAX, 4], &[0, 0]),
            "tensor `layer.weight`: shape [9223372036854775807, 4] has more values than can be counted",
        ),
        (
            tensor(6, 0, &[2, 2], &[i64::MAX, i64::MAX]),
            "tensor `layer.weight`: shape [2, 2] with strides [9223372036854775807, 9223372036854775807] from value 0 on exceeds its storage of 6 values",
        ),
        (tensor(6, 0, &[2], &[]), "tensor `layer.weight`: shape [2] has other dimensions than strides []"),
        (tensor(6, 0, &[1; 9], &[1; 9]), "tensor `layer.weight` has 9 dimensions, expected at most 8"),
        (tensor(7, 0, &[1], &[1]), "storage `s`: 6 values in the file, expected 7"),
    ] {
        assert_eq!(one(tensor), wanted);
    }
    assert!(
        one(tensor(6, 0, &[1 << 40], &[0]))
            .starts_with("with tensor `layer.weight` the checkpoint claims 1099511627776 values")
    );
    assert!(one(tensor(6, -1, &[1], &[1])).contains("a tensor at offset -1"));
    assert!(one(tensor(-6, 0, &[1], &[1])).contains("storage `s` has a length or start of -6"));
    let size = b"ctorch\nSize\n\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x85\x85R".to_vec();
    for (value, kind) in [(integer(3), "an integer"), (dictionary(&[]), "a dictionary"), (size, "a tuple")] {
        let object = dictionary(&[("w", tensor(6, 0, &[1], &[1])), ("extra", value)]);
        assert_eq!(complaint(&legacy(&object, 6)), format!("entry `extra` holds {kind}, expected a tensor"));
    }

    let twice = dictionary(&[("w", tensor(6, 0, &[1], &[1])), ("w", tensor(6, 1, &[1], &[1]))]);
    assert_eq!(complaint(&legacy(&twice, 6)), "tensor `w` is in the checkpoint twice");
    let huge = dictionary(&[("w", tensor(i64::MAX, 0, &[1], &[1]))]);
    assert_eq!(complaint(&legacy(&huge, 6)), "storage `s`: 6 values in the file, expected 9223372036854775807");
    let mut lying = legacy(&huge, 6);
    let count = lying.len() - 6 * 4 - 8;
    lying[count..count + 8].copy_from_slice(&i64::MAX.to_le_bytes());
    assert_eq!(complaint(&lying), "storage `s`: 9223372036854775807 values of type F32, but only 24 bytes are left");
    assert_eq!(complaint(&legacy(b"]", 0)), "storage `s`: no tensor uses it, so its type is unknown");
    let unnamed = [b"}K\x07", &tensor(6, 0, &[1], &[1])[..], b"s"].concat();
    assert_eq!(
        complaint(&legacy(&unnamed, 6)),
        "entry 0 of the state dictionary has an integer for a name, expected a text"
    );
    assert_eq!(
        complaint(&legacy(&tensor(6, 0, &[1], &[1]), 6)),
        "the checkpoint holds a tensor, expected a dictionary of tensors"
    );
}

#[test]
fn few_bytes_cannot_claim_much_memory() {
    let _alone = alone();
    // One big storage under very many names.
    let n = 10_000;
    let mut object = [b"}q\x00", &text("a")[..], &tensor(n, 0, &[n], &[1]), b"q\x01s"].concat();
    for i in 0..5_000 {
        object.extend([text(&format!("{i}")), b"h\x01s".to_vec()].concat());
    }
    assert!(complaint(&legacy(&object, n as usize)).starts_with("with tensor `"));
    // Dictionaries within themselves, nesting without end, and programs that never end.
    let loops = b"}q\x00X\x0a\0\0\0state_dicth\x00s";
    assert_eq!(
        complaint(&legacy(&[&loops[..], &text("w"), &tensor(1, 0, &[1], &[1]), b"s"].concat(), 1)),
        "entry `state_dict` holds a dictionary, expected a tensor"
    );
    let deep = [&b")"[..], &vec![0x85; 500_000], &dictionary(&[("w", tensor(1, 0, &[1], &[1]))])[..]].concat();
    assert_eq!(survives(&legacy(&deep, 1), "deep").unwrap().len(), 1);
    for filler in [&b"}"[..], b"]", b")", b"(", b"N", b"\x94", b"}\x94", b"}NNs", b"]Na", b"N\x85", b"}NNs\x94"] {
        let long = [b"N", &filler.repeat(MAX_INSTRUCTIONS)[..]].concat();
        assert_eq!(
            complaint(&legacy(&long, 0)),
            "the pickle has more than 1048576 instructions, which no weights file needs",
            "{filler:?}"
        );
    }
    let full = [b"\x80\x02", &b"}NNs"[..].repeat(MAX_INSTRUCTIONS / 4 - 1)[..], b"."].concat();
    let parts = [&HEAD[..HEAD.len() - 4], &full, &b"\x80\x02}.\x80\x02]."[..]].concat();
    assert!(survives(&parts, "a full preamble").unwrap().is_empty());
    for key in [0u32, 1 << 20, u32::MAX] {
        let far = [b"Nr", &key.to_le_bytes()[..]].concat();
        assert_eq!(
            complaint(&[HEAD, b"\x80\x02", &far, b".\x80\x02]."].concat()),
            "the checkpoint holds `None`, expected a dictionary of tensors"
        );
    }
}

#[test]
fn archives_other_than_those_of_pytorch_are_refused() {
    let _alone = alone();
    assert_eq!(
        complaint(&checkpoint("compressed")),
        "damaged zip archive: entry `zip/byteorder` is compressed or encrypted, which PyTorch never does"
    );
    let valid = checkpoint("zip");
    let find = |bytes: &[u8], wanted: &[u8]| bytes.windows(wanted.len()).position(|w| w == wanted).unwrap();
    let replaced = |from: &[u8], to: &[u8]| {
        let mut bytes = valid.clone();
        // The last occurrence is the one in the directory.
        let at = bytes.windows(from.len()).rposition(|w| w == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        complaint(&bytes)
    };
    assert_eq!(
        replaced(b"zip/data/3", b"zip/data/2"),
        "damaged zip archive: entry `zip/data/2` is in the archive twice"
    );
    assert_eq!(replaced(b"zip/data/3", b"zip/data/x"), "storage `3`: the archive does not hold it");
    assert_eq!(replaced(b"zip/data.pkl", b"zip/data.pkx"), "not a PyTorch checkpoint: the archive has no `data.pkl`");
    assert_eq!(
        replaced(b"zip/version", b"zi/data.pkl"),
        "not a PyTorch checkpoint: the archive has more than one `data.pkl`"
    );
    let mut flipped = valid.clone();
    let at = find(&flipped, b"embedding_h.weight");
    flipped[at] ^= 1;
    assert_eq!(
        complaint(&flipped),
        "damaged zip archive: entry `zip/data.pkl` has another checksum than when it was written"
    );
    assert_eq!(
        complaint(&valid[..valid.len() - 1]),
        "damaged zip archive: its end is missing; the file may be cut off"
    );
    let commented = [&valid[..valid.len() - 2], b"\x05\x00hello"].concat();
    assert!(survives(&commented, "an archive with a comment").is_ok());
    assert!(complaint(b"PK\x03\x04").starts_with("damaged zip archive"));
    for other in [&b""[..], b"PK", b"hello", b"\x89HDF", b"{}"] {
        let wanted = "not a PyTorch checkpoint: it starts neither like a zip archive nor like a pickle";
        assert_eq!(complaint(other), wanted);
    }
    let plain = "not a PyTorch checkpoint: it is a pickle, but does not start with PyTorch's magic number";
    assert_eq!(complaint(b"\x80\x02K\x01."), plain);
}

// Damage at random.

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

const CORRUPTIONS: usize = 10_000;

#[test]
fn damaged_checkpoints_are_refused_or_read() {
    let _alone = alone();
    // Checksums would hide the rest of the reader, so most of these have none.
    for name in ["zip", "no_checksums", "zip64", "legacy", "legacy_parts", "awkward_legacy", "training_legacy"] {
        let valid = checkpoint(name);
        for length in 0..valid.len() {
            let result = survives(&valid[..length], &format!("{name} cut to {length} bytes"));
            assert!(result.is_err(), "{name} cut to {length} bytes, and nobody noticed");
        }
        let mut draw = Draw(valid.len() as u64);
        let mut noticed = 0;
        for round in 0..CORRUPTIONS {
            let mut bytes = valid.clone();
            let kind = draw.below(5);
            for _ in 0..=draw.below(3) {
                let at = draw.below(bytes.len());
                match kind {
                    0 => bytes[at] ^= 1 << draw.below(8),
                    1 => bytes[at] = draw.below(256) as u8,
                    2 => bytes[at] = [0x00, 0x7f, 0x80, 0xff][draw.below(4)],
                    // Valid instructions at the wrong place get further than noise.
                    3 => bytes[at] = b"(.NJKMGX)t\x85\x86\x87]ae}suhqcR\x81bQ\x8a\x8c\x93\x94\x95"[draw.below(31)],
                    _ => {
                        let end = (at + 1 + draw.below(8)).min(bytes.len());
                        bytes[at..end].fill(0xff);
                    }
                }
            }
            noticed += usize::from(survives(&bytes, &format!("{name}, corruption {round} (kind {kind})")).is_err());
        }
        assert!(noticed > CORRUPTIONS / 10, "{name}: only {noticed} corruptions were noticed");
    }
}
