//! Our records compared with the paper's numbers, cell by cell.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cell::Cell;
use crate::claims::{Claim, KnownScores, check_claims};
use crate::paper::{Paper, PaperCell};
use crate::record::Record;
use crate::score::{Measure, Score, Verdict};
use crate::wording::{count_of, duration_words};

/// Summary of our runs of a cell.
#[derive(Clone, Debug, Serialize)]
pub struct Ours {
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// Number of parameters.
    pub parameters: usize,
    /// Test score of the last epoch's model, in the paper's form.
    pub test: Score,
    /// Training score of the last epoch's model, in the paper's form.
    pub train: Score,
    /// Test score of the last epoch's model over the whole test part.
    pub exact: Score,
    /// Test score of the model with the best validation loss, in the paper's form.
    pub best: Option<Score>,
    /// Mean number of epochs.
    pub epochs: f64,
    /// Mean seconds per epoch.
    pub s_per_epoch: f64,
    /// Mean device seconds per run; parallel runs share the time of their device.
    pub device_seconds: f64,
}

/// A cell of a table: the paper's numbers and ours.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Name of the table.
    pub table: String,
    /// Name of the cell.
    pub cell: String,
    /// Description for people.
    pub row: String,
    /// Name of the measure that scores are in.
    pub measure: &'static str,
    /// The paper's test score.
    pub paper_test: Score,
    /// The paper's training score.
    pub paper_train: Option<Score>,
    /// The paper's mean number of epochs.
    pub paper_epochs: Option<f64>,
    /// The paper's seconds per epoch.
    pub paper_epoch_seconds: Option<f64>,
    /// The paper's hours of a run.
    pub paper_hours: Option<f64>,
    /// The paper's number of parameters.
    pub paper_parameters: Option<usize>,
    /// Our runs, if there are any.
    pub ours: Option<Ours>,
    /// Our test score minus the paper's. The unit is the root of the sum of both squared
    /// deviations.
    pub test_units: Option<f64>,
    /// Our training score minus the paper's. The unit is the root of the sum of both squared
    /// deviations.
    pub train_units: Option<f64>,
    /// The verdict on the test score.
    pub verdict: Verdict,
}

/// The paper and our records.
pub struct Results<'a> {
    /// The printed numbers.
    pub paper: &'a Paper,
    /// Records by the names of their runs.
    pub records: &'a BTreeMap<String, Record>,
}

