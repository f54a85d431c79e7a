//! The lines that `gt reproduce` prints while runs are trained.

use gt_models::config::MetricForm;
use gt_reproduce::{RunEvent, RunsProgress, Score, count_of, duration_words};

use crate::console;
use crate::progress::{epoch_line, start_line};

/// Prints an event of a run as one line on standard error.
pub fn print_event(event: RunEvent<'_>) {
    match event {
        RunEvent::Started { run, graphs, parameters, epochs, device } => {
            console::say!("{}", start_line(run, MetricForm::Paper, graphs, parameters, epochs, device))
        }
        RunEvent::Epoch { run, metric, record } => {
            console::say!("{run}: {}", epoch_line(metric, MetricForm::Paper, record))
        }
        RunEvent::Note { run, text } => console::say!("{run}: {text}"),
        RunEvent::Finished { record, paper, progress } => console::say!(
            "{}-{}: test {:.4}{}, {} of {:.2} s; {}",
            record.cell,
            record.seed,
            record.last.test.paper,
            paper.map_or(String::new(), paper_words),
            count_of(record.epochs, "epoch"),
            record.s_per_epoch,
            progress_words(progress)
        ),
        RunEvent::Failed { run, error } => console::say!("{run}: failed: {error}"),
    }
}

fn paper_words(Score { mean, deviation }: Score) -> String {
    format!(" (paper {mean} ± {})", deviation.unwrap_or_default())
}

fn progress_words(RunsProgress { finished, planned, seconds_left }: RunsProgress) -> String {
    let left = match finished == planned {
        true => String::new(),
        false => format!(", about {} left", duration_words(seconds_left)),
    };
    format!("{finished} of {planned} runs done{left}")
}
