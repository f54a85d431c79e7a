//! One error type for this crate. Each error names the file, and where they are known the graph,
//! column and value.

use std::path::{Path, PathBuf};

use gt_graph::{FeatureLayout, GraphError, Level, SchemaError, TargetLayout};

use crate::budget::{LONGEST_CELL, LONGEST_LINE, MOST_COLUMNS};
use crate::reason::{Problem, Reason};

/// Why a data set could not be read, written, split or fetched.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The operating system reports an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file as a whole cannot be used.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: FileProblem,
    },
    /// A graph cannot be used.
    #[error("{}: graph {graph}{}{reason}", path.display(), separator(reason))]
    Graph {
        /// The file.
        path: PathBuf,
        /// Position in the file, from 0.
        graph: usize,
        /// What is wrong.
        reason: Reason,
    },
    /// A row of a table cannot be used.
    #[error("{}: row {row}, column \"{column}\": {problem}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Row, from 1, without the header.
        row: usize,
        /// Column.
        column: String,
        /// What is wrong with the row.
        problem: Problem,
    },
    /// The request does not fit the data.
    #[error(transparent)]
    Request(#[from] RequestProblem),
}

/// Returns the text between a graph's number and a reason: a comma before a position in the graph,
/// otherwise a colon.
fn separator(reason: &Reason) -> &'static str {
    if matches!(reason, Reason::Cell { .. } | Reason::Column { .. } | Reason::Line { .. }) { ", " } else { ": " }
}

/// The result of fallible functions in this crate.
pub type Result<T, E = DataError> = std::result::Result<T, E>;

impl DataError {
    pub(crate) fn file(path: &Path, problem: FileProblem) -> Self {
        Self::File { path: path.into(), problem }
    }

    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    pub(crate) fn graph(path: &Path, graph: usize, reason: Reason) -> Self {
        Self::Graph { path: path.into(), graph, reason }
    }

    pub(crate) fn row(path: &Path, row: usize, column: &str, problem: Problem) -> Self {
        Self::Row { path: path.into(), row, column: column.into(), problem }
    }
}

