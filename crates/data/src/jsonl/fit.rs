//! Whether a graph has the columns that a schema, or a model, has.

use std::fmt;

use gt_graph::FeatureLayout;

use super::numbers::JsonRows;
use gt_graph::FeatureSchema;

/// Features of one record, on one level.
#[derive(Default)]
pub(super) struct FeatureRecord {
    pub(super) numbers: JsonRows,
    pub(super) floats: JsonRows,
    pub(super) words: JsonRows,
}

/// The keys of these three.
pub(super) type Names = [&'static str; 3];

/// What is wrong with which column.
pub(super) type Misfit = (&'static str, String);

/// Who has the columns that graphs should have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A model that the graphs are read for.
    Model,
    /// The schema that the file states.
    Schema,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Model { "the model" } else { "the schema" })
    }
}

/// The columns that graphs should have on one level.
pub(super) struct Expected {
    layout: FeatureLayout,
    /// Where the columns lie that have one list: categorical ones, then continuous ones, each in their order. Known where they are named by their position.
    places: Option<[Vec<usize>; 2]>,
    names: Names,
    owner: Owner,
    /// Whether some rows had them, and some had others.
    pub(super) met: bool,
    pub(super) missed: bool,
}

impl Expected {
    pub(super) fn new(schema: &FeatureSchema, names: Names, owner: Owner) -> Self {
        let layout = schema.layout();
        let columns = layout.categorical + layout.continuous;
        let place = |name: &str| {
            let at = name.strip_prefix(names[0])?.parse().ok().filter(|&at| at < columns)?;
            (format!("{}{at}", names[0]) == name).then_some(at)
        };
        let categorical: Option<Vec<usize>> = schema.categorical.iter().map(|column| place(&column.name)).collect();
        let continuous: Option<Vec<usize>> = schema.continuous.iter().map(|name| place(name)).collect();
        let places = categorical.zip(continuous).map(|(categorical, continuous)| [categorical, continuous]);
        // Columns of one kind lie in the order of the file's own schema, whatever they are called.
        let places = places.filter(|[categorical, continuous]| {
            let both = !categorical.is_empty() && !continuous.is_empty();
            both || owner == Owner::Model && !categorical.iter().chain(continuous).copied().eq(0..columns)
        });
        Self { layout, places, names, owner, met: false, missed: false }
    }

    /// Brings a graph's features into the form in which continuous columns have a key of their own, and compares them; what there are no rows of may be missing.
    ///
    /// # Errors
    /// The column that is missing, that nobody has, or that has another width.
    pub(super) fn check(&mut self, record: &mut FeatureRecord, rows: usize) -> Result<(), Misfit> {
        if rows == 0 {
            return Ok(());
        }
        if let Some(places) = &self.places {
            record.divide(places);
        }
        let result = self.compare(record);
        self.met |= result.is_ok();
        self.missed |= result.is_err();
        result
    }

    fn compare(&self, record: &FeatureRecord) -> Result<(), Misfit> {
        let FeatureLayout { categorical, continuous, multi_hot } = self.layout;
        let FeatureRecord { numbers, floats, words } = record;
        let both = categorical > 0 && continuous > 0;
        // One kind of columns is under either key, both are under one of them or under their own.
        let (of_numbers, of_floats) = if categorical == 0 && !numbers.present && floats.present {
            (0, continuous)
        } else if !both || !floats.present && numbers.first_width() != categorical {
            (categorical + continuous, 0)
        } else {
            (categorical, continuous)
        };
        let owner = self.owner;
        for (rows, width, name) in [(numbers, of_numbers, self.names[0]), (floats, of_floats, self.names[1])] {
            let found = rows.first_width();
            if found == width {
                continue;
            }
            return Err((
                name,
                match (rows.present, width) {
                    (false, _) => format!("the key is missing, but {owner} has it"),
                    (true, 0) => format!("{owner} has no such column"),
                    (true, _) => format!("rows of {found} values, {owner} has {width}"),
                },
            ));
        }
        match (words.present, multi_hot) {
            (false, true) => Err((self.names[2], format!("the key is missing, but {owner} has it"))),
            (true, false) => Err((self.names[2], format!("{owner} has no such column"))),
            _ => Ok(()),
        }
    }
}

impl FeatureRecord {
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.floats.clear();
        self.words.clear();
    }

    /// Takes columns from their places in a list that holds them all; where there are both kinds, continuous ones get their own.
    fn divide(&mut self, places: &[Vec<usize>; 2]) {
        let [categorical, continuous] = places;
        let columns = categorical.len() + continuous.len();
        // Rows that do not go together, or lack something, are complained about as they are.
        let whole = self.numbers.first_null.is_none() && self.numbers.width() == Ok(columns);
        if self.floats.present || !whole || columns == 0 {
            return;
        }
        let numbers = std::mem::take(&mut self.numbers);
        let take = |rows: &mut JsonRows, places: &[usize]| {
            let row = |row: &[f64]| places.iter().map(|&at| row[at]).collect::<Vec<_>>();
            rows.values = numbers.values.chunks_exact(columns).flat_map(row).collect();
            rows.lengths = vec![places.len(); numbers.lengths.len()];
            rows.real = places.iter().map(|&at| numbers.real.get(at) == Some(&true)).collect();
            (rows.depth, rows.present) = (numbers.depth, true);
        };
        take(&mut self.numbers, if categorical.is_empty() { continuous } else { categorical });
        if !categorical.is_empty() && !continuous.is_empty() {
            take(&mut self.floats, continuous);
        }
    }
}
