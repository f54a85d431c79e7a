//! An HTML page that needs no other file.

use maud::{DOCTYPE, PreEscaped, html};

use super::text::printable;

const STYLE: &str = include_str!("style.css");
/// Forbids loading and scripts, whatever texts a data file contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// A whole HTML page in the style of the reports, from a title (plain text) and a body (markup).
pub fn document(title: &str, body: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (PreEscaped(body)) }
        }
    };
    page.into_string().chars().map(printable).chain(['\n']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_stay_text_and_control_characters_are_replaced() {
        let page = document("a</title><script>", "<p>red \u{1b}[31m</p>");
        assert!(page.contains("<title>a&lt;/title&gt;&lt;script&gt;</title>"), "{page}");
        assert!(page.contains("<p>red \u{fffd}[31m</p>") && !page.contains('\u{1b}'), "{page}");
        assert!(page.contains(STYLE) && page.ends_with("</html>\n"));
    }
}
