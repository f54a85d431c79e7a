//! Why a graph of a file cannot be used.

use std::fmt;

use gt_graph::{GraphError, Level};

/// A number of a file. Equal numbers compare equal, including NaN.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A whole number.
    Integer(i64),
    /// A whole number beyond `i64`.
    Unsigned(u64),
    /// Any number.
    Real(f64),
}

impl Number {
    /// A whole number; rounded beyond 64 bits.
    pub(crate) fn whole(digits: i128) -> Self {
        match (i64::try_from(digits), u64::try_from(digits)) {
            (Ok(digits), _) => Self::Integer(digits),
            (_, Ok(digits)) => Self::Unsigned(digits),
            _ => Self::Real(digits as f64),
        }
    }

    /// The number, if it is stored as a whole number.
    pub(crate) fn digits(self) -> Option<i128> {
        match self {
            Self::Integer(digits) => Some(digits.into()),
            Self::Unsigned(digits) => Some(digits.into()),
            Self::Real(_) => None,
        }
    }

    fn real(self) -> f64 {
        match self {
            Self::Integer(digits) => digits as f64,
            Self::Unsigned(digits) => digits as f64,
            Self::Real(value) => value,
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self.digits(), other.digits()) {
            (Some(own), Some(other)) => own == other,
            _ => self.real() == other.real() || self.real().is_nan() && other.real().is_nan(),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(digits) => digits.fmt(f),
            Self::Unsigned(digits) => digits.fmt(f),
            // Long numbers are easier to read with an exponent.
            Self::Real(value) if value.abs() >= 1e16 && value.is_finite() => write!(f, "{value:e}"),
            Self::Real(value) => value.fmt(f),
        }
    }
}

/// Why a graph cannot be used.
///
/// ```
/// use graph_transformer_data::{Number, Problem, Reason};
/// use gt_graph::Level;
///
/// let problem = Problem::NotFinite(Number::Real(f64::NAN));
/// let reason = Reason::Cell { level: Level::Node, row: 3, column: "charge".into(), problem };
/// assert_eq!(reason.to_string(), "node 3, column \"charge\": NaN is not a finite 32-bit number");
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// A line of JSON lines is not a valid object.
    #[error("line {line}, position {position}: {message}")]
    Line {
        /// Line, from 1.
        line: usize,
        /// Position in the line, from 1; 0 where the line as a whole is wrong.
        position: usize,
        /// What the JSON reader found.
        message: String,
    },
    /// A value, or the values of a node or an edge, cannot be used.
    #[error("{}column \"{column}\": {problem}", Place(*level, *row))]
    Cell {
        /// Whether `row` counts nodes or edges.
        level: Level,
        /// Node or edge, from 0.
        row: usize,
        /// Column.
        column: String,
        /// What is wrong.
        problem: Problem,
    },
    /// A column of the graph cannot be used.
    #[error("column \"{column}\": {problem}")]
    Column {
        /// Column.
        column: String,
        /// What is wrong.
        problem: Problem,
    },
    /// The graph is inconsistent.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// The node or edge in front of a message.
struct Place(Level, usize);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Level::Graph => Ok(()),
            level => write!(f, "{level} {}, ", self.1),
        }
    }
}

impl Reason {
    pub(crate) fn column(column: &str, problem: Problem) -> Self {
        Self::Column { column: column.into(), problem }
    }

    pub(crate) fn cell(level: Level, row: usize, column: &str, problem: Problem) -> Self {
        Self::Cell { level, row, column: column.into(), problem }
    }
}

/// The names of a vocabulary, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNames {
    /// Number of names.
    pub count: usize,
    /// The first few names.
    pub examples: Vec<String>,
}

impl KnownNames {
    pub(crate) fn new(names: &[String]) -> Self {
        Self { count: names.len(), examples: names.iter().take(5).cloned().collect() }
    }
}

impl fmt::Display for KnownNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.examples.iter().map(|name| format!("\"{name}\"")).collect();
        let more = if self.count > names.len() { ", …" } else { "" };
        write!(f, "{} known names ({}{more})", self.count, names.join(", "))
    }
}

