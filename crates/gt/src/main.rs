//! `gt`: from graphs in files to trained models and predictions.

#![warn(clippy::print_stderr, clippy::print_stdout)]

mod byte_size;
mod cache;
mod closed_output;
#[cfg(test)]
mod command_reference;
mod commands;
mod console;
mod dataset_description;
mod device;
mod drawing;
mod interrupt;
mod out_of_memory;
mod panics;
mod printable;
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

/// Exit codes: 0 done; 1 a check failed; 101 an error in the program; 130 interrupted. Code 2
/// stands for bad usage or input, too little memory, too few threads, and unwritable files.
fn main() -> ExitCode {
    panics::report_panics();
    out_of_memory::abort_on_failed_allocations();
    interrupt::ignore_file_size_signal();
    let arguments = parse_arguments();
    if let Err(error) = threads::start_pool(arguments.threads.map(usize::from)) {
        console::say!("error: {error}");
        return ExitCode::from(2);
    }
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

/// The arguments; help, versions and wrong usage end the program here.
fn parse_arguments() -> Arguments {
    Arguments::try_parse().unwrap_or_else(|error| {
        // Wrong usage is shown with the argument that is wrong, which may be the name of a file.
        let obeyed = |argument: std::ffi::OsString| argument.to_string_lossy().contains(printable::is_obeyed);
        if !std::env::args_os().any(obeyed) {
            error.exit();
        }
        console::say!("{}", error.render().to_string().trim_end());
        std::process::exit(error.exit_code());
    })
}
