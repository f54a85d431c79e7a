//! The page and its sections.

use std::fmt::Write;

use gt_data::{PartInfo, TargetInfo};
use gt_graph::TargetKind;

use super::chart::{Chart, Series};
use super::document::document;
use super::text::{count, counted, date, duration, escape, number, rate, tenths};
use super::{Report, confusion, of_epoch, scatter};
use crate::evaluate::Scores;
use crate::links::Links;
use crate::metrics::{Forms, Metric};
use crate::outcome::{EpochRecord, Stop};
use crate::task::Part;

/// Targets of which there is a plot.
const PLOTS: usize = 6;
/// Rows of the table of targets.
const TARGETS: usize = 36;

pub(super) fn html(report: &Report<'_>) -> String {
    let mut page = header(report);
    page += "<main>\n";
    for (id, title, content) in [
        ("results", "Results", results(report)),
        ("predictions", "Predictions", predictions(report)),
        ("curves", "Curves", curves(report)),
        ("data", "Data", data(report)),
        ("speed", "Speed", speed(report)),
        ("machine", "Machine", machine(report)),
        ("configuration", "Configuration", configuration(report)),
    ] {
        let _ = writeln!(
            page,
            "<section class=\"{id}\" aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n{content}\n</section>"
        );
    }
    page += "</main>\n";
    let (now, version) = (date(report.machine.now), &report.machine.version);
    page += &format!("<footer>Written {now} by gt {version}.</footer>\n");
    document(&format!("{} – training report", report.name), &page)
}

/// The metric as people write it.
fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Mae => "MAE",
        Metric::Accuracy => "accuracy, %",
        Metric::RocAuc => "ROC-AUC",
    }
}

/// A further metric as people write it.
fn other_name(name: &str) -> String {
    match name {
        "r2" => "R²".into(),
        "rmse" => "RMSE".into(),
        "plain_accuracy" => "plain accuracy, %".into(),
        other => other.replace('_', " "),
    }
}

/// What is learned, from what.
fn task_line(report: &Report<'_>) -> String {
    let target = &report.task.shape.target;
    let (columns, level) = (target.columns.len(), target.level);
    let what = match (&report.task.links, target.kind, report.task.metric) {
        (Some(links), ..) => format!("Prediction of {} links", links.kind()),
        (_, TargetKind::Float, _) => format!("Regression of {} per {level}", counted(columns, "target")),
        (.., Metric::RocAuc) => format!("Classification by {} per {level}", counted(columns, "yes/no label")),
        _ => format!("Classification into {} classes per {level}", count(report.task.outputs())),
    };
    let file = std::path::Path::new(&report.config.data.file).file_name().map(|name| name.to_string_lossy());
    let file = file.map_or("data made on the spot".into(), |name| format!("<code>{}</code>", escape(&name)));
    format!("{what} · {file} · seed {}", report.config.train.seed)
}

fn header(report: &Report<'_>) -> String {
    let outcome = report.outcome;
    let part = report.reported();
    let unit = if report.task.metric == Metric::Accuracy { " %" } else { "" };
    let label = metric_name(report.task.metric).trim_end_matches(", %");
    let of = if part == Part::Test { "Test" } else { "Validation" };
    let headline = match report.last(part) {
        Some(scores) => format!(
            "<p class=\"headline\"><span>{of} {label}</span><strong>{}{unit}</strong><small>in the paper’s form {}{unit}</small></p>",
            number(scores.metric.exact),
            number(scores.metric.paper),
        ),
        None => "<p class=\"headline\"><span>No epoch is complete yet</span></p>".into(),
    };
    let best = outcome.best.as_ref().map_or("–".into(), |best| format!("epoch {}", best.epoch));
    let facts = [
        ("epochs", count(outcome.epochs)),
        ("best validation", best),
        ("time", duration(outcome.seconds)),
        ("parameters", count(report.parameters)),
    ];
    let facts: String =
        facts.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>")).collect();
    format!(
        "<header>\n<p class=\"eyebrow\">Training report</p>\n<h1>{}</h1>\n<p class=\"quiet\">{}</p>\n{headline}\n\
         <dl class=\"facts\">{facts}</dl>\n<p class=\"quiet\">{}</p>\n</header>\n",
        escape(&report.name),
        task_line(report),
        outcome.stop.sentence(),
    )
}