/// What is wrong with a value or a column.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The graph lacks a column that it needs.
    #[error("it is missing; other graphs or the model have it")]
    Missing,
    /// The graph has an unknown column.
    #[error("other graphs or the model have no such column; leave it out")]
    Unknown,
    /// A value is missing.
    #[error("the value is missing; fill it in")]
    Null,
    /// A feature is missing in a column whose role the user may still choose.
    #[error(
        "the value is missing; fill it in, or leave the column out with --ignore {column}{}",
        if *.may_be_target { format!("; if it is to be predicted, pass --target {column}") } else { String::new() }
    )]
    Gap {
        /// The column.
        column: String,
        /// Whether the column may be a target. Missing labels are allowed.
        may_be_target: bool,
    },
    /// Text where a number is expected.
    #[error("\"{0}\" is not a number")]
    NotANumber(String),
    /// A text in a column whose other values are real numbers.
    #[error(
        "\"{0}\" is not a number, but other values of the column are; correct it (a target may also be left empty)"
    )]
    TextAmongNumbers(String),
    /// A real number as an id that real numbers do not hold exactly.
    #[error("{0} is a real number, and real numbers hold no ids beyond 2^53 exactly; write whole numbers or texts")]
    InexactId(String),
    /// A name that the vocabulary does not have.
    #[error("\"{value}\" is not among the {known}")]
    UnknownName {
        /// The name.
        value: Box<str>,
        /// The names that the vocabulary has.
        known: Box<KnownNames>,
    },
    /// A category that a model does not know.
    #[error("{0}; to accept unknown categories, train with --set data.other=true")]
    Untrained(Box<Self>),
    /// A number that is not whole, or is less than 0.
    #[error("\"{0}\" is not a whole number from 0")]
    NotCounted(String),
    /// A number that is not a category.
    #[error("{value} is not a category (0, 1, 2, …){}", if *.inferred { "; to make the column continuous, write numbers with a decimal point, or name it with --continuous" } else { "" })]
    NotACategory {
        /// The number.
        value: Number,
        /// Whether the column is categorical only because its other numbers are whole.
        inferred: bool,
    },
    /// A number in a list of indices that is not an index.
    #[error("{0} is not an index (0, 1, 2, …)")]
    NotAnIndex(Number),
    /// An end of an edge that is not the number of a node.
    #[error("{0} is not a node; nodes are counted from 0")]
    NotANode(Number),
    /// An end of an edge that is not the id of any row in the table of nodes.
    #[error("there is no node {id}{}", if *.counted { "; the table of nodes has no column of ids, so its rows are counted from 0" } else { "" })]
    NoSuchNode {
        /// The id.
        id: String,
        /// Whether nodes are numbered by position because their table has no ids.
        counted: bool,
    },
    /// A number that is not a class.
    #[error("{0} is not a class (0, 1, 2, … or -1 for a missing label); to predict numbers, use --task regression")]
    NotAClass(Number),
    /// A number that is not a Weisfeiler–Lehman role.
    #[error("{0} is not a role (0, 1, 2, …)")]
    NotARole(Number),
    /// A number that is not a count of nodes.
    #[error("{0} is not a number of nodes")]
    NotANodeCount(Number),
    /// A number that 32 bits cannot hold, or NaN.
    #[error("{0} is not a finite 32-bit number")]
    NotFinite(Number),
    /// A category, index or class that the schema or the model does not know.
    #[error("{value} is beyond the vocabulary of {size} entries (0 to {})", .size - 1)]
    BeyondVocabulary {
        /// The value.
        value: usize,
        /// Number of known values. A valid value is smaller.
        size: usize,
    },
    /// The number of rows differs from the number of nodes or edges.
    #[error("{found} rows, expected {expected}")]
    RowCount {
        /// Rows found.
        found: usize,
        /// Rows expected.
        expected: usize,
    },
    /// A row has the wrong number of values.
    #[error("{found} values, expected {expected}")]
    Width {
        /// Values found.
        found: usize,
        /// Values expected.
        expected: usize,
    },
    /// The lists of a Parquet column share values.
    #[error("its lists overlap; write the file anew")]
    Overlap,
    /// An edge list is not two lists.
    #[error("{found} lists, expected two: sources and targets")]
    NotTwoLists {
        /// Lists found.
        found: usize,
    },
    /// A list where a single value is expected.
    #[error("it should be one number, but is a list")]
    NotSingle,
    /// The graph has neither a number of nodes nor node features.
    #[error("it is missing, and so are features of nodes to count")]
    NoNodeCount,
    /// A number of nodes that no other data in the file supports.
    #[error(
        "{nodes} nodes, but no features of nodes and only {edges} edges; the file may have {left} more such nodes. If you trust it, allow more with GT_MAX_DECODED={}G",
        (*nodes as u64).div_ceil(1_000_000)
    )]
    Unbacked {
        /// Nodes stated.
        nodes: usize,
        /// Edges found.
        edges: usize,
        /// Nodes that the file may still have without features and edges.
        left: u64,
    },
    /// A target does not have one value per row and column.
    #[error("{found} target values, expected {columns} for each of {rows} {level}s")]
    TargetCount {
        /// Level of the targets.
        level: Level,
        /// Values found.
        found: usize,
        /// Rows of the targets' level.
        rows: usize,
        /// Targets per row.
        columns: usize,
    },
    /// Targets whose number of rows fits no level.
    #[error("{rows} rows are neither one per graph nor one per node ({nodes}) or edge ({edges}) in every graph")]
    NoTargetLevel {
        /// Rows found.
        rows: usize,
        /// Nodes of the graph.
        nodes: usize,
        /// Edges of the graph.
        edges: usize,
    },
    /// An empty list of targets.
    #[error("there is no value in it")]
    NoTarget,
    /// A second split at another level.
    #[error("there is a split of {0}s already; a file has one")]
    SecondSplit(Level),
    /// More parts of a split than can be numbered.
    #[error("more than 65,536 different parts")]
    TooManyParts,
    /// A later schema that differs from the first.
    #[error("this schema differs from the one in the first record")]
    OtherSchema,
    /// An id that occurs more than once.
    #[error("{id} is listed twice")]
    Duplicate {
        /// The id.
        id: String,
    },
    /// A graph that is in no table.
    #[error("there is no graph {0}")]
    NoSuchGraph(String),
    /// An edge between nodes of different graphs.
    #[error("the ends of the edge lie in two different graphs")]
    TwoGraphs,
}
