//! The figure of the curves over epochs.

use std::fmt::Write;

use maud::{Markup, html};

use super::axis::Axis;
use super::svg::{label, path};
use super::text::number;

/// One curve; its class gives it the colour of its part.
pub(super) struct Series {
    pub(super) class: &'static str,
    /// By epoch, from 1.
    pub(super) values: Vec<f64>,
}

impl Series {
    /// Whether a drawing of another series looks the same: losses are sums in another precision
    /// than metrics.
    pub(super) fn looks_like(&self, other: &Self) -> bool {
        let close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-4 * a.abs().max(b.abs());
        self.class == other.class && self.values.iter().zip(&other.values).all(close)
    }
}

/// The curves of one quantity.
pub(super) struct Panel<'a> {
    pub(super) title: &'a str,
    pub(super) series: Vec<Series>,
    /// Powers of ten in any case; else only where values differ that much.
    pub(super) log: bool,
}

/// Panels below each other, which share the axis of epochs.
pub(super) struct Chart<'a> {
    pub(super) panels: Vec<Panel<'a>>,
    /// The epoch of the best model.
    pub(super) best: Option<usize>,
}

const WIDTH: f64 = 480.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
/// Above the first panel, for the mark of the best epoch.
const TOP: f64 = 16.0;
/// Above the curves of a panel, for its title.
const TITLE: f64 = 24.0;
/// Height of the curves of a panel.
const HIGH: f64 = 150.0;
/// Height of a panel with an axis of powers of ten, such as that of learning rates.
const LOW: f64 = 64.0;
const BOTTOM: f64 = 30.0;
/// More points than this are more than a screen can show.
const POINTS: usize = 1000;
/// From this ratio of the largest to the smallest value on, a linear axis would show only the first
/// epochs.
const WIDE: f64 = 50.0;
/// Fewer points than this are marked.
const MARKED: usize = 30;

/// The axes of a panel, and the height at which its curves begin.
struct Frame {
    y: Axis,
    top: f64,
    height: f64,
    log: bool,
}

impl Panel<'_> {
    fn epochs(&self) -> usize {
        self.series.iter().map(|series| series.values.len()).max().unwrap_or(0)
    }

    /// The frame of a panel whose title begins at a height, or `None` without values.
    fn frame(&self, start: f64) -> Option<Frame> {
        let all = || self.series.iter().flat_map(|series| &series.values).copied().filter(|value| value.is_finite());
        let min = all().reduce(f64::min)?;
        let max = all().fold(min, f64::max);
        let log = min > 0.0 && (self.log || max / min > WIDE);
        let y = if log { Axis::log(min, max) } else { Axis::linear(min, max) };
        Some(Frame { y, top: start + TITLE, height: if self.log { LOW } else { HIGH }, log })
    }

    /// Title, last values, grid and curves.
    fn draw(&self, frame: &Frame, x: &Axis, best: Option<usize>) -> Markup {
        let val = self.series.iter().find(|series| series.class == "val");
        let best = best.filter(|epoch| *epoch > 0).and_then(|epoch| Some((epoch, *val?.values.get(epoch - 1)?)));
        html! {
            text.title x=(LEFT) y=(format_args!("{:.1}", frame.top - 8.0)) {
                (self.title) @if frame.log { tspan { " (log scale)" } }
            }
            text x=(WIDTH - RIGHT) y=(format_args!("{:.1}", frame.top - 8.0)) text-anchor="end" {
                @for series in &self.series {
                    tspan class={ "name " (series.class) } dx="9" { (series.class) " " (self.last(series)) }
                }
            }
            (frame.grid())
            @for series in &self.series { (curve(series, x, frame)) }
            @if let Some((epoch, value)) = best.filter(|(_, value)| value.is_finite()) {
                circle class="val" cx=(format_args!("{:.1}", across(x, epoch as f64)))
                    cy=(format_args!("{:.1}", frame.up(value))) r="5" {}
            }
        }
    }

    /// Learning rates are read by their power of ten, other values by their digits.
    fn number(&self, value: f64) -> String {
        if self.log { format!("{value:.1e}").replace('-', "−") } else { number(value) }
    }

    fn last(&self, series: &Series) -> String {
        self.number(series.values.last().copied().unwrap_or(f64::NAN))
    }

    fn describe(&self) -> String {
        let series = self.series.iter().map(|series| {
            let first = self.number(series.values.first().copied().unwrap_or(f64::NAN));
            format!("{} from {first} to {}", series.class, self.last(series))
        });
        format!("{}: {}", self.title, series.collect::<Vec<_>>().join("; "))
    }
}

impl Frame {
    fn up(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.at(value)) * self.height
    }

    fn grid(&self) -> Markup {
        let right = WIDTH - RIGHT;
        // A low panel has room for its ends only.
        let every = if self.height < HIGH { self.y.ticks.len().saturating_sub(1).max(1) } else { 1 };
        html! {
            @for tick in self.y.ticks.iter().step_by(every) {
                @let at = self.up(*tick);
                (path("grid", format_args!("M{LEFT} {at:.1}H{right}")))
                (label(LEFT - 7.0, at + 4.0, "end", self.y.label(*tick)))
            }
        }
    }
}

