//! Graph Transformer networks (Dwivedi & Bresson, 2021) as a library and one program, `gt`.
//!
//! This crate gathers the layers; each is a crate of its own that knows only those below it:
//!
//! * [`graph`]: graphs, batches and positional encodings;
//! * [`data`]: data sets, files, generators, splits and downloads;
//! * [`nn`]: the engine: kernels with explicit backward, losses, optimisers;
//! * [`models`]: configurations, the Graph Transformer's initial weights and parameter names, model files;
//! * [`train`]: training, metrics, checkpoints, evaluation;
//! * [`reproduce`]: the paper's tables, trained again and compared.
//!
//! ```
//! use graph_transformer::data::{SbmSet, SbmSizes};
//! use graph_transformer::graph::encoding::{Laplacian, encode_all};
//!
//! // A small CLUSTER set, and two Laplacian coordinates for each of its nodes.
//! let set = SbmSet::Cluster.generate(41, SbmSizes { train: 3, val: 1, test: 1 })?;
//! let coordinates = encode_all(&Laplacian::new(2), set.graphs()).unwrap();
//! assert_eq!(coordinates.len(), 2 * set.graphs().num_nodes());
//! # Ok::<(), graph_transformer::data::DataError>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub use gt_data as data;
pub use gt_graph as graph;
pub use gt_models as models;
pub use gt_nn as nn;
pub use gt_reproduce as reproduce;
pub use gt_train as train;
