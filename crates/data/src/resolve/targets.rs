//! Targets: numbers or classes of graphs, nodes or edges.
//!
//! A schema may state the targets. Otherwise the shapes and values of all graphs decide: for
//! example, one row per node in every graph makes node targets. Such targets are collected first
//! and assigned to the graphs at the end (`collected.rs`).

use gt_graph::{GraphStore, Level, MISSING_CLASS, TargetColumn, TargetKind, TargetLayout, TargetRows, TargetSchema};

use super::collected::Collected;
use super::lookup::Lookup;
use crate::choice::ColumnChoice;
use crate::columns as c;
use crate::error::FileProblem;
use crate::raw::{RawColumn, RawTargets, Written};
use crate::reason::{Number, Problem, Reason};

/// Checks targets.
pub(super) struct Targets {
    read: bool,
    choice: ColumnChoice,
    /// The targets that a schema states.
    declared: Option<TargetSchema>,
    /// The names of each declared column, if the column has names.
    lookups: Vec<Option<Lookup>>,
    /// Position of each declared target among the targets of the file; `None` if the file does not
    /// name its targets.
    order: Option<Vec<usize>>,
    /// Number of targets of the file, if the file names them.
    width: Option<usize>,
    labels: Labelled,
    collected: Collected,
}

/// The targets of a whole file.
#[derive(Default)]
pub(super) struct FoundTargets {
    pub(super) schema: Option<TargetSchema>,
    /// Names of all target columns of the file.
    pub(super) names: Vec<String>,
    /// Whether real numbers are read as classes without a statement of the user.
    pub(super) classes_from_numbers: bool,
}

/// Values of several rows, of the kind of the targets.
#[derive(Default)]
pub(super) struct Labelled {
    floats: Vec<f32>,
    classes: Vec<u32>,
}

impl Labelled {
    pub(super) fn rows(&self, kind: TargetKind) -> TargetRows<'_> {
        match kind {
            TargetKind::Float => TargetRows::Float(&self.floats),
            TargetKind::Class => TargetRows::Class(&self.classes),
        }
    }

    /// Appends missing labels.
    pub(super) fn push_missing(&mut self, kind: TargetKind, count: usize) {
        match kind {
            TargetKind::Float => self.floats.extend(std::iter::repeat_n(f32::NAN, count)),
            TargetKind::Class => self.classes.extend(std::iter::repeat_n(MISSING_CLASS, count)),
        }
    }

    /// Appends a value. `classes` is the number of classes; 0 means any class.
    pub(super) fn push(&mut self, kind: TargetKind, value: f64, classes: usize) -> Result<(), Problem> {
        match kind {
            TargetKind::Float => self.floats.push(finite(value)?),
            TargetKind::Class => self.classes.push(class(value, classes)?),
        }
        Ok(())
    }
}

impl Targets {
    pub(super) fn new(read: bool, choice: &ColumnChoice) -> Self {
        Self {
            read,
            choice: choice.clone(),
            declared: None,
            lookups: Vec::new(),
            order: None,
            width: None,
            labels: Labelled::default(),
            collected: Collected::default(),
        }
    }

