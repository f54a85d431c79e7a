//! What one sees of a training: bars on a terminal, a line per epoch otherwise.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use gt_models::Config;
use gt_models::config::MetricForm;
use gt_train::{EpochRecord, Observer, Prepared};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::console;

/// Shows a training on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    label: String,
    name: String,
    metric: &'static str,
    form: MetricForm,
    graphs: usize,
    epochs: usize,
    epoch: Epoch,
    /// The last whole epoch.
    last: Option<EpochRecord>,
    /// Epochs of this sitting, and their seconds.
    sitting: (usize, f64),
}

/// The epoch under way.
#[derive(Default)]
struct Epoch {
    lr: f64,
    batches: usize,
    losses: f64,
}

impl Progress {
    /// For a run; `label` begins every line, and parallel runs have no bar.
    pub fn new(name: &str, config: &Config, data: &Prepared, label: Option<String>, beside_others: bool) -> Self {
        let on_terminal = std::io::stderr().is_terminal() && !beside_others;
        let bar = on_terminal.then(|| ProgressBar::new(0).with_style(style()));
        Self {
            bar,
            label: label.unwrap_or_default(),
            name: name.to_owned(),
            metric: data.metric.name(),
            form: data.form,
            graphs: data.graphs.len(),
            epochs: config.train.epochs,
            epoch: Epoch::default(),
            last: None,
            sitting: (0, 0.0),
        }
    }

    /// Before the first epoch.
    pub fn start(&self, parameters: usize, device: &str) {
        console::say!("{}", start_line(&self.name, self.form, self.graphs, parameters, self.epochs, device));
    }

    /// After the last epoch.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| console::say!("{}{text}", self.label)),
            None => console::say!("{}{text}", self.label),
        }
    }

    /// The text next to the bar: training and validation loss, validation metric, learning rate,
    /// and the time of the epochs left. Narrow terminals cut the end off.
    fn message(&self) -> String {
        let Epoch { lr, batches, losses } = self.epoch;
        let mut text = format!("loss {:.4}", losses / batches.max(1) as f64);
        if let Some(last) = &self.last {
            let metric = last.val.metric.of(self.form);
            let digits = if metric.abs() < 10.0 { 4 } else { 2 };
            let _ = write!(text, "/{:.4} {} {metric:.digits$}", last.val.loss.of(self.form), self.metric);
        }
        let _ = write!(text, " lr {lr:.1e}");
        if let (Some(last), (done @ 1.., seconds)) = (&self.last, self.sitting) {
            let left = seconds / done as f64 * self.epochs.saturating_sub(last.epoch) as f64;
            let _ = write!(text, ", {} at most", HumanDuration(Duration::from_secs_f64(left.min(1e9))));
        }
        text
    }
}

/// The line before the first epoch of a run.
pub fn start_line(
    run: &str,
    form: MetricForm,
    graphs: usize,
    parameters: usize,
    epochs: usize,
    device: &str,
) -> String {
    let numbers = match form {
        MetricForm::Paper => "a/b/c is training/validation/test",
        MetricForm::Exact => "a/b is training/validation",
    };
    format!("{run}: {graphs} graphs, {parameters} parameters, at most {epochs} epochs on {device}; {numbers}")
}

/// The line of an epoch: at most 80 columns, also behind the label of a seed. Only the paper's form
/// shows the test metric, because settings should not be chosen by watching it.
pub fn epoch_line(metric: &str, form: MetricForm, record: &EpochRecord) -> String {
    let EpochRecord { epoch, lr, train, val, test, seconds, .. } = record;
    let test = test
        .as_ref()
        .filter(|_| form == MetricForm::Paper)
        .map_or(String::new(), |test| format!("/{}", short(test.metric.of(form))));
    let digits = if *seconds < 9.95 { 1 } else { 0 };
    format!(
        "epoch {epoch:4} lr {lr:.1e} loss {}/{} {metric} {}/{}{test} {seconds:.digits$}s",
        short(train.loss.of(form)),
        short(val.loss.of(form)),
        short(train.metric.of(form)),
        short(val.metric.of(form)),
    )
}

/// A positive number in at most 6 characters: up to four decimals, powers of ten for large and tiny
/// ones.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size < 1e-9 => format!("{value:.0e}"),
        size if size < 0.001 => format!("{value:.1e}"),
        size if size < 0.99995 => format!("{value:.4}"),
        size if size < 9.9995 => format!("{value:.3}"),
        size if size < 99.995 => format!("{value:.2}"),
        size if size < 999.95 => format!("{value:.1}"),
        size if size < 999_999.5 => format!("{value:.0}"),
        size if size < 9.995e9 => format!("{value:.2e}"),
        size if size < 9.95e99 => format!("{value:.1e}"),
        _ => format!("{value:.0e}"),
    }
}

