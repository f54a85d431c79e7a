//! Which format a path means, and reading and writing by it.

pub(crate) mod jsonl;
pub(crate) mod parquet;
pub(crate) mod tables;

use std::path::{Path, PathBuf};

use gt_graph::Schema;

use self::tables::{TableMapping, TablePaths};
use crate::dataset::Dataset;
use crate::error::{DataError, FileProblem, Result};
use crate::extra::Extra;
use crate::raw::RawGraphs;
use crate::resolve::Expected;

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
    /// The format that a path's name says.
    ///
    /// # Errors
    /// If it says none.
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

/// How a path's name ends, in small letters.
pub fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// The files that make up the data set which is read by this path, whether they exist or not.
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
    /// Most graphs.
    pub graphs: usize,
    /// Most nodes and edges, roughly. A single graph may have more.
    pub content: usize,
}

impl ChunkLimits {
    /// Chunks for a GPU, which sets up its work anew for each of them.
    pub const GPU: Self = Self { graphs: 1 << 15, content: 1 << 22 };
}

impl Default for ChunkLimits {
    fn default() -> Self {
        Self { graphs: 1024, content: 1 << 20 }
    }
}

/// A file that is turned into raw graphs, chunk by chunk.
pub(crate) enum Decoder {
    Parquet(Box<parquet::Decoder>),
    JsonLines(Box<jsonl::Decoder>),
    Tables(Box<tables::Decoder>),
}

impl Decoder {
    /// Opens a file, for what is expected or for everything in it.
    pub(crate) fn open(path: &Path, expected: Option<&Expected<'_>>, limits: ChunkLimits) -> Result<Self> {
        Ok(match Format::of(path)? {
            Format::Parquet => Self::Parquet(Box::new(parquet::Decoder::open(path, expected, limits)?)),
            Format::JsonLines => Self::JsonLines(Box::new(jsonl::Decoder::open(path, expected, limits)?)),
            Format::Tables => {
                let paths = TablePaths::beside(path)?.that_exist();
                Self::tables(&paths, &TableMapping::default(), expected, limits)?
            }
        })
    }

    /// Opens tables under any names.
    pub(crate) fn tables(
        paths: &TablePaths,
        mapping: &TableMapping,
        expected: Option<&Expected<'_>>,
        limits: ChunkLimits,
    ) -> Result<Self> {
        Ok(Self::Tables(Box::new(tables::Decoder::open(paths, mapping, expected, limits)?)))
    }

    /// The next graphs.
    pub(crate) fn next(&mut self) -> Result<Option<RawGraphs>> {
        match self {
            Self::Parquet(decoder) => decoder.next(),
            Self::JsonLines(decoder) => decoder.next(),
            Self::Tables(decoder) => Ok(decoder.next()),
        }
    }

    /// The schema that the file states; known when the first graphs are.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match self {
            Self::Parquet(decoder) => decoder.schema(),
            Self::JsonLines(decoder) => decoder.schema(),
            Self::Tables(decoder) => decoder.schema(),
        }
    }

    /// Numbers of nodes and edges to come, as far as the file justifies them.
    pub(crate) fn room(&self) -> (usize, usize) {
        match self {
            Self::Parquet(decoder) => decoder.room(),
            Self::JsonLines(_) | Self::Tables(_) => (0, 0),
        }
    }

    /// Columns carried along, of all graphs.
    pub(crate) fn extras(self) -> Result<Vec<Extra>> {
        match self {
            Self::Parquet(decoder) => decoder.extras(),
            Self::JsonLines(decoder) => Ok(decoder.extras()),
            Self::Tables(decoder) => decoder.extras(),
        }
    }
}

/// Writes a data set, in the format that the path says. The file is complete or not there.
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
