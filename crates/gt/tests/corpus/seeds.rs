//! Small valid inputs, from which fuzzing begins.

use std::fs::{create_dir_all, read, read_dir, remove_dir_all};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, ListArray, RecordBatch, StringArray};
use gt_models::{Config, Preset};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};

use super::readers::{manifest, model_header, tables};

/// Files of JSON lines with every kind of column. The other formats are converted from them.
const JSON_LINES: [(&str, &str); 8] = [
    (
        "molecules",
        r#"{"num_nodes": 3, "node_feat": [[8], [1], [1]], "edge_index": [[0, 1, 0, 2], [1, 0, 2, 0]], "edge_attr": [[1], [1], [2], [2]], "y": [0.5], "split": "train"}
{"num_nodes": 2, "node_feat": [[6], [8]], "edge_index": [[0, 1], [1, 0]], "edge_attr": [[3], [3]], "y": [-1.25], "split": "test"}
"#,
    ),
    (
        "encodings",
        r#"{"node_feat": [[1], [2]], "edge_index": [[0], [1]], "edge_attr": [[1]], "y": [1.5], "lap_pe": [[0.5, 0.1], [-0.5, 0.2]], "rw_pe": [[0.0], [1.0]], "wl_pe": [0, 1]}
{"node_feat": [[1]], "edge_index": [[], []], "edge_attr": [], "y": [null], "lap_pe": [[0.0, 0.0]], "rw_pe": [[0.25]], "wl_pe": [3]}
"#,
    ),
    (
        "floats",
        r#"{"node_feat": [[0.5, 1.0], [2.25, 3e4]], "edge_index": [[0, 1], [1, 0]], "edge_attr": [[-0.5], [1e-3]], "y": [0, 1]}
{"node_feat": [[1, 2]], "edge_index": [[], []], "edge_attr": [], "y": [1]}
"#,
    ),
    (
        "multi_hot",
        r#"{"num_nodes": 3, "node_feat_multi_hot": [[3, 17], [], [2]], "edge_index": [[0, 1], [1, 2]], "y": [0, 2, 1], "node_split": ["train", "val", "test"]}
"#,
    ),
    (
        "names",
        r#"{"node_feat": [["C"], ["N"]], "edge_index": [[0], [1]], "edge_attr": [["single"]], "y": ["toxic"], "name": "a", "weight": 1.5}
{"node_feat": [["O"]], "edge_index": [[], []], "edge_attr": [], "y": ["safe"], "name": null, "weight": 2}
"#,
    ),
    (
        "schema",
        r#"{"graph_transformer": {"format_version": 1, "schema": {"node": {"categorical": [{"name": "atom", "size": 28}], "continuous": ["charge"]}, "edge": {"categorical": [{"name": "bond", "size": 4}]}, "target": {"level": "graph", "kind": "float", "columns": [{"name": "y"}]}}}, "node_feat": [[1]], "node_feat_float": [[0.5]], "edge_index": [[0], [0]], "edge_attr": [[1]], "y": [0.5]}
"#,
    ),
    ("sizes", "{\"num_nodes\": 4, \"edge_index\": [[0, 3], [1, 2]]}\n{\"num_nodes\": 0, \"edge_index\": [[], []]}\n"),
    (
        "edges",
        r#"{"num_nodes": 2, "edge_index": [[0, 1, 1], [1, 0, 1]], "edge_attr": [[1, 0.5], [2, 1.5], [3, 0.0]], "y": [1, 0, -1], "edge_split": ["train", "train", "test"]}
"#,
    ),
];