impl Chart<'_> {
    /// The figure. Panels without values are left out.
    pub(super) fn figure(&self) -> Markup {
        let epochs = self.panels.iter().map(Panel::epochs).max().unwrap_or(0);
        let x = Axis::epochs(epochs);
        let mut end = TOP;
        let mut drawn: Vec<(&Panel<'_>, Frame)> = Vec::new();
        for panel in &self.panels {
            if let Some(frame) = panel.frame(end) {
                end = frame.top + frame.height + 10.0;
                drawn.push((panel, frame));
            }
        }
        if drawn.is_empty() {
            return html! { figure { p { "No values." } } };
        }
        let titles: Vec<&str> = drawn.iter().map(|(panel, _)| panel.title).collect();
        let described: Vec<String> = drawn.iter().map(|(panel, _)| panel.describe()).collect();
        html! {
            figure {
                svg viewBox={ "0 0 " (WIDTH) " " (end + BOTTOM) } role="img" aria-labelledby="curves-t curves-d" {
                    title id="curves-t" { (titles.join(", ")) " by epoch" }
                    desc id="curves-d" {
                        (described.join(". ")) "."
                        @if let Some(epoch) = self.best { " The best model is that of epoch " (epoch) "." }
                    }
                    @if let Some(epoch) = self.best { (mark_best(epoch, &x, end)) }
                    @for (panel, frame) in &drawn { (panel.draw(frame, &x, self.best)) }
                    (epoch_axis(&x, end))
                }
            }
        }
    }
}

/// A line through all panels.
fn mark_best(epoch: usize, x: &Axis, end: f64) -> Markup {
    let at = across(x, epoch as f64);
    let (anchor, shift) = if at > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
    html! {
        (path("best", format_args!("M{at:.1} 2V{end:.1}")))
        (label(at + shift, TOP - 4.0, anchor, format_args!("best model: epoch {epoch}")))
    }
}

fn epoch_axis(x: &Axis, at: f64) -> Markup {
    html! {
        (path("axis", format_args!("M{LEFT} {at:.1}H{}", WIDTH - RIGHT)))
        @for tick in &x.ticks {
            @let right = across(x, *tick);
            (path("axis", format_args!("M{right:.1} {at:.1}v4")))
            (label(right, at + 18.0, "middle", x.label(*tick)))
        }
        (label(LEFT - 10.0, at + 18.0, "end", "epoch"))
    }
}

fn across(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.at(value) * (WIDTH - LEFT - RIGHT)
}

fn curve(series: &Series, x: &Axis, frame: &Frame) -> Markup {
    let every = series.values.len().div_ceil(POINTS).max(1);
    let last = series.values.len().saturating_sub(1);
    let mut line = String::new();
    let mut dots = String::new();
    let mut drawing = false;
    for (at, value) in series.values.iter().enumerate().filter(|(at, _)| at % every == 0 || *at == last) {
        if !value.is_finite() {
            drawing = false;
            continue;
        }
        let (right, high) = (across(x, (at + 1) as f64), frame.up(*value));
        let _ = write!(line, "{}{right:.1} {high:.1}", if drawing { "L" } else { "M" });
        if series.values.len() < MARKED {
            let _ = write!(dots, "M{right:.1} {high:.1}h0");
        }
        drawing = true;
    }
    html! {
        (path(format_args!("curve {}", series.class), line))
        @if !dots.is_empty() { (path(format_args!("dots {}", series.class), dots)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(title: &'static str, values: Vec<f64>, log: bool) -> Panel<'static> {
        Panel { title, series: vec![Series { class: "val", values }], log }
    }

    fn chart(values: Vec<f64>, log: bool) -> String {
        Chart { panels: vec![panel("loss <1>", values, log)], best: Some(2) }.figure().into_string()
    }

    #[test]
    fn gaps_stay_gaps_and_titles_stay_text() {
        let html = chart(vec![1.0, 2.0, f64::NAN, 1.5], false);
        assert_eq!(html.matches("class=\"curve val\" d=\"M").count(), 1);
        let path = html.split("class=\"curve val\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(html.contains("loss &lt;1&gt;") && !html.contains("<1>") && !html.contains("NaN"));
        assert!(html.contains("best model: epoch 2"));
    }

    #[test]
    fn wide_ranges_are_logarithmic_and_nothing_to_show_is_said() {
        assert!(chart(vec![900.0, 2.0], false).contains("log scale"));
        assert!(!chart(vec![9.0, 2.0], false).contains("log scale"));
        assert!(!chart(vec![900.0, -2.0], true).contains("log scale"));
        assert!(chart(vec![f64::NAN], false).contains("No values"));
        assert!(chart((0..5000).map(f64::from).collect(), false).len() < 30_000);
    }

    #[test]
    fn series_that_differ_by_rounding_look_the_same() {
        let series = |values: &[f64]| Series { class: "val", values: values.to_vec() };
        let one = series(&[0.5, 0.0]);
        assert!(one.looks_like(&series(&[0.500_000_1, 0.0])));
        assert!(!one.looks_like(&series(&[0.5, 1e-6])) && !one.looks_like(&series(&[f64::NAN, 0.0])));
        assert!(!one.looks_like(&Series { class: "train", ..series(&[0.5, 0.0]) }));
    }

    #[test]
    fn panels_share_one_drawing_and_do_not_overlap() {
        let panels = vec![panel("loss", vec![3.0, 2.0], false), panel("lr", vec![1e-3, 1e-4], true)];
        let chart = Chart { panels, best: None };
        let html = chart.figure().into_string();
        assert_eq!((html.matches("<svg").count(), html.matches("class=\"curve val\"").count()), (1, 2));
        let first = chart.panels[0].frame(TOP).unwrap();
        let second = chart.panels[1].frame(first.top + first.height).unwrap();
        assert!(first.up(2.0) <= first.top + first.height && second.up(1e-3) >= second.top);
    }
}
