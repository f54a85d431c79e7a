//! Published data sets for a user with internet access.

mod content;
mod download;
mod zinc;

pub use content::Content;
pub use download::{DownloadLimits, Progress, download};
pub use zinc::{ZincSource, fetch_zinc, zinc_from_file};
