//! How many product lines each part may have: without tests, comments and blank lines.

use crate::scan::product_lines;
use crate::sources::{files, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most lines of each part: those of the day on which it was counted last. A change that needs more says
/// in its commit what goes for it, and raises the number here.
const CEILINGS: &[(&str, usize)] = &[
    ("adapters", 80),
    ("benches", 583),
    ("crates/campaign", 2_595),
    ("crates/checker", 12_720),
    ("crates/cluster", 10_138),
    ("crates/engine", 9_016),
    ("crates/history", 2_352),
    ("crates/hunt", 4_327),
    ("crates/locks", 12_852),
    ("crates/report", 6_966),
    ("crates/storage", 763),
    ("crates/wire", 367),
    ("fuzz", 146),
    ("kits", 1_546),
    ("nemesis", 11_758),
    ("src", 7_479),
    ("workloads", 982),
];

/// Parts that are larger than their ceiling, or have none.
pub fn problems() -> Vec<String> {
    let rust = files(&["rs"]);
    let for_tests = modules_for_tests(&rust);
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for file in
        rust.iter().filter(|file| !is_test(file) && !for_tests.iter().any(|tests| file.starts_with(tests)))
    {
        *sizes.entry(part(file)).or_default() += product_lines(&text(file));
    }
    let problems = sizes.iter().filter_map(|(part, lines)| {
        match CEILINGS.iter().find(|(name, _)| name == part) {
            Some((_, most)) if lines <= most => None,
            Some((_, most)) => Some(format!(
                "{part} has {lines} product lines, more than {most}: let as many go, or raise the number in tests/tidy/sizes.rs"
            )),
            None => Some(format!("{part} has {lines} product lines and no ceiling in tests/tidy/sizes.rs")),
        }
    });
    problems.collect()
}

/// The crate, or the folder at the top, that a file belongs to.
fn part(file: &Path) -> String {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    if parts[0] == "crates" { parts[..2].join("/") } else { parts[0].to_string() }
}

/// Whether all of a file is for tests, by its place.
fn is_test(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_in_tests = file.parent().is_some_and(|folder| folder.iter().any(|part| part == "tests"));
    is_in_tests || name == "tests.rs" || name.ends_with("_tests.rs")
}

/// Files and folders of modules that are there for tests only.
fn modules_for_tests(rust: &[PathBuf]) -> Vec<PathBuf> {
    let mut modules = Vec::new();
    for file in rust {
        let text = text(file);
        let is_root = ["lib.rs", "mod.rs", "main.rs"].iter().any(|name| file.ends_with(name));
        let folder = if is_root { file.with_file_name("") } else { file.with_extension("") };
        for item in text.split("#[cfg(test)]").skip(1) {
            let item = item.trim_start();
            let item = item.strip_prefix("pub ").or_else(|| item.strip_prefix("pub(crate) ")).unwrap_or(item);
            let name = item.strip_prefix("mod ").and_then(|item| item.split_once(';'));
            if let Some((name, _)) =
                name.filter(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
            {
                modules.extend([folder.join(format!("{name}.rs")), folder.join(name)]);
            }
        }
    }
    modules
}
