//! What is told of the records: ours beside the paper's, in words and grids. How they look is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::cell::{Cell, set_of};
use super::claims::{Claim, Known, Status, claims};
use super::data::is_published;
use super::paper::{PAPER_RUNS, Paper, PaperCell};
use super::record::Record;
use super::run::minutes;
use super::score::{Measure, Score, Verdict};
use super::{html, markdown, plain};

/// Everything, in sections.
pub struct Page {
    pub title: &'static str,
    pub text: Vec<String>,
    pub sections: Vec<Section>,
}

pub struct Section {
    /// `table1` and so on.
    pub name: String,
    pub title: String,
    pub text: Vec<String>,
    pub grid: Grid,
}

/// A table.
pub struct Grid {
    pub head: Vec<&'static str>,
    /// Columns that a terminal has room for.
    pub brief: usize,
    pub rows: Vec<Vec<Entry>>,
}

pub enum Entry {
    Text(String),
    /// Something that is typed.
    Name(String),
    /// Good, bad or neither.
    Judged(String, Option<bool>),
}

/// Our runs of a cell.
#[derive(Clone, Debug, Serialize)]
pub struct Ours {
    pub seeds: Vec<u64>,
    pub parameters: usize,
    /// The last epoch's model, in the paper's form.
    pub test: Score,
    pub train: Score,
    /// The same over the whole test part.
    pub exact: Score,
    /// The model with the best validation loss, in the paper's form.
    pub best: Option<Score>,
    pub epochs: f64,
    pub s_per_epoch: f64,
    /// Mean of the runs; runs side by side share their device's time.
    pub device_seconds: f64,
}

/// Ours beside the paper's.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub table: String,
    pub cell: String,
    pub row: String,
    pub measure: &'static str,
    pub paper_test: Score,
    pub paper_train: Option<Score>,
    pub paper_epochs: Option<f64>,
    pub paper_epoch_seconds: Option<f64>,
    pub paper_hours: Option<f64>,
    pub paper_parameters: Option<usize>,
    pub ours: Option<Ours>,
    /// Ours minus the paper's, in units of the root of the sum of both squared deviations.
    pub test_units: Option<f64>,
    pub train_units: Option<f64>,
    pub verdict: Verdict,
}

/// The paper and our records.
pub struct Results<'a> {
    pub paper: &'a Paper,
    pub records: &'a BTreeMap<String, Record>,
}

