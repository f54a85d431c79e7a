//! Matches the columns of a schema to the columns of a file.

use gt_graph::{FeatureSchema, Level};

use crate::budget::MOST_COLUMNS;
use crate::choice::ColumnChoice;
use crate::error::FileProblem;
use crate::raw::{CellKind, Extent, NamedColumn, RawColumn, RawFeatures};

/// Location of one feature: a raw column, and a position in its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) column: usize,
    pub(super) at: usize,
}

/// Indices of the native columns.
const NUMBERS: usize = 0;
const FLOATS: usize = 1;
const WORDS: usize = 2;

/// One way to distribute the columns of a schema over raw columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrangement {
    /// Raw columns to read, with the number of values in their rows.
    pub(super) lists: Vec<(usize, usize)>,
    pub(super) categorical: Vec<Place>,
    pub(super) continuous: Vec<Place>,
    /// The raw column with lists of indices.
    pub(super) words: Option<usize>,
    /// Raw columns that the user ignores.
    unread: Vec<usize>,
}

impl Arrangement {
    /// Whether a raw column is read, or ignored by the user.
    pub(super) fn uses(&self, column: usize) -> bool {
        let listed = self.lists.iter().any(|(list, _)| *list == column);
        listed || self.words == Some(column) || self.unread.contains(&column)
    }

    /// Leaves only the columns of `chosen`, which are some columns of `all`.
    fn choose(&mut self, all: &FeatureSchema, chosen: &FeatureSchema) {
        let names: Vec<&str> = all.names().collect();
        let places: Vec<Place> = self.places().collect();
        let place = |name: &str| places[names.iter().position(|known| *known == name).expect("a column of the file")];
        self.categorical = chosen.categorical.iter().map(|column| place(&column.name)).collect();
        self.continuous = chosen.continuous.iter().map(|name| place(name)).collect();
        if chosen.multi_hot.is_none() {
            self.unread.extend(self.words.take());
        }
    }

    /// Whether the lists of a graph have the widths of this arrangement.
    fn fits(&self, raw: &[RawColumn; 3], graph: usize) -> bool {
        [NUMBERS, FLOATS].into_iter().all(|column| {
            let width = self.lists.iter().find(|(list, _)| *list == column).map(|(_, width)| *width);
            width == raw[column].width(graph)
        })
    }

    /// Locations of all features, categorical ones first.
    fn places(&self) -> impl Iterator<Item = Place> {
        self.categorical.iter().chain(&self.continuous).copied()
    }

    /// Selects features by their positions among all locations.
    fn pick(&self, [categorical, continuous]: &[Vec<usize>; 2]) -> Self {
        let places: Vec<Place> = self.places().collect();
        let pick = |positions: &[usize]| positions.iter().map(|&at| places[at]).collect();
        Self { categorical: pick(categorical), continuous: pick(continuous), ..self.clone() }
    }
}

/// Locations of the features of a schema.
pub(super) struct ColumnMatch {
    /// Candidate arrangements; each graph uses the first that fits.
    alternatives: Vec<Arrangement>,
    /// Whether columns that are not read are an error.
    pub(super) exhaustive: bool,
}

impl ColumnMatch {
    /// The arrangement that fits a graph. If none fits, the one that error messages refer to.
    pub(super) fn arrangement(&self, raw: &RawFeatures, graph: usize) -> &Arrangement {
        let (usual, RawFeatures::Native(raw)) = (&self.alternatives[0], raw) else { return &self.alternatives[0] };
        if self.alternatives.len() == 1 {
            return usual;
        }
        self.alternatives.iter().find(|arrangement| arrangement.fits(raw, graph)).unwrap_or_else(|| {
            // A single list of numbers is compared with the list that holds all features.
            let alone = |arrangement: &&Arrangement| !arrangement.uses(FLOATS);
            let categorical = usual.lists.first().map(|(_, width)| *width);
            let one_list = !raw[FLOATS].is_present(graph) && raw[NUMBERS].width(graph) != categorical;
            self.alternatives.iter().find(alone).filter(|_| one_list).unwrap_or(usual)
        })
    }

    /// The only arrangement of inferred columns.
    pub(super) fn found(&mut self) -> &mut Arrangement {
        &mut self.alternatives[0]
    }

