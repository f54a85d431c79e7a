//! The page and its sections.

use gt_graph::{Split, TargetKind};
use gt_models::config::MetricForm;
use gt_nn::cpu::Isa;
use maud::{Markup, html};

use super::baseline::Baseline;
use super::chart::{Chart, Panel, Series};
use super::document::document;
use super::table::{row, scrolling};
use super::text::{count, counted, date, duration, number, rate};
use super::{Report, configuration, confusion, data, of_epoch, ranking, scatter, worst};
use crate::evaluate::{self, Scores};
use crate::metrics::{Forms, Metric};
use crate::outcome::{EpochRecord, Stop};

/// Targets of which there is a plot.
const PLOTS: usize = 6;

pub(super) fn html(report: &Report<'_>) -> String {
    let sections = [
        ("results", "Results", results(report)),
        ("predictions", "Predictions", predictions(report)),
        ("curves", "Training", curves(report)),
        ("worst", "Worst predictions", worst(report)),
        ("data", "Data", data::section(report)),
        ("speed", "Speed", speed(report)),
        ("machine", "Machine", machine(report)),
        ("configuration", "Configuration", configuration::section(report.config)),
    ];
    let body = html! {
        (header(report))
        main {
            @for (id, title, content) in &sections {
                section class=(id) aria-labelledby=(id) { h2 id=(id) { (title) } (content) }
            }
        }
        footer { "Written " (date(report.machine.now)) " by gt " (report.machine.version) "." }
    };
    document(&format!("{} – training report", report.name), &body.into_string())
}

/// The name of a metric on the page.
fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Mae => "MAE",
        Metric::Accuracy => "accuracy, %",
        Metric::RocAuc => "ROC-AUC",
    }
}

/// The name of a further metric on the page.
fn other_name(name: &str) -> String {
    match name {
        "r2" => "R²".into(),
        "mae" => "MAE".into(),
        "rmse" => "RMSE".into(),
        "plain_accuracy" => "plain accuracy, %".into(),
        "macro_recall" => "macro recall, %".into(),
        "f1" => "macro F1, %".into(),
        "accuracy" => "accuracy, %".into(),
        "roc_auc" => "ROC-AUC".into(),
        "spearman" => "Spearman’s correlation".into(),
        other => other.replace('_', " "),
    }
}

/// One line about the task: the targets, and the data they are predicted from.
fn task_line(report: &Report<'_>) -> Markup {
    let target = &report.data.target();
    let (columns, level) = (target.columns.len(), target.level);
    let what = match (&report.data.links, target.kind, report.data.metric) {
        (Some(links), ..) => format!("Prediction of {} links", links.kind()),
        (_, TargetKind::Float, _) => format!("Regression of {} per {level}", counted(columns, "target")),
        (.., Metric::RocAuc) => format!("Classification by {} per {level}", counted(columns, "yes/no label")),
        _ => format!("Classification into {} classes per {level}", count(target.columns[0].classes)),
    };
    let file = std::path::Path::new(&report.config.data.file).file_name().map(|name| name.to_string_lossy());
    html! {
        (what) " · "
        @if let Some(name) = file { code { (name) } } @else { "data made on the spot" }
        " · seed " (report.config.train.seed)
    }
}

/// The value that decided which model is the best.
fn selected(report: &Report<'_>) -> String {
    other_name(report.outcome.select).trim_end_matches(", %").to_owned()
}

fn best_epoch(report: &Report<'_>) -> String {
    report.outcome.best.as_ref().map_or("–".into(), |best| format!("epoch {}", best.epoch))
}

fn header(report: &Report<'_>) -> Markup {
    let outcome = report.outcome;
    let split = report.reported();
    let unit = if report.data.metric == Metric::Accuracy { " %" } else { "" };
    let metric = metric_name(report.data.metric).trim_end_matches(", %");
    // The model that is the result of the run.
    let result = match report.data.form {
        MetricForm::Exact => report.best(split),
        MetricForm::Paper => report.last(split),
    };
    let baseline = Baseline::new(report.data, split);
    let beaten = baseline.as_ref().zip(result).is_none_or(|(baseline, scores)| {
        !scores.metric.exact.is_finite() || baseline.is_beaten_by(report.data.metric, scores.metric.exact)
    });
    let facts = [
        ("epochs", count(outcome.epochs)),
        ("best model", best_epoch(report)),
        ("time", duration(outcome.seconds)),
        ("parameters", count(report.parameters)),
    ];
    html! {
        header {
            p.eyebrow { "Training report" }
            h1 { (report.name) }
            p.quiet { (task_line(report)) }
            p.headline {
                @if let Some(scores) = result {
                    span { @if split == Split::Test { "Test " } @else { "Validation " } (metric) }
                    strong { (number(scores.metric.of(report.data.form))) (unit) }
                    @if report.data.form == MetricForm::Paper {
                        small { "over the whole split " (number(scores.metric.exact)) (unit) }
                    }
                } @else { span { "No epoch is complete yet" } }
                @if let Some(Baseline { score, rule }) = &baseline {
                    small.baseline { "baseline " (number(*score)) (unit) ": " (rule) }
                }
            }
            @if !beaten { p { "The score is not better than the baseline." } }
            dl.facts { @for (name, value) in &facts { div { dt { (name) } dd { (value) } } } }
            p.quiet { (outcome.stop.sentence()) }
        }
    }
}

