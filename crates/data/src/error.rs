//! One error for everything that can be wrong with a file: always the file, and the graph, column and value where there is one.

use std::path::{Path, PathBuf};

use gt_graph::GraphError;

/// Why a data set could not be read, written, split or fetched.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The file as a whole is not what it should be.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A graph does not hold together.
    #[error("{}: graph {graph}: {source}", path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// Position in the file, from 0.
        graph: usize,
        /// What is wrong.
        source: GraphError,
    },
    /// A value of a graph is impossible.
    #[error("{}: graph {graph}, column `{column}`: {message}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Position in the file, from 0.
        graph: usize,
        /// Column, or key.
        column: String,
        /// What is wrong, with the value.
        message: String,
    },
    /// A row of a table is impossible.
    #[error("{}: row {row}, column `{column}`: {message}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Row, from 1, without the header.
        row: usize,
        /// Column.
        column: String,
        /// What is wrong, with the value.
        message: String,
    },
    /// What was asked for does not fit the data.
    #[error("{0}")]
    Request(String),
}

/// The result of everything in this crate.
pub type Result<T, E = DataError> = std::result::Result<T, E>;

impl DataError {
    pub(crate) fn file(path: &Path, message: impl Into<String>) -> Self {
        Self::File { path: path.into(), message: message.into() }
    }

    /// What is wrong with a graph, without its number, if it is one graph that is wrong.
    pub(crate) fn of_graph(&self) -> Option<String> {
        match self {
            Self::Graph { source, .. } => Some(source.to_string()),
            Self::Value { column, message, .. } => Some(format!("column `{column}`: {message}")),
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    pub(crate) fn value(path: &Path, graph: usize, column: &str, message: impl Into<String>) -> Self {
        Self::Value { path: path.into(), graph, column: column.into(), message: message.into() }
    }

    pub(crate) fn row(path: &Path, row: usize, column: &str, message: impl Into<String>) -> Self {
        Self::Row { path: path.into(), row, column: column.into(), message: message.into() }
    }
}
