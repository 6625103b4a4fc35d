//! What is not tidy yet, one line each, in `exceptions.txt`: `rule place`, or `rule place count`.

use crate::sources::{root, text};
use std::collections::BTreeMap;
use std::path::Path;

const FILE: &str = "tests/tidy/exceptions.txt";

/// Something that breaks a rule.
pub struct Problem {
    /// What an exception names: a file, or two modules.
    pub place: String,
    /// One sentence.
    pub sentence: String,
}

/// How many problems of a rule each place may have.
fn allowed(rule: &str) -> BTreeMap<String, usize> {
    let text = if root().join(FILE).is_file() { text(Path::new(FILE)) } else { String::new() };
    let mut allowed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (count, place) = match words.last().and_then(|last| last.parse().ok()) {
            Some(count) => (count, &words[1..words.len() - 1]),
            None => (1, &words[1..]),
        };
        if words[0] == rule {
            allowed.insert(place.join(" "), count);
        }
    }
    allowed
}

/// Fails if a place has more problems than its exception allows, or fewer.
pub fn assert_tidy(rule: &str, problems: Vec<Problem>) {
    let mut by_place: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for problem in &problems {
        by_place.entry(&problem.place).or_default().push(&problem.sentence);
    }
    if std::env::var_os("TIDY_EXCEPTIONS").is_some() {
        for (place, sentences) in &by_place {
            println!("{rule} {place} {}", sentences.len());
        }
        return;
    }
    let allowed = allowed(rule);
    let mut said = Vec::new();
    for (place, sentences) in &by_place {
        let allowed = allowed.get(*place).copied().unwrap_or(0);
        if sentences.len() > allowed {
            said.push(format!(
                "{}\n    ({} of these, allowed: {allowed})",
                sentences.join("\n"),
                sentences.len()
            ));
        }
    }
    for (place, allowed) in &allowed {
        let there = by_place.get(place.as_str()).map_or(0, Vec::len);
        if there < *allowed {
            said.push(format!(
                "{FILE} allows {allowed} of `{rule} {place}`, and there are {there}: lower it"
            ));
        }
    }
    assert!(said.is_empty(), "{rule}:\n{}", said.join("\n"));
}