    /// Infers the features from a graph that has rows, and takes those that the user chooses.
    pub(super) fn infer(
        level: Level,
        raw: &RawFeatures,
        graph: usize,
        choice: &ColumnChoice,
    ) -> Result<(FeatureSchema, Self), FileProblem> {
        let (all, mut arrangement, exhaustive) = match raw {
            RawFeatures::Native(columns) => {
                let width = |column: &RawColumn| column.width(graph).unwrap_or(0);
                if columns[NUMBERS..=FLOATS].iter().map(width).sum::<usize>() > MOST_COLUMNS {
                    return Err(FileProblem::TooManyColumns);
                }
                let (schema, arrangement) = infer_native(level, columns, graph);
                (schema, arrangement, true)
            }
            RawFeatures::Named(columns) => {
                let (schema, arrangement) = infer_named(columns, choice)?;
                (schema, arrangement, false)
            }
        };
        let schema = choice.apply_to_features(&all);
        arrangement.choose(&all, &schema);
        if !exhaustive {
            arrangement.lists = arrangement.places().map(|place| (place.column, 1)).collect();
        }
        Ok((schema, Self { alternatives: vec![arrangement], exhaustive }))
    }

    /// Finds the features of a schema. `stored` holds the column names that the file states;
    /// `graph` has rows.
    ///
    /// # Errors
    /// If the file as a whole lacks columns, or has additional columns.
    pub(super) fn expect(
        level: Level,
        schema: &FeatureSchema,
        stored: Option<&FeatureSchema>,
        raw: &RawFeatures,
        names: &[String],
        graph: usize,
    ) -> Result<Self, FileProblem> {
        match raw {
            RawFeatures::Native(columns) => {
                let (native, picked) = match stored {
                    Some(stored) => (arrange(level, stored, true, columns, graph), correspond(level, schema, stored)?),
                    None => (arrange(level, schema, false, columns, graph), identity(schema)),
                };
                let mut alternatives: Vec<Arrangement> = native.iter().map(|native| native.pick(&picked)).collect();
                if schema.multi_hot.is_none() {
                    let drop = |words: Option<usize>| words.into_iter();
                    alternatives.iter_mut().for_each(|native| native.unread.extend(drop(native.words.take())));
                }
                check_extent(&mut alternatives, columns, names)?;
                Ok(Self { alternatives, exhaustive: true })
            }
            RawFeatures::Named(columns) => {
                let arrangement = find_named(schema, columns, names).or_else(|missing| match stored {
                    Some(stored) => Ok(find_named(stored, columns, names)?.pick(&correspond(level, schema, stored)?)),
                    None => Err(missing),
                })?;
                Ok(Self { alternatives: vec![arrangement], exhaustive: false })
            }
        }
    }
}

/// Native names of the features of a level.
pub(super) fn prefix(level: Level) -> &'static str {
    if level == Level::Node { crate::columns::NODE_FEAT } else { crate::columns::EDGE_ATTR }
}

fn infer_native(level: Level, columns: &[RawColumn; 3], graph: usize) -> (FeatureSchema, Arrangement) {
    let mut arrangement = Arrangement::default();
    let mut real = Vec::new();
    for column in [NUMBERS, FLOATS].into_iter().filter(|&column| columns[column].is_present(graph)) {
        let width = columns[column].width(graph).unwrap_or(0);
        arrangement.lists.push((column, width));
        for at in 0..width {
            real.push(column == FLOATS || columns[column].is_real(at));
            let kind = if real[real.len() - 1] { &mut arrangement.continuous } else { &mut arrangement.categorical };
            kind.push(Place { column, at });
        }
    }
    arrangement.words = columns[WORDS].is_present(graph).then_some(WORDS);
    (FeatureSchema::by_position(real.into_iter(), arrangement.words.is_some(), prefix(level)), arrangement)
}

