//! Features of nodes or edges.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::slice::from_ref;

use gt_graph::{FeatureRows, FeatureSchema, GraphRef, GraphStore, Level, Ragged, Vocabulary};

use super::column_match::{Arrangement, ColumnMatch, Place};
use super::lookup::Lookup;
use crate::choice::ColumnChoice;
use crate::error::FileProblem;
use crate::raw::{RawColumn, RawFeatures, Values};
use crate::reason::{Problem, Reason};

/// Checks the features of one level.
pub(super) struct Features {
    level: Level,
    /// Columns that the user chooses, if the columns are inferred.
    choice: ColumnChoice,
    /// The columns, expected or inferred.
    schema: FeatureSchema,
    /// The names of each categorical column, if the column has names.
    lookups: Vec<Option<Lookup>>,
    /// Whether the columns are inferred.
    inferred: bool,
    /// Whether the columns are those of a model.
    of_model: bool,
    /// Column names that the file states.
    stored: Option<FeatureSchema>,
    /// Locations of the columns, known after the first graph with rows.
    columns: Option<ColumnMatch>,
    rows: Rows,
    /// Integers that are not categories, in columns without a real number so far: the column, the
    /// graph and the reason.
    undecided: Vec<(Place, usize, Reason)>,
}

/// Features of one graph, in reusable buffers.
#[derive(Default)]
struct Rows {
    categorical: Vec<u32>,
    continuous: Vec<f32>,
    offsets: Vec<usize>,
    indices: Vec<u32>,
    /// Each list of numbers to read, with the number of values in its rows and their range.
    blocks: Vec<(usize, usize, Range<usize>)>,
}

impl Features {
    pub(super) fn new(level: Level, choice: &ColumnChoice) -> Self {
        Self {
            level,
            choice: choice.clone(),
            schema: FeatureSchema::default(),
            lookups: Vec::new(),
            inferred: true,
            of_model: false,
            stored: None,
            columns: None,
            rows: Rows::default(),
            undecided: Vec::new(),
        }
    }

    /// Sets the expected columns, which are those of a model if `of_model` is true. `stored` holds
    /// the column names that the file states.
    pub(super) fn expect(&mut self, schema: &FeatureSchema, stored: Option<&FeatureSchema>, of_model: bool) {
        self.of_model = of_model;
        self.schema = schema.clone();
        self.stored = stored.cloned();
        self.inferred = false;
        // Equal names match by name, otherwise columns match by position.
        let find = |name: &str| stored?.categorical.iter().find(|column| column.name == name);
        let by_name = schema.names().all(|name| stored.is_some_and(|stored| stored.names().any(|own| own == name)));
        let lookup = |(at, column): (usize, &Vocabulary)| {
            let own = if by_name { find(&column.name) } else { stored.and_then(|stored| stored.categorical.get(at)) };
            Lookup::of_feature(column, own)
        };
        self.lookups = schema.categorical.iter().enumerate().map(lookup).collect();
    }

    /// Whether the columns were inferred.
    pub(super) fn is_inferred(&self) -> bool {
        self.inferred
    }

    /// The schema after the last graph. Puts the names of categories in order.
    pub(super) fn finish(mut self, store: &mut GraphStore) -> FeatureSchema {
        for (column, lookup) in self.lookups.iter().enumerate() {
            let Some(lookup) = lookup.as_ref().filter(|lookup| lookup.is_open()) else { continue };
            let (names, places) = lookup.sorted();
            store.map_categories(self.level, column, |value| places[value as usize]);
            self.schema.categorical[column].names = names;
        }
        self.schema
    }

    /// The first number that is not a category, in a column that has no real number in the whole
    /// file.
    pub(super) fn undecided(&self) -> Option<(usize, Reason)> {
        let first = self.undecided.iter().min_by_key(|(_, graph, _)| *graph);
        first.map(|(_, graph, reason)| (*graph, reason.clone()))
    }

