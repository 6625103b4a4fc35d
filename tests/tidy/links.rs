//! Links in Markdown files to files and headings of the project.

use crate::sources::{files, root, text};
use std::path::Path;

pub fn dead() -> Vec<String> {
    let mut dead = Vec::new();
    for file in files(&["md"]) {
        for (number, target) in targets(&text(&file)) {
            if let Some(why) = why_dead(&file, &target) {
                dead.push(format!("{}:{number}: the link to {target} {why}", file.display()));
            }
        }
    }
    dead
}

/// Source files between backquotes in ARCHITECTURE.md that are not there: a path, or its end.
pub fn moved_sources() -> Vec<String> {
    let sources = files(&["rs"]);
    let is_there = |named: &str| sources.iter().any(|source| source.ends_with(named));
    let text = text(Path::new("ARCHITECTURE.md"));
    let named =
        text.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs") && !word.contains(' '));
    named
        .filter(|named| !is_there(named))
        .map(|named| format!("ARCHITECTURE.md names {named}, which is not there"))
        .collect()
}

/// Targets of links and pictures, with the number of their line; those inside code are no links.
fn targets(markdown: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(markdown.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code || line.starts_with("    ") && !line.trim_start().starts_with(['-', '*', '[']) {
            continue;
        }
        // What stands between backquotes is every second part.
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        let ends = plain.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        targets.extend(ends.map(|(target, _)| (number, target.to_owned())));
    }
    targets
}

fn why_dead(file: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let full = match path {
        "" => root().join(file),
        _ => root().join(file).parent().expect("a file lies in a folder").join(path),
    };
    if !full.exists() {
        return Some("leads to no file".to_owned());
    }
    if anchor.is_empty() || full.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    let text = std::fs::read_to_string(&full).expect("a readable file");
    let there = text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor);
    (!there).then(|| "leads to no heading of that name".to_owned())
}

/// The anchor that is made of a heading.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || [' ', '-', '_'].contains(char));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}

#[test]
fn links_are_found_and_code_is_none() {
    let text = "see [a](b.md), ![p](c.svg)\n```\n[x](y)\n```\n`[q](r)` and [s](#t)";
    let found: Vec<String> = targets(text).into_iter().map(|(_, target)| target).collect();
    assert_eq!(found, ["b.md", "c.svg", "#t"]);
    assert_eq!(slug("## Guards of the storage: `token`"), "guards-of-the-storage-token");
}
