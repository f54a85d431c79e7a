//! Parts of tables.

use maud::{Markup, Render, html};

/// The head of a table: one line with the names of its columns.
pub(super) fn head<T: Render>(names: impl IntoIterator<Item = T>) -> Markup {
    html! { thead { tr { @for name in names { th scope="col" { (name) } } } } }
}

/// A row: its name, then its cells.
pub(super) fn row<T: Render>(name: impl Render, cells: impl IntoIterator<Item = T>) -> Markup {
    html! { tr { th scope="row" { (name) } @for cell in cells { td { (cell) } } } }
}

/// A box in which something wide scrolls, also by keyboard.
pub(super) fn scrolling(label: &str, content: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (content) } }
}