impl Results<'_> {
    /// The records of a cell.
    fn of(&self, cell: &Cell) -> Vec<&Record> {
        let name = cell.name();
        self.records.values().filter(|record| record.cell == name).collect()
    }

    fn ours(&self, cell: &Cell) -> Option<Ours> {
        let records = self.of(cell);
        let values = |of: &dyn Fn(&Record) -> f64| -> Vec<f64> { records.iter().map(|record| of(record)).collect() };
        let mean = |of: &dyn Fn(&Record) -> f64| values(of).iter().sum::<f64>() / records.len() as f64;
        let best: Vec<f64> = records.iter().filter_map(|record| Some(record.best.as_ref()?.parts.test.paper)).collect();
        Some(Ours {
            seeds: records.iter().map(|record| record.seed).collect(),
            parameters: records.first()?.parameters,
            test: Score::of(&values(&|record| record.last.test.paper))?,
            train: Score::of(&values(&|record| record.last.train.paper))?,
            exact: Score::of(&values(&|record| record.last.test.exact))?,
            best: Score::of(&best),
            epochs: mean(&|record| record.epochs as f64),
            s_per_epoch: mean(&|record| record.s_per_epoch),
            device_seconds: mean(&|record| record.device_seconds),
        })
    }

    fn compare(&self, table: &str, cell: &PaperCell) -> Comparison {
        let measure = Measure::of(&cell.preset);
        let ours = self.ours(&Cell::first_draw(&cell.preset));
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

    /// All cells of all tables.
    pub fn comparisons(&self) -> Vec<Comparison> {
        let of_table = |table| move |cell| (table, cell);
        let cells = self.paper.tables.iter().flat_map(|table| table.cells.iter().map(of_table(table)));
        cells.map(|(table, cell)| self.compare(&table.name, cell)).collect()
    }

    pub fn claims(&self) -> Vec<Claim> {
        let ours = |preset: &str| {
            // A single run is no evidence, as it is no verdict.
            let ours = self.ours(&Cell::first_draw(preset)).filter(|ours| ours.seeds.len() > 1)?;
            Some(Known { test: ours.test, train: Some(ours.train) })
        };
        let paper = |preset: &str| self.paper.cell(preset).map(|cell| Known { test: cell.test, train: cell.train });
        claims(&ours, &paper)
    }

    /// Time of all runs, ours by device, and the paper's of as many runs of the same cells.
    pub fn hours(&self) -> Hours {
        let mut hours = Hours::default();
        for record in self.records.values() {
            for (device, seconds) in record.devices() {
                *hours.ours.entry(device).or_default() += seconds / 3600.0;
            }
            hours.runs += 1;
            // A second draw is no run of the paper's.
            match self.paper.cell(&record.cell).and_then(|cell| cell.hours) {
                Some(paper) => hours.paper += paper,
                None => hours.not_printed += 1,
            }
        }
        hours
    }

    pub fn page(&self) -> Page {
        let comparisons = self.comparisons();
        let mut sections: Vec<Section> = Vec::new();
        for table in &self.paper.tables {
            let rows: Vec<&Comparison> = comparisons.iter().filter(|row| row.table == table.name).collect();
            sections.push(Section {
                name: table.name.clone(),
                title: table.title.clone(),
                text: vec![format!("The paper’s numbers are those of its {}. {}", table.source, table.note)],
                grid: grid(&rows),
            });
        }
        sections.push(self.draws());
        let claims = self.claims();
        sections.push(claims_section(&claims));
        sections.push(checks_section(&claims));
        sections.push(self.data());
        Page { title: "The paper’s tables, made again", text: self.summary(&comparisons), sections }
    }

    fn summary(&self, comparisons: &[Comparison]) -> Vec<String> {
        let cells = self.paper.cells(None);
        let made = cells.iter().map(|cell| self.of(cell).len().min(PAPER_RUNS)).sum::<usize>();
        // A configuration may stand in several tables.
        let distinct: BTreeMap<&str, Verdict> = comparisons.iter().map(|row| (&*row.cell, row.verdict)).collect();
        let count = |verdict: Verdict| distinct.values().filter(|&&of| of == verdict).count();
        let verdicts: Vec<String> =
            Verdict::ALL.iter().map(|verdict| format!("{} {}", count(*verdict), verdict.name())).collect();
        let mut text = vec![
            format!(
                "{made} of {} runs ({} configurations, {PAPER_RUNS} seeds each) are done. Of the configurations, some of which stand in several of the {} cells of the three tables: {}.",
                cells.len() * PAPER_RUNS,
                cells.len(),
                comparisons.len(),
                verdicts.join(", ")
            ),
            self.hours().sentence(),
            "Scores are mean ± deviation over seeds of the last epoch’s model, in the paper’s form (mean of batch means): MAE on ZINC, accuracy in percent on the others. \
             A difference is ours minus theirs, in units of the root of the sum of both squared deviations. Verdicts are about test scores: reproduced within 2 units, else better or worse; \
             inconclusive where the unit exceeds 3 points or 0.05 MAE, or is not known because there is one seed only."
                .to_owned(),
        ];
        let mut changes: Vec<&str> =
            self.records.values().flat_map(|record| record.changes.iter().map(String::as_str)).collect();
        changes.sort_unstable();
        changes.dedup();
        if !changes.is_empty() {
            text.push(format!(
                "These are not the paper’s settings: there are records made with {}.",
                changes.join(", ")
            ));
        }
        let other = self.records.values().filter(|record| !is_published(set_of(&record.preset), &record.data)).count();
        if other > 0 {
            text.push(format!("This is not the paper’s data: {other} of the records were made with other graphs or another number of them."));
        }
        let mixed = cells.iter().filter_map(|cell| {
            let devices: BTreeSet<String> =
                self.of(cell).iter().flat_map(|record| record.devices()).map(|(device, _)| device).collect();
            (devices.len() > 1).then(|| format!("{} ({})", cell.name(), Vec::from_iter(devices).join("; ")))
        });
        let mixed: Vec<String> = mixed.collect();
        if !mixed.is_empty() {
            text.push(format!("Made on several kinds of devices or in several precisions: {}.", mixed.join(", ")));
        }
        text
    }

    /// What redrawing the data changes.
    fn draws(&self) -> Section {
        let second = Cell::second_draw();
        let first = Cell::first_draw(&second.preset);
        let ours = [&first, &second].map(|cell| self.ours(cell));
        let text = match &ours {
            [Some(one), Some(other)] => {
                let shift = other.test.mean - one.test.mean;
                let units = one.test.unit(&other.test).map_or("unknown".into(), |unit| signed(shift / unit));
                format!("The second draw shifts the test score by {} ({units} units).", signed(shift))
            }
            [_, Some(_)] => format!("There are no runs of {} to compare with.", first.name()),
            [_, None] => format!("`gt reproduce draw` makes the runs of {}.", second.name()),
        };
        let row = |cell: &Cell, ours: &Option<Ours>| {
            let seed = cell.data_seed().map_or(String::new(), |seed| seed.to_string());
            let of = |score: fn(&Ours) -> Score| ours.as_ref().map_or("–".into(), |ours| told(score(ours)));
            vec![
                Entry::Name(cell.name()),
                Entry::Text(seed),
                Entry::Text(of(|ours| ours.test)),
                Entry::Text(of(|ours| ours.train)),
                Entry::Text(ours.as_ref().map_or("–".into(), |ours| format!("{:.2}", ours.epochs))),
                Entry::Text(runs(ours.as_ref())),
            ]
        };
        let head = vec!["cell", "data seed", "test", "train", "epochs", "runs"];
        let rows = vec![row(&first, &ours[0]), row(&second, &ours[1])];
        let title = "Another draw of the data".to_owned();
        Section { name: "draw".into(), title, text: vec![text], grid: Grid { brief: head.len(), head, rows } }
    }

    /// Which graphs the runs saw.
    fn data(&self) -> Section {
        let mut seen: BTreeMap<(&str, Option<u64>, usize, &str), usize> = BTreeMap::new();
        for record in self.records.values() {
            let data = &record.data;
            *seen.entry((&data.name, data.seed, data.graphs, &data.content_sha256)).or_default() += 1;
        }
        let mut text = Vec::new();
        let mut names: Vec<&str> = seen.keys().map(|(name, ..)| *name).collect();
        let different = names.len();
        names.dedup();
        if names.len() < different {
            text.push("Beware: runs with data of the same name saw different graphs.".to_owned());
        }
        let row = |((name, seed, graphs, content), runs): (&(&str, Option<u64>, usize, &str), &usize)| {
            vec![
                Entry::Text((*name).to_owned()),
                Entry::Text(seed.map_or("–".into(), |seed| seed.to_string())),
                Entry::Text(graphs.to_string()),
                Entry::Text(runs.to_string()),
                Entry::Name((*content).to_owned()),
            ]
        };
        let head = vec!["data", "seed", "graphs", "runs", "SHA-256 of the content"];
        let grid = Grid { brief: head.len(), head, rows: seen.iter().map(row).collect() };
        Section { name: "data".into(), title: "Data".into(), text, grid }
    }
}

