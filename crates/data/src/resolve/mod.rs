//! Checks the contents of files: names, kinds, widths, ranges, row counts, vocabularies, nulls and
//! NaN. No other module does.
//!
//! Columns are checked against a schema: the model's, or the one that the file states. Without
//! either, the schema is inferred from the columns. Each graph is usable, or has a [`Reason`] why
//! it is not. The caller decides whether a reason stops the reading.

mod collected;
mod column_match;
mod edges;
mod encodings;
mod features;
mod lookup;
mod split;
mod targets;

use std::borrow::Cow;
use std::sync::Arc;

use gt_graph::encoding::EncodingKind;
use gt_graph::{GraphParts, GraphStore, Layout, Level, Schema};

use self::edges::Edges;
use self::encodings::EncodingRows;
use self::features::Features;
use self::split::SplitRows;
use self::targets::{FoundTargets, Targets};
use crate::budget::Budget;
use crate::carried::{Keep, KeptColumns};
use crate::choice::ColumnChoice;
use crate::columns as c;
use crate::dataset::Splits;
use crate::error::FileProblem;
use crate::raw::RawGraphs;
use crate::reason::Reason;

/// Columns, encoding and labels that a reader expects.
#[derive(Clone, Debug)]
pub struct Expected<'a> {
    /// Columns of the model. A vocabulary of size 0 takes any value.
    pub schema: Cow<'a, Schema>,
    /// The encoding that the model reads. The file may store it.
    pub encoding: Option<ExpectedEncoding>,
    /// Whether targets and split are read.
    pub labels: Labels,
}

/// The encoding that a model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedEncoding {
    /// Kind of the encoding.
    pub kind: EncodingKind,
    /// Values per node: number of eigenvectors or steps. Roles have one value.
    pub width: usize,
}

/// Whether targets and split are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// The split is read and checked. Targets are read and checked if the schema has any.
    Read,
    /// Targets and split are neither read nor checked.
    Ignore,
}

/// Columns of a file to read.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) targets: bool,
    pub(crate) split: bool,
    /// Columns that are carried. A data set carries all that no model reads.
    pub(crate) keep: Keep,
    /// Names of the targets, where they may have columns of their own next to the native ones.
    target_names: Arc<[String]>,
    /// The expected encoding. The outer `None` means that all encodings are read.
    encoding: Option<Option<ExpectedEncoding>>,
}

impl Wanted {
    pub(crate) fn new(expected: Option<&Expected<'_>>, choice: &ColumnChoice) -> Self {
        let labels = expected.is_none_or(|expected| expected.labels == Labels::Read);
        let target = expected.and_then(|expected| expected.schema.target.as_ref()).filter(|_| labels);
        let expected_names = target.into_iter().flat_map(|target| target.columns.iter().map(|column| &column.name));
        let own = |name: &&String| !c::NATIVE.contains(&name.as_str());
        let target_names = choice.targets.iter().chain(expected_names).filter(own).cloned().collect();
        Self {
            target_names,
            targets: labels && expected.is_none_or(|expected| expected.schema.target.is_some()),
            split: labels,
            keep: Keep {
                columns: if expected.is_none() { KeptColumns::All } else { KeptColumns::Nothing },
                ..Keep::default()
            },
            encoding: expected.map(|expected| expected.encoding),
        }
    }

    /// Carries these columns instead.
    ///
    /// # Errors
    /// The name of a column that is read as part of the graphs.
    pub(crate) fn keeping(self, keep: &Keep) -> Result<Self, String> {
        match keep.columns.names().iter().find(|name| self.reads(name)) {
            Some(name) => Err(name.clone()),
            None => Ok(self.carrying(keep)),
        }
    }

    /// Carries these columns instead, whatever they hold.
    pub(crate) fn carrying(self, keep: &Keep) -> Self {
        Self { keep: keep.clone(), ..self }
    }

    /// Names of targets that may have columns of their own.
    pub(crate) fn target_names(&self) -> &[String] {
        &self.target_names
    }

    /// Whether an encoding is read.
    fn has_encoding(&self, kind: EncodingKind) -> bool {
        self.encoding.is_none_or(|only| only.is_some_and(|only| only.kind == kind))
    }

    /// Whether a column or key of the native format is read or carried.
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.reads(name) || self.carries(name)
    }

    /// Whether a column or key of the native format is carried.
    pub(crate) fn carries(&self, name: &str) -> bool {
        let native = || c::NATIVE.contains(&name) || name == c::SCHEMA;
        match self.keep.columns {
            KeptColumns::All => !native() && !self.reads(name),
            _ => self.keep.columns.include(name),
        }
    }

    /// Whether a column or key of the native format is read.
    fn reads(&self, name: &str) -> bool {
        match name {
            c::Y => self.targets,
            _ if self.target_names.iter().any(|target| target == name) => true,
            c::SPLIT | c::NODE_SPLIT | c::EDGE_SPLIT => self.split,
            c::LAP_PE => self.has_encoding(EncodingKind::Laplacian),
            c::RW_PE => self.has_encoding(EncodingKind::RandomWalk),
            c::WL_PE => self.has_encoding(EncodingKind::WeisfeilerLehman),
            _ => name == c::SCHEMA || c::NATIVE.contains(&name),
        }
    }
}