/// Writes the seeds of all targets.
pub fn write(folder: &Path) {
    let save = |target: &str, name: &str, bytes: &[u8]| {
        let path = folder.join(target).join(name);
        create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let _ = remove_dir_all(folder);
    let made = tempfile::tempdir().unwrap();
    for (name, text) in JSON_LINES {
        save("json_lines", name, text.as_bytes());
        let lines = made.path().join("graphs.jsonl");
        std::fs::write(&lines, text).unwrap();
        let data = gt_data::read(&lines).unwrap();
        let native = made.path().join("graphs.parquet");
        gt_data::write(&data, &native).unwrap();
        save("parquet", name, &read(native).unwrap());
        gt_data::write(&data, &made.path().join(tables::FILES[0])).unwrap();
        let parts = tables::FILES.map(|file| read(made.path().join(file)).unwrap());
        save("tables", name, &parts.join(&tables::SEPARATOR));
    }
    for (name, properties) in writers() {
        save("parquet", name, &foreign_parquet(properties));
    }
    let people = "person,age,y\nann,31,0\nbob,44,1\n\x0csrc,dst,since\nann,bob,1999\nbob,ann,2001.5\n";
    save("tables", "people", people.as_bytes());
    save("pairs", "pairs", b"source,target\n0,1\n3,2\n");
    save("pairs", "graphs", b"graph,source,target,\"a, note\"\n0,0,1,\"x \"\"y\"\"\"\n1,2.0,,-3\n");
    for preset in Preset::all().into_iter().step_by(7) {
        save("config", &preset.name(), preset.config().to_toml().as_bytes());
    }
    save("config", "short", b"[model]\nlayers = 2\nwidth = 16\nheads = 4 # a comment\nencoding = \"laplacian\"\n");
    save("config", "links", b"[data]\ntask = \"links\"\n[links]\ndirected = false\n[train]\nepochs = 3\nhours = 0.5\n");
    assert!(Config::from_toml("").is_ok());
    save("config", "empty", b"");
    let hash = "9ea5a45d316d574534b782ad680338bc410c4ac1d9de60f7804de56020efbd44";
    save("manifest", "whole", format!("{{\"files\": {{\"{}\": \"{hash}\"}}}}", manifest::STATE.0).as_bytes());
    save("manifest", "empty", b"{\n  \"files\": {}\n}");
    save("manifest", "missing", format!("{{\"files\": {{\"model.safetensors\": \"{hash}\"}}}}").as_bytes());
    let model = model_header::valid();
    save("model", "small", &model);
    save("model_header", "small", model_header::header(&model));
    let checkpoints = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/checkpoints");
    for entry in read_dir(checkpoints).unwrap() {
        let path = entry.unwrap().path();
        let bytes = read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "pt") && bytes.len() < 8000 {
            let name = path.file_stem().unwrap().to_str().unwrap();
            save("torch", name, &bytes);
            if let Some(pickle) = pickle_of(&bytes) {
                save("pickle", name, pickle);
            }
        }
    }
}

/// The pickle of a checkpoint: the first entry of the zip archive.
fn pickle_of(archive: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| u16::from_le_bytes([archive[at], archive[at + 1]]) as usize;
    let start = 30 + number(26) + number(28);
    archive.starts_with(b"PK\x03\x04").then_some(())?;
    // A pickle ends with a stop instruction, and PyTorch writes its length behind it.
    let end = start + archive[start..].windows(5).position(|window| window == b".PK\x07\x08")? + 1;
    Some(&archive[start..end])
}

/// Properties of files that other programs write.
fn writers() -> [(&'static str, WriterProperties); 5] {
    let plain = || WriterProperties::builder().set_dictionary_enabled(false);
    [
        ("plain", plain().build()),
        ("snappy", WriterProperties::builder().set_compression(Compression::SNAPPY).build()),
        ("gzip", plain().set_compression(Compression::GZIP(Default::default())).build()),
        ("second_version", WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_2_0).build()),
        (
            "delta",
            plain()
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .set_column_encoding("split".into(), Encoding::DELTA_BYTE_ARRAY)
                .set_column_encoding("num_nodes".into(), Encoding::DELTA_BINARY_PACKED)
                .build(),
        ),
    ]
}

/// Two graphs as other programs write them.
fn foreign_parquet(properties: WriterProperties) -> Vec<u8> {
    use arrow_array::types::Int64Type;
    let features = [Some(vec![Some(1), Some(2)]), Some(vec![Some(3)])];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("num_nodes", Arc::new(Int64Array::from(vec![2, 1]))),
        ("node_feat", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(features))),
        ("y", Arc::new(Float32Array::from(vec![Some(0.5), None]))),
        ("split", Arc::new(StringArray::from(vec!["train", "test"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}
