//! Trains the cells of the paper's tables again, and compares the results with the printed numbers.
//!
//! The paper is Dwivedi & Bresson (2021), arXiv 2012.09699. A *cell* is one published configuration
//! on one data set. A *run* is the training of a cell with one seed. Every finished run leaves one
//! [`Record`]; tables and claims follow from the records alone.
//!
//! ```
//! use graph_transformer_reproduce::{Paper, Results};
//! use std::collections::BTreeMap;
//!
//! let paper = Paper::load();
//! assert_eq!(paper.cells(None).len(), 36);
//! assert_eq!(paper.cell("zinc-sparse-lappe-bn").unwrap().test.to_string(), "0.226 ± 0.014");
//!
//! // Without records, every cell of the tables is shown as not run.
//! let results = Results { paper: &paper, records: &BTreeMap::new() };
//! assert_eq!(results.page().to_markdown().matches("| not run |").count(), 45);
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `paper` | the printed numbers, from `paper.toml` |
//! | `cell` | a published configuration on one draw of its data |
//! | `record` | what is stored of a run, and the folder of results |
//! | `plan` | which runs are left, and in which order |
//! | `shared_data` | data sets, prepared once for all runs that use them |
//! | `limits` | when to stop |
//! | `clock` | how parallel runs share the time of a device |
//! | `runner` | the runs, several in parallel |
//! | `event` | what a caller is informed of while runs are trained |
//! | `score`, `deviation` | means, deviations and verdicts |
//! | `results` | our records compared with the paper, cell by cell |
//! | `claims` | the paper's statements as checks |
//! | `page` | all of the results as text and tables |
//! | `markdown`, `html`, `terminal_table` | a page or a section as Markdown, HTML or plain text |
//! | `wording` | counts and times as words |

mod cell;
mod claims;
mod clock;
mod deviation;
mod error;
mod event;
mod html;
mod limits;
mod markdown;
mod page;
mod paper;
mod plan;
mod record;
mod results;
mod runner;
mod score;
mod shared_data;
mod terminal_table;
mod wording;

pub use cell::Cell;
pub use claims::{Check, Claim, Compared, Status};
pub use deviation::mean_and_deviation;
pub use error::{RecordProblem, ReproduceError, Result};
pub use event::{RunEvent, RunsProgress};
pub use limits::Limits;
pub use page::{Entry, Grid, Page, Section};
pub use paper::{PAPER_RUNS, Paper, PaperCell, Table};
pub use plan::{Job, Plan, choose_cells, clear_leftover};
pub use record::{BestScores, DataUsed, PartScores, Record, ResultsFolder, Sitting};
pub use results::{Comparison, Hours, Ours, Results};
pub use runner::{PlanOutcome, Runner};
pub use score::{Score, Verdict};
pub use shared_data::{DataSource, SharedData};
pub use wording::{count_of, duration_words};
