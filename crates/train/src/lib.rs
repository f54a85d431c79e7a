//! From a data set to a trained model: training loop, schedules, metrics, checkpoints, evaluation,
//! prediction.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use gt_data::{SbmSet, SbmSizes};
//! use gt_models::{Config, Model};
//! use gt_nn::backend::Device;
//! use graph_transformer_train::{
//!     Prepared, Purpose, Query, QueryOptions, RunDirectory, Trainer, query,
//! };
//!
//! # let folder = tempfile::tempdir()?;
//! # let (file, place) = (folder.path().join("d.parquet"), folder.path().join("run"));
//! # let out = folder.path().join("p.csv");
//! // Data and configuration are prepared; prepared data, a device and a directory give a run.
//! let data = SbmSet::Cluster.generate(41, SbmSizes { train: 4, val: 1, test: 1 })?;
//! # gt_data::write(&data, &file)?;
//! # let nodes = data.graphs().num_nodes();
//! let text = "[model]\nlayers = 1\nwidth = 8\nheads = 2\n[train]\nepochs = 2";
//! let config = Config::from_toml(text)?;
//! let prepared = Prepared::for_training(data, &config, None)?;
//! let backend = prepared.place(&Device::Cpu)?.backend(&prepared, &config, Purpose::Training)?;
//! let run = RunDirectory::open(&place)?;
//! let trainer = Trainer::new(&prepared, &config, &run, backend, &mut ())?;
//! let outcome = trainer.run(&AtomicBool::new(false), &mut ())?;
//! assert_eq!(outcome.epochs, 2);
//! let history = run.history()?;
//! assert_eq!((history.len(), history[1].epoch), (2, 2));
//!
//! // A model file and a file of graphs are all that predictions need.
//! let model = Model::open(place.join("model.safetensors"))?;
//! let predictions = Query::Predictions(Device::Cpu);
//! let report = query(&model.into(), &file, &out, &predictions, &QueryOptions::default())?;
//! assert_eq!(report.rows, nodes as u64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
mod checkpoint;
mod class_names;
mod encodings;
mod error;
mod evaluate;
mod expected;
mod facts;
mod fingerprint;
mod init;
mod links;
mod memory;
pub mod metrics;
mod origin;
mod out_of_fold;
mod outcome;
mod pass;
mod prepared;
mod query;
mod rare;
mod report;
mod resume;
mod run;
mod schedule;
mod selection;
mod tensorboard;
mod trainer;

pub use backend::{Purpose, Resident};
pub use encodings::{CacheFile, EncodingCache};
pub use error::{ChangedKey, CheckpointProblem, DataProblem, Remedy, Result, RunProblem, TrainError};
pub use evaluate::{Scores, evaluate, evaluate_ensemble};
pub use expected::expected;
pub use facts::data_facts;
pub use init::{InitProblem, open_result};
pub use links::{Links, PairRows, predict_pairs};
pub use memory::{MemoryRemedy, TooLarge, ensure_memory};
pub use out_of_fold::{FoldPredictions, out_of_fold};
pub use outcome::{Best, EpochRecord, Observer, Outcome, Stop};
pub use prepared::Prepared;
pub use query::{NoResult, OnError, Query, QueryGraphs, QueryOptions, QueryReport, Shard, query};
pub use report::{Machine, Report, document, escape};
pub use run::RunDirectory;
pub use trainer::Trainer;
