//! Predicted against true numbers.

use std::fmt::Write;

use maud::{Markup, html};

use super::axis::Axis;
use super::svg::{label, path};
use super::text::{count, number};

/// Most points; more would hide each other.
const SHOWN: usize = 2000;

pub(super) const SIZE: f64 = 400.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// The figure of one target. `pairs` are predictions and labels. If there are too many, evenly
/// spaced pairs are shown.
pub(super) fn figure(id: usize, name: &str, pairs: &[(f64, f64)]) -> Markup {
    let finite: Vec<(f64, f64)> =
        pairs.iter().copied().filter(|(output, label)| output.is_finite() && label.is_finite()).collect();
    let ends = finite.iter().flat_map(|(output, label)| [*output, *label]);
    let Some(min) = ends.clone().reduce(f64::min) else {
        return html! { figure { figcaption { h3 { (name) } } p { "No labels." } } };
    };
    let axis = Axis::linear(min, ends.fold(min, f64::max));
    let shown = finite.len().min(SHOWN);
    let note = format!("{} of {} shown", count(shown), count(finite.len()));
    let mut dots = String::new();
    for at in 0..shown {
        let (output, label) = finite[at * finite.len() / shown];
        let _ = write!(dots, "M{:.1} {:.1}h0", across(&axis, label), up(&axis, output));
    }
    let mean = finite.iter().map(|(output, label)| (output - label).abs()).sum::<f64>() / finite.len() as f64;
    html! {
        figure.square {
            figcaption {
                h3 { (name) @if shown < finite.len() { " " span.quiet { (note) } } }
            }
            svg viewBox={ "0 0 " (SIZE) " " (SIZE) } role="img" aria-labelledby={ "s" (id) "-t s" (id) "-d" } {
                title id={ "s" (id) "-t" } { (name) ": predicted against true" }
                desc id={ "s" (id) "-d" } {
                    "Mean absolute error " (number(mean)) "; points on the diagonal are exact."
                }
                (grid(&axis))
                (diagonal())
                (path("points", dots))
                (names("true", "predicted"))
            }
        }
    }
}

/// The horizontal coordinate of a value in a square drawing.
pub(super) fn across(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.at(value) * (SIZE - LEFT - RIGHT)
}

/// The vertical coordinate of a value in a square drawing.
pub(super) fn up(axis: &Axis, value: f64) -> f64 {
    SIZE - BOTTOM - axis.at(value) * (SIZE - TOP - BOTTOM)
}

/// The grid of a square drawing, whose two axes have the same scale.
pub(super) fn grid(axis: &Axis) -> Markup {
    let (right, low) = (SIZE - RIGHT, SIZE - BOTTOM);
    html! {
        @for tick in &axis.ticks {
            @let (x, y, text) = (across(axis, *tick), up(axis, *tick), axis.label(*tick));
            (path("grid", format_args!("M{LEFT} {y:.1}H{right}M{x:.1} {TOP}V{low}")))
            (label(LEFT - 7.0, y + 4.0, "end", &text))
            (label(x, low + 18.0, "middle", &text))
        }
    }
}

/// The line of equal coordinates.
pub(super) fn diagonal() -> Markup {
    path("best", format_args!("M{LEFT} {}L{} {TOP}", SIZE - BOTTOM, SIZE - RIGHT))
}

/// The names of the two axes.
pub(super) fn names(x: &str, y: &str) -> Markup {
    let middle = (LEFT + SIZE - RIGHT) / 2.0;
    html! {
        (label(middle, SIZE - 6.0, "middle", x))
        text x="14" y=(middle) text-anchor="middle" transform={ "rotate(-90 14 " (middle) ")" } { (y) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_points_are_thinned_the_same_way_every_time() {
        let pairs: Vec<(f64, f64)> = (0..12_345).map(|i| (f64::from(i).sin(), f64::from(i).cos())).collect();
        let html = figure(0, "a<b", &pairs).into_string();
        assert_eq!(html.matches("h0").count(), SHOWN);
        assert!(html.contains("2,000 of 12,345 shown") && html.contains("a&lt;b"));
        assert_eq!(figure(0, "a<b", &pairs).into_string(), html);
        assert!(figure(0, "y", &[(f64::NAN, 1.0)]).into_string().contains("No labels"));
    }
}