/// A graph that cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// Why the graph cannot be used.
    pub reason: Reason,
    /// Number of nodes; 0 if it is not known.
    pub nodes: usize,
    /// Source and target of each edge; empty if they are not known.
    pub edges: Vec<(u32, u32)>,
}

/// Graphs that have been checked, and the state of their columns.
pub(crate) struct Resolver {
    /// The schema of the model, which the graphs must have.
    model: Option<Schema>,
    /// Columns that the user chooses, if there is no model.
    choice: ColumnChoice,
    /// Expected numbers of nodes and edges, limited by what the size of the file justifies.
    room: (usize, usize),
    budget: Arc<Budget>,
    store: GraphStore,
    edges: Edges,
    features: [Features; 2],
    targets: Targets,
    splits: SplitRows,
    encodings: EncodingRows,
    /// Number of graphs checked so far.
    judged: usize,
    begun: bool,
    /// Names of the targets that the file states.
    stored_targets: Vec<String>,
}

/// Contents of a whole file.
pub(crate) struct Resolved {
    pub(crate) schema: Schema,
    /// Whether the schema was inferred from the columns.
    pub(crate) inferred: bool,
    /// Whether real numbers of the file are read as classes without a statement of the user.
    pub(crate) classes_from_numbers: bool,
    /// Sizes of vocabularies that the user declares.
    pub(crate) choice: ColumnChoice,
    pub(crate) graphs: GraphStore,
    pub(crate) split: Option<Splits>,
}

impl Resolver {
    /// Creates a resolver that checks columns against `expected`, or finds the columns of `choice`.
    /// `room` has the expected numbers of nodes and edges.
    pub(crate) fn new(
        expected: Option<&Expected<'_>>,
        choice: &ColumnChoice,
        room: (usize, usize),
        budget: Arc<Budget>,
    ) -> Self {
        let wanted = Wanted::new(expected, choice);
        Self {
            model: expected.map(|expected| expected.schema.clone().into_owned()),
            choice: choice.clone(),
            room,
            budget,
            store: GraphStore::new(Layout::default()),
            edges: Edges::default(),
            features: [Level::Node, Level::Edge].map(|level| Features::new(level, choice)),
            targets: Targets::new(wanted.targets, choice),
            splits: SplitRows::new(wanted.split),
            encodings: EncodingRows::new(wanted),
            judged: 0,
            begun: false,
            stored_targets: Vec::new(),
        }
    }

    /// Checks the common properties of consecutive graphs. `stored` is the schema that the file
    /// states.
    ///
    /// # Errors
    /// If the columns of the file as a whole do not fit the schema; names the level of the columns.
    pub(crate) fn begin(&mut self, raw: &RawGraphs, stored: Option<&Schema>) -> Result<(), (Level, FileProblem)> {
        let whole = |problem| (Level::Graph, problem);
        if !self.begun {
            self.begun = true;
            let stored_target = stored.and_then(|schema| schema.target.as_ref());
            let columns = stored_target.into_iter().flat_map(|target| &target.columns);
            self.stored_targets = columns.map(|column| column.name.clone()).collect();
            let schema = match (&self.model, stored) {
                (Some(model), _) => Some(Cow::Borrowed(model)),
                (None, Some(stored)) => Some(Cow::Owned(self.choice.apply(stored).map_err(whole)?)),
                (None, None) => None,
            };
            let schema = schema.as_deref();
            let target = schema.and_then(|schema| schema.target.as_ref());
            self.targets
                .begin(&raw.targets, target, stored.and_then(|schema| schema.target.as_ref()))
                .map_err(whole)?;
            let layout = schema.map(Schema::layout).unwrap_or_default();
            self.store = GraphStore::new(Layout { target: self.targets.layout(), ..layout });
            self.encodings.begin(raw);
            if let Some(schema) = schema {
                let of_model = self.model.is_some();
                self.features[0].expect(&schema.node, stored.map(|schema| &schema.node), of_model);
                self.features[1].expect(&schema.edge, stored.map(|schema| &schema.edge), of_model);
            }
        }
        Edges::check_columns(raw).map_err(whole)?;
        let rows = |level: Level, graph: usize| match level {
            Level::Edge => Edges::count(raw, graph),
            _ => Edges::count_nodes(raw, graph).unwrap_or(0),
        };
        let [node, edge] = &mut self.features;
        for (level, features, raw_features) in [(Level::Node, node, &raw.node), (Level::Edge, edge, &raw.edge)] {
            let first = (0..raw.count).find(|graph| !raw.broken.contains_key(graph) && rows(level, *graph) > 0);
            let names = &raw.names[usize::from(level == Level::Edge)];
            let found = features.begin(raw_features, names, first, &mut self.store);
            if found.map_err(|problem| (level, problem))? {
                self.store.reserve(self.room.0, self.room.1);
            }
        }
        Ok(())
    }