    /// Finds the columns at the first graph with rows, and returns whether this call found them.
    /// Columns with a real number in this chunk become continuous.
    pub(super) fn begin(
        &mut self,
        raw: &RawFeatures,
        names: &[String],
        first: Option<usize>,
        store: &mut GraphStore,
    ) -> Result<bool, FileProblem> {
        let found = match (&self.columns, first) {
            (None, Some(graph)) if self.inferred => {
                let (schema, columns) = ColumnMatch::infer(self.level, raw, graph, &self.choice)?;
                store.set_columns(self.level, schema.layout());
                self.lookups = schema.categorical.iter().map(|_| None).collect();
                (self.schema, self.columns) = (schema, Some(columns));
                true
            }
            (None, Some(graph)) => {
                let stored = self.stored.as_ref();
                let columns = ColumnMatch::expect(self.level, &self.schema, stored, raw, names, graph)?;
                self.columns = Some(columns);
                true
            }
            _ => false,
        };
        if self.inferred
            && let Some(columns) = &mut self.columns
        {
            let real = |place: &Place| {
                let column = raw.column(place.column);
                matches!(column.values, Values::Written { .. }) && column.is_real(place.at)
            };
            self.undecided.retain(|(place, ..)| !real(place));
            let fixed = |name: &String| self.choice.categorical.contains(name);
            loop {
                let turned = |(at, place): (usize, &Place)| {
                    real(place) && self.lookups[at].is_none() && !fixed(&self.schema.categorical[at].name)
                };
                let Some(at) = columns.found().categorical.iter().enumerate().position(turned) else { break };
                turn(columns, &mut self.schema, &mut self.lookups, at, self.level, store);
            }
            for (at, place) in columns.found().categorical.iter().enumerate() {
                if self.lookups[at].is_none() && raw.is_text(place.column, place.at) {
                    self.lookups[at] = Some(name_numbers(self.level, at, store));
                }
            }
        }
        Ok(found)
    }

    /// Reads and checks the features of a graph; `number` is its position in the file.
    pub(super) fn judge(
        &mut self,
        raw: &RawFeatures,
        graph: usize,
        rows: usize,
        number: usize,
        store: &mut GraphStore,
    ) -> Result<(), Reason> {
        loop {
            let (place, reason) = match self.read(raw, graph, rows) {
                Err(Wrong::Category(place, reason)) => (place, reason),
                Err(Wrong::Certain(reason)) => return Err(reason),
                Ok(()) => return Ok(()),
            };
            let (column, columns) = (raw.column(place.column), self.columns.as_mut());
            let (true, Some(columns)) = (matches!(column.values, Values::Written { .. }), columns) else {
                return Err(reason);
            };
            // A later real number would make the column continuous, so the error is postponed.
            let at = columns.found().categorical.iter().position(|known| *known == place).expect("it was just read");
            turn(columns, &mut self.schema, &mut self.lookups, at, self.level, store);
            self.undecided.push((place, number, reason));
        }
    }

