//! The marks that drawings are made of; coordinates have one decimal.

use std::fmt::Display;

use maud::{Markup, Render, html};

/// A line or a set of points: `d` is the path as SVG writes it.
pub(super) fn path(class: impl Render, d: impl Display) -> Markup {
    html! { path class=(class) d=(d) {} }
}

/// A text at a point; `anchor` is the end of the text that lies there.
pub(super) fn label(x: f64, y: f64, anchor: &str, text: impl Render) -> Markup {
    html! { text x=(format_args!("{x:.1}")) y=(format_args!("{y:.1}")) text-anchor=(anchor) { (text) } }
}
