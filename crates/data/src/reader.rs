//! Reading files: as a whole for training and evaluation, in chunks for predictions.
//!
//! Both readers decode and check in the same way. A reader of whole files stops at the first graph
//! that cannot be used. A reader of chunks continues, and reports the reason.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gt_graph::{GraphStore, Level};

use crate::carried::{Carried, CarriedColumns, Keep};
use crate::choice::ColumnChoice;
use crate::dataset::Dataset;
use crate::error::{DataError, FileProblem, Result};
use crate::extra::Extra;
use crate::formats::tables::{FileRoles, TablePaths};
use crate::formats::{ChunkLimits, Decoder};
use crate::raw::{RawGraphs, TableRows};
use crate::reason::Reason;
use crate::resolve::{Expected, Rejected, Resolver, Wanted};

/// Reads a data set in the format of the path.
///
/// # Errors
/// If a value cannot be used. The error names file, graph, column and value of the first problem.
///
/// ```
/// use graph_transformer_data::{SbmSet, SbmSizes, read, write};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("cluster.parquet");
/// write(&SbmSet::Cluster.generate(1, SbmSizes { train: 4, val: 1, test: 1 })?, &path)?;
/// let data = read(&path)?;
/// assert_eq!(data.graphs().len(), 6);
/// assert_eq!(data.split().unwrap().rows("train"), [0, 1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(path: &Path) -> Result<Dataset> {
    read_with(path, &FileRoles::default())
}

/// Reads the columns of a data set that the user chooses.
///
/// # Errors
/// If a column does not exist or is named in two roles, or a value cannot be used. The error names
/// file, graph, column and value of the first problem.
pub fn read_with(path: &Path, roles: &FileRoles) -> Result<Dataset> {
    roles.columns.check()?;
    read_whole(path, Decoder::open(path, roles, None, ChunkLimits::default(), None)?, None, &roles.columns)
}

/// Reads a data set for a model. Columns are matched by name if the file names them, otherwise by
/// position.
///
/// # Errors
/// If a value cannot be used, or the model does not know it. The error names file, graph, column
/// and value of the first problem.
///
/// ```
/// use std::borrow::Cow;
///
/// use graph_transformer_data::{DataError, Expected, Labels, Problem, Reason, read_expecting};
/// use gt_graph::{FeatureSchema, Schema, Vocabulary};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("two.jsonl");
/// std::fs::write(
///     &path,
///     "{\"node_feat\": [[1.0]], \"edge_index\": []}\n\
///      {\"node_feat\": [[5]], \"edge_index\": []}\n",
/// )?;
/// let kind = Vocabulary::new("kind", 3);
/// let schema = Schema {
///     node: FeatureSchema { categorical: vec![kind], ..Default::default() },
///     ..Default::default()
/// };
/// let expected =
///     Expected { schema: Cow::Borrowed(&schema), encoding: None, labels: Labels::Ignore };
/// let Err(DataError::Graph { graph: 1, reason: Reason::Cell { problem, .. }, .. }) =
///     read_expecting(&path, &expected)
/// else { panic!("the second graph has an unknown category") };
/// let beyond = Problem::BeyondVocabulary { value: 5, size: 3 };
/// assert_eq!(problem, Problem::Untrained(Box::new(beyond)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_expecting(path: &Path, expected: &Expected<'_>) -> Result<Dataset> {
    let roles = FileRoles::default();
    read_whole(
        path,
        Decoder::open(path, &roles, Some(expected), ChunkLimits::default(), None)?,
        Some(expected),
        &roles.columns,
    )
}

/// Reads a table of nodes, a table of edges, and optionally a table of graphs.
///
/// # Errors
/// If a value cannot be used. The error names file, row and column.
///
/// ```
/// use graph_transformer_data::{ColumnChoice, FileRoles, TablePaths, read_tables};
///
/// let folder = tempfile::tempdir()?;
/// let (nodes, edges) = (folder.path().join("people.csv"), folder.path().join("friends.csv"));
/// std::fs::write(&nodes, "person,age\nann,31\nbob,44\n")?;
/// std::fs::write(&edges, "src,dst\nann,bob\n")?;
/// let columns = ColumnChoice { continuous: vec!["age".into()], ..Default::default() };
/// let roles = FileRoles {
///     node: Some("person".into()),
///     undirected: true,
///     columns,
///     ..Default::default()
/// };
/// let data = read_tables(&TablePaths { nodes, edges, graphs: None }, &roles)?;
/// assert_eq!(data.graphs().graph(0).node().continuous, [31.0, 44.0]);
/// assert_eq!(data.graphs().num_edges(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_tables(paths: &TablePaths, roles: &FileRoles) -> Result<Dataset> {
    roles.columns.check()?;
    let wanted = Wanted::new(None, &roles.columns);
    let decoder = Decoder::tables(paths, roles, None, ChunkLimits::default(), &wanted)?;
    read_whole(&paths.nodes, decoder, None, &roles.columns)
}