    fn read(&mut self, raw: &RawFeatures, graph: usize, rows: usize) -> Result<(), Wrong> {
        let Self { level, schema, inferred, of_model, columns, lookups, choice, rows: out, .. } = self;
        out.clear();
        let Some(columns) = columns else { return Ok(check_no_rows(raw, graph)?) };
        let arrangement = columns.arrangement(raw, graph);
        if columns.exhaustive
            && let RawFeatures::Native(columns) = raw
            && let Some(column) =
                (0..columns.len()).find(|&at| !arrangement.uses(at) && columns[at].width(graph).is_some())
        {
            return Err(Reason::column(&columns[column].name, Problem::Unknown).into());
        }
        for &(column, width) in &arrangement.lists {
            let values = raw.column(column);
            if rows > 0 && !values.is_present(graph) {
                return Err(Reason::column(&values.name, Problem::Missing).into());
            }
            out.blocks.push((column, width, values.block(*level, graph, rows, width)?));
        }
        let names = schema.categorical.iter().map(|vocabulary| vocabulary.name.as_str());
        let named = lookups.iter().any(Option::is_some);
        gather(raw, &out.blocks, &arrangement.categorical, named, &mut out.categorical, |at, column, range, out| {
            match lookups.get_mut(at).and_then(Option::as_mut) {
                Some(lookup) => range.enumerate().try_for_each(|(row, at)| {
                    out.push(lookup.number(column, at).map_err(|problem| (row, problem))?);
                    Ok(())
                }),
                None => column.append_indices(range, out, |value| Problem::NotACategory { value, inferred: false }),
            }
        })
        .map_err(|(row, at, problem)| {
            let name = names.clone().nth(at).unwrap_or_default();
            let problem = if *inferred { explain_gap(problem, name, raw) } else { problem };
            let fixed = lookups[at].is_some() || choice.categorical.iter().any(|known| known == name);
            match problem {
                Problem::NotANumber(text) if *inferred => {
                    Reason::cell(*level, row, name, Problem::TextAmongNumbers(text)).into()
                }
                Problem::NotACategory { value, .. } if *inferred && !fixed => {
                    let problem = Problem::NotACategory { value, inferred: true };
                    Wrong::Category(arrangement.categorical[at], Reason::cell(*level, row, name, problem))
                }
                problem @ (Problem::UnknownName { .. } | Problem::BeyondVocabulary { .. }) if *of_model => {
                    Reason::cell(*level, row, name, Problem::Untrained(Box::new(problem))).into()
                }
                problem => Reason::cell(*level, row, name, problem).into(),
            }
        })?;
        gather(raw, &out.blocks, &arrangement.continuous, false, &mut out.continuous, |_, column, range, out| {
            column.append_reals(range, out)
        })
        .map_err(|(row, at, problem)| {
            let name = &schema.continuous[at];
            let problem = match problem {
                Problem::NotANumber(text) if *inferred => Problem::TextAmongNumbers(text),
                problem if *inferred => explain_gap(problem, name, raw),
                problem => problem,
            };
            Reason::cell(*level, row, name, problem)
        })?;
        if let Some((at, value)) = first_beyond(&out.categorical, &schema.categorical) {
            let (row, column) = (at / schema.categorical.len(), &schema.categorical[at % schema.categorical.len()]);
            let problem = Problem::BeyondVocabulary { value, size: column.size };
            let problem = if *of_model { Problem::Untrained(Box::new(problem)) } else { problem };
            return Err(Reason::cell(*level, row, &column.name, problem).into());
        }
        if let (Some(column), Some(words)) = (arrangement.words, &schema.multi_hot) {
            out.read_words(raw.column(column), *level, graph, rows, words)?;
        }
        Ok(())
    }

    /// The rows that the last call read.
    pub(super) fn rows(&self, multi_hot: bool) -> FeatureRows<'_> {
        let Rows { categorical, continuous, offsets, indices, .. } = &self.rows;
        FeatureRows { categorical, continuous, multi_hot: multi_hot.then_some(Ragged { offsets, indices }) }
    }
}

/// Adds the remedies for a missing value to its problem, where the user chooses the columns.
fn explain_gap(problem: Problem, column: &str, raw: &RawFeatures) -> Problem {
    match problem {
        Problem::Null => Problem::Gap { column: column.into(), may_be_target: matches!(raw, RawFeatures::Named(_)) },
        problem => problem,
    }
}

/// Why the features of a graph cannot be read.
enum Wrong {
    /// A number that is valid if its column turns out to be continuous.
    Category(Place, Reason),
    Certain(Reason),
}

impl From<Reason> for Wrong {
    fn from(reason: Reason) -> Self {
        Self::Certain(reason)
    }
}

/// Turns a categorical column into a continuous one, at its position among the others.
fn turn(
    columns: &mut ColumnMatch,
    schema: &mut FeatureSchema,
    lookups: &mut Vec<Option<Lookup>>,
    column: usize,
    level: Level,
    store: &mut GraphStore,
) {
    lookups.remove(column);
    let Arrangement { categorical, continuous, .. } = columns.found();
    let place = categorical.remove(column);
    let at = continuous.partition_point(|other| *other < place);
    continuous.insert(at, place);
    schema.continuous.insert(at, schema.categorical.remove(column).name);
    store.make_continuous(level, column, at);
}

/// Names the numbers of a column that turns out to hold texts as well.
fn name_numbers(level: Level, column: usize, store: &mut GraphStore) -> Lookup {
    let values = |graph: GraphRef<'_>| {
        let rows = if level == Level::Node { graph.node() } else { graph.edge() };
        let columns =
            if level == Level::Node { store.layout().node.categorical } else { store.layout().edge.categorical };
        rows.categorical.iter().skip(column).step_by(columns.max(1)).copied().collect::<Vec<u32>>()
    };
    let numbers: BTreeSet<u32> = store.iter().flat_map(values).collect();
    let mut lookup = Lookup::open();
    let known = numbers.into_iter().map(|number| {
        let name = lookup.number_of(&number.to_string()).expect("the names are open");
        (number, name)
    });
    let known: HashMap<u32, u32> = known.collect();
    store.map_categories(level, column, |number| known[&number]);
    lookup
}

