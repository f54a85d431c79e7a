//! Whether a graph has the columns that a schema, or a model, has.

use gt_graph::FeatureLayout;

use super::numbers::JsonRows;
use crate::schema::FeatureSchema;

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

/// The columns that graphs should have on one level.
pub(super) struct Expected {
    layout: FeatureLayout,
    /// Where categorical and continuous columns lie in one list: which are continuous, by position. Known where they are named by it.
    real: Option<Vec<bool>>,
    names: Names,
    /// Who has these columns, in messages.
    who: &'static str,
    /// Whether some rows had them, and some had others.
    pub(super) met: bool,
    pub(super) missed: bool,
}

impl Expected {
    pub(super) fn new(schema: &FeatureSchema, names: Names, who: &'static str) -> Self {
        let layout = schema.layout();
        let at = |position: usize| {
            let name = format!("{}{position}", names[0]);
            let categorical = schema.categorical.iter().any(|column| column.name == name);
            let continuous = schema.continuous.contains(&name);
            (categorical || continuous).then_some(continuous)
        };
        let real = (0..layout.categorical + layout.continuous).map(at).collect();
        Self { layout, real, names, who, met: false, missed: false }
    }

    /// Brings a graph's features into the form in which continuous columns have a key of their own, and compares them; what there are no rows of may be missing.
    ///
    /// # Errors
    /// The column that is missing, that nobody has, or that has another width.
    pub(super) fn check(&mut self, record: &mut FeatureRecord, rows: usize) -> Result<(), Misfit> {
        if rows == 0 {
            return Ok(());
        }
        if let Some(real) = &self.real
            && self.layout.categorical > 0
            && self.layout.continuous > 0
        {
            record.divide(real);
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
        let who = self.who;
        for (rows, width, name) in [(numbers, of_numbers, self.names[0]), (floats, of_floats, self.names[1])] {
            let found = rows.first_width();
            if found == width {
                continue;
            }
            return Err((
                name,
                match (rows.present, width) {
                    (false, _) => format!("the key is missing, but {who} has it"),
                    (true, 0) => format!("{who} has no such column"),
                    (true, _) => format!("rows of {found} values, {who} has {width}"),
                },
            ));
        }
        match (words.present, multi_hot) {
            (false, true) => Err((self.names[2], format!("the key is missing, but {who} has it"))),
            (true, false) => Err((self.names[2], format!("{who} has no such column"))),
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

    /// Moves continuous columns out of a list that holds them all.
    fn divide(&mut self, real: &[bool]) {
        // Rows that do not go together, or lack something, are complained about as they are.
        let whole = self.numbers.first_null.is_none() && self.numbers.width() == Ok(real.len());
        if self.floats.present || !whole {
            return;
        }
        let numbers = std::mem::take(&mut self.numbers);
        let categorical = real.iter().filter(|real| !**real).count();
        for (rows, kind, width) in
            [(&mut self.numbers, false, categorical), (&mut self.floats, true, real.len() - categorical)]
        {
            let values = numbers.values.iter().zip(real.iter().cycle());
            rows.values = values.filter(|(_, real)| **real == kind).map(|(value, _)| *value).collect();
            rows.lengths = vec![width; numbers.lengths.len()];
            rows.real = vec![kind; width];
            (rows.depth, rows.present) = (numbers.depth, true);
        }
    }
}