fn read_whole(
    path: &Path,
    mut decoder: Decoder,
    expected: Option<&Expected<'_>>,
    choice: &ColumnChoice,
) -> Result<Dataset> {
    let mut resolver = Resolver::new(expected, choice, decoder.room(), decoder.budget());
    let mut first = 0;
    let mut origin = None;
    let mut carried = CarriedColumns::default();
    while let Some(mut raw) = decoder.next()? {
        origin.clone_from(&raw.origin);
        begin(&mut resolver, &raw, &decoder, path)?;
        for graph in 0..raw.count {
            let judged = resolver.push(&raw, graph);
            judged.map_err(|rejected| locate(path, raw.origin.as_deref(), first + graph, rejected.reason))?;
        }
        carried.push(std::mem::take(&mut raw.carried), raw.count);
        first += raw.count;
    }
    if first == 0 {
        return Err(DataError::file(path, FileProblem::NoGraph));
    }
    let extras = carried.finish().map_err(|problem| DataError::file(path, problem))?;
    let names: Vec<&str> = extras.iter().map(Extra::name).collect();
    let resolved = resolver.finish(&names).map_err(|problem| DataError::file(path, problem))?;
    let resolved = resolved.map_err(|(graph, reason)| locate(path, origin.as_deref(), graph, reason))?;
    Dataset::from_file(path, resolved, extras)
}

fn begin(resolver: &mut Resolver, raw: &RawGraphs, decoder: &Decoder, path: &Path) -> Result<()> {
    resolver.begin(raw, decoder.schema()).map_err(|(level, problem)| {
        let table = raw.origin.as_ref().filter(|_| level != Level::Graph);
        DataError::file(table.map_or(path, |origin| &origin.paths[level as usize]), problem)
    })
}

/// Builds the error of a graph. Errors in tables name the row.
fn locate(path: &Path, origin: Option<&TableRows>, graph: usize, reason: Reason) -> DataError {
    match (origin, reason) {
        (Some(origin), Reason::Cell { level, row, column, problem }) => {
            let at = origin.offsets[level as usize][graph] + row;
            let row = origin.rows[level as usize][at] + 1;
            DataError::Row { path: origin.paths[level as usize].clone(), row, column, problem }
        }
        (_, reason) => DataError::graph(path, graph, reason),
    }
}

/// Reads graphs chunk by chunk for predictions. Memory is bounded by the size of a chunk and the
/// largest graph, except for tables, which are read as a whole. A graph that cannot be used does
/// not affect the other graphs.
///
/// After an error the reader returns nothing more. Targets are read if `expected` includes labels
/// and its schema has targets; splits are not read.
///
/// ```
/// use std::borrow::Cow;
///
/// use graph_transformer_data::{Expected, GraphReader, Labels};
/// use gt_graph::{FeatureSchema, Schema, Vocabulary};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("three.jsonl");
/// let lines = [
///     r#"{"node_feat": [[0], [2]], "edge_index": [[0, 1], [1, 0]]}"#,
///     r#"{"node_feat": [[0], [-2]], "edge_index": [[], []]}"#,
///     r#"{"node_feat": [[1]], "edge_index": [[], []]}"#,
/// ];
/// std::fs::write(&path, lines.join("\n"))?;
/// let kind = Vocabulary::new("kind", 3);
/// let schema = Schema {
///     node: FeatureSchema { categorical: vec![kind], ..Default::default() },
///     ..Default::default()
/// };
/// let expected =
///     Expected { schema: Cow::Borrowed(&schema), encoding: None, labels: Labels::Ignore };
/// for chunk in GraphReader::open(&path, &expected)? {
///     let chunk = chunk?;
///     assert_eq!(chunk.graphs.len(), 2);
///     let reason = &chunk.results[1].as_ref().unwrap_err().reason;
///     assert_eq!(
///         reason.to_string(),
///         "node 1, column \"kind\": -2 is not a category (0, 1, 2, …)"
///     );
///     assert_eq!(chunk.results[2], Ok(1));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GraphReader {
    path: PathBuf,
    /// `None` after the last chunk and after an error.
    decoder: Option<Decoder>,
    resolver: Resolver,
    first: usize,
    /// Rows of the graphs in tables, known after the first chunk.
    origin: Option<Arc<TableRows>>,
    /// Names of the carried columns, known after the first chunk.
    carried: Option<HashSet<String>>,
}