/// What is wrong with a file as a whole.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FileProblem {
    /// The file name ends in no known format of graphs.
    #[error("unknown format; expected .parquet, .jsonl, or tables NAME_nodes.csv, .tsv or .parquet")]
    UnknownFormat,
    /// The file name ends in no known format of rows.
    #[error("unknown format; expected .parquet, .csv, .tsv or .jsonl")]
    UnknownRowFormat,
    /// The file name ends in no known format of tables.
    #[error("a table should be a .csv, .tsv or .parquet file")]
    NotATable,
    /// A single table where a set of tables is needed.
    #[error(
        "a CSV file holds one table; graphs need NAME_nodes.csv and NAME_edges.csv (give the first), or gt data convert --nodes --edges"
    )]
    SingleTable,
    /// A table of nodes whose name does not end in `nodes`.
    #[error("a table of nodes should be named NAME_nodes.csv or NAME_nodes.parquet, next to NAME_edges")]
    NotANodesTable,
    /// There is no graph.
    #[error("there is no graph in it")]
    NoGraph,
    /// The contents take more memory than the file may claim.
    #[error(
        "its contents take {} of memory or more, and the limit is {}; if you trust the file, allow more with GT_MAX_DECODED={}",
        Size(*decoded), Size(*limit), Size(*decoded).generous()
    )]
    TooMuch {
        /// Bytes that the contents take, as far as they are known.
        decoded: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// More columns than a file may have.
    #[error("it has more than {MOST_COLUMNS} columns")]
    TooManyColumns,
    /// A line that is too long.
    #[error("line {line} has more than {}; write such graphs as Parquet", Size(LONGEST_LINE))]
    LongLine {
        /// Line, from 1.
        line: usize,
    },
    /// A cell that is too long.
    #[error("line {line}: a cell has more than {}", Size(LONGEST_CELL))]
    LongCell {
        /// Line, from 1.
        line: usize,
    },
    /// A first line of a text table that is too long.
    #[error("its first line has more than {}; it should hold the names of the columns", Size(LONGEST_CELL))]
    LongHeader,
    /// There are no columns.
    #[error("it is empty; a table begins with the names of its columns")]
    NoColumns,
    /// There are no rows.
    #[error("it has no rows")]
    NoRows,
    /// A Parquet file that cannot be decoded.
    #[error("not a readable Parquet file: {0}")]
    Parquet(String),
    /// A line of a CSV file has another number of cells than the header.
    #[error("line {line} has {found} cells, the header has {expected}")]
    CellCount {
        /// Line, from 1.
        line: u64,
        /// Cells found.
        found: u64,
        /// Cells of the header.
        expected: u64,
    },
    /// A line is not UTF-8 text.
    #[error("line {0} is not UTF-8 text")]
    NotUtf8(u64),
    /// A quote that is never closed.
    #[error("line {0}: a cell begins with a quote that is never closed")]
    OpenQuote(usize),
    /// A CSV file that cannot be read.
    #[error("{0}")]
    Csv(String),
    /// A key to keep that no record has.
    #[error("no record has the key \"{0}\", which --keep names")]
    MissingKey(String),
    /// A column to keep that holds the graphs themselves.
    #[error("the column \"{0}\" holds the graphs; --keep copies other columns, such as ids and names")]
    KeptGraphs(String),
    /// A column to keep whose type has no form as text.
    #[error("the column \"{column}\" ({kind}) has no form as text; write a .parquet file, or keep other columns")]
    NoTextForm {
        /// The column.
        column: String,
        /// Its type.
        kind: String,
    },
    /// A key that first occurs after the columns of the output are fixed.
    #[error(
        "graph {graph} and those after it have a key \"{key}\" that no graph before has; name the keys to keep: --keep {key},…"
    )]
    LateKey {
        /// The key.
        key: String,
        /// Position in the file of a graph at or before the first one with the key.
        graph: usize,
    },
    /// A required column is missing.
    #[error("there is no column \"{column}\"; there are \"{}\"{hint}", found.join("\", \""))]
    MissingColumn {
        /// The column.
        column: String,
        /// Columns found.
        found: Vec<String>,
        /// A hint at a possible solution.
        hint: &'static str,
    },
    /// A column that the model does not have.
    #[error("column \"{0}\": the model has no such column; leave it out")]
    UnknownColumn(String),
    /// Two columns of one name.
    #[error("two columns are named \"{0}\"")]
    SameName(String),
    /// A column of a type that its role does not allow.
    #[error("column \"{column}\" should hold {expected}, but holds {found}")]
    ColumnType {
        /// The column.
        column: String,
        /// The expected type.
        expected: &'static str,
        /// The type that was found.
        found: String,
    },
    /// A column of names where the model reads numbers.
    #[error("column \"{0}\" holds names, and numbers are expected")]
    TextColumn(String),
    /// A target of names that the user declares a number.
    #[error("the target \"{0}\" holds names, and names cannot be predicted as numbers; use --task classification")]
    TextTarget(String),
    /// Targets of two kinds.
    #[error(
        "the target \"{classes}\" holds classes and the target \"{numbers}\" holds numbers; predict one kind at a time: choose columns with --target"
    )]
    MixedTargets {
        /// A column of classes.
        classes: String,
        /// A column of numbers.
        numbers: String,
    },
    /// A size is declared for a column that has no vocabulary.
    #[error("data.vocabulary: \"{0}\" is neither a categorical column nor a target of classes")]
    NoVocabulary(String),
    /// A declared vocabulary is smaller than the data needs.
    #[error("data.vocabulary: column \"{column}\" has {least} values, and {size} entries are too few")]
    SmallVocabulary {
        /// The column.
        column: String,
        /// The declared size.
        size: usize,
        /// The size that the file needs.
        least: usize,
    },
    /// More than one list of indices per node or edge.
    #[error("column \"{0}\" is a second list of indices; one is supported, leave the other out with --ignore {0}")]
    SecondList(String),
    /// The tables next to a schema were not all replaced, or are being replaced.
    #[error(
        "the tables next to it were not all written, so they may not belong together; write them again, or remove \
         this file if they are right"
    )]
    OpenSet,
    /// The stored schema cannot be parsed.
    #[error("the schema in it is damaged: {0}")]
    DamagedSchema(String),
    /// A newer program wrote the file.
    #[error("it was written in format {found}, this program reads up to {known}; use a newer one")]
    NewerFormat {
        /// Version of the file.
        found: u32,
        /// Newest version that this program reads.
        known: u32,
    },
    /// Features that match the model's neither by name nor by number of columns.
    #[error("its {level}s have {}, the model was trained on {}", Columns(found), Columns(expected))]
    OtherFeatures {
        /// Nodes or edges.
        level: Level,
        /// Columns of the file.
        found: FeatureLayout,
        /// Columns of the model.
        expected: FeatureLayout,
    },
    /// Targets that differ from the model's.
    #[error("its targets are {}, the model predicts {}", Targets(found), Targets(expected))]
    OtherTargets {
        /// Targets of the file.
        found: TargetLayout,
        /// Targets of the model.
        expected: TargetLayout,
    },
    /// The target columns are in no table, or in several tables.
    #[error("the targets \"{}\" are not all in one table", .0.join("\", \""))]
    ScatteredTargets(Vec<String>),
    /// Rows of several graphs without a column that names the graph.
    #[error("there is no column \"graph\", and the data has {graphs} graphs")]
    GraphsUntold {
        /// Number of graphs.
        graphs: usize,
    },
    /// The graphs do not fit the schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Encodings do not fit the graphs.
    #[error(transparent)]
    Graphs(#[from] GraphError),
    /// A graph that one row of a Parquet file cannot hold.
    #[error("a graph is too large for one row of a Parquet file")]
    TooLarge,
    /// Several columns of a table would have the same name.
    #[error("two columns of one table would be named \"{0}\"")]
    Collision(String),
    /// Rows whose columns differ from those of the previous rows.
    #[error("the columns \"{}\" are not those of earlier rows", .0.join("\", \""))]
    OtherRecords(Vec<String>),
    /// An encoder fails.
    #[error("{0}")]
    Encoder(String),
    /// A data set other than ZINC-12k.
    #[error("its {graphs} graphs are not ZINC-12k: content {found}, expected {expected}")]
    NotZinc {
        /// Number of graphs.
        graphs: usize,
        /// Content hash.
        found: String,
        /// Content hash of ZINC-12k.
        expected: &'static str,
    },
    /// The response of the hub is not a listing.
    #[error("not a listing of Parquet files: {0}")]
    NotAListing(String),
    /// A listing without a split.
    #[error("there is no split \"{split}\", only \"{}\"", found.join("\", \""))]
    MissingSplit {
        /// The split.
        split: &'static str,
        /// Splits found.
        found: Vec<String>,
    },
    /// An entry of an index list is not the position of a molecule.
    #[error("\"{0}\" is not the position of a molecule")]
    NotAPosition(String),
}

