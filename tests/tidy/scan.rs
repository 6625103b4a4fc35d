//! Rust sources without what only looks like code: comments, texts, and tests inside the file.

/// The code of a file: comments and the content of strings and characters are left out.
pub fn code(source: &str) -> String {
    scanned(source, "")
}

/// [`code`], with `text` in place of each character of a string.
fn scanned(source: &str, text: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let chars: Vec<char> = source.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let skipped = match rest {
            ['/', '/', ..] => until(rest, |rest| rest[0] == '\n'),
            ['/', '*', ..] => until(rest, |rest| rest.starts_with(&['*', '/'])) + 2,
            ['r', '"' | '#', ..] if !ends_in_word(&out) => raw_string(rest),
            ['"', ..] => string(rest),
            ['\'', '\\', ..] => 2 + until(&rest[2..], |rest| rest[0] == '\'') + 1,
            ['\'', _, '\'', ..] => 3,
            _ => 0,
        };
        if skipped == 0 {
            out.push(chars[at]);
            at += 1;
        } else {
            // Lines stay where they are.
            let end = (at + skipped).min(chars.len());
            let filler = if rest[0] == '/' { "" } else { text };
            out.extend(chars[at..end].iter().map(|char| if *char == '\n' { "\n" } else { filler }));
            at = end;
        }
    }
    out
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_')
}

fn until(rest: &[char], found: impl Fn(&[char]) -> bool) -> usize {
    (0..rest.len()).find(|at| found(&rest[*at..])).unwrap_or(rest.len())
}

/// Length of a string literal with its quotes.
fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Length of `r"…"` or `r#"…"#`; 0 for a raw identifier (`r#type`).
fn raw_string(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|char| **char == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = 2 + hashes;
    body + until(&rest[body..], |rest| rest.starts_with(&end)) + end.len()
}

/// [`code`] without items that are for tests only: what follows `#[cfg(test)]` up to its closing brace or
/// semicolon.
pub fn code_without_tests(source: &str) -> String {
    without_tests(&code(source))
}

/// How many lines of a file have code, strings among it, that is not for tests only.
pub fn product_lines(source: &str) -> usize {
    without_tests(&scanned(source, "_")).lines().filter(|line| !line.trim().is_empty()).count()
}

fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(at) = ["#[cfg(test)]", "#[cfg(all(test,"].iter().filter_map(|mark| rest.find(mark)).min() {
        out += &rest[..at];
        rest = &rest[at + until_bracket(&rest[at..])..];
        rest = &rest[item_length(rest)..];
    }
    out + rest
}

/// Length of an attribute.
fn until_bracket(attribute: &str) -> usize {
    attribute.find(']').map_or(attribute.len(), |at| at + 1)
}

/// [`code`] of what is for tests only, on the lines where it stands; all other lines are empty.
pub fn tests_only(source: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let code = code(source);
    let mut out = String::new();
    let mut rest = code.as_str();
    let blank = |text: &str| "\n".repeat(text.matches('\n').count());
    while let Some(at) = rest.find(MARK) {
        out += &blank(&rest[..at]);
        rest = &rest[at + MARK.len()..];
        let (item, after) = rest.split_at(item_length(rest));
        out += item;
        rest = after;
    }
    out
}

fn item_length(rest: &str) -> usize {
    let mut depth = 0_i32;
    for (at, char) in rest.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn only_code_is_left() {
    let source = r##"let a = "crate::x"; // crate::y
        let b = r#"crate::"z""#; let c = '"'; let d: &'static str = "\""; /* crate::w */ crate::v();"##;
    assert_eq!(
        code(source).split_whitespace().collect::<Vec<_>>().join(" "),
        "let a = ; let b = ; let c = ; let d: &'static str = ; crate::v();"
    );
}

#[test]
fn items_for_tests_are_left_out() {
    let source = "use a;\n#[cfg(test)]\nuse b;\n#[cfg(test)]\nmod tests { fn x() { c() } }\nfn d() {}";
    assert_eq!(
        code_without_tests(source).split_whitespace().collect::<Vec<_>>().join(" "),
        "use a; fn d() {}"
    );
}

#[test]
fn only_items_for_tests_are_left_where_they_stand() {
    let source = "use a;\n#[cfg(test)]\nmod tests {\n fn x() { c() }\n}\nfn d() {}";
    let tests = tests_only(source);
    assert_eq!(tests.lines().nth(3), Some(" fn x() { c() }"));
    assert!(!tests.contains("use") && !tests.contains("d()"), "{tests}");
}

#[test]
fn lines_of_code_are_counted_with_their_strings_and_without_comments_and_tests() {
    let source = "//! About.\nuse a;\n\n/* no\ncode */\nconst B: &str = \"two\n  lines\"; // b\n#[cfg(test)]\nmod tests {\n  fn x() {}\n}\n";
    assert_eq!(product_lines(source), 3);
}
