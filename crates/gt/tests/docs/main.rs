//! The pages for readers: the README, `CONTRIBUTING.md`, `SECURITY.md` and the book in `docs/`.
//!
//! | module | checks |
//! |---|---|
//! | [`commands`] | every command of a page runs |
//! | [`links`] | every link leads somewhere, and the book lists every page |
//! | [`page`] | reads pages |
//! | [`samples`] | writes small files under the names that pages use |

#![cfg(unix)]

mod commands;
mod links;
mod page;
mod samples;