/// Last and best model, all splits. The paper's form is shown where the configuration asks for it.
fn results(report: &Report<'_>) -> Markup {
    let Some(last) = report.history.last() else { return html! { p { "No epoch is complete yet." } } };
    let resumable = report.outcome.last.is_empty();
    let epoch = if resumable { last.epoch } else { report.outcome.epochs };
    let shown = report.data.form.shown();
    let columns = shown.len();
    let group = |name: &str, forms: &dyn Fn(&Scores) -> Option<Forms>| {
        let cells = |split: Split| {
            [report.last(split), report.best(split)].into_iter().flat_map(|scores| {
                let forms = scores.and_then(forms).unwrap_or(Forms { paper: f64::NAN, exact: f64::NAN });
                shown.iter().map(move |form| number(forms.of(*form)))
            })
        };
        html! {
            tbody {
                tr { th scope="rowgroup" colspan=(1 + 2 * columns) { (name) } }
                @for split in Split::ALL { @if report.last(split).is_some() { (row(split.name(), cells(split))) } }
            }
        }
    };
    let others = last.val.others.keys();
    let table = html! {
        table {
            thead {
                tr {
                    td {}
                    th scope="colgroup" colspan=(columns) { "last model" br; small { "epoch " (epoch) } }
                    th scope="colgroup" colspan=(columns) { "best model" br; small { (best_epoch(report)) } }
                }
                @if columns > 1 {
                    tr { td {} @for form in ["paper", "exact", "paper", "exact"] { th scope="col" { (form) } } }
                }
            }
            (group(metric_name(report.data.metric), &|scores| Some(scores.metric)))
            (group("loss", &|scores| Some(scores.loss)))
            @for name in others {
                (group(&other_name(name), &|scores| Some(Forms { paper: f64::NAN, exact: *scores.others.get(name)? })))
            }
        }
    };
    html! {
        (scrolling("Results", &table))
        p.quiet {
            "The best model has the best " (selected(report)) " on the validation split."
            @if columns > 1 {
                " " em { "paper" } " is the mean of batch means, as the published code reports it; "
                em { "exact" } " is over the whole split."
            }
            @if !report.data.scaling.target.is_empty() { " The loss is that of standardised targets." }
            @if resumable { " The training split’s numbers are those that the steps of the epoch saw." }
        }
    }
}

fn curves(report: &Report<'_>) -> Markup {
    let history = &report.history;
    if history.is_empty() {
        return html! { p { "No epoch is complete yet." } };
    }
    let best = report.outcome.best.as_ref().map(|best| best.epoch);
    let form = report.data.form;
    // Readers who see the test curve choose by it.
    let drawn: &[Split] = match form {
        MetricForm::Exact => &[Split::Train, Split::Val],
        MetricForm::Paper => &Split::ALL,
    };
    let hidden = !drawn.contains(&Split::Test) && history.iter().any(|epoch| epoch.test.is_some());
    let series = |value: &dyn Fn(&Scores) -> f64| -> Vec<Series> {
        let of = |split: Split| move |epoch: &EpochRecord| of_epoch(epoch, split).map_or(f64::NAN, value);
        let all =
            drawn.iter().map(|split| Series { class: split.name(), values: history.iter().map(of(*split)).collect() });
        all.filter(|series| series.values.iter().any(|value| value.is_finite())).collect()
    };
    let rate = vec![Series { class: "lr", values: history.iter().map(|epoch| epoch.lr).collect() }];
    let (loss, metric) = (series(&|scores| scores.loss.of(form)), series(&|scores| scores.metric.of(form)));
    let name = metric_name(report.data.metric);
    let mut panels = Vec::new();
    // The metric may be the loss that is minimised.
    if !loss.iter().zip(&metric).all(|(loss, metric)| loss.looks_like(metric)) {
        panels.push(Panel { title: "loss", series: loss, log: false });
    }
    panels.push(Panel { title: name, series: metric, log: false });
    panels.push(Panel { title: "learning rate", series: rate, log: true });
    html! {
        (Chart { panels, best }.figure())
        p.quiet {
            @if form == MetricForm::Paper { "In the paper’s form. " }
            "The training split is shown as the steps of the epoch saw it."
            @if hidden { " The test split is not drawn: settings chosen by its curve make its score too good." }
        }
    }
}