/// Checks that a graph has no feature rows if no graph of the file has any.
fn check_no_rows(raw: &RawFeatures, graph: usize) -> Result<(), Reason> {
    let RawFeatures::Native(columns) = raw else { return Ok(()) };
    match columns.iter().find(|column| !column.rows(graph).is_empty()) {
        Some(column) => {
            let problem = Problem::RowCount { found: column.rows(graph).len(), expected: 0 };
            Err(Reason::column(&column.name, problem))
        }
        None => Ok(()),
    }
}

/// Position and value of the first category beyond its vocabulary. A vocabulary of size 0 holds any
/// value.
fn first_beyond(values: &[u32], columns: &[Vocabulary]) -> Option<(usize, usize)> {
    let limit = |column: &Vocabulary| if column.size == 0 { usize::MAX } else { column.size };
    // Almost always every value is below the smallest size, and a maximum is faster than a search.
    let (smallest, most) = (columns.iter().map(limit).min()?, values.iter().copied().max()?);
    if (most as usize) < smallest {
        return None;
    }
    let limits = columns.iter().map(limit).cycle();
    let found = values.iter().zip(limits).position(|(&value, limit)| value as usize >= limit);
    found.map(|at| (at, values[at] as usize))
}

/// Collects the values of several locations, row by row. `append` gets the number of a location; if
/// `singly` is true, it gets one value at a time. An error names the row, the location and the
/// problem.
fn gather<T>(
    raw: &RawFeatures,
    blocks: &[(usize, usize, Range<usize>)],
    places: &[Place],
    singly: bool,
    out: &mut Vec<T>,
    mut append: impl FnMut(usize, &RawColumn, Range<usize>, &mut Vec<T>) -> Result<(), (usize, Problem)>,
) -> Result<(), (usize, usize, Problem)> {
    let block = |place: &Place| blocks.iter().find(|(column, ..)| *column == place.column);
    let Some((column, width, range)) = places.first().and_then(block) else { return Ok(()) };
    // Usually one column holds all features in order.
    let whole =
        places.len() == *width && places.iter().enumerate().all(|(at, place)| *place == Place { column: *column, at });
    if whole && !(singly && *width > 1) {
        let wrong = |(at, problem)| (at / width, at % width, problem);
        return append(0, raw.column(*column), range.clone(), out).map_err(wrong);
    }
    let rows = range.len() / (*width).max(1);
    let sources: Vec<(&RawColumn, usize, usize)> = places
        .iter()
        .map(|place| {
            let (column, width, range) = block(place).expect("every place lies in a list");
            (raw.column(*column), range.start + place.at, *width)
        })
        .collect();
    for row in 0..rows {
        for (at, (column, first, width)) in sources.iter().enumerate() {
            let value = first + row * width;
            append(at, column, value..value + 1, out).map_err(|(_, problem)| (row, at, problem))?;
        }
    }
    Ok(())
}

impl Rows {
    fn clear(&mut self) {
        self.categorical.clear();
        self.continuous.clear();
        self.blocks.clear();
        self.indices.clear();
        self.offsets.clear();
        self.offsets.push(0);
    }

    fn read_words(
        &mut self,
        column: &RawColumn,
        level: Level,
        graph: usize,
        rows: usize,
        words: &Vocabulary,
    ) -> Result<(), Reason> {
        if rows > 0 && !column.is_present(graph) {
            return Err(Reason::column(&column.name, Problem::Missing));
        }
        let lists = column.rows(graph);
        if lists.len() != rows {
            return Err(Reason::column(&column.name, Problem::RowCount { found: lists.len(), expected: rows }));
        }
        for (row, list) in lists.enumerate() {
            let (range, before) = (column.rows.range(list), self.indices.len());
            // Tables have empty cells for empty lists.
            let empty = column.depth(graph) < 2 && column.has_null(range.clone());
            if !empty {
                column
                    .append_indices(range, &mut self.indices, Problem::NotAnIndex)
                    .map_err(|(_, problem)| Reason::cell(level, row, &column.name, problem))?;
            }
            if let Some((_, value)) = first_beyond(&self.indices[before..], from_ref(words)) {
                let problem = Problem::BeyondVocabulary { value, size: words.size };
                return Err(Reason::cell(level, row, &column.name, problem));
            }
            self.offsets.push(self.indices.len());
        }
        Ok(())
    }
}
