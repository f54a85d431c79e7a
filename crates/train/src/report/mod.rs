//! `report.html`: a run on one page that needs nothing else, neither scripts nor the network.
//!
//! | module | makes |
//! |---|---|
//! | [`page`] | the sections of a run |
//! | [`baseline`] | the score of a model that has learned nothing |
//! | [`configuration`] | the configuration, with marked changes |
//! | [`data`] | the section about the data |
//! | [`document`] | the page around them |
//! | [`chart`] | the figure of the curves over epochs |
//! | [`scatter`] | predicted against true numbers |
//! | [`ranking`] | ROC and precision–recall curves |
//! | [`confusion`] | counts of predicted against true classes |
//! | [`worst`] | the predictions that are furthest from their labels |
//! | [`axis`] | scales and ticks |
//! | [`svg`] | lines and texts of drawings |
//! | [`table`] | heads, rows and scrolling boxes of tables |
//! | [`machine`] | the machine of the run |
//! | [`text`] | numbers, dates and escaped text |

mod axis;
mod baseline;
mod chart;
mod configuration;
mod confusion;
mod data;
mod document;
mod machine;
mod page;
mod ranking;
mod scatter;
mod svg;
mod table;
mod text;
mod worst;

pub use document::document;
pub use machine::Machine;
pub use text::escape;

use gt_models::Config;

use crate::error::Result;
use crate::evaluate::Scores;
use crate::outcome::{EpochRecord, Outcome};
use crate::run::RunDirectory;
use gt_graph::Split;

use crate::prepared::Prepared;

/// The contents of a report.
pub struct Report<'a> {
    name: String,
    data: &'a Prepared,
    config: &'a Config,
    parameters: usize,
    history: Vec<EpochRecord>,
    outcome: &'a Outcome,
    machine: Machine,
}

impl<'a> Report<'a> {
    /// The file's name in a run's directory.
    pub const FILE: &'static str = "report.html";

    /// Collects the results of a run, finished or interrupted; the curves cover all sittings.
    ///
    /// # Errors
    /// If `metrics.jsonl` cannot be read.
    pub fn new(
        run: &RunDirectory,
        data: &'a Prepared,
        config: &'a Config,
        parameters: usize,
        outcome: &'a Outcome,
    ) -> Result<Self> {
        // `runs/.` and the like have no name of their own.
        let path = run.path().canonicalize().unwrap_or_else(|_| run.path().into());
        let name = path.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned());
        Ok(Self { name, data, config, parameters, history: run.history()?, outcome, machine: Machine::here() })
    }

    /// The page.
    pub fn to_html(&self) -> String {
        page::html(self)
    }

    /// Scores of the last model; of an interrupted run, those of the last whole epoch.
    fn last(&self, split: Split) -> Option<&Scores> {
        let evaluated = self.outcome.last.iter().find(|(of, _)| *of == split).map(|(_, scores)| scores);
        evaluated.or_else(|| of_epoch(self.history.last()?, split))
    }

    /// Scores of the best model.
    fn best(&self, split: Split) -> Option<&Scores> {
        let best = self.outcome.best.as_ref()?;
        match split {
            Split::Train => {
                let seen = || self.history.iter().find(|epoch| epoch.epoch == best.epoch);
                best.train.as_ref().or_else(|| Some(&seen()?.train))
            }
            Split::Val => Some(&best.val),
            Split::Test => best.test.as_ref(),
        }
    }

    /// The split that the headline is about.
    fn reported(&self) -> Split {
        if self.last(Split::Test).is_some() { Split::Test } else { Split::Val }
    }
}

fn of_epoch(epoch: &EpochRecord, split: Split) -> Option<&Scores> {
    match split {
        Split::Train => Some(&epoch.train),
        Split::Val => Some(&epoch.val),
        Split::Test => epoch.test.as_ref(),
    }
}