impl Results<'_> {
    /// The records of a cell.
    pub(crate) fn records_of(&self, cell: &Cell) -> Vec<&Record> {
        let name = cell.name();
        self.records.values().filter(|record| record.cell == name).collect()
    }

    /// Summary of our runs of a cell; none without runs.
    pub(crate) fn summarize_cell(&self, cell: &Cell) -> Option<Ours> {
        let records = self.records_of(cell);
        let values =
            |number: &dyn Fn(&Record) -> f64| -> Vec<f64> { records.iter().map(|record| number(record)).collect() };
        let mean = |number: &dyn Fn(&Record) -> f64| values(number).iter().sum::<f64>() / records.len() as f64;
        let best: Vec<f64> = records.iter().filter_map(|record| Some(record.best.as_ref()?.parts.test.paper)).collect();
        Some(Ours {
            seeds: records.iter().map(|record| record.seed).collect(),
            parameters: records.first()?.parameters,
            test: Score::from_runs(&values(&|record| record.last.test.paper))?,
            train: Score::from_runs(&values(&|record| record.last.train.paper))?,
            exact: Score::from_runs(&values(&|record| record.last.test.exact))?,
            best: Score::from_runs(&best),
            epochs: mean(&|record| record.epochs as f64),
            s_per_epoch: mean(&|record| record.s_per_epoch),
            device_seconds: mean(&|record| record.device_seconds),
        })
    }

    fn compare_cell(&self, table: &str, cell: &PaperCell) -> Comparison {
        let measure = Measure::for_preset(&cell.preset);
        let ours = self.summarize_cell(&Cell::first_draw(&cell.preset));
        let units = |paper: Option<Score>, own: fn(&Ours) -> Score| {
            let (paper, own) = (paper?, own(ours.as_ref()?));
            Some((own.mean - paper.mean) / paper.unit(&own)?)
        };
        Comparison {
            table: table.to_owned(),
            cell: cell.preset.clone(),
            row: cell.row.clone(),
            measure: measure.name,
            paper_test: cell.test,
            paper_train: cell.train,
            paper_epochs: cell.epochs,
            paper_epoch_seconds: cell.epoch_seconds,
            paper_hours: cell.hours,
            paper_parameters: cell.parameters,
            test_units: units(Some(cell.test), |ours| ours.test),
            train_units: units(cell.train, |ours| ours.train),
            verdict: Verdict::new(measure, &cell.test, ours.as_ref().map(|ours| &ours.test)),
            ours,
        }
    }

    /// All cells of all tables, in the paper's order.
    pub fn comparisons(&self) -> Vec<Comparison> {
        let of_table = |table| move |cell| (table, cell);
        let cells = self.paper.tables.iter().flat_map(|table| table.cells.iter().map(of_table(table)));
        cells.map(|(table, cell)| self.compare_cell(&table.name, cell)).collect()
    }

    /// The paper's statements, checked on our records.
    pub fn claims(&self) -> Vec<Claim> {
        let ours = |preset: &str| {
            // A single run is no evidence, as it is no verdict.
            let ours = self.summarize_cell(&Cell::first_draw(preset)).filter(|ours| ours.seeds.len() > 1)?;
            Some(KnownScores { test: ours.test, train: Some(ours.train) })
        };
        let paper =
            |preset: &str| self.paper.cell(preset).map(|cell| KnownScores { test: cell.test, train: cell.train });
        check_claims(&ours, &paper)
    }

    /// Hours of all our runs, and of as many of the paper's runs of the same cells.
    pub fn hours(&self) -> Hours {
        let mut hours = Hours::default();
        for record in self.records.values() {
            for (device, seconds) in record.devices() {
                *hours.ours.entry(device).or_default() += seconds / 3600.0;
            }
            hours.runs += 1;
            // The paper has no run on a second draw.
            match self.paper.cell(&record.cell).and_then(|cell| cell.hours) {
                Some(paper) => hours.paper += paper,
                None => hours.not_printed += 1,
            }
        }
        hours
    }
}

/// Hours of our runs and of the paper's.
#[derive(Debug, Default, Serialize)]
pub struct Hours {
    /// Our hours, by device and precision.
    pub ours: BTreeMap<String, f64>,
    /// Number of our runs.
    pub runs: usize,
    /// The paper's hours of as many runs of the same cells.
    pub paper: f64,
    /// Our runs of cells whose hours the paper does not print.
    pub not_printed: usize,
}

impl Hours {
    /// Both hours in one sentence.
    pub fn sentence(&self) -> String {
        let ours: Vec<String> =
            self.ours.iter().map(|(device, hours)| format!("{} on {device}", duration_words(hours * 3600.0))).collect();
        if ours.is_empty() {
            return "No run is done yet.".into();
        }
        let but = match self.not_printed {
            0 => String::new(),
            count => format!(" (without {count} of ours, of which it prints none)"),
        };
        let theirs = if self.not_printed == self.runs {
            "the paper prints no hours of these cells".to_owned()
        } else {
            format!("the paper’s runs of the same cells took {:.1} h on GTX 1080 Ti GPUs{but}", self.paper)
        };
        format!("The {} took {}; {theirs}.", count_of(self.runs, "run"), ours.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_that_the_paper_does_not_print_are_named() {
        let hours = |runs, paper, not_printed| {
            let ours = BTreeMap::from([("H200, tf32".to_owned(), 0.5)]);
            Hours { ours, runs, paper, not_printed }.sentence()
        };
        let theirs = "the paper’s runs of the same cells took 21.0 h on GTX 1080 Ti GPUs";
        assert_eq!(hours(4, 21.0, 0), format!("The 4 runs took 30 min on H200, tf32; {theirs}."));
        let but = "(without 4 of ours, of which it prints none)";
        assert_eq!(hours(8, 21.0, 4), format!("The 8 runs took 30 min on H200, tf32; {theirs} {but}."));
        assert_eq!(hours(4, 0.0, 4), "The 4 runs took 30 min on H200, tf32; the paper prints no hours of these cells.");
        assert_eq!(Hours::default().sentence(), "No run is done yet.");
    }
}
