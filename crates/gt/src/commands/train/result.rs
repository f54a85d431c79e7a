//! The result of a training, as a table or as JSON, and the report.

use std::path::PathBuf;

use anyhow::Result;
use gt_graph::Split;
use gt_models::Config;
use gt_models::config::MetricForm;
use gt_reproduce::mean_and_deviation;
use gt_train::metrics::{Metric, shown_name};
use gt_train::{FoldPredictions, Outcome, Prepared, Report, RunDirectory, Scores, Stop, out_of_fold};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Arguments;
use super::planned::{Plan, Several};
use crate::console;

/// A run that finished without interruption.
pub(super) struct Done {
    pub(super) run: PathBuf,
    pub(super) seed: u64,
    pub(super) metric: Metric,
    pub(super) form: MetricForm,
    pub(super) parameters: usize,
    pub(super) outcome: Outcome,
    pub(super) report: Option<PathBuf>,
    /// The metric of `train.select`, if one is named.
    pub(super) selecting: Option<&'static str>,
    /// Predictions for the fold that is the test part.
    pub(super) tested: Option<FoldPredictions>,
}

/// A row of numbers in a table of results.
#[derive(Clone, Copy)]
enum Measure {
    /// The main metric of the task.
    Main(Metric),
    /// The metric of `train.select`, if it is another one.
    Selecting(&'static str),
}

impl Measure {
    /// The main metric, and the one that selects the best model.
    fn all(done: &Done) -> Vec<Self> {
        let others = done.selecting.filter(|name| *name != done.metric.name());
        std::iter::once(Self::Main(done.metric)).chain(others.map(Self::Selecting)).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Main(metric) => metric.name(),
            Self::Selecting(name) => name,
        }
    }

    fn of(self, scores: &Scores, form: MetricForm) -> f64 {
        match self {
            Self::Main(_) => scores.metric.of(form),
            Self::Selecting(name) => scores.others.get(name).copied().unwrap_or(f64::NAN),
        }
    }

    /// Keys and values of the measure in JSON.
    fn to_json(self, value: impl Fn(MetricForm) -> Value) -> Vec<(String, Value)> {
        match self {
            Self::Main(_) => {
                vec![("paper".into(), value(MetricForm::Paper)), ("exact".into(), value(MetricForm::Exact))]
            }
            Self::Selecting(name) => vec![(name.into(), value(MetricForm::Exact))],
        }
    }
}

/// A choice between the last and the best model of a run.
type ModelOf = fn(&Outcome, Split) -> Option<&Scores>;

impl Arguments {
    /// Prints mean and deviation over the runs, as papers report them, and writes the predictions
    /// of a cross-validation.
    pub(super) fn print_together(&self, plan: &Plan, done: &[Done]) -> Result<()> {
        let (Some(several), [first, ..]) = (plan.several, done) else { return Ok(()) };
        let file = write_out_of_fold(plan, done)?;
        if self.json {
            let (last, best) = (means(done, Outcome::last_scores), means(done, Outcome::best_scores));
            let mut line = Map::new();
            match several {
                Several::Seeds => {
                    line.insert("seeds".into(), json!(done.iter().map(|done| done.seed).collect::<Vec<_>>()))
                }
                Several::Folds => line.insert("folds".into(), done.len().into()),
            };
            line.insert("out".into(), plan.out.display().to_string().into());
            line.insert("metric".into(), first.metric.name().into());
            line.insert("last".into(), last.into());
            line.insert("best".into(), best.into());
            line.extend(file.map(|file| ("out_of_fold".to_owned(), file.display().to_string().into())));
            return console::print_json(&line);
        }
        let noun = match several {
            Several::Seeds => "seeds",
            Several::Folds => "folds",
        };
        let mut text = String::new();
        for measure in Measure::all(first) {
            text += &format!("\n{} {noun}   ({}{})\n", done.len(), shown_name(measure.name()), result_name(first.form));
            let model: ModelOf = match first.form {
                MetricForm::Exact => Outcome::best_scores,
                MetricForm::Paper => Outcome::last_scores,
            };
            for split in Split::ALL {
                let cells = first.form.shown().iter().filter_map(|form| mean_of(done, measure, model, split, *form));
                let cells: String = cells.map(|(mean, sd)| format!(" {mean:10.4} ± {sd:.4}")).collect();
                if !cells.is_empty() {
                    text += &format!("{:8}{cells}\n", split.name());
                }
            }
        }
        text += &format!("runs: {}\n", plan.out.display());
        if let Some(file) = file {
            text += &format!("predictions of the models that did not see a row: {}\n", file.display());
        }
        console::print(&text)
    }