fn style() -> ProgressStyle {
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{:.1}/s", state.per_sec());
    };
    let style = ProgressStyle::with_template("{prefix} {bar:8} {pos}/{len} {rate} {eta} {wide_msg}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("rate", rate)
}

impl Observer for Progress {
    fn begin(&mut self, epoch: usize, lr: f64) {
        self.epoch = Epoch { lr, ..Epoch::default() };
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_prefix(format!("epoch {epoch}/{}", self.epochs));
        }
    }

    fn batch(&mut self, _: usize, done: usize, all: usize, loss: f64) {
        self.epoch.batches += 1;
        self.epoch.losses += loss;
        if let Some(bar) = &self.bar {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            bar.set_message(self.message());
        }
    }

    fn epoch(&mut self, record: &EpochRecord) {
        self.sitting = (self.sitting.0 + 1, self.sitting.1 + record.seconds);
        self.last = Some(record.clone());
        self.say(&epoch_line(self.metric, self.form, record));
    }

    fn note(&mut self, text: &str) {
        self.say(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_train::Scores;
    use gt_train::metrics::Forms;

    /// A record with one value everywhere.
    fn record(epoch: usize, value: f64, test: bool, seconds: f64) -> EpochRecord {
        let both = Forms { paper: value, exact: value };
        let scores = Scores { loss: both, metric: both, others: [].into() };
        let test = test.then(|| scores.clone());
        let (train, val) = (scores.clone(), scores);
        EpochRecord { epoch, lr: 7e-4, train, val, test, train_seconds: seconds, seconds, time: 0.0 }
    }

    #[test]
    fn the_line_of_an_epoch_fits_80_columns() {
        let line = |record: &EpochRecord| epoch_line("accuracy", MetricForm::Paper, record);
        assert_eq!(
            line(&record(12, 62.125, true, 9.94)),
            "epoch   12 lr 7.0e-4 loss 62.12/62.12 accuracy 62.12/62.12/62.12 9.9s"
        );
        assert!(line(&record(1, 0.5, false, 12.3)).ends_with("accuracy 0.5000/0.5000 12s"));
        assert_eq!(
            epoch_line("accuracy", MetricForm::Exact, &record(12, 62.125, true, 9.94)),
            "epoch   12 lr 7.0e-4 loss 62.12/62.12 accuracy 62.12/62.12 9.9s"
        );
        let extreme =
            [1234.5678, 99.996, 999.96, 999_999.7, 123_456_789.0, 1.5e38, 1e300, 1e-12, 9.99e-4, 0.99999, f64::NAN];
        for value in extreme {
            assert!(short(value).len() <= 6, "{}", short(value));
            let long = line(&record(99_999, value, true, 86_400.4));
            assert!(long.chars().count() <= 80, "{long}");
        }
        // A usual record, behind the label of a seed.
        let usual = format!("seed 41: {}", line(&record(1000, 62.1234, true, 99.4)));
        assert!(usual.chars().count() <= 80, "{usual}");
    }

    #[test]
    fn the_bar_tells_losses_metric_rate_and_the_time_left() {
        let mut progress = Progress {
            bar: None,
            label: String::new(),
            name: "run".into(),
            metric: "mae",
            form: MetricForm::Exact,
            graphs: 3,
            epochs: 11,
            epoch: Epoch::default(),
            last: None,
            sitting: (0, 0.0),
        };
        progress.begin(1, 7e-4);
        progress.batch(1, 1, 2, 0.5);
        progress.batch(1, 2, 2, 0.25);
        assert_eq!(progress.message(), "loss 0.3750 lr 7.0e-4");
        let scores = |value: f64| {
            let both = Forms { paper: value, exact: value };
            Scores { loss: both, metric: Forms { exact: value + 1.0, ..both }, others: [].into() }
        };
        progress.epoch(&EpochRecord {
            epoch: 1,
            lr: 7e-4,
            train: scores(0.375),
            val: scores(0.5),
            test: None,
            train_seconds: 5.0,
            seconds: 6.0,
            time: 0.0,
        });
        progress.begin(2, 3.5e-4);
        progress.batch(2, 1, 2, 0.125);
        let expected = "loss 0.1250/0.5000 mae 1.5000 lr 3.5e-4, 60 seconds at most";
        assert_eq!(progress.message(), expected);
    }
}
