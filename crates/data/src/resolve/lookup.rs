//! Values of a column that are known by names: categories and classes.

use std::collections::HashMap;

use gt_graph::{TargetColumn, Vocabulary};

use crate::raw::{FIRST_INEXACT, RawColumn, Written};
use crate::reason::{KnownNames, Number, Problem};

/// Turns the values of one column into the numbers of their names.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Names in the order of their numbers.
    names: Vec<String>,
    by_name: HashMap<String, u32>,
    /// Names that are whole numbers: files may write them as numbers.
    by_number: HashMap<i64, u32>,
    /// Whether an unknown name becomes known.
    open: bool,
    /// The number of unknown names.
    other: Option<u32>,
    /// The numbers of the names in the schema of the file; a number of the file is a position here.
    /// Names that the model does not know have none.
    written: Option<Vec<(String, Option<u32>)>>,
}

impl Lookup {
    /// A column without known names.
    pub(super) fn open() -> Self {
        Self { open: true, ..Self::default() }
    }

    /// A column of features. `stored` is the column in the schema of the file. `None` if the column
    /// has numbers only.
    pub(super) fn of_feature(column: &Vocabulary, stored: Option<&Vocabulary>) -> Option<Self> {
        let other = column.other.then(|| column.size.saturating_sub(1) as u32);
        Self::known(&column.names, other, stored.map_or(&[], |stored| &stored.names))
    }

    /// A column of classes. `stored` is the column in the schema of the file. `None` if the column
    /// has numbers only.
    pub(super) fn of_target(column: &TargetColumn, stored: Option<&TargetColumn>) -> Option<Self> {
        Self::known(&column.names, None, stored.map_or(&[], |stored| &stored.names))
    }

    fn known(names: &[String], other: Option<u32>, stored: &[String]) -> Option<Self> {
        if names.is_empty() && stored.is_empty() {
            return None;
        }
        let mut lookup = Self { other, ..Self::default() };
        for name in names {
            lookup.insert(name);
        }
        if !stored.is_empty() {
            let number = |name: &String| match names.is_empty() {
                // The model knows numbers, and the file has names.
                true => name.parse().ok(),
                false => lookup.find(name).or(other),
            };
            lookup.written = Some(stored.iter().map(|name| (name.clone(), number(name))).collect());
        }
        Some(lookup)
    }

    fn insert(&mut self, name: &str) -> u32 {
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), number);
        if let Ok(digits) = name.parse::<i64>() {
            self.by_number.entry(digits).or_insert(number);
        }
        number
    }

    fn find(&self, name: &str) -> Option<u32> {
        let number = || whole(name.parse().ok()?).and_then(|number| self.by_number.get(&number));
        self.by_name.get(name).or_else(number).copied()
    }

    /// The number of the value at a position of a column.
    pub(super) fn number(&mut self, column: &RawColumn, at: usize) -> Result<u32, Problem> {
        match column.written(at)? {
            Written::Text(name) if self.names.is_empty() && !self.open => {
                let number: Option<f64> = name.parse().ok();
                let index = number.and_then(whole).and_then(|number| u32::try_from(number).ok());
                index.ok_or_else(|| Problem::NotANumber(name.into()))
            }
            Written::Text(name) => self.number_of(name),
            Written::Number(number) => {
                let wrong = || Problem::NotACategory { value: number, inferred: false };
                let digits = match number {
                    Number::Real(number) => whole(number).map(i128::from),
                    whole => whole.digits(),
                };
                let digits = digits.ok_or_else(wrong)?;
                if let Some(written) = &self.written {
                    let size = written.len();
                    let index = usize::try_from(digits).map_err(|_| wrong())?;
                    return match written.get(index) {
                        Some((_, Some(number))) => Ok(*number),
                        Some((name, None)) if self.names.is_empty() => Err(Problem::NotANumber(name.clone())),
                        Some((name, None)) => Err(self.unknown(name)),
                        None => Err(Problem::BeyondVocabulary { value: index, size }),
                    };
                }
                match i64::try_from(digits).ok().and_then(|digits| self.by_number.get(&digits)) {
                    Some(number) => Ok(*number),
                    None => self.number_of(&digits.to_string()),
                }
            }
        }
    }

    /// The number of a name, which becomes known if the names are open.
    pub(super) fn number_of(&mut self, name: &str) -> Result<u32, Problem> {
        match self.find(name).or(self.other) {
            Some(number) => Ok(number),
            None if self.open => Ok(self.insert(name)),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> Problem {
        Problem::UnknownName { value: name.into(), known: Box::new(KnownNames::new(&self.names)) }
    }

    /// Whether names may still be added.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// The names in the order of their numbers.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The names in order, and the new number of each name. Whole numbers are in the order of
    /// their values, so that the order of rows has no effect.
    pub(super) fn sorted(&self) -> (Vec<String>, Vec<u32>) {
        sort_names(&self.names)
    }
}

/// Names in order, and the position of each name in the order.
pub(super) fn sort_names(names: &[String]) -> (Vec<String>, Vec<u32>) {
    let numbers: Option<Vec<i64>> = names.iter().map(|name| name.parse().ok()).collect();
    let mut order: Vec<usize> = (0..names.len()).collect();
    match numbers {
        Some(numbers) => order.sort_by(|&a, &b| numbers[a].cmp(&numbers[b]).then_with(|| names[a].cmp(&names[b]))),
        None => order.sort_by(|&a, &b| names[a].cmp(&names[b])),
    }
    let mut places = vec![0; names.len()];
    order.iter().enumerate().for_each(|(place, &at)| places[at] = place as u32);
    (order.into_iter().map(|at| names[at].clone()).collect(), places)
}

/// A number as an integer, if it is whole.
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < FIRST_INEXACT as f64).then_some(number as i64)
}
