//! What one sees of a training: bars on a terminal, a line per epoch otherwise.

use std::io::IsTerminal;

use gt_models::Config;
use gt_train::{EpochRecord, Observer, Task};
use indicatif::{ProgressBar, ProgressStyle};

/// Shows a training on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    name: String,
    metric: &'static str,
    graphs: usize,
    epochs: usize,
}

impl Progress {
    /// For a run.
    pub fn new(name: &str, config: &Config, task: &Task) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg}  {bar:24} {pos}/{len} batches, {per_sec}, {eta} left");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let (metric, graphs) = (task.metric.name(), task.graphs.len());
        Self { bar, name: name.to_owned(), metric, graphs, epochs: config.train.epochs }
    }

    /// Before the first epoch.
    pub fn start(&self, parameters: usize) {
        eprintln!("{}: {} graphs, {parameters} parameters, at most {} epochs", self.name, self.graphs, self.epochs);
    }

    /// After the last epoch.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }
}

impl Observer for Progress {
    fn batch(&mut self, epoch: usize, done: usize, all: usize, loss: f64) {
        if let Some(bar) = &self.bar {
            if done <= 1 {
                bar.reset();
                bar.set_length(all as u64);
            }
            bar.set_position(done as u64);
            bar.set_message(format!("epoch {epoch}, loss {loss:.4}"));
        }
    }

    fn epoch(&mut self, record: &EpochRecord) {
        let test = record.test.as_ref().map_or(String::new(), |test| format!("  test {:.4}", test.metric.paper));
        self.say(&format!(
            "epoch {:4}  lr {:.1e}  loss {:.4} / {:.4}  {} {:.4} / {:.4}{test}  {:.1} s",
            record.epoch,
            record.lr,
            record.train.loss.paper,
            record.val.loss.paper,
            self.metric,
            record.train.metric.paper,
            record.val.metric.paper,
            record.seconds,
        ));
    }

    fn note(&mut self, text: &str) {
        self.say(text);
    }
}
