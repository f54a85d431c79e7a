//! Formats of files: recognised by the path, and reading and writing in each of them.

pub(crate) mod jsonl;
pub(crate) mod parquet;
pub(crate) mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gt_graph::Schema;

use self::tables::{FileRoles, TablePaths};
use crate::budget::Budget;
use crate::carried::Keep;
use crate::dataset::Dataset;
use crate::error::{DataError, FileProblem, RequestProblem, Result};
use crate::raw::RawGraphs;
use crate::resolve::{Expected, Wanted};

/// A way to store graphs in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One row per graph: `.parquet`.
    Parquet,
    /// One object per graph: `.jsonl`, `.ndjson`.
    JsonLines,
    /// Tables of nodes, edges and graphs: `NAME_nodes.csv`, `.tsv` or `.parquet`.
    Tables,
}

impl Format {
    /// The format of a path, by its extension and name.
    ///
    /// # Errors
    /// If the name matches no known format.
    pub fn of(path: &Path) -> Result<Self> {
        match &*extension(path) {
            "parquet" | "csv" | "tsv" if TablePaths::is_nodes_table(path) => Ok(Format::Tables),
            "parquet" => Ok(Format::Parquet),
            "jsonl" | "ndjson" => Ok(Format::JsonLines),
            "csv" | "tsv" => Err(DataError::file(path, FileProblem::SingleTable)),
            _ => Err(DataError::file(path, FileProblem::UnknownFormat)),
        }
    }
}

/// The extension of a path, in small letters.
pub fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// The files that make up the data set at this path, whether they exist or not.
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    match (Format::of(path), TablePaths::beside(path)) {
        (Ok(Format::Tables), Ok(tables)) => {
            let schema = tables::schema_path(&tables.nodes);
            [Some(tables.nodes), Some(tables.edges), tables.graphs, Some(schema)].into_iter().flatten().collect()
        }
        _ => vec![path.into()],
    }
}

/// The size of the chunks in which a file is read. The default suits a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Most graphs of a chunk.
    pub graphs: usize,
    /// Approximate maximum of nodes and edges in a chunk. A single graph may have more.
    pub content: usize,
}

impl ChunkLimits {
    /// Chunk size for a GPU, which has setup costs for each chunk.
    pub const GPU: Self = Self { graphs: 1 << 15, content: 1 << 22 };
}

impl Default for ChunkLimits {
    fn default() -> Self {
        Self { graphs: 1024, content: 1 << 20 }
    }
}

/// Decodes a file into raw graphs, chunk by chunk.
pub(crate) enum Decoder {
    Parquet(Box<parquet::Decoder>),
    JsonLines(Box<jsonl::Decoder>),
    Tables(Box<tables::Decoder>),
}

impl Decoder {
    /// Opens a file to read the expected columns, or all columns.
    pub(crate) fn open(
        path: &Path,
        roles: &FileRoles,
        expected: Option<&Expected<'_>>,
        limits: ChunkLimits,
        keep: Option<&Keep>,
    ) -> Result<Self> {
        let format = Format::of(path)?;
        if let Some(role) = roles.of_tables().filter(|_| format != Format::Tables) {
            return Err(RequestProblem::TablesOnly { path: path.into(), role }.into());
        }
        let mut wanted = Wanted::new(expected, &roles.columns);
        if let Some(keep) = keep {
            let of_graphs = |column| DataError::file(path, FileProblem::KeptGraphs(column));
            wanted = if format == Format::Tables {
                wanted.carrying(keep)
            } else {
                wanted.keeping(keep).map_err(of_graphs)?
            };
        }
        Ok(match format {
            Format::Parquet => Self::Parquet(Box::new(parquet::Decoder::open(path, wanted, limits)?)),
            Format::JsonLines => Self::JsonLines(Box::new(jsonl::Decoder::open(path, wanted, limits)?)),
            Format::Tables => Self::tables(&TablePaths::beside(path)?.that_exist(), roles, expected, limits, &wanted)?,
        })
    }

    /// Opens tables with given paths.
    pub(crate) fn tables(
        paths: &TablePaths,
        roles: &FileRoles,
        expected: Option<&Expected<'_>>,
        limits: ChunkLimits,
        wanted: &Wanted,
    ) -> Result<Self> {
        Ok(Self::Tables(Box::new(tables::Decoder::open(paths, roles, expected, limits, wanted)?)))
    }

    /// Returns the next graphs.
    pub(crate) fn next(&mut self) -> Result<Option<RawGraphs>> {
        match self {
            Self::Parquet(decoder) => decoder.next(),
            Self::JsonLines(decoder) => decoder.next(),
            Self::Tables(decoder) => Ok(decoder.next()),
        }
    }

    /// The schema that the file states. It is known after the first call of `next`.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match self {
            Self::Parquet(decoder) => decoder.schema(),
            Self::JsonLines(decoder) => decoder.schema(),
            Self::Tables(decoder) => decoder.schema(),
        }
    }

    /// Expected numbers of nodes and edges, limited by what the size of the file justifies.
    pub(crate) fn room(&self) -> (usize, usize) {
        match self {
            Self::Parquet(decoder) => decoder.room(),
            Self::JsonLines(_) | Self::Tables(_) => (0, 0),
        }
    }

    /// The budget of the file; of tables, that of the table of nodes.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        match self {
            Self::Parquet(decoder) => decoder.budget(),
            Self::JsonLines(decoder) => decoder.budget(),
            Self::Tables(decoder) => decoder.budget(),
        }
    }
}

/// Writes a data set in the format of the path. An incomplete file never appears under the path.
///
/// Returns a message for each carried column that the format cannot hold and leaves out.
///
/// # Errors
/// If the file cannot be written.
pub fn write(dataset: &Dataset, path: &Path) -> Result<Vec<String>> {
    let format = Format::of(path)?;
    match format {
        Format::Parquet => parquet::write(dataset, path)?,
        Format::JsonLines => jsonl::write(dataset, path)?,
        Format::Tables => tables::write(dataset, path)?,
    }
    let lost = dataset.extras().iter().filter(|extra| format != Format::Parquet && !extra.has_text());
    let lost = lost.map(|extra| {
        let (name, kind) = (extra.name(), extra.kind());
        format!("column \"{name}\" ({kind}) has no form in {} and was left out", path.display())
    });
    Ok(lost.collect())
}
