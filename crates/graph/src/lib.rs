//! Graphs that cannot hold nonsense, batches of them, and positional encodings.
//!
//! * [`Graph`] is one checked graph, [`GraphStore`] many of them in one set of arrays, [`GraphRef`]
//!   a view of one.
//! * [`GraphBatch`] is the block-diagonal union of some graphs, indexed by target and by source;
//!   [`FullView`] sees the same nodes with every ordered pair joined.
//! * [`encoding`] holds the Laplacian, Weisfeiler–Lehman and random-walk encodings.
//!
//! This layer knows no files and no models.

mod atomic;
mod batch;
pub mod encoding;
mod error;
mod features;
mod full;
mod layout;
mod schema;
mod schema_check;
mod split;
mod store;
mod targets;

pub use atomic::{
    CompleteFile, FileId, PartialFile, commit_all, create_folder, final_path, is_stream, remove_leftovers,
    remove_unfinished, sync_folder, write_atomic,
};
pub use batch::GraphBatch;
pub use error::{GraphError, SchemaError};
pub use features::{FeatureRows, Ragged};
pub use full::FullView;
pub use layout::{FeatureLayout, Layout, Level, MISSING_CLASS, TargetKind, TargetLayout};
pub use schema::{FeatureSchema, Schema, TargetColumn, TargetSchema, Vocabulary};
pub use schema_check::SchemaProblem;
pub use split::Split;
pub use store::{Graph, GraphParts, GraphRef, GraphStore, MAX_INDEX};
pub use targets::TargetRows;