fn infer_named(columns: &[NamedColumn], choice: &ColumnChoice) -> Result<(FeatureSchema, Arrangement), FileProblem> {
    let mut schema = FeatureSchema::default();
    let mut arrangement = Arrangement::default();
    for (column, NamedColumn { values, kind }) in columns.iter().enumerate() {
        let name = values.name.clone();
        let place = Place { column, at: 0 };
        match kind {
            CellKind::Integer | CellKind::Text => {
                schema.categorical.push(gt_graph::Vocabulary::new(name, 0));
                arrangement.categorical.push(place);
            }
            CellKind::Real => {
                schema.continuous.push(name);
                arrangement.continuous.push(place);
            }
            CellKind::List if !choice.reads_feature(&name) => {
                schema.ignored.push(name);
                continue;
            }
            CellKind::List if arrangement.words.is_some() => return Err(FileProblem::SecondList(name)),
            CellKind::List => {
                schema.multi_hot = Some(gt_graph::Vocabulary::new(name, 0));
                arrangement.words = Some(column);
                continue;
            }
        }
        arrangement.lists.push((column, 1));
    }
    Ok((schema, arrangement))
}

/// The ways in which the native columns may hold the features of a schema. `own` is true for the
/// schema that the file states.
fn arrange(
    level: Level,
    schema: &FeatureSchema,
    own: bool,
    columns: &[RawColumn; 3],
    graph: usize,
) -> Vec<Arrangement> {
    let (a, b) = (schema.categorical.len(), schema.continuous.len());
    let words = schema.multi_hot.is_some().then_some(WORDS);
    let words_name = format!("{}_multi_hot", prefix(level));
    let unread = match schema.ignored.contains(&words_name) {
        true => vec![WORDS],
        false => Vec::new(),
    };
    if a + b == 0 && !schema.ignored.is_empty() {
        let unread = [NUMBERS, FLOATS].into_iter().chain(unread).collect();
        return vec![Arrangement { words, unread, ..Arrangement::default() }];
    }
    // List `first` holds `width` of all features, and the list of continuous numbers holds the
    // others.
    let spread = |positions: &[usize], all: usize, first: usize, width: usize| -> Arrangement {
        let place = |&at: &usize| match at.checked_sub(width) {
            None => Place { column: first, at },
            Some(rest) => Place { column: FLOATS, at: rest },
        };
        let places: Vec<Place> = positions.iter().map(place).collect();
        let lists = [(first, width), (FLOATS, all - width)];
        let lists = lists.into_iter().filter(|(_, width)| *width > 0).collect();
        let (categorical, continuous) = (places[..a].to_vec(), places[a..].to_vec());
        Arrangement { lists, categorical, continuous, words, unread: unread.clone() }
    };
    let in_order: Vec<usize> = (0..a + b).collect();
    let width = columns[NUMBERS].width(graph).unwrap_or(0);
    let mut alternatives = Vec::new();
    let named = match positions(schema, prefix(level)) {
        Some((named, all)) if all > a + b => {
            // The file usually has the ignored columns. A file without them is read by rank.
            alternatives.push(spread(&named, all, NUMBERS, all));
            alternatives.push(spread(&named, all, NUMBERS, width.min(all)));
            alternatives.push(spread(&named, all, FLOATS, all));
            let rank = |at: &usize| named.iter().filter(|other| *other < at).count();
            Some(named.iter().map(rank).collect())
        }
        named => named.map(|(named, _)| named),
    };
    if a > 0 && b > 0 {
        alternatives.push(spread(&in_order, a + b, NUMBERS, a));
        // Positions in a list of both kinds are known only if the names are positions.
        if let Some(named) = named {
            alternatives.push(spread(&named, a + b, NUMBERS, a + b));
            alternatives.push(spread(&named, a + b, NUMBERS, width.min(a + b)));
        }
    } else {
        // Columns of one kind have the order of the file's own schema, whatever their names are.
        let order = named.filter(|_| !own).unwrap_or(in_order);
        alternatives.push(spread(&order, a + b, NUMBERS, a + b));
        if b > 0 {
            alternatives.push(spread(&order, a + b, FLOATS, a + b));
        }
    }
    alternatives
}

/// Positions that default names state: those of categorical columns, then those of continuous
/// columns. Also returns the number of columns, ignored ones included.
fn positions(schema: &FeatureSchema, prefix: &str) -> Option<(Vec<usize>, usize)> {
    let number = |name: &String| -> Option<usize> {
        let at = name.strip_prefix(prefix)?.parse().ok()?;
        (format!("{prefix}{at}") == *name).then_some(at)
    };
    let read = schema.categorical.len() + schema.continuous.len();
    let columns = read + schema.ignored.iter().filter(|name| number(name).is_some()).count();
    let names = schema.categorical.iter().map(|vocabulary| &vocabulary.name).chain(&schema.continuous);
    let positions: Option<Vec<usize>> = names.map(|name| number(name).filter(|&at| at < columns)).collect();
    positions.map(|positions| (positions, columns))
}

