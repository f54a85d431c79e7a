//! Which format a path means, and reading and writing by it.

use std::path::{Path, PathBuf};

use crate::dataset::Dataset;
use crate::error::{DataError, Result};
use crate::lenient::{Lenient, Readable};
use crate::scalar::Scalar;
use crate::tables::{self, TableMapping, TablePaths};
use crate::{jsonl, parquet};
use gt_graph::Schema;

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
            "csv" | "tsv" => {
                let message = "a CSV file holds one table; graphs need NAME_nodes.csv and NAME_edges.csv (give the first), or --nodes and --edges";
                Err(DataError::file(path, message))
            }
            _ => Err(DataError::file(
                path,
                "unknown format: expected .parquet, .jsonl, or tables NAME_nodes.csv, .tsv or .parquet",
            )),
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

/// Reads a data set, in the format that the path says.
///
/// # Errors
/// With file, graph, column and value of whatever is wrong.
pub fn read(path: &Path) -> Result<Dataset> {
    read_with(path, None)
}

/// Reads graphs that something is to be predicted for, leaving targets and split aside. A graph that does not hold together (a value that is not finite, an edge to
/// nowhere, a damaged line of JSON, or one with other columns) is only noted. `expected` are the columns of the model's data; they decide where a file without a schema leaves a choice.
///
/// # Errors
/// If the file as a whole cannot be read.
pub fn read_leniently(path: &Path, expected: &Schema) -> Result<Readable> {
    let mut lenient = Lenient::new(expected);
    let dataset = read_with(path, Some(&mut lenient))?;
    Ok(Readable { dataset, unusable: lenient.unusable })
}

fn read_with(path: &Path, lenient: Option<&mut Lenient>) -> Result<Dataset> {
    match Format::of(path)? {
        Format::Parquet => parquet::read(path, lenient),
        Format::JsonLines => jsonl::read(path, lenient),
        Format::Tables => tables::read_with(&TablePaths::beside(path)?.that_exist(), &TableMapping::default(), lenient),
    }
}

/// Writes a data set, in the format that the path says. The file is complete or not there.
///
/// Returns a sentence for each carried column that the format cannot hold and that was left out.
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
    let lost = dataset.extras().iter().filter(|e| format != Format::Parquet && !Scalar::has_text(e.values.data_type()));
    Ok(lost
        .map(|e| {
            format!("column `{}` ({}) has no form in {} and was left out", e.name, e.values.data_type(), path.display())
        })
        .collect())
}
