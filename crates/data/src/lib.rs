//! Data sets of graphs: files, generators, splits, statistics and downloads.
//!
//! Every file format is decoded into raw columns, which one module checks. Use [`read`] for
//! training, [`read_expecting`] for a model, and [`GraphReader`] for predictions chunk by chunk.

#[cfg(test)]
extern crate self as graph_transformer_data;

mod atomic;
mod budget;
mod carried;
mod choice;
mod columns;
mod dataset;
mod error;
mod extra;
pub mod fetch;
mod findings;
mod folds;
mod formats;
mod info;
mod known;
mod random;
mod raw;
mod reader;
mod reason;
mod record_writer;
mod records;
mod resolve;
mod sbm;
mod scalar;
mod split;
mod stored_schema;

pub use atomic::{prepare_bytes, write_bytes};
pub use budget::raise_decoded_limit;
pub use carried::{Carried, Keep, KeptColumns};
pub use choice::{ColumnChoice, Task};
pub use dataset::{Dataset, Splits};
pub use error::{DataError, FileProblem, RequestProblem, Result};
pub use extra::Extra;
pub use findings::{Findings, TargetFindings};
pub use folds::{FoldPlan, are_folds, make_fold};
pub use formats::parquet::panic_is_contained;
pub use formats::tables::{FileRoles, PairTable, TablePaths};
pub use formats::{ChunkLimits, Format, extension, files_of, write};
pub use info::{Histogram, Info, PartInfo, TargetInfo};
pub use known::{ZINC_12K, content_hash};
pub use random::Stream as RandomStream;
pub use reader::{Chunk, GraphReader, read, read_expecting, read_tables, read_with};
pub use reason::{KnownNames, Number, Problem, Reason};
pub use record_writer::RecordWriter;
pub use records::Records;
pub use resolve::{Expected, ExpectedEncoding, Labels, Rejected};
pub use sbm::{SbmSet, SbmSizes};
pub use split::{Parts, SplitBy, SplitPlan, make_split, usual_level};
