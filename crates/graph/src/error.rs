//! The problems of a graph, each with its position and value.

use crate::layout::{Level, TargetKind};

/// Why a graph, or a set of encodings for it, was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GraphError {
    /// Source and target lists differ in length.
    #[error("edge list has {sources} sources but {targets} targets")]
    EdgeListLengths {
        /// Number of sources.
        sources: usize,
        /// Number of targets.
        targets: usize,
    },
    /// An edge names a node that does not exist.
    #[error("edge {edge} {verb} node {node}, but the graph has {num_nodes} nodes", verb = if *.is_source { "starts at" } else { "points to" })]
    EdgeOutOfRange {
        /// Position in the edge list.
        edge: usize,
        /// The missing node.
        node: u32,
        /// Number of nodes of the graph.
        num_nodes: usize,
        /// Whether it is the edge's source (else its target).
        is_source: bool,
    },
    /// More nodes or edges than 32-bit indices can name.
    #[error("{count} {what} are more than the {limit} that one graph or batch can hold")]
    TooLarge {
        /// `nodes` or `edges`.
        what: &'static str,
        /// Number found.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A feature or target array does not have one value per row and column.
    #[error("{level} {what}: {found} values for {rows} rows of {columns} columns")]
    Length {
        /// Level of the array.
        level: Level,
        /// Which array.
        what: &'static str,
        /// Values found.
        found: usize,
        /// Rows expected.
        rows: usize,
        /// Columns expected.
        columns: usize,
    },
    /// A continuous feature or a float target is infinite, or a feature is NaN.
    #[error("{level} {row}, {what} column {column}: {value} is not a finite number")]
    NotFinite {
        /// Level of the array.
        level: Level,
        /// Which array.
        what: &'static str,
        /// Row.
        row: usize,
        /// Column.
        column: usize,
        /// The value.
        value: f32,
    },
    /// A multi-hot feature does not have one offset more than there are rows.
    #[error("{level} multi-hot offsets: {found} offsets for {rows} rows; {} are needed", rows + 1)]
    OffsetCount {
        /// Level of the array.
        level: Level,
        /// Offsets found.
        found: usize,
        /// Rows of the level.
        rows: usize,
    },
    /// An offset of a multi-hot feature is less than the offset before.
    #[error("{level} multi-hot offsets: row {row} ends before it begins")]
    OffsetOrder {
        /// Level of the array.
        level: Level,
        /// The row between the two offsets.
        row: usize,
    },
    /// The offsets of a multi-hot feature span more or fewer indices than there are.
    #[error("{level} multi-hot offsets: they span {spanned} indices, but there are {found}")]
    OffsetSpan {
        /// Level of the array.
        level: Level,
        /// Indices between the first and the last offset.
        spanned: usize,
        /// Indices found.
        found: usize,
    },
    /// A graph has a multi-hot feature and the set has none, or the other way round.
    #[error(
        "{level} multi-hot features differ from those of the other graphs: {} here, {} there",
        if *expected { "absent" } else { "present" },
        if *expected { "present" } else { "absent" }
    )]
    MultiHotMismatch {
        /// Level of the feature.
        level: Level,
        /// Whether the set has the feature.
        expected: bool,
    },
    /// A graph has targets of another kind than the set that it is added to.
    #[error(
        "targets differ from those of the other graphs: {} here, {} there",
        found.map_or("absent", TargetKind::name),
        expected.map_or("absent", TargetKind::name)
    )]
    TargetMismatch {
        /// Kind of the graph's targets; none if the graph has no targets.
        found: Option<TargetKind>,
        /// Kind of the set's targets; none if the set has no targets.
        expected: Option<TargetKind>,
    },
    /// An eigenvalue solver did not converge.
    #[error(
        "{pairs} eigenpairs of a component of {nodes} nodes did not converge: residual {residual:.1e} after {iterations} iterations"
    )]
    NotConverged {
        /// Nodes of the component.
        nodes: usize,
        /// Pairs requested.
        pairs: usize,
        /// Largest residual reached.
        residual: f64,
        /// Iterations done.
        iterations: usize,
    },
}

/// A category, index or class that a schema does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("graph {graph}, column \"{column}\": {value} is beyond its vocabulary of {size} entries")]
pub struct SchemaError {
    /// Position of the graph, from 0.
    pub graph: usize,
    /// Name of the column.
    pub column: String,
    /// The value.
    pub value: usize,
    /// Values are smaller than this.
    pub size: usize,
}