/// A number of bytes, for messages.
#[derive(Clone, Copy)]
struct Size(u64);

impl Size {
    const UNITS: [(u64, &'static str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];

    /// A value of `GT_MAX_DECODED` that is larger than this size.
    fn generous(self) -> String {
        match self.0 / 1_000_000_000 {
            whole @ ..1_000_000_000 => format!("{}G", 2 * whole + 1),
            _ => "20000000000G".into(),
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some((unit, name)) = Self::UNITS.into_iter().find(|(unit, _)| self.0 >= *unit) else {
            return write!(f, "{} bytes", self.0);
        };
        let amount = self.0 as f64 / unit as f64;
        write!(f, "{amount:.*} {name}B", usize::from(amount < 10.0 && amount.fract() != 0.0))
    }
}

/// Formats the numbers of columns as words.
struct Columns<'a>(&'a FeatureLayout);

impl std::fmt::Display for Columns<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FeatureLayout { categorical, continuous, multi_hot } = self.0;
        write!(f, "{categorical} categorical and {continuous} continuous columns")?;
        f.write_str(if *multi_hot { " and lists of indices" } else { "" })
    }
}

/// Formats targets as words.
struct Targets<'a>(&'a TargetLayout);

impl std::fmt::Display for Targets<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TargetLayout { level, kind, columns } = self.0;
        write!(f, "{columns} {} per {level}", kind.name())
    }
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestProblem {
    /// A schema whose features differ from those of the graphs.
    #[error("of {level}s the schema names {}, the graphs have {}", Columns(stated), Columns(found))]
    OtherFeatures {
        /// Nodes or edges.
        level: Level,
        /// Columns of the schema.
        stated: FeatureLayout,
        /// Columns of the graphs.
        found: FeatureLayout,
    },
    /// A schema whose targets differ from those of the graphs.
    #[error("the schema names other targets than the graphs have")]
    OtherTargets,
    /// A column in two roles.
    #[error("the column \"{column}\" cannot be both {first} and {second}; name it once")]
    TwoRoles {
        /// The column.
        column: String,
        /// The first role.
        first: &'static str,
        /// The second role.
        second: &'static str,
    },
    /// Roles that only columns of tables have.
    #[error("{}: {role} is for tables, NAME_nodes.csv and others; this format has fixed names", path.display())]
    TablesOnly {
        /// The file.
        path: PathBuf,
        /// The argument.
        role: &'static str,
    },
    /// Values beyond the vocabularies of the schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Inconsistent graphs.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A split that does not name each row exactly once.
    #[error("the split names {found} {level}s, but there are {rows}")]
    SplitLength {
        /// What is split.
        level: Level,
        /// Rows of the split.
        found: usize,
        /// Rows of the data.
        rows: usize,
    },
    /// A part without rows.
    #[error("part \"{part}\" would be empty: {rows} {level}s are too few{}{}", if *.strata { " to stratify" } else { "" }, share.map(|share| format!(" with a share of {share}")).unwrap_or_default())]
    EmptyPart {
        /// The part.
        part: String,
        /// Rows to distribute.
        rows: usize,
        /// What is split.
        level: Level,
        /// Whether each stratum is distributed on its own.
        strata: bool,
        /// Share of the part, where shares are given.
        share: Option<f64>,
    },
    /// More folds than rows, or fewer than two.
    #[error("{rows} {level}s cannot be dealt into {folds} folds")]
    Folds {
        /// Rows to distribute.
        rows: usize,
        /// What is split.
        level: Level,
        /// Folds requested.
        folds: usize,
    },
    /// The split of the data has no folds.
    #[error("it has a split into \"{}\", so folds are not drawn; `gt data split FILE --folds {folds} --out COPY` writes a copy with folds", parts.join("\", \""))]
    NoFolds {
        /// Folds requested.
        folds: usize,
        /// The parts that there are.
        parts: Vec<String>,
    },
    /// The data has another number of folds.
    #[error("it has {found} folds, not {folds}; pass --folds {found}")]
    OtherFolds {
        /// Folds of the data.
        found: usize,
        /// Folds requested.
        folds: usize,
    },
    /// Edges are split.
    #[error(
        "its edges are split, and folds are made of graphs or of nodes; pass no --folds, and use `gt data split --level edge`"
    )]
    FoldsOfEdges,
    /// Shares that are not positive, or do not add up to 1.
    #[error("shares must be positive and add up to 1, not {sum}: {}", shares.iter().map(|(name, share)| format!("{name} {share}")).collect::<Vec<_>>().join(", "))]
    Shares {
        /// Sum of the shares.
        sum: f64,
        /// The shares.
        shares: Vec<(String, f64)>,
    },
    /// There are no targets to stratify by.
    #[error("there are no {0} targets to stratify by")]
    NoStrata(Level),
    /// The column to group by does not exist.
    #[error("there is no column \"{column}\" to group by; {}", if found.is_empty() { "the graphs carry none".into() } else { format!("there are: {}", found.join(", ")) })]
    NoGroups {
        /// The column.
        column: String,
        /// Columns that the graphs carry.
        found: Vec<String>,
    },
    /// A column whose type cannot be used for grouping.
    #[error("column \"{column}\" holds values of type {kind}; texts, numbers and yes/no can be grouped by")]
    GroupType {
        /// The column.
        column: String,
        /// Its type.
        kind: String,
    },
    /// All requested sizes are zero.
    #[error("all splits are empty; request at least one graph")]
    NoGraphs,
    /// A download failed.
    #[error("{url}: {message}{}", kept.map(|kept| format!(" ({kept} bytes are kept; the same command continues there)")).unwrap_or_default())]
    Download {
        /// The address.
        url: String,
        /// Cause of the failure.
        message: String,
        /// Bytes of the unfinished file, if one is kept.
        kept: Option<u64>,
    },
}
