//! Texts of others in Markdown, such as names and what clients wrote: none becomes HTML, a link, or a cell.

use fencepost_history::is_steering;

/// The text as Markdown that reads the same, on one line, in a table, too.
pub fn escaped(text: &str) -> String {
    let signs: Vec<char> = text.chars().collect();
    let mut escaped = String::with_capacity(text.len());
    for (at, &sign) in signs.iter().enumerate() {
        // Between letters an underscore is itself: names such as granted_by stay readable in the source.
        let is_inside = || {
            let is_letter = |at: Option<usize>| {
                at.and_then(|at| signs.get(at)).is_some_and(|sign| sign.is_alphanumeric())
            };
            is_letter(at.checked_sub(1)) && is_letter(Some(at + 1))
        };
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '_' if is_inside() => escaped.push(sign),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => escaped.extend(['\\', sign]),
            // At the beginning these would make a heading or a list of it.
            '#' | '-' | '+' if at == 0 => escaped.extend(['\\', sign]),
            sign if is_steering(sign) => escaped.push(' '),
            sign => escaped.push(sign),
        }
    }
    escaped
}

pub fn code(text: &str) -> String {
    let text = line(text);
    let longest = text.split(|sign| sign != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

pub fn code_in_table(text: &str) -> String {
    code(text).replace('|', "\\|")
}

pub fn line(text: &str) -> String {
    text.chars().map(|sign| if is_steering(sign) { ' ' } else { sign }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_stays_text() {
        assert_eq!(escaped("<img src=x onerror=alert(1)>"), "&lt;img src=x onerror=alert(1)&gt;");
        assert_eq!(escaped("a|b\nc"), "a\\|b c");
        assert_eq!(
            escaped("[here](https://x) *b* `c` \\| ~~d~~"),
            "\\[here\\](https://x) \\*b\\* \\`c\\` \\\\\\| \\~\\~d\\~\\~"
        );
        assert_eq!(escaped("granted_by _n1_ &amp;"), "granted_by \\_n1\\_ &amp;amp;");
        assert_eq!((escaped("# title"), escaped("- item")), ("\\# title".to_owned(), "\\- item".to_owned()));
        assert_eq!(escaped("c1 acquired k0 at 1.5 s (n1, n2)"), "c1 acquired k0 at 1.5 s (n1, n2)");
    }

    #[test]
    fn code_cannot_be_left() {
        assert_eq!(code("--partition 'c1|n4'"), "`--partition 'c1|n4'`");
        assert_eq!(code_in_table("a|b"), "`a\\|b`");
        assert_eq!(code("a`b``c\n<b>"), "``` a`b``c <b> ```");
    }
}
