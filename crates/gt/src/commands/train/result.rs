//! The result of a training, as a table or as JSON, and the report.

use std::path::PathBuf;

use anyhow::Result;
use gt_graph::Split;
use gt_models::Config;
use gt_models::config::MetricForm;
use gt_reproduce::mean_and_deviation;
use gt_train::{Outcome, Prepared, Report, RunDirectory, Scores, Stop};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Arguments;
use crate::console;

/// A run that finished without interruption.
pub(super) struct Done {
    pub(super) run: PathBuf,
    pub(super) seed: u64,
    pub(super) parameters: usize,
    pub(super) outcome: Outcome,
    pub(super) report: Option<PathBuf>,
}

impl Arguments {
    /// Prints mean and deviation over the seeds, as papers report them.
    pub(super) fn print_together(&self, data: &Prepared, done: &[Done]) -> Result<()> {
        let (mut scores, mut best) = (Map::new(), Map::new());
        let forms = data.form.shown();
        let mut text = format!("\n{} seeds   ({}{})\n", done.len(), data.metric.name(), result_name(data.form));
        for split in Split::ALL {
            let mean_of = |model: fn(&Outcome, Split) -> Option<&Scores>, form: MetricForm| {
                let values = done.iter().filter_map(|done| model(&done.outcome, split));
                let values: Vec<f64> = values.map(|scores| scores.metric.of(form)).collect();
                (!values.is_empty()).then(|| mean_and_deviation(&values))
            };
            let json_of = |model: fn(&Outcome, Split) -> Option<&Scores>| {
                let form = |form| mean_of(model, form).map(|(mean, sd)| json!({"mean": mean, "sd": sd}));
                Some(json!({"paper": form(MetricForm::Paper)?, "exact": form(MetricForm::Exact)?}))
            };
            scores.extend(json_of(Outcome::last_scores).map(|json| (split.name().to_owned(), json)));
            best.extend(json_of(Outcome::best_scores).map(|json| (split.name().to_owned(), json)));
            let model = match data.form {
                MetricForm::Exact => Outcome::best_scores,
                MetricForm::Paper => Outcome::last_scores,
            };
            let cells = forms.iter().filter_map(|form| mean_of(model, *form));
            let cells: String = cells.map(|(mean, sd)| format!(" {mean:10.4} ± {sd:.4}")).collect();
            if !cells.is_empty() {
                text += &format!("{:8}{cells}\n", split.name());
            }
        }
        if !self.json {
            return console::print(&text);
        }
        let seeds: Vec<u64> = done.iter().map(|done| done.seed).collect();
        console::print_json(&json!({"seeds": seeds, "metric": data.metric.name(), "last": scores, "best": best}))
    }

    pub(super) fn print(&self, data: &Prepared, Done { run, parameters, outcome, report, .. }: &Done) -> Result<()> {
        let scores = |scores: &Scores| serde_json::to_value(scores.metric).unwrap_or(Value::Null);
        let last: Map<String, Value> =
            outcome.last.iter().map(|(split, of)| (split.name().to_owned(), scores(of))).collect();
        let best = outcome.best.as_ref().map(|best| BestLine {
            epoch: best.epoch,
            val: scores(&best.val),
            test: best.test.as_ref().map(scores),
        });
        if self.json {
            return console::print_json(&Line {
                run: run.display().to_string(),
                params: *parameters,
                epochs: outcome.epochs,
                stop: outcome.stop,
                s_per_epoch: outcome.seconds / outcome.epochs.max(1) as f64,
                metric: data.metric.name(),
                select: outcome.select,
                last: Value::Object(last),
                best,
                weights_sha256: outcome.weights.clone(),
                report: report.as_ref().map(|file| file.display().to_string()),
            });
        }
        let forms = data.form.shown();
        let mut text = format!("\n{}\n", outcome.stop.sentence());
        if let Some(best) = &outcome.best {
            text += &format!("The best {} on the validation split is that of epoch {}.\n", outcome.select, best.epoch);
        }
        let columns = |model: &str| -> String {
            let name = |form: &MetricForm| match (data.form, form) {
                (MetricForm::Exact, _) => format!("{model:>14}"),
                (_, MetricForm::Paper) => format!("{:>14}", format!("{model}, paper")),
                (_, MetricForm::Exact) => format!("{:>14}", format!("{model}, exact")),
            };
            forms.iter().map(name).collect()
        };
        text += &format!("{:8}{}{}   ({})\n", "", columns("last"), columns("best"), data.metric.name());
        for (split, last) in &outcome.last {
            let cells = [Some(last), outcome.best_scores(*split)].into_iter().flatten();
            let cells: String =
                cells.flat_map(|scores| forms.iter().map(|form| format!("{:14.4}", scores.metric.of(*form)))).collect();
            text += &format!("{:8}{cells}\n", split.name());
        }
        text += &format!("run: {}\n", run.display());
        if let Some(file) = report {
            text += &format!("report: {}\n", file.display());
        }
        console::print(&text)
    }
}

/// Which models the mean over seeds is about.
fn result_name(form: MetricForm) -> &'static str {
    match form {
        MetricForm::Exact => ", best models",
        MetricForm::Paper => ", last models; paper, exact",
    }
}

/// The result as programs read it.
#[derive(Serialize)]
struct Line {
    run: String,
    params: usize,
    epochs: usize,
    stop: Stop,
    s_per_epoch: f64,
    metric: &'static str,
    /// The value that decides which model is the best.
    select: &'static str,
    last: Value,
    best: Option<BestLine>,
    weights_sha256: String,
    report: Option<String>,
}

#[derive(Serialize)]
struct BestLine {
    epoch: usize,
    val: Value,
    test: Option<Value>,
}

/// Writes the report and returns its path. A report that cannot be written is a warning: the run is
/// still valid.
pub(super) fn write_report(
    run: &RunDirectory,
    data: &Prepared,
    config: &Config,
    parameters: usize,
    outcome: &Outcome,
) -> Option<PathBuf> {
    let report = Report::new(run, data, config, parameters, outcome);
    match report.and_then(|report| run.write(Report::FILE, report.to_html().as_bytes())) {
        Ok(()) => Some(run.path().join(Report::FILE)),
        Err(error) => {
            console::warn(&format!("there is no report: {error}"));
            None
        }
    }
}
