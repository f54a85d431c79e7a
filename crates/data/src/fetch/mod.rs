//! Published data sets for a user with internet access.

mod download;
mod zinc;

pub use download::{Progress, download};
pub use zinc::{ZincSource, fetch_zinc, zinc_from_file};
