//! The shell of every page: style, title, and the switch between light and dark. Needs no network.

use crate::pictures::palette;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A whole page that opens from disk: `body` styled for light, dark and paper. The style knows tables
/// (`.tablebox`, `td.n`), `.chip` and `.verdict` with an outcome, `.note`, `.figures`, `.picture`.
pub fn document(title: &str, body: Markup) -> String {
    let style = include_str!("document.css").replace("/*PICTURES*/", &palette::style());
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // A page without an icon makes browsers ask the server for one.
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body {
                main {
                    button.theme type="button" hidden { "Dark" }
                    (body)
                }
                script { (PreEscaped(include_str!("document.js"))) }
            }
        }
    };
    markup.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_text_and_a_body_is_markup() {
        let page = document("a < b", html! { h1 { "c < d" } });
        assert!(page.contains("<title>a &lt; b</title>"), "{page}");
        assert!(page.contains("<h1>c &lt; d</h1>"), "{page}");
        assert!(page.starts_with("<!DOCTYPE html>"));
    }
}