/// A box in which something wide scrolls, also by keyboard.
fn scrolling(label: &str, content: &str) -> String {
    format!("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{content}</div>", escape(label))
}

/// Last and best model, all parts, both forms.
fn results(report: &Report<'_>) -> String {
    let Some(last) = report.history.last() else { return "<p>No epoch is complete yet.</p>".into() };
    let best = report.outcome.best.as_ref();
    let epoch = if report.outcome.last.is_empty() { last.epoch } else { report.outcome.epochs };
    let mut table = format!(
        "<table>\n<thead><tr><td></td><th scope=\"colgroup\" colspan=\"2\">last model<br><small>epoch {epoch}</small></th>\
         <th scope=\"colgroup\" colspan=\"2\">best validation<br><small>{}</small></th></tr>\n\
         <tr><td></td>{}</tr></thead>\n",
        best.map_or("–".into(), |best| format!("epoch {}", best.epoch)),
        "<th scope=\"col\">paper</th><th scope=\"col\">exact</th>".repeat(2),
    );
    let mut group = |name: &str, forms: &dyn Fn(&Scores) -> Option<Forms>| {
        let _ = write!(table, "<tbody><tr><th scope=\"rowgroup\" colspan=\"5\">{}</th></tr>", escape(name));
        for part in Part::ALL.into_iter().filter(|part| report.last(*part).is_some()) {
            let cells = [report.last(part), report.best(part)].map(|scores| {
                let forms = scores.and_then(forms).unwrap_or(Forms { paper: f64::NAN, exact: f64::NAN });
                format!("<td>{}</td><td>{}</td>", number(forms.paper), number(forms.exact))
            });
            let _ = write!(table, "<tr><th scope=\"row\">{}</th>{}</tr>", part.name(), cells.concat());
        }
        table += "</tbody>\n";
    };
    group(metric_name(report.task.metric), &|scores| Some(scores.metric));
    group("loss", &|scores| Some(scores.loss));
    for name in last.val.others.keys() {
        group(&other_name(name), &|scores| Some(Forms { paper: f64::NAN, exact: *scores.others.get(name)? }));
    }
    let scale = if report.task.scaling.is_empty() { "" } else { " The loss is that of standardised targets." };
    let seen = match report.outcome.last.is_empty() {
        true => " The training part’s numbers are those that the steps of the epoch saw.",
        false => "",
    };
    scrolling("Results", &(table + "</table>"))
        + &format!(
            "<p class=\"quiet\"><em>paper</em> is the mean of batch means, as the published code reports it; <em>exact</em> is over the whole part.{scale}{seen}</p>"
        )
}

fn curves(report: &Report<'_>) -> String {
    let history = &report.history;
    if history.is_empty() {
        return "<p>No epoch is complete yet.</p>".into();
    }
    let best = report.outcome.best.as_ref().map(|best| best.epoch);
    let series = |value: fn(&Scores) -> f64| -> Vec<Series> {
        let of = |part: Part| move |epoch: &EpochRecord| of_epoch(epoch, part).map_or(f64::NAN, value);
        let all = Part::ALL.map(|part| Series { class: part.name(), values: history.iter().map(of(part)).collect() });
        all.into_iter().filter(|series| series.values.iter().any(|value| value.is_finite())).collect()
    };
    let rate = vec![Series { class: "lr", values: history.iter().map(|epoch| epoch.lr).collect() }];
    let charts = [
        Chart { id: "loss", title: "loss", series: series(|scores| scores.loss.paper), best, log: false },
        Chart {
            id: "metric",
            title: metric_name(report.task.metric),
            series: series(|scores| scores.metric.paper),
            best,
            log: false,
        },
        Chart { id: "rate", title: "learning rate", series: rate, best, log: true },
    ];
    let figures: String = charts.iter().map(Chart::figure).collect();
    format!(
        "<div class=\"charts\">{figures}</div>\n<p class=\"quiet\">In the paper’s form; the training part as the steps of the epoch saw it.</p>"
    )
}