    /// Sets the expected targets. `stored` holds the targets that the file states.
    pub(super) fn begin(
        &mut self,
        raw: &RawTargets,
        expected: Option<&TargetSchema>,
        stored: Option<&TargetSchema>,
    ) -> Result<(), FileProblem> {
        self.declared = expected.filter(|_| self.read).cloned();
        let Some(declared) = &self.declared else { return Ok(()) };
        let own_names = |columns: &[RawColumn]| columns.first().is_some_and(|column| column.name != c::Y);
        let found: Option<Vec<&str>> = match (raw, stored) {
            (RawTargets::Named { columns, .. }, _) => Some(columns.iter().map(|column| &*column.values.name).collect()),
            (RawTargets::Native(columns), _) if own_names(columns) => {
                Some(columns.iter().map(|column| &*column.name).collect())
            }
            (_, Some(stored)) => Some(stored.columns.iter().map(|column| &*column.name).collect()),
            _ => None,
        };
        // The file states other targets than those in columns of their own.
        let has_own = matches!(raw, RawTargets::Native(columns) if own_names(columns));
        let stored = stored.filter(|_| !has_own);
        // Equal names match by name, otherwise targets match by position.
        if let Some(found) = &found {
            let place = |column: &TargetColumn| found.iter().position(|name| *name == column.name);
            let by_name: Option<Vec<usize>> = declared.columns.iter().map(place).collect();
            if let Some(stored) = stored
                && (stored.level != declared.level || by_name.is_none() && found.len() != declared.columns.len())
            {
                return Err(FileProblem::OtherTargets { found: stored.layout(), expected: declared.layout() });
            }
            self.order = Some(by_name.unwrap_or_else(|| (0..declared.columns.len()).collect()));
            self.width = Some(found.len());
        }
        let own = |at: usize| {
            let place = self.order.as_ref().map_or(at, |order| order[at]);
            stored.filter(|stored| Some(stored.columns.len()) == self.width)?.columns.get(place)
        };
        let named = declared.columns.iter().enumerate().filter_map(|(at, column)| Some((column, own(at)?)));
        if let Some((column, _)) =
            named.clone().find(|(_, own)| declared.kind == TargetKind::Float && !own.names.is_empty())
        {
            return Err(FileProblem::TextTarget(column.name.clone()));
        }
        self.lookups =
            declared.columns.iter().enumerate().map(|(at, column)| Lookup::of_target(column, own(at))).collect();
        Ok(())
    }

    /// Columns of the targets, if they are known before the first graph.
    pub(super) fn layout(&self) -> Option<TargetLayout> {
        self.declared.as_ref().map(TargetSchema::layout)
    }

    /// Reads and checks the targets of a graph. `rows` holds its sizes by level.
    pub(super) fn judge(&mut self, raw: &RawTargets, graph: usize, rows: [usize; 3]) -> Result<(), Reason> {
        if !self.read {
            return Ok(());
        }
        let Some(declared) = &self.declared else { return self.collected.push(raw, graph) };
        self.labels.floats.clear();
        self.labels.classes.clear();
        let rows = rows[declared.level as usize];
        let values = Values::gather(raw, graph)?;
        let Some(values) = values else {
            self.labels.push_missing(declared.kind, rows * declared.columns.len());
            return Ok(());
        };
        let (found, columns) = (values.0.len(), declared.columns.len());
        let count = |width: usize| {
            let name = if columns == 1 { &declared.columns[0].name } else { c::Y };
            let level = declared.level;
            Reason::column(name, Problem::TargetCount { level, found, rows, columns: width })
        };
        // The width of the file is that of its names, or that of the model, or any that has the
        // positions which default names state.
        let (width, positions) = match (self.width, &self.order) {
            (Some(width), _) => (width, None),
            _ if found == rows * columns => (columns, None),
            _ => match positions(&declared.columns).filter(|_| rows > 0 && found.is_multiple_of(rows)) {
                Some(positions) if positions.iter().all(|&at| at < found / rows) => (found / rows, Some(positions)),
                _ => return Err(count(columns)),
            },
        };
        if found != rows * width {
            return Err(count(width));
        }
        for row in 0..rows {
            for (at, column) in declared.columns.iter().enumerate() {
                let order = positions.as_ref().or(self.order.as_ref());
                let place = row * width + order.map_or(at, |order| order[at]);
                let (source, position) = values.0[place];
                let wrong = |problem| Reason::cell(declared.level, row, &column.name, problem);
                let value = match self.lookups.get_mut(at).and_then(Option::as_mut) {
                    Some(lookup) => class_by_name(lookup, source, position),
                    None => match source.number(position) {
                        Err(Problem::Null) => Ok(f64::NAN),
                        number => number,
                    },
                };
                let value = value.map_err(wrong)?;
                let exact = |problem| match problem {
                    Problem::NotAClass(_) => wrong(Problem::NotAClass(source.exact(position))),
                    problem => wrong(problem),
                };
                self.labels.push(declared.kind, value, column.classes).map_err(exact)?;
            }
        }
        Ok(())
    }

