//! The paper's tables, made again: which runs they need, what became of them, and ours beside theirs.
//!
//! | module | holds |
//! |---|---|
//! | [`paper`] | the printed numbers, from `paper.toml` |
//! | [`cell`] | what is trained with several seeds |
//! | [`record`] | what is kept of a run, and the folder of results |
//! | [`plan`] | which runs are left, and in which order |
//! | [`data`] | data sets, each made ready once |
//! | [`limits`] | when to stop |
//! | [`clock`] | whose time on a shared device it is |
//! | [`run`] | the runs, several side by side |
//! | [`score`] | mean, deviation, verdict |
//! | [`claims`] | the paper's statements as checks |
//! | [`page`] | what is told of all that, in words and grids |
//! | [`markdown`], [`html`], [`plain`] | the same as text |

pub mod cell;
pub mod claims;
mod clock;
pub mod data;
mod html;
pub mod limits;
mod markdown;
pub mod page;
pub mod paper;
mod plain;
pub mod plan;
pub mod record;
pub mod run;
pub mod score;