fn predictions(report: &Report<'_>) -> Markup {
    let Some((split, outputs)) = &report.outcome.predictions else {
        return html! { p { "No epoch was completed in this sitting." } };
    };
    let predicted = evaluate::predicted(report.data, outputs);
    let target = report.data.target();
    let columns: Vec<&str> = target.columns.iter().map(|column| column.name.as_str()).collect();
    let when = match (report.outcome.stop, report.data.form) {
        (Stop::Interrupted, _) => "after the last whole epoch",
        (_, MetricForm::Exact) => "by the best model",
        (_, MetricForm::Paper) => "by the last model",
    };
    let exact = report.data.form == MetricForm::Exact;
    let content = match (report.data.metric, predicted.target.floats()) {
        (Metric::Mae, Some(labels)) => {
            let width = predicted.width.max(1);
            let pairs = |target: usize| -> Vec<(f64, f64)> {
                let pairs = predicted.outputs.iter().zip(labels).skip(target).step_by(width);
                pairs.map(|(o, l)| (f64::from(*o), f64::from(*l))).collect()
            };
            let more = width.saturating_sub(PLOTS);
            html! {
                div.charts {
                    @for (at, name) in columns.iter().enumerate().take(PLOTS) {
                        (scatter::figure(at, name, &pairs(at)))
                    }
                }
                @if more > 0 { p.quiet { (counted(more, "target")) " more" } }
            }
        }
        (Metric::RocAuc, _) => html! {
            (scrolling("Predictions", &confusion::of_labels(predicted, &columns)))
            @if exact { (ranking::of_labels(predicted, &columns[..columns.len().min(PLOTS)])) }
        },
        _ => html! {
            (scrolling("Predictions", &confusion::of_classes(predicted, &target.columns[0], report.data.form)))
            @if exact { (ranking::of_classes(predicted, &target.columns[0])) }
        },
    };
    let labels = counted(confusion::labels(predicted), if report.data.links.is_some() { "pair" } else { "label" });
    html! { p.quiet { "The " (split.name()) " split, " (when) ": " (labels) "." } (content) }
}

fn worst(report: &Report<'_>) -> Markup {
    match &report.outcome.predictions {
        Some((split, outputs)) => {
            let predicted = evaluate::predicted(report.data, outputs);
            worst::table(report.data, *split, predicted)
        }
        None => html! { p { "No epoch was completed in this sitting." } },
    }
}

/// A list of names and values.
fn pairs(rows: &[(&str, String)]) -> Markup {
    html! { dl.pairs { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } } }
}

fn speed(report: &Report<'_>) -> Markup {
    let graphs = report.data.graphs_of(Split::Train).len();
    let batches = graphs.div_ceil(report.config.train.batch.max(1));
    let epochs = report.history.len() as f64;
    let steps: f64 = report.history.iter().map(|epoch| epoch.train_seconds).sum();
    let all: f64 = report.history.iter().map(|epoch| epoch.seconds).sum();
    let mut rows = vec![
        ("total", format!("{} for {}", duration(report.outcome.seconds), counted(report.outcome.epochs, "epoch"))),
        ("batches", format!("{} of at most {} per epoch", count(batches), counted(report.config.train.batch, "graph"))),
    ];
    if steps > 0.0 {
        let (mean, per_second) = (|sum: f64| duration(sum / epochs), |each: usize| rate(each as f64 * epochs / steps));
        rows.push(("epoch", format!("{}, of which {} training", mean(all), mean(steps))));
        rows.push(("training", format!("{} graphs/s, {} batches/s", per_second(graphs), per_second(batches))));
    }
    pairs(&rows)
}

fn machine(report: &Report<'_>) -> Markup {
    let machine = &report.machine;
    let device = &report.outcome.device;
    let device = if Isa::named(device).is_ok() { "CPU, f32" } else { device };
    pairs(&[
        ("device", device.to_owned()),
        ("CPU", machine.processor.clone()),
        ("threads", format!("{} of {}", machine.threads, counted(machine.cores, "hardware thread"))),
        ("instructions", machine.instructions.clone()),
        ("system", machine.system.clone()),
        ("program", format!("gt {}", machine.version)),
        ("date", date(machine.now)),
        ("weights, SHA-256", report.outcome.weights_sha256.clone()),
    ])
}