    pub(super) fn print(&self, done: &Done) -> Result<()> {
        let Done { run, metric, form, parameters, outcome, report, .. } = done;
        let measures = Measure::all(done);
        let scores = |scores: &Scores| -> Value {
            let json = |measure: &Measure| measure.to_json(|form| json!(measure.of(scores, form)));
            measures.iter().flat_map(json).collect::<Map<_, _>>().into()
        };
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
                metric: metric.name(),
                select: outcome.select,
                last: Value::Object(last),
                best,
                weights_sha256: outcome.weights_sha256.clone(),
                report: report.as_ref().map(|file| file.display().to_string()),
            });
        }
        let forms = form.shown();
        let mut text = format!("\n{}\n", outcome.stop.sentence());
        if let Some(best) = &outcome.best {
            text += &format!(
                "The best {} on the validation split is that of epoch {}.\n",
                shown_name(outcome.select),
                best.epoch
            );
        }
        let columns = |model: &str| -> String {
            let name = |shown: &MetricForm| match (form, shown) {
                (MetricForm::Exact, _) => format!("{model:>14}"),
                (_, MetricForm::Paper) => format!("{:>14}", format!("{model}, paper")),
                (_, MetricForm::Exact) => format!("{:>14}", format!("{model}, exact")),
            };
            forms.iter().map(name).collect()
        };
        for measure in measures {
            text += &format!("{:8}{}{}   ({})\n", "", columns("last"), columns("best"), shown_name(measure.name()));
            for (split, last) in &outcome.last {
                let cells = [Some(last), outcome.best_scores(*split)].into_iter().flatten();
                let cells = cells.flat_map(|scores| forms.iter().map(move |form| measure.of(scores, *form)));
                let cells: String = cells.map(|value| format!("{value:14.4}")).collect();
                text += &format!("{:8}{cells}\n", split.name());
            }
        }
        text += &format!("run: {}\n", run.display());
        if let Some(file) = report {
            text += &format!("report: {}\n", file.display());
        }
        console::print(&text)
    }
}

/// Mean and deviation of a measure over the runs that have the split.
fn mean_of(done: &[Done], measure: Measure, model: ModelOf, split: Split, form: MetricForm) -> Option<(f64, f64)> {
    let values = done.iter().filter_map(|done| model(&done.outcome, split));
    let values: Vec<f64> = values.map(|scores| measure.of(scores, form)).collect();
    (!values.is_empty()).then(|| mean_and_deviation(&values))
}

/// Means and deviations of every split and measure.
fn means(done: &[Done], model: ModelOf) -> Map<String, Value> {
    let splits = Split::ALL.into_iter().filter(|split| done.iter().any(|done| model(&done.outcome, *split).is_some()));
    let all = splits.map(|split| {
        let of = |measure: Measure| {
            measure.to_json(|form| {
                mean_of(done, measure, model, split, form)
                    .map_or(Value::Null, |(mean, sd)| json!({"mean": mean, "sd": sd}))
            })
        };
        let scores: Map<_, _> = Measure::all(&done[0]).into_iter().flat_map(of).collect();
        (split.name().to_owned(), Value::Object(scores))
    });
    all.collect()
}

/// Writes the predictions of all folds into the folder of the runs.
fn write_out_of_fold(plan: &Plan, done: &[Done]) -> Result<Option<PathBuf>> {
    let folds: Vec<&FoldPredictions> = done.iter().filter_map(|done| done.tested.as_ref()).collect();
    if folds.is_empty() {
        return Ok(None);
    }
    let file = plan.out.join(Plan::OUT_OF_FOLD);
    out_of_fold(&folds).write(&file)?;
    Ok(Some(file))
}

/// Which models the mean over runs is about.
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