    /// The targets of the last call, if they are stored together with their graph.
    pub(super) fn rows(&self) -> Option<TargetRows<'_>> {
        self.declared.as_ref().map(|declared| self.labels.rows(declared.kind))
    }

    /// Decides the level and the kind of the collected targets and assigns them to the graphs.
    pub(super) fn finish(self, store: &mut GraphStore) -> Result<Result<FoundTargets, (usize, Reason)>, FileProblem> {
        if self.declared.is_some() || !self.read {
            let names = self.declared.iter().flat_map(|target| target.columns.iter().map(|column| column.name.clone()));
            let names = names.collect();
            return Ok(Ok(FoundTargets { schema: self.declared, names, classes_from_numbers: false }));
        }
        self.collected.finish(&self.choice, store)
    }
}

/// Number of a class by its name; NaN for a missing label.
pub(super) fn class_by_name(lookup: &mut Lookup, column: &RawColumn, at: usize) -> Result<f64, Problem> {
    match column.written(at) {
        Err(Problem::Null) => return Ok(f64::NAN),
        // -1 is a missing label.
        Ok(Written::Number(number)) if [Number::Real(f64::NAN), Number::Real(-1.0)].contains(&number) => {
            return Ok(f64::NAN);
        }
        _ => {}
    }
    match lookup.number(column, at) {
        Err(Problem::NotACategory { value, .. }) => Err(Problem::NotAClass(value)),
        number => number.map(f64::from),
    }
}

/// The values of a graph, row by row: columns and positions in them.
pub(super) struct Values<'a>(pub(super) Vec<(&'a RawColumn, usize)>);

impl<'a> Values<'a> {
    /// Collects the values of a graph that has targets.
    fn gather(raw: &'a RawTargets, graph: usize) -> Result<Option<Self>, Reason> {
        let mut values = Vec::new();
        match raw {
            RawTargets::Nothing => return Ok(None),
            RawTargets::Native(columns) => {
                let present: Vec<&RawColumn> = columns.iter().filter(|column| column.is_present(graph)).collect();
                let Some(first) = present.first() else { return Ok(None) };
                let rows = first.rows(graph).len();
                let mut blocks = Vec::new();
                for column in columns {
                    if !column.is_present(graph) {
                        return Err(Reason::column(&column.name, Problem::Missing));
                    }
                    let width = column.width(graph).unwrap_or(0);
                    // The level of the rows is not known yet.
                    blocks.push((column, width, column.block(Level::Graph, graph, rows, width)?));
                }
                for row in 0..rows {
                    for (column, width, range) in &blocks {
                        values.extend((0..*width).map(|at| (*column, range.start + row * width + at)));
                    }
                }
            }
            RawTargets::Named { columns, .. } => {
                let rows = columns.first().map_or(0..0, |column| column.values.rows(graph));
                values.extend(rows.flat_map(|at| columns.iter().map(move |column| (&column.values, at))));
            }
        }
        Ok(Some(Self(values)))
    }
}

/// Positions that the default names of targets state: 0 for `y0`, 1 for `y1`, ….
fn positions(columns: &[TargetColumn]) -> Option<Vec<usize>> {
    let position = |column: &TargetColumn| {
        let at: usize = column.name.strip_prefix(c::Y)?.parse().ok()?;
        (format!("{}{at}", c::Y) == column.name).then_some(at)
    };
    columns.iter().map(position).collect()
}

/// Converts to a finite number. NaN is a missing label; infinity is an error.
fn finite(value: f64) -> Result<f32, Problem> {
    let single = value as f32;
    if single.is_infinite() { Err(Problem::NotFinite(Number::Real(value))) } else { Ok(single) }
}

/// Converts to a class below `classes`; 0 means any class. NaN and -1 are missing labels.
fn class(value: f64, classes: usize) -> Result<u32, Problem> {
    if value.is_nan() || value == -1.0 {
        Ok(MISSING_CLASS)
    } else if value.fract() != 0.0 || value < 0.0 || value >= f64::from(MISSING_CLASS) {
        Err(Problem::NotAClass(Number::Real(value)))
    } else if classes > 0 && value as usize >= classes {
        Err(Problem::BeyondVocabulary { value: value as usize, size: classes })
    } else {
        Ok(value as u32)
    }
}
