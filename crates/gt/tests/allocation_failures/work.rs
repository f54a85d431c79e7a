//! The work in which allocations fail: every reader, and a prediction.

use std::error::Error;
use std::fs::{read, remove_file, write};
use std::path::{Path, PathBuf};

use gt_data::PairTable;
use gt_models::{Config, Model, PublishedSet, torch};
use gt_nn::backend::Device;
use gt_train::{Query, QueryOptions, RunDirectory, query};

/// Something to do, and a check of the files that it leaves.
pub struct Work {
    pub name: &'static str,
    pub run: Box<dyn Fn() -> Result<(), Box<dyn Error>>>,
    pub check: Box<dyn Fn() -> Result<(), String>>,
}

/// Two molecules.
const MOLECULES: &str = r#"{"num_nodes": 3, "node_feat": [[8], [1], [1]], "edge_index": [[0, 1, 0, 2], [1, 0, 2, 0]], "edge_attr": [[1], [1], [2], [2]], "y": [0.5], "split": "train"}
{"num_nodes": 2, "node_feat": [[6], [8]], "edge_index": [[0, 1], [1, 0]], "edge_attr": [[3], [3]], "y": [-1.25], "split": "test"}
"#;

/// Writes all input files into a folder.
pub fn prepare(folder: &Path) -> Vec<Work> {
    let path = |name: &str| folder.join(name);
    let (lines, native, tables) = (path("g.jsonl"), path("g.parquet"), path("x_nodes.csv"));
    write(&lines, MOLECULES).unwrap();
    let data = gt_data::read(&lines).unwrap();
    gt_data::write(&data, &native).unwrap();
    gt_data::write(&data, &tables).unwrap();
    let pairs = path("pairs.csv");
    write(&pairs, "graph,source,target\n0,1,2\n1,0,1\n").unwrap();
    let text = "[model]\nlayers = 1\nwidth = 4\nheads = 2\nencoding = \"laplacian\"\nencoding_size = 2";
    let model = path("model.safetensors");
    Model::new(Config::from_toml(text).unwrap(), PublishedSet::Zinc.schema()).unwrap().save(&model).unwrap();
    let checkpoints = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/checkpoints");
    let manifest = path("run/checkpoint/00000001");
    std::fs::create_dir_all(&manifest).unwrap();
    write(manifest.join("manifest.json"), "{\"files\": {}}").unwrap();
    vec![
        reading("parquet", native.clone()),
        reading("json lines", lines.clone()),
        reading("tables", tables),
        simple("pairs", move || {
            let table = PairTable::read(&pairs)?;
            (0..table.rows()).try_for_each(|row| table.row(row).into_iter().try_for_each(|cell| cell.map(drop)))?;
            Ok(())
        }),
        simple("configuration", move || {
            let config = Config::from_toml(text)?;
            std::hint::black_box(config.to_toml());
            Ok(())
        }),
        simple("checkpoint zip", opening(checkpoints.join("zip.pt"))),
        simple("checkpoint pickle", opening(checkpoints.join("legacy.pt"))),
        simple("manifest", {
            let run = path("run");
            move || Ok(RunDirectory::is_finished(&run).map(drop)?)
        }),
        simple("model", {
            let model = model.clone();
            move || Ok(Model::open(&model).map(drop)?)
        }),
        writing("convert", path("copy.parquet"), {
            let out = path("copy.parquet");
            move || Ok(gt_data::write(&gt_data::read(&lines)?, &out).map(drop)?)
        }),
        writing("predict", path("predictions.csv"), {
            let out = path("predictions.csv");
            move || {
                let model = Model::open(&model)?;
                let predictions = Query::Predictions(Device::Cpu);
                query(&model.into(), &native, &out, &predictions, &QueryOptions::default())?;
                Ok(())
            }
        }),
    ]
}

/// Work that writes no file.
fn simple(name: &'static str, run: impl Fn() -> Result<(), Box<dyn Error>> + 'static) -> Work {
    Work { name, run: Box::new(run), check: Box::new(|| Ok(())) }
}

fn reading(name: &'static str, path: PathBuf) -> Work {
    simple(name, move || Ok(gt_data::read(&path).map(drop)?))
}

fn opening(path: PathBuf) -> impl Fn() -> Result<(), Box<dyn Error>> {
    move || Ok(torch::read_state_dict(&read(&path)?).map(drop)?)
}

/// Work that writes a file. Whenever the file is there, it is the whole one.
fn writing(name: &'static str, out: PathBuf, run: impl Fn() -> Result<(), Box<dyn Error>> + 'static) -> Work {
    run().unwrap();
    let whole = read(&out).unwrap();
    remove_file(&out).unwrap();
    let check = move || {
        let Ok(found) = read(&out) else { return Ok(()) };
        remove_file(&out).map_err(|error| error.to_string())?;
        match found == whole {
            true => Ok(()),
            false => Err(format!("{} has {} bytes, expected {}", out.display(), found.len(), whole.len())),
        }
    };
    Work { name, run: Box::new(run), check: Box::new(check) }
}
