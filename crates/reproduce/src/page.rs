//! All results as one page of text and tables, independent of the output format.

use std::collections::{BTreeMap, BTreeSet};

use crate::cell::{Cell, published_set};
use crate::claims::{Claim, Status};
use crate::paper::PAPER_RUNS;
use crate::results::{Comparison, Ours, Results};
use crate::score::{Score, Verdict};
use crate::shared_data::is_published;
use crate::wording::duration_words;
use crate::{html, markdown, terminal_table};

/// A page of sections.
pub struct Page {
    /// The heading.
    pub title: &'static str,
    /// Paragraphs before the first section.
    pub text: Vec<String>,
    /// In the order of the page.
    pub sections: Vec<Section>,
}

/// A heading, paragraphs and a table.
pub struct Section {
    /// A short name, such as `table1`.
    pub name: String,
    /// The heading.
    pub title: String,
    /// Paragraphs before the table.
    pub text: Vec<String>,
    /// The table.
    pub grid: Grid,
}

/// Rows of entries under a head.
pub struct Grid {
    /// Names of the columns.
    pub head: Vec<&'static str>,
    /// Number of leading columns that fit on a terminal.
    pub brief: usize,
    /// As many entries per row as the head has.
    pub rows: Vec<Vec<Entry>>,
}

/// An entry of a table.
pub enum Entry {
    /// Words or numbers.
    Text(String),
    /// A name to type, or a hash.
    Name(String),
    /// A verdict: good (`true`), bad (`false`) or neither.
    Judged(String, Option<bool>),
}