/// Each feature at its own position.
fn identity(schema: &FeatureSchema) -> [Vec<usize>; 2] {
    let (a, b) = (schema.categorical.len(), schema.continuous.len());
    [(0..a).collect(), (a..a + b).collect()]
}

/// Position of each feature of a schema among the features that the file states. Equal names match
/// by name, otherwise features match by position.
fn correspond(level: Level, schema: &FeatureSchema, stored: &FeatureSchema) -> Result<[Vec<usize>; 2], FileProblem> {
    let (found, expected) = (stored.layout(), schema.layout());
    let other = || FileProblem::OtherFeatures { level, found: found.clone(), expected: expected.clone() };
    let text = |column: &&gt_graph::Vocabulary| !column.names.is_empty() && schema.continuous.contains(&column.name);
    if let Some(column) = stored.categorical.iter().find(text) {
        return Err(FileProblem::TextColumn(column.name.clone()));
    }
    let read = stored.names().filter(|name| !schema.ignored.iter().any(|ignored| ignored == name));
    let (count, ignores) = (read.count(), stored.names().any(|name| schema.ignored.iter().any(|known| known == name)));
    if (found.multi_hot != expected.multi_hot && !ignores) || count != schema.names().count() {
        return Err(other());
    }
    let names = |schema: &FeatureSchema| -> Vec<String> {
        let categorical = schema.categorical.iter().map(|vocabulary| vocabulary.name.clone());
        categorical.chain(schema.continuous.iter().cloned()).collect()
    };
    let (stored, wanted) = (names(stored), names(schema));
    let by_name: Option<Vec<usize>> =
        wanted.iter().map(|name| stored.iter().position(|stored| stored == name)).collect();
    match by_name {
        Some(mut categorical) => {
            let continuous = categorical.split_off(schema.categorical.len());
            Ok([categorical, continuous])
        }
        None if found == expected => Ok(identity(schema)),
        None => Err(other()),
    }
}

/// Drops arrangements with columns that the file lacks, and checks that the file has no other
/// columns.
fn check_extent(
    alternatives: &mut Vec<Arrangement>,
    columns: &[RawColumn; 3],
    names: &[String],
) -> Result<(), FileProblem> {
    let lacks = |arrangement: &Arrangement| {
        (0..3).find(|&column| arrangement.uses(column) && columns[column].extent == Extent::Nowhere)
    };
    if alternatives.iter().all(|arrangement| lacks(arrangement).is_some()) {
        let column = alternatives.first().and_then(lacks).unwrap_or(NUMBERS);
        return Err(missing(&columns[column].name, names));
    }
    alternatives.retain(|arrangement| lacks(arrangement).is_none());
    let unknown = |&column: &usize| {
        columns[column].extent == Extent::WholeFile && !alternatives.iter().any(|known| known.uses(column))
    };
    match (0..3).find(unknown) {
        Some(column) => Err(FileProblem::UnknownColumn(columns[column].name.clone())),
        None => Ok(()),
    }
}

fn missing(column: &str, names: &[String]) -> FileProblem {
    FileProblem::MissingColumn { column: column.into(), found: names.to_vec(), hint: "" }
}

/// Finds the columns of a schema in a table by name. Other columns are not read.
fn find_named(schema: &FeatureSchema, columns: &[NamedColumn], names: &[String]) -> Result<Arrangement, FileProblem> {
    let find =
        |name: &str| columns.iter().position(|column| column.values.name == name).ok_or_else(|| missing(name, names));
    let place = |name: &str| find(name).map(|column| Place { column, at: 0 });
    let mut arrangement = Arrangement {
        lists: Vec::new(),
        unread: Vec::new(),
        categorical: schema.categorical.iter().map(|column| place(&column.name)).collect::<Result<_, _>>()?,
        continuous: schema.continuous.iter().map(|name| place(name)).collect::<Result<_, _>>()?,
        words: schema.multi_hot.as_ref().map(|words| find(&words.name)).transpose()?,
    };
    arrangement.lists = arrangement.places().map(|place| (place.column, 1)).collect();
    Ok(arrangement)
}
