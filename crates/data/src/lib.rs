//! Data sets of graphs: schemas, files, generators, splits, statistics and downloads.

mod atomic;
mod columns;
mod dataset;
mod error;
pub mod fetch;
mod format;
mod info;
mod jsonl;
mod known;
mod lenient;
mod node_count;
mod parquet;
mod random;
mod records;
mod sbm;
mod scalar;
mod split;
mod stored_schema;
mod tables;
mod target_staging;

pub use atomic::{Prepared, remove_unfinished, write_atomic, write_bytes};
pub use dataset::{Dataset, Extra, Splits};
pub use error::{DataError, Result};
pub use format::{Format, extension, files_of, read, read_leniently, write};
pub use info::{Histogram, Info, PartInfo, TargetInfo};
pub use known::{ZINC_12K, content_hash};
pub use lenient::Readable;
pub use parquet::panic_is_contained;
pub use random::Stream as RandomStream;
pub use records::Records;
pub use sbm::{SbmSet, SbmSizes};
pub use split::{Parts, SplitBy, SplitPlan, make_split, usual_level};
pub use tables::{PairTable, TableMapping, TablePaths, read_tables};
