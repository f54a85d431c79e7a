//! `gt`: from graphs in files to trained models and predictions.

#![warn(clippy::print_stderr, clippy::print_stdout)]

mod byte_size;
mod cache;
#[cfg(test)]
mod command_reference;
mod commands;
mod console;
mod dataset_description;
mod device;
mod drawing;
mod interrupt;
mod panics;
mod progress;
mod threads;
mod understood;

use std::process::ExitCode;

use clap::Parser;

/// The program's version, with the commit that it was built from where there was one.
const VERSION: &str = env!("GT_VERSION");

/// Graph Transformer networks: make, convert, describe and encode graphs, train models on them.
#[derive(Parser)]
#[command(name = "gt", version = VERSION, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
    /// Number of threads (default: physical cores). Results do not depend on it.
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// Exit codes: 0 done; 1 a check failed; 2 bad usage or input, or a file cannot be written; 130
/// interrupted.
fn main() -> ExitCode {
    panics::hide_contained();
    let arguments = Arguments::parse();
    threads::start_pool(arguments.threads.map(usize::from));
    if let Some(Err(problem)) = std::env::var("GT_SIMD").ok().map(|name| gt_nn::cpu::Isa::named(&name)) {
        console::warn(&format!("GT_SIMD: {problem}; {} is used", gt_nn::cpu::Isa::detect().name()));
    }
    if let Some(limit) = std::env::var_os("GT_MAX_DECODED").filter(|limit| !limit.is_empty()) {
        match byte_size::parse(&limit.to_string_lossy()) {
            Some(bytes) => gt_data::raise_decoded_limit(bytes),
            None => {
                let limit = limit.to_string_lossy();
                console::say!(
                    "error: GT_MAX_DECODED: \"{limit}\" is not a size; write bytes, or a size such as 500M or 8G"
                );
                return ExitCode::from(2);
            }
        }
    }
    // Trainings can be resumed, and handle signals themselves.
    if !matches!(arguments.command, commands::Command::Train(_) | commands::Command::Reproduce(_)) {
        interrupt::end_at_signal();
    }
    match arguments.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output may stop early, as `head` does.
        Err(error) if console::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<interrupt::Interrupted>() => {
            console::say!("{error}");
            ExitCode::from(130)
        }
        Err(error) if error.is::<commands::CheckFailed>() => {
            console::say!("{error}");
            ExitCode::from(1)
        }
        Err(error) => {
            console::say!("error: {error}");
            ExitCode::from(2)
        }
    }
}
