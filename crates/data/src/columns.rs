//! Names of the native columns: those of the Hugging Face graph convention, and additional ones.

/// Part that a graph belongs to (text).
pub(crate) const SPLIT: &str = "split";
/// Part that each node belongs to (list of text).
pub(crate) const NODE_SPLIT: &str = "node_split";
/// Part that each edge belongs to (list of text).
pub(crate) const EDGE_SPLIT: &str = "edge_split";
/// Number of nodes.
pub(crate) const NUM_NODES: &str = "num_nodes";
/// Features of the nodes, a list of rows. Integers are categorical, floats continuous.
pub(crate) const NODE_FEAT: &str = "node_feat";
/// Continuous features of the nodes, where `node_feat` holds the categorical ones.
pub(crate) const NODE_FEAT_FLOAT: &str = "node_feat_float";
/// A list of indices per node.
pub(crate) const NODE_MULTI_HOT: &str = "node_multi_hot";
/// Two lists: sources and targets.
pub(crate) const EDGE_INDEX: &str = "edge_index";
/// Features of the edges, like `node_feat`.
pub(crate) const EDGE_ATTR: &str = "edge_attr";
/// Continuous features of the edges, where `edge_attr` holds the categorical ones.
pub(crate) const EDGE_ATTR_FLOAT: &str = "edge_attr_float";
/// A list of indices per edge.
pub(crate) const EDGE_MULTI_HOT: &str = "edge_multi_hot";
/// Targets of graphs, nodes or edges.
pub(crate) const Y: &str = "y";
/// Laplacian encoding, a row per node.
pub(crate) const LAP_PE: &str = "lap_pe";
/// Random-walk encoding, a row per node.
pub(crate) const RW_PE: &str = "rw_pe";
/// Weisfeiler–Lehman role of each node.
pub(crate) const WL_PE: &str = "wl_pe";

/// Features of nodes, and of edges: categorical and continuous numbers, and lists of indices.
pub(crate) const NODE_FEATURES: [&str; 3] = [NODE_FEAT, NODE_FEAT_FLOAT, NODE_MULTI_HOT];
pub(crate) const EDGE_FEATURES: [&str; 3] = [EDGE_ATTR, EDGE_ATTR_FLOAT, EDGE_MULTI_HOT];

/// Names of all native columns.
pub(crate) const NATIVE: [&str; 15] = [
    SPLIT,
    NODE_SPLIT,
    EDGE_SPLIT,
    NUM_NODES,
    NODE_FEAT,
    NODE_FEAT_FLOAT,
    NODE_MULTI_HOT,
    EDGE_INDEX,
    EDGE_ATTR,
    EDGE_ATTR_FLOAT,
    EDGE_MULTI_HOT,
    Y,
    LAP_PE,
    RW_PE,
    WL_PE,
];

/// The schema: a Parquet column with the same text in every row, or a key of the first record of
/// JSON lines.
pub(crate) const SCHEMA: &str = "graph_transformer";