impl Results<'_> {
    /// All results as a page.
    pub fn page(&self) -> Page {
        let comparisons = self.comparisons();
        let mut sections: Vec<Section> = Vec::new();
        for table in &self.paper.tables {
            let rows: Vec<&Comparison> = comparisons.iter().filter(|row| row.table == table.name).collect();
            sections.push(Section {
                name: table.name.clone(),
                title: table.title.clone(),
                text: vec![format!("The paper’s numbers are those of its {}. {}", table.source, table.note)],
                grid: comparison_grid(&rows),
            });
        }
        sections.push(self.draws_section());
        let claims = self.claims();
        sections.push(claims_section(&claims));
        sections.push(checks_section(&claims));
        sections.push(self.data_section());
        Page { title: "The paper’s tables, made again", text: self.summary(&comparisons), sections }
    }

    fn summary(&self, comparisons: &[Comparison]) -> Vec<String> {
        let cells = self.paper.cells(None);
        let made = cells.iter().map(|cell| self.records_of(cell).len().min(PAPER_RUNS)).sum::<usize>();
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
        let other =
            self.records.values().filter(|record| !is_published(published_set(&record.preset), &record.data)).count();
        if other > 0 {
            text.push(format!("This is not the paper’s data: {other} of the records were made with other graphs or another number of them."));
        }
        let mixed = cells.iter().filter_map(|cell| {
            let devices: BTreeSet<String> =
                self.records_of(cell).iter().flat_map(|record| record.devices()).map(|(device, _)| device).collect();
            (devices.len() > 1).then(|| format!("{} ({})", cell.name(), Vec::from_iter(devices).join("; ")))
        });
        let mixed: Vec<String> = mixed.collect();
        if !mixed.is_empty() {
            text.push(format!("Made on several kinds of devices or in several precisions: {}.", mixed.join(", ")));
        }
        text
    }

    /// The effect of drawing the data again.
    fn draws_section(&self) -> Section {
        let second = Cell::second_draw();
        let first = Cell::first_draw(&second.preset);
        let ours = [&first, &second].map(|cell| self.summarize_cell(cell));
        let text = match &ours {
            [Some(one), Some(other)] => {
                let shift = other.test.mean - one.test.mean;
                let units = one.test.unit(&other.test).map_or("unknown".into(), |unit| format_signed(shift / unit));
                format!("The second draw shifts the test score by {} ({units} units).", format_signed(shift))
            }
            [_, Some(_)] => format!("There are no runs of {} to compare with.", first.name()),
            [_, None] => format!("`gt reproduce draw` makes the runs of {}.", second.name()),
        };
        let row = |cell: &Cell, ours: &Option<Ours>| {
            let seed = cell.data_seed().map_or(String::new(), |seed| seed.to_string());
            let ours_text =
                |score: fn(&Ours) -> Score| ours.as_ref().map_or("–".into(), |ours| score(ours).to_string());
            vec![
                Entry::Name(cell.name()),
                Entry::Text(seed),
                Entry::Text(ours_text(|ours| ours.test)),
                Entry::Text(ours_text(|ours| ours.train)),
                Entry::Text(ours.as_ref().map_or("–".into(), |ours| format!("{:.2}", ours.epochs))),
                Entry::Text(count_runs(ours.as_ref())),
            ]
        };
        let head = vec!["cell", "data seed", "test", "train", "epochs", "runs"];
        let rows = vec![row(&first, &ours[0]), row(&second, &ours[1])];
        let title = "Another draw of the data".to_owned();
        Section { name: "draw".into(), title, text: vec![text], grid: Grid { brief: head.len(), head, rows } }
    }

    /// The data sets of the runs.
    fn data_section(&self) -> Section {
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

impl Page {
    /// The page as a Markdown file.
    pub fn to_markdown(&self) -> String {
        markdown::render_page(self)
    }

    /// `text` with the page between the lines `<!-- tables -->` and `<!-- /tables -->`; none
    /// without these lines.
    pub fn insert_into(&self, text: &str) -> Option<String> {
        markdown::insert_page(self, text)
    }

    /// The page as an HTML file that loads nothing.
    pub fn to_html(&self) -> String {
        html::render_page(self)
    }
}

impl Section {
    /// The section as plain text with aligned columns.
    pub fn to_plain_text(&self) -> String {
        terminal_table::render_section(self)
    }
}

fn format_score(score: Score) -> String {
    score.to_string()
}

/// A number with its sign, and a true minus.
fn format_signed(value: f64) -> String {
    format!("{value:+.2}").replace('-', "−")
}

/// The number of runs, and how many there should be if some are missing.
fn count_runs(ours: Option<&Ours>) -> String {
    match ours.map_or(0, |ours| ours.seeds.len()) {
        enough if enough >= PAPER_RUNS => enough.to_string(),
        few => format!("{few} of {PAPER_RUNS}"),
    }
}

fn comparison_grid(rows: &[&Comparison]) -> Grid {
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
        let ours_text = |score: fn(&Ours) -> Option<Score>| ours.and_then(score).map_or_else(none, format_score);
        let texts = [
            row.paper_train.map_or_else(none, format_score),
            ours_text(|ours| Some(ours.train)),
            row.train_units.map_or_else(none, format_signed),
            row.paper_epochs.map_or_else(none, |epochs| format!("{epochs:.2}")),
            ours.map_or_else(none, |ours| format!("{:.2}", ours.epochs)),
            row.paper_hours.map_or_else(none, |hours| format!("{hours:.2} h")),
            ours.map_or_else(none, |ours| duration_words(ours.device_seconds)),
            ours_text(|ours| Some(ours.exact)),
            ours_text(|ours| ours.best),
            row.row.clone(),
        ];
        let judged = match row.verdict {
            Verdict::Reproduced | Verdict::Better => Some(true),
            Verdict::Worse => Some(false),
            Verdict::Inconclusive | Verdict::NotRun => None,
        };
        let mut entries = vec![
            Entry::Name(row.cell.clone()),
            Entry::Text(row.paper_test.to_string()),
            Entry::Text(ours_text(|ours| Some(ours.test))),
            Entry::Text(row.test_units.map_or_else(none, format_signed)),
            Entry::Judged(row.verdict.name().into(), judged),
            Entry::Text(count_runs(ours)),
        ];
        entries.extend(texts.map(Entry::Text));
        entries
    };
    Grid { head, brief: 6, rows: rows.iter().map(row).collect() }
}

fn status_entry(status: Status) -> Entry {
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
            status_entry(claim.status),
            Entry::Text(text),
            status_entry(claim.in_the_paper),
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
            let score = |score: Option<Score>| Entry::Text(score.map_or("–".into(), format_score));
            rows.push(vec![
                Entry::Text(number.to_string()),
                Entry::Name(check.ahead.clone()),
                score(check.scores[0]),
                Entry::Name(check.behind.clone()),
                score(check.scores[1]),
                Entry::Text(check.units.map_or("–".into(), format_signed)),
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
