//! Curves over epochs.

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

/// Curves that share their axes.
pub(super) struct Chart<'a> {
    /// Unique on a page; identifies the chart's title.
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    pub(super) series: Vec<Series>,
    /// The epoch of the best model.
    pub(super) best: Option<usize>,
    /// Powers of ten in any case; else only where values differ that much.
    pub(super) log: bool,
}

pub(super) const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 30.0;
/// More points than this are more than a screen can show.
const POINTS: usize = 1000;
/// From this ratio of the largest to the smallest value on, a linear axis would show only the first
/// epochs.
const WIDE: f64 = 50.0;
/// Fewer points than this are marked.
const MARKED: usize = 30;

impl Chart<'_> {
    /// The figure: legend with the last values, and the drawing.
    pub(super) fn figure(&self) -> Markup {
        let all = || self.series.iter().flat_map(|series| &series.values).copied().filter(|value| value.is_finite());
        let Some(min) = all().reduce(f64::min) else {
            return html! { figure { figcaption { (self.title) } p { "No values." } } };
        };
        let max = all().fold(min, f64::max);
        let log = min > 0.0 && (self.log || max / min > WIDE);
        let y = if log { Axis::log(min, max) } else { Axis::linear(min, max) };
        let epochs = self.series.iter().map(|series| series.values.len()).max().unwrap_or(0);
        let x = Axis::epochs(epochs);
        let described: Vec<String> = self.series.iter().map(|series| self.describe(series)).collect();
        let id = self.id;
        html! {
            figure {
                figcaption {
                    h3 { (self.title) @if log { " " span.quiet { "log scale" } } }
                    ul.legend { @for series in &self.series { (self.legend(series)) } }
                }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-labelledby={ (id) "-t " (id) "-d" } {
                    title id={ (id) "-t" } { (self.title) " by epoch" }
                    desc id={ (id) "-d" } {
                        (described.join("; ")) "."
                        @if let Some(epoch) = self.best { " The best model is that of epoch " (epoch) "." }
                    }
                    (grid(&x, &y))
                    @if let Some(epoch) = self.best { (self.mark_best(epoch, &x, &y)) }
                    @for series in &self.series { (curve(series, &x, &y)) }
                }
            }
        }
    }

    fn legend(&self, Series { class, values }: &Series) -> Markup {
        let last = values.last().copied().unwrap_or(f64::NAN);
        html! { li class=(class) { i {} (class) " " b { (self.number(last)) } } }
    }

    /// Learning rates are read by their power of ten, other values by their digits.
    fn number(&self, value: f64) -> String {
        if self.log { format!("{value:.1e}").replace('-', "−") } else { number(value) }
    }

    fn describe(&self, series: &Series) -> String {
        let text = |value: Option<&f64>| self.number(value.copied().unwrap_or(f64::NAN));
        format!("{} from {} to {}", series.class, text(series.values.first()), text(series.values.last()))
    }

    fn mark_best(&self, epoch: usize, x: &Axis, y: &Axis) -> Markup {
        let at = across(x, epoch as f64);
        let (anchor, shift) = if at > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
        let val = self.series.iter().find(|series| series.class == "val");
        let value = val.and_then(|val| val.values.get(epoch - 1)).filter(|value| value.is_finite());
        html! {
            (path("best", format_args!("M{at:.1} {:.1}V{:.1}", TOP - 12.0, HEIGHT - BOTTOM)))
            (label(at + shift, TOP - 4.0, anchor, format_args!("best val: {epoch}")))
            @if let Some(value) = value {
                circle class="val" cx=(format_args!("{at:.1}")) cy=(format_args!("{:.1}", up(y, *value))) r="5" {}
            }
        }
    }
}

fn across(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.at(value) * (WIDTH - LEFT - RIGHT)
}

fn up(axis: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.at(value) * (HEIGHT - TOP - BOTTOM)
}

fn grid(x: &Axis, y: &Axis) -> Markup {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    html! {
        @for tick in &y.ticks {
            @let at = up(y, *tick);
            (path("grid", format_args!("M{LEFT} {at:.1}H{right}")))
            (label(LEFT - 7.0, at + 4.0, "end", y.label(*tick)))
        }
        (path("axis", format_args!("M{LEFT} {bottom}H{right}")))
        @for tick in &x.ticks {
            @let at = across(x, *tick);
            (path("axis", format_args!("M{at:.1} {bottom}v4")))
            (label(at, bottom + 18.0, "middle", x.label(*tick)))
        }
        (label(LEFT - 10.0, bottom + 18.0, "end", "epoch"))
    }
}

fn curve(series: &Series, x: &Axis, y: &Axis) -> Markup {
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
        let (right, high) = (across(x, (at + 1) as f64), up(y, *value));
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

    fn chart(values: Vec<f64>, log: bool) -> String {
        let series = vec![Series { class: "val", values }];
        Chart { id: "c", title: "loss <1>", series, best: Some(2), log }.figure().into_string()
    }

    #[test]
    fn gaps_stay_gaps_and_titles_stay_text() {
        let html = chart(vec![1.0, 2.0, f64::NAN, 1.5], false);
        assert_eq!(html.matches("class=\"curve val\" d=\"M").count(), 1);
        let path = html.split("class=\"curve val\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(html.contains("loss &lt;1&gt;") && !html.contains("<1>") && !html.contains("NaN"));
        assert!(html.contains("best val: 2"));
    }

    #[test]
    fn wide_ranges_are_logarithmic_and_nothing_to_show_is_said() {
        assert!(chart(vec![900.0, 2.0], false).contains("log scale"));
        assert!(!chart(vec![9.0, 2.0], false).contains("log scale"));
        assert!(!chart(vec![900.0, -2.0], true).contains("log scale"));
        assert!(chart(vec![f64::NAN], false).contains("No values"));
        assert!(chart((0..5000).map(f64::from).collect(), false).len() < 30_000);
    }
}
