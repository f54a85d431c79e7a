//! JSON lines: one object per graph, with the same keys as the native Parquet columns.
//!
//! ```json
//! {"num_nodes": 3, "node_feat": [[8], [1], [1]], "edge_index": [[0, 1, 0, 2], [1, 0, 2, 0]], "y": [0.3], "split": "train"}
//! ```
//!
//! Numbers written as integers are categories (features) or classes (`y`). A single real number
//! makes its column, or `y`, continuous. The first record may state the schema under the key
//! `graph_transformer`. For a file without a schema, one is inferred from the contents.

mod column;
mod decode;
mod records;
mod write;

pub(crate) use decode::Decoder;
pub(crate) use write::write;