/// Consecutive graphs of a file.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Position in the file of the first graph.
    pub first: usize,
    /// The usable graphs, in order, with the expected encoding if the file has it.
    pub graphs: GraphStore,
    /// For each graph its position in `graphs`, or why it cannot be used.
    pub results: Vec<Result<usize, Rejected>>,
    /// The columns to keep, with values for all graphs of the chunk. Every chunk has the same
    /// columns.
    pub kept: Vec<Carried>,
}

impl GraphReader {
    /// Opens a file in the format of the path.
    ///
    /// # Errors
    /// If the file as a whole cannot be read.
    pub fn open(path: &Path, expected: &Expected<'_>) -> Result<Self> {
        Self::open_with(path, expected, ChunkLimits::default(), &Keep::default())
    }

    /// Opens a file that is read in chunks of a given size, and keeps columns that no model reads.
    ///
    /// ```
    /// use std::borrow::Cow;
    ///
    /// use graph_transformer_data::{ChunkLimits, Expected, GraphReader, Keep, Labels};
    /// use gt_graph::Schema;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("five.jsonl");
    /// std::fs::write(&path, "{\"num_nodes\": 2, \"edge_index\": [[0], [1]]}\n".repeat(5))?;
    /// let schema = Cow::Owned(Schema::default());
    /// let expected = Expected { schema, encoding: None, labels: Labels::Ignore };
    ///
    /// let limits = ChunkLimits { graphs: 2, ..Default::default() };
    /// let mut sizes = Vec::new();
    /// for chunk in GraphReader::open_with(&path, &expected, limits, &Keep::default())? {
    ///     let chunk = chunk?;
    ///     sizes.push((chunk.first, chunk.graphs.len()));
    /// }
    /// assert_eq!(sizes, [(0, 2), (2, 2), (4, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    /// # Errors
    /// If the file as a whole cannot be read.
    pub fn open_with(path: &Path, expected: &Expected<'_>, limits: ChunkLimits, keep: &Keep) -> Result<Self> {
        let roles = FileRoles::default();
        let decoder = Decoder::open(path, &roles, Some(expected), limits, Some(keep))?;
        // A chunk does not need memory for the whole file.
        let resolver = Resolver::new(Some(expected), &roles.columns, (0, 0), decoder.budget());
        Ok(Self { path: path.into(), decoder: Some(decoder), resolver, first: 0, origin: None, carried: None })
    }

    /// The error of a graph that cannot be used. In tables it names the row.
    pub fn error(&self, graph: usize, reason: Reason) -> DataError {
        locate(&self.path, self.origin.as_deref(), graph, reason)
    }

    /// Checks that a chunk has the carried columns of the first chunk.
    fn check_names(&mut self, kept: &[Carried], graph: usize) -> Result<()> {
        let names = || kept.iter().map(|column| column.name().to_owned());
        let known = self.carried.get_or_insert_with(|| names().collect());
        match names().find(|name| !known.contains(name)) {
            Some(key) => Err(DataError::file(&self.path, FileProblem::LateKey { key, graph })),
            None => Ok(()),
        }
    }

    fn read(&mut self, decoder: &mut Decoder) -> Result<Option<Chunk>> {
        let Some(mut raw) = decoder.next()? else {
            let empty = self.first == 0;
            return if empty { Err(DataError::file(&self.path, FileProblem::NoGraph)) } else { Ok(None) };
        };
        begin(&mut self.resolver, &raw, decoder, &self.path)?;
        self.origin.clone_from(&raw.origin);
        let results = (0..raw.count).map(|graph| self.resolver.push(&raw, graph)).collect();
        let graphs = self.resolver.take().map_err(|problem| DataError::file(&self.path, problem))?;
        let first = self.first;
        self.first += raw.count;
        let kept = std::mem::take(&mut raw.carried);
        self.check_names(&kept, first)?;
        Ok(Some(Chunk { first, graphs, results, kept }))
    }
}

impl Iterator for GraphReader {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut decoder = self.decoder.take()?;
        let chunk = self.read(&mut decoder).transpose()?;
        self.decoder = Some(decoder).filter(|_| chunk.is_ok());
        Some(chunk)
    }
}