    /// Checks a graph and stores it. Returns its position among the stored graphs, or why it cannot
    /// be used.
    pub(crate) fn push(&mut self, raw: &RawGraphs, graph: usize) -> Result<usize, Rejected> {
        self.judged += 1;
        self.edges.clear();
        match self.judge(raw, graph) {
            Ok(()) => {
                self.encodings.keep();
                Ok(self.store.len() - 1)
            }
            Err(reason) => {
                self.encodings.forget(self.store.num_nodes());
                Err(Rejected { reason, nodes: self.edges.nodes, edges: self.edges.pairs() })
            }
        }
    }

    fn judge(&mut self, raw: &RawGraphs, graph: usize) -> Result<(), Reason> {
        let (number, store) = (self.judged - 1, &mut self.store);
        if let Some(reason) = raw.broken.get(&graph) {
            // Tables know the number of nodes even if the ends of edges do not exist.
            self.edges.nodes = Edges::count_nodes(raw, graph).unwrap_or(0);
            return Err(reason.clone());
        }
        self.edges.read(raw, graph, &self.budget)?;
        let (nodes, edges) = (self.edges.nodes, self.edges.src.len());
        let [node, edge] = &mut self.features;
        node.judge(&raw.node, graph, nodes, number, store)?;
        edge.judge(&raw.edge, graph, edges, number, store)?;
        self.targets.judge(&raw.targets, graph, [1, nodes, edges])?;
        self.splits.judge(&raw.splits, graph, [1, nodes, edges], number)?;
        self.encodings.judge(&raw.encodings, graph, nodes)?;
        let layout = store.layout();
        let parts = GraphParts {
            num_nodes: nodes,
            src: &self.edges.src,
            dst: &self.edges.dst,
            node: node.rows(layout.node.multi_hot),
            edge: edge.rows(layout.edge.multi_hot),
            target: self.targets.rows(),
        };
        Ok(store.push(parts)?)
    }

    /// Returns the graphs since the last call, with the encodings that the file has.
    pub(crate) fn take(&mut self) -> Result<GraphStore, FileProblem> {
        let empty = GraphStore::new(self.store.layout().clone());
        let mut graphs = std::mem::replace(&mut self.store, empty);
        graphs.set_encodings(self.encodings.take())?;
        Ok(graphs)
    }

    /// Returns everything that was read. `carried` has the names of columns that no model reads.
    ///
    /// # Errors
    /// If a graph contradicts what all graphs together show. The error names the graph.
    pub(crate) fn finish(mut self, carried: &[&str]) -> Result<Result<Resolved, (usize, Reason)>, FileProblem> {
        let mut graphs = self.take()?;
        let undecided = self.features.iter().filter_map(Features::undecided).min_by_key(|(graph, _)| *graph);
        if let Some(reason) = undecided {
            return Ok(Err(reason));
        }
        let FoundTargets { schema: target, names: targets, classes_from_numbers } =
            match self.targets.finish(&mut graphs)? {
                Ok(targets) => targets,
                Err(reason) => return Ok(Err(reason)),
            };
        let [node, edge] = self.features;
        let inferred = node.is_inferred();
        let (node, edge) = (node.finish(&mut graphs), edge.finish(&mut graphs));
        let features = [&node, &edge].into_iter();
        let features = features.flat_map(|level| level.names().chain(level.ignored.iter().map(String::as_str)));
        let mut found: Vec<&str> = features.collect();
        for name in targets
            .iter()
            .map(String::as_str)
            .chain(self.stored_targets.iter().map(String::as_str))
            .chain(carried.iter().copied())
        {
            if !found.contains(&name) {
                found.push(name);
            }
        }
        // The column `y` is not looked at if other columns are the targets.
        let is_unread =
            |name: &String| name == c::Y && !self.choice.targets.is_empty() && !self.choice.targets.contains(name);
        if let Some(column) = self.choice.names().find(|name| !found.contains(&name.as_str()) && !is_unread(name)) {
            let found = found.into_iter().map(str::to_owned).collect();
            return Err(FileProblem::MissingColumn { column: column.clone(), found, hint: "" });
        }
        let schema = Schema { node, edge, target };
        Ok(Ok(Resolved {
            schema,
            inferred,
            classes_from_numbers,
            choice: self.choice,
            graphs,
            split: self.splits.finish(),
        }))
    }
}