fn predictions(report: &Report<'_>) -> String {
    let Some((part, collected)) = &report.outcome.predictions else {
        return "<p>No epoch was completed in this sitting.</p>".into();
    };
    let predicted = collected.predicted(report.task);
    let columns: Vec<&str> = match report.task.links {
        Some(_) => vec!["link"],
        None => {
            let targets = report.task.schema.target.iter().flat_map(|target| &target.columns);
            targets.map(|column| column.name.as_str()).collect()
        }
    };
    let when =
        if report.outcome.stop == Stop::Interrupted { "after the last whole epoch" } else { "by the last model" };
    let content = match (report.task.metric, predicted.target.floats()) {
        (Metric::Mae, Some(labels)) => {
            let width = predicted.width.max(1);
            let figures: String = columns
                .into_iter()
                .take(PLOTS)
                .enumerate()
                .map(|(at, name)| {
                    let pairs = predicted.outputs.iter().zip(labels).skip(at).step_by(width);
                    let pairs: Vec<(f64, f64)> = pairs.map(|(o, l)| (f64::from(*o), f64::from(*l))).collect();
                    scatter::figure(at, name, &pairs)
                })
                .collect();
            let more = width.saturating_sub(PLOTS);
            let more =
                if more > 0 { format!("<p class=\"quiet\">{} more</p>", counted(more, "target")) } else { "".into() };
            format!("<div class=\"charts\">{figures}</div>{more}")
        }
        (Metric::RocAuc, _) => scrolling("Predictions", &confusion::of_labels(predicted, &columns)),
        _ => scrolling("Predictions", &confusion::of_classes(predicted)),
    };
    let labels = counted(confusion::labels(predicted), if report.task.links.is_some() { "pair" } else { "label" });
    format!("<p class=\"quiet\">The {} part, {when}: {labels}.</p>\n{content}", part.name())
}

