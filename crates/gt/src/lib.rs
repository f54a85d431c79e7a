//! Graph Transformer networks (Dwivedi & Bresson, 2021) as a library and one program, `gt`.
//!
//! ```no_run
//! # fn example(
//! #     graphs: graph_transformer::graph::GraphStore,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use graph_transformer::Model;
//!
//! let model = Model::open("runs/mine/model.safetensors")?;
//! let predictions = model.predict(&graphs)?;
//! # Ok(())
//! # }
//! ```
//!
//! This crate gathers the layers; each is a crate of its own that knows only those below it:
//!
//! * [`graph`]: graphs, batches, columns and positional encodings;
//! * [`data`]: data sets, files, generators, splits and downloads;
//! * [`nn`]: the engine: kernels with explicit backward, losses, optimizers, passes on CPU and GPU;
//! * [`models`]: configurations, models and their files, predictions;
//! * [`train`]: training, metrics, checkpoints, evaluation, prediction for files of any size;
//! * [`reproduce`]: the paper's tables, trained again and compared.
//!
//! The folder `examples/` of the crate trains on graphs built in memory, predicts, watches a
//! training, and writes embeddings.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub use gt_data as data;
pub use gt_graph as graph;
pub use gt_models as models;
pub use gt_models::{Config, Model, Predictions};
pub use gt_nn as nn;
pub use gt_reproduce as reproduce;
pub use gt_train as train;
