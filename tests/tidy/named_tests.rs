//! Tests that docs/security.md names, promise by promise.

use crate::sources::{files, text};
use std::path::Path;

/// Those that there are not.
pub fn missing() -> Vec<String> {
    let sources: Vec<String> = files(&["rs"]).iter().map(|file| text(file)).collect();
    let named = named(&text(Path::new("docs/security.md")));
    assert!(named.len() > 20, "the table of promises is not where it was: {named:?}");
    let is_there = |name: &String| {
        // Some tests are made by a macro, from their name and what they expect.
        let defined = [format!("fn {name}("), format!("{name}: \"")];
        sources.iter().any(|source| defined.iter().any(|words| source.contains(words)))
    };
    let missing = named.into_iter().filter(|name| !is_there(name));
    missing.map(|name| format!("docs/security.md names the test {name}, which there is not")).collect()
}

/// What looks like a test's name in the table of promises.
fn named(page: &str) -> Vec<String> {
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| promise"))
        .take_while(|line| line.starts_with('|'));
    let tests = rows.filter_map(|row| row.split('|').nth(2));
    let code = tests.flat_map(|tests| tests.split('`').skip(1).step_by(2));
    let is_name = |word: &&str| {
        word.matches('_').count() > 1
            && word
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '_' || letter.is_ascii_digit())
    };
    code.filter(is_name).map(str::to_owned).collect()
}