fn data(report: &Report<'_>) -> String {
    let parts = report.task.statistics();
    let spread = |mean: f64, min: usize, max: usize| match min == max {
        true => count(min),
        false => format!("{} <small>{}–{}</small>", tenths(mean), count(min), count(max)),
    };
    let mut table = String::from("<table><thead><tr><th scope=\"col\">part</th>");
    for head in ["graphs", "nodes", "edges", "nodes per graph", "edges per graph"] {
        let _ = write!(table, "<th scope=\"col\">{head}</th>");
    }
    table += "</tr></thead><tbody>";
    for (name, part) in &parts {
        let PartInfo { nodes_mean, nodes_min, nodes_max, edges_mean, edges_min, edges_max, .. } = *part;
        let cells = [
            count(part.graphs),
            count(part.nodes),
            count(part.edges),
            spread(nodes_mean, nodes_min, nodes_max),
            spread(edges_mean, edges_min, edges_max),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        let _ = write!(table, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escape(name));
    }
    let learned = match &report.task.links {
        Some(links) => link_counts(report, links),
        None => targets(report, &parts),
    };
    scrolling("Sizes", &(table + "</tbody></table>")) + &learned
}

/// What is held out, and what it is scored against.
fn link_counts(report: &Report<'_>, links: &Links) -> String {
    let mut table = String::from("<table><thead><tr><th scope=\"col\">part</th>");
    for head in ["graphs", "links", "pairs without an edge"] {
        let _ = write!(table, "<th scope=\"col\">{head}</th>");
    }
    table += "</tr></thead><tbody>";
    for part in Part::ALL {
        let graphs = report.task.graphs_of(part);
        let apart = graphs.iter().map(|&graph| links.pairs(part, graph)[1].len()).sum();
        let cells = [graphs.len(), links.count(part), apart].map(|cell| format!("<td>{}</td>", count(cell))).concat();
        let _ = write!(table, "<tr><th scope=\"row\">{}</th>{cells}</tr>", part.name());
    }
    scrolling("Links", &(table + "</tbody></table>"))
        + "<p class=\"quiet\">The edges above are those that the network sees: held-out ones are not among them.</p>"
}

fn targets(report: &Report<'_>, parts: &[(String, PartInfo)]) -> String {
    let float = report.task.shape.target.kind == TargetKind::Float;
    let heads: &[&str] = if float { &["mean", "deviation", "least", "greatest"] } else { &["labels of each class"] };
    let mut table =
        String::from("<table><thead><tr><th scope=\"col\">target</th><th scope=\"col\" class=\"word\">part</th>");
    let align = if float { "" } else { " class=\"word\"" };
    heads.iter().for_each(|head| table += &format!("<th scope=\"col\"{align}>{head}</th>"));
    table += "<th scope=\"col\">labels</th><th scope=\"col\">missing</th></tr></thead><tbody>";
    let columns = parts.first().map_or(0, |(_, part)| part.targets.len());
    let rows = (0..columns).flat_map(|column| parts.iter().map(move |(name, part)| (name, &part.targets[column])));
    for (part, target) in rows.take(TARGETS) {
        let TargetInfo { name, mean, sd, min, max, count: labels, missing, classes, .. } = target;
        let summary = match float {
            true => [mean, sd, min, max].map(|value| format!("<td>{}</td>", number(*value))).concat(),
            false if classes.is_empty() => format!("<td class=\"word\">0 … {}</td>", number(*max)),
            false => format!("<td class=\"word\">{}</td>", class_counts(classes)),
        };
        let (name, part) = (escape(name), escape(part));
        let _ = write!(
            table,
            "<tr><th scope=\"row\">{name}</th><td class=\"word\">{part}</td>{summary}<td>{}</td><td>{}</td></tr>",
            count(*labels),
            count(*missing)
        );
    }
    let left = (columns * parts.len()).saturating_sub(TARGETS);
    let more = if left > 0 { format!("<p class=\"quiet\">{} more</p>", counted(left, "row")) } else { String::new() };
    scrolling("Targets", &(table + "</tbody></table>")) + &more
}

fn class_counts(classes: &[u64]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = classes.iter().take(SHOWN).map(|&labels| count(labels as usize)).collect();
    let more = if classes.len() > SHOWN { format!(" · … {} classes", classes.len()) } else { String::new() };
    shown.join(" · ") + &more
}

/// A list of names and values.
fn pairs(rows: &[(&str, String)]) -> String {
    let rows: String =
        rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value))).collect();
    format!("<dl class=\"pairs\">{rows}</dl>")
}

fn speed(report: &Report<'_>) -> String {
    let graphs = report.task.graphs_of(Part::Train).len();
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

fn machine(report: &Report<'_>) -> String {
    let machine = &report.machine;
    let device = report.outcome.card.clone().unwrap_or_else(|| "processor, f32".into());
    pairs(&[
        ("device", device),
        ("processor", machine.processor.clone()),
        ("threads", format!("{} of {}", machine.threads, counted(machine.cores, "hardware thread"))),
        ("instructions", machine.instructions.clone()),
        ("system", machine.system.clone()),
        ("program", format!("gt {}", machine.version)),
        ("date", date(machine.now)),
        ("weights, SHA-256", report.outcome.weights.clone()),
    ])
}

fn configuration(report: &Report<'_>) -> String {
    let text = format!("<pre><code>{}</code></pre>", escape(&report.config.to_toml()));
    "<p class=\"quiet\"><code>config.toml</code> of the run; <code>gt train config.toml</code> trains the same again.</p>\n".to_owned()
        + &scrolling("Configuration", &text)
}
