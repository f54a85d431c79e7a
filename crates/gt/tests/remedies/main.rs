//! Messages that name a remedy: a flag, a key, a command, or a change of the data. Each case makes
//! the message appear, applies the remedy as printed, and expects success without the message.
//!
//! A new message with a remedy needs a row in one of the tables. Other tests apply these remedies:
//!
//! * `not_finite.rs`: losses and gradients that are not finite;
//! * `interruptions.rs`: full disks and killed runs;
//! * `reproduce.rs`: records of the paper.
//!
//! Not tested are remedies that need another machine: a newer program, driver or compiler, more
//! memory, or the network.

mod case;
mod configurations;
mod data;
mod fixtures;
mod machines;
mod models;
mod notes;
#[path = "../support/mod.rs"]
mod support;
