//! From a data set to a trained model: the loop, schedules, metrics, checkpoints, evaluation.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use gt_data::{SbmSet, SbmSizes};
//! use gt_models::{Config, ModelHeader};
//! use gt_nn::cpu::Isa;
//! use graph_transformer_train::{Inputs, RunDirectory, Task, Training, predict, schema_of};
//!
//! # let folder = tempfile::tempdir()?;
//! # let (file, place) = (folder.path().join("data.parquet"), folder.path().join("run"));
//! // Data and configuration give a task; a task and a directory give a run.
//! let data = SbmSet::Cluster.generate(41, SbmSizes { train: 4, val: 1, test: 1 })?;
//! let config = Config::from_toml("[model]\nlayers = 1\nwidth = 8\nheads = 2\n[train]\nepochs = 2")?;
//! let task = Task::new(&data, &config, None)?;
//! let run = RunDirectory::open(&place)?;
//! let outcome = Training::new(&task, &config, &run, &mut ())?.run(&AtomicBool::new(false), &mut ())?;
//! assert_eq!(outcome.epochs, 2);
//!
//! // A model file is all that predictions need beside graphs.
//! gt_data::write(&data, &file)?;
//! let (header, mut engine) = ModelHeader::open(&std::fs::read(place.join("model.safetensors"))?, Isa::detect())?;
//! let mut inputs = Inputs::new(gt_data::read_leniently(&file, &schema_of(&header))?, &header, None)?;
//! let rows = predict(&mut engine, &header, &mut inputs)?.rows();
//! assert_eq!(rows, data.graphs().num_nodes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attention;
mod batches;
mod card;
mod checkpoint;
mod embed;
mod encodings;
mod error;
mod evaluate;
mod inputs;
mod links;
mod memory;
pub mod metrics;
mod outcome;
mod predict;
mod report;
mod resume;
mod run;
mod schedule;
mod task;
mod tensorboard;
mod training;

pub use attention::{GraphAttention, attention};
pub use card::{Card, CardData};
pub use embed::embed;
pub use encodings::ensure_encodings;
pub use error::{Result, TrainError};
pub use evaluate::{Scores, evaluate};
pub use inputs::{Inputs, schema_of};
pub use links::{Links, PairInputs, predict_pairs, score_pairs};
pub use memory::{ensure_memory, gigabytes, memory};
pub use outcome::{Best, EpochRecord, Observer, Outcome, Stop};
pub use predict::{predict, predict_on};
pub use report::{Machine, Report, document, escape};
pub use run::RunDirectory;
pub use schedule::ScheduleState;
pub use task::{Part, Task, check_fit, shape_of, unscale};
pub use training::Training;
