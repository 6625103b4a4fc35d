//! Every folder of a lock in this repository can be run: its `lock.toml` is right, and its files are there.

use fencepost_engine::{RunOptions, RunSpec, find_lock};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folders below this one that have a `lock.toml`, at most two levels down.
fn locks(folder: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let all = below(folder).into_iter().flat_map(|child| [vec![child.clone()], below(&child)].concat());
    all.filter(|path| path.join("lock.toml").is_file()).collect()
}

/// Names the mistake in the lock of this name, if there is one.
fn mistake(name: String) -> Option<String> {
    let options = RunOptions { lock: name.clone(), ..RunOptions::default() };
    let files = RunSpec::new(options).and_then(|spec| spec.lock_files());
    files.err().map(|error| format!("{name}: {error}"))
}

#[test]
fn every_lock_of_this_repository_can_be_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders: Vec<PathBuf> = ["adapters", "kits", "tests/locks", "tests/planted"]
        .iter()
        .flat_map(|part| locks(&root.join(part)))
        .collect();
    assert!(folders.len() > 20, "only {} folders were found", folders.len());
    let mut mistakes = Vec::new();
    for folder in folders {
        let name = folder.display().to_string();
        let variants = find_lock(&name).ok().and_then(|lock| lock.recipe.program());
        let variants = variants.into_iter().flat_map(|program| program.variants.keys());
        mistakes.extend(variants.filter_map(|variant| mistake(format!("{name}@{variant}"))));
        mistakes.extend(mistake(name));
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// A mistake of which no fact is known would never be measured, and a fact about none would be skipped.
#[test]
fn the_facts_of_planted_mistakes_are_about_every_variant() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/planted");
    let facts: toml::Table = std::fs::read_to_string(root.join("bugs.toml")).unwrap().parse().unwrap();
    let facts = facts["bug"].as_array().unwrap();
    let named =
        |key: &str| facts.iter().map(|bug| bug[key].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>();
    let (mistakes, twins) = (named("lock"), named("twin"));
    let mut there = BTreeSet::new();
    for folder in locks(&root) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let lock = find_lock(&folder.display().to_string()).unwrap();
        let variants = lock.recipe.program().unwrap().variants.keys();
        there.extend(variants.map(|variant| format!("{name}@{variant}")));
    }
    let all: BTreeSet<String> = mistakes.union(&twins).cloned().collect();
    let strange: Vec<&String> = all.symmetric_difference(&there).collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert!(mistakes.len() >= 40 && mistakes.is_disjoint(&twins), "{} mistakes", mistakes.len());
}