/// Hours of all runs.
#[derive(Debug, Default, Serialize)]
pub struct Hours {
    /// By device and precision.
    pub ours: BTreeMap<String, f64>,
    pub runs: usize,
    pub paper: f64,
    /// Runs of ours whose hours the paper does not print.
    pub not_printed: usize,
}

impl Hours {
    pub fn sentence(&self) -> String {
        let ours: Vec<String> =
            self.ours.iter().map(|(device, hours)| format!("{} on {device}", minutes(hours * 3600.0))).collect();
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
            format!("the paper’s runs of the same cells took {:.1} h on GTX 1080 Ti cards{but}", self.paper)
        };
        format!("The {} took {}; {theirs}.", counted(self.runs, "run"), ours.join(", "))
    }
}

impl Page {
    pub fn markdown(&self) -> String {
        markdown::page(self)
    }

    /// A text with the tables between its two marks, if it has them.
    pub fn insert(&self, text: &str) -> Option<String> {
        markdown::insert(self, text)
    }

    pub fn html(&self) -> String {
        html::page(self)
    }
}

impl Section {
    /// For a terminal.
    pub fn plain(&self) -> String {
        plain::section(self)
    }
}

/// A number and what is counted.
pub fn counted(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// A score as the paper prints it.
fn told(score: Score) -> String {
    match score.deviation {
        Some(deviation) => format!("{:.3} ± {deviation:.3}", score.mean),
        None => format!("{:.3}", score.mean),
    }
}

fn signed(value: f64) -> String {
    format!("{value:+.2}").replace('-', "−")
}

/// How many runs there are, and how many there should be.
fn runs(ours: Option<&Ours>) -> String {
    match ours.map_or(0, |ours| ours.seeds.len()) {
        enough if enough >= PAPER_RUNS => enough.to_string(),
        few => format!("{few} of {PAPER_RUNS}"),
    }
}

fn grid(rows: &[&Comparison]) -> Grid {
    let head = vec![
        "cell",
        "test, paper",
        "ours",
        "units apart",
        "verdict",
        "runs",
        "train, paper",
        "ours",
        "units apart",
        "epochs, paper",
        "ours",
        "time of a run, paper",
        "ours",
        "exact test",
        "best validation’s test",
        "row",
    ];
    let none = || "–".to_owned();
    let row = |row: &&Comparison| {
        let ours = row.ours.as_ref();
        let of = |score: fn(&Ours) -> Option<Score>| ours.and_then(score).map_or_else(none, told);
        let texts = [
            row.paper_train.map_or_else(none, told),
            of(|ours| Some(ours.train)),
            row.train_units.map_or_else(none, signed),
            row.paper_epochs.map_or_else(none, |epochs| format!("{epochs:.2}")),
            ours.map_or_else(none, |ours| format!("{:.2}", ours.epochs)),
            row.paper_hours.map_or_else(none, |hours| format!("{hours:.2} h")),
            ours.map_or_else(none, |ours| minutes(ours.device_seconds)),
            of(|ours| Some(ours.exact)),
            of(|ours| ours.best),
            row.row.clone(),
        ];
        let judged = match row.verdict {
            Verdict::Reproduced | Verdict::Better => Some(true),
            Verdict::Worse => Some(false),
            Verdict::Inconclusive | Verdict::NotRun => None,
        };
        let mut entries = vec![
            Entry::Name(row.cell.clone()),
            Entry::Text(told(row.paper_test)),
            Entry::Text(of(|ours| Some(ours.test))),
            Entry::Text(row.test_units.map_or_else(none, signed)),
            Entry::Judged(row.verdict.name().into(), judged),
            Entry::Text(runs(ours)),
        ];
        entries.extend(texts.map(Entry::Text));
        entries
    };
    Grid { head, brief: 6, rows: rows.iter().map(row).collect() }
}

fn status(status: Status) -> Entry {
    let judged = match status {
        Status::Holds => Some(true),
        Status::DoesNotHold => Some(false),
        Status::NotEnoughRecords => None,
    };
    Entry::Judged(status.name().into(), judged)
}

fn claims_section(claims: &[Claim]) -> Section {
    let row = |(number, claim): (usize, &Claim)| {
        let count = |holds: Option<bool>| claim.checks.iter().filter(|check| check.holds == holds).count();
        let text = format!("{} for, {} against, {} open", count(Some(true)), count(Some(false)), count(None));
        vec![
            Entry::Text(format!("{number}. {}", claim.statement)),
            status(claim.status),
            Entry::Text(text),
            status(claim.in_the_paper),
            Entry::Text(claim.source.into()),
        ]
    };
    let head = vec!["statement", "ours", "comparisons", "the paper’s own numbers", "where it stands"];
    Section {
        name: "claims".into(),
        title: "The paper’s statements".into(),
        text: vec![
            "A statement holds if every comparison of means behind it goes its way, and does not as soon as one goes against it, however small the difference; \
             the comparisons are below, with their size in units."
                .into(),
        ],
        grid: Grid { brief: 4, head, rows: (1..).zip(claims).map(row).collect() },
    }
}

fn checks_section(claims: &[Claim]) -> Section {
    let yes = |holds: Option<bool>| match holds {
        Some(true) => Entry::Judged("yes".into(), Some(true)),
        Some(false) => Entry::Judged("no".into(), Some(false)),
        None => Entry::Text("–".into()),
    };
    let mut rows = Vec::new();
    for (number, claim) in (1..).zip(claims) {
        for check in &claim.checks {
            let score = |score: Option<Score>| Entry::Text(score.map_or("–".into(), told));
            rows.push(vec![
                Entry::Text(number.to_string()),
                Entry::Name(check.ahead.clone()),
                score(check.scores[0]),
                Entry::Name(check.behind.clone()),
                score(check.scores[1]),
                Entry::Text(check.units.map_or("–".into(), signed)),
                yes(check.holds),
                yes(check.holds_in_the_paper),
                Entry::Text(check.compared.name().into()),
            ]);
        }
    }
    let head =
        vec!["statement", "ahead", "ours", "behind", "ours", "units ahead", "is so", "is so in the paper", "compared"];
    Section {
        name: "comparisons".into(),
        title: "Comparisons behind the statements".into(),
        text: Vec::new(),
        grid: Grid { brief: 9, head, rows },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_that_the_paper_does_not_print_are_not_told_as_none() {
        let hours = |runs, paper, not_printed| {
            let ours = BTreeMap::from([("H200, tf32".to_owned(), 0.5)]);
            Hours { ours, runs, paper, not_printed }.sentence()
        };
        let theirs = "the paper’s runs of the same cells took 21.0 h on GTX 1080 Ti cards";
        assert_eq!(hours(4, 21.0, 0), format!("The 4 runs took 30 min on H200, tf32; {theirs}."));
        let but = "(without 4 of ours, of which it prints none)";
        assert_eq!(hours(8, 21.0, 4), format!("The 8 runs took 30 min on H200, tf32; {theirs} {but}."));
        assert_eq!(hours(4, 0.0, 4), "The 4 runs took 30 min on H200, tf32; the paper prints no hours of these cells.");
        assert_eq!(Hours::default().sentence(), "No run is done yet.");
    }
}
