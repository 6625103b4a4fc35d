//! Which crate may depend on which: the program stands on the hunt, that on the campaign, that on the engine
//! and the report, and these on the rest.

use crate::sources::{files, root, text};
use std::collections::BTreeSet;
use std::process::Command;

/// Each crate of ours, and which of ours it may import.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("fencepost-history", &[]),
    ("fencepost-wire", &[]),
    ("fencepost-checker", &["fencepost-history"]),
    ("fencepost-cluster", &["fencepost-history", "fencepost-wire"]),
    ("fencepost-workloads", &["fencepost-history"]),
    ("fencepost-storage", &["fencepost-history", "fencepost-wire", "fencepost-cluster"]),
    ("fencepost-locks", &["fencepost-history", "fencepost-wire", "fencepost-cluster", "fencepost-storage"]),
    ("fencepost-nemesis", &["fencepost-history", "fencepost-wire", "fencepost-cluster"]),
    ("fencepost-report", &["fencepost-history", "fencepost-checker"]),
    (
        "fencepost-engine",
        &[
            "fencepost-history",
            "fencepost-wire",
            "fencepost-cluster",
            "fencepost-storage",
            "fencepost-locks",
            "fencepost-nemesis",
            "fencepost-workloads",
            "fencepost-checker",
        ],
    ),
    (
        "fencepost-campaign",
        &[
            "fencepost-history",
            "fencepost-checker",
            "fencepost-cluster",
            "fencepost-storage",
            "fencepost-locks",
            "fencepost-nemesis",
            "fencepost-workloads",
            "fencepost-engine",
            "fencepost-report",
        ],
    ),
    (
        "fencepost-hunt",
        &[
            "fencepost-history",
            "fencepost-checker",
            "fencepost-cluster",
            "fencepost-locks",
            "fencepost-nemesis",
            "fencepost-workloads",
            "fencepost-engine",
            "fencepost-report",
            "fencepost-campaign",
        ],
    ),
    (
        "fencepost",
        &[
            "fencepost-history",
            "fencepost-wire",
            "fencepost-checker",
            "fencepost-cluster",
            "fencepost-storage",
            "fencepost-locks",
            "fencepost-nemesis",
            "fencepost-workloads",
            "fencepost-engine",
            "fencepost-report",
            "fencepost-campaign",
            "fencepost-hunt",
        ],
    ),
    // Tests import what they test.
    ("fencepost-tests", &["fencepost", "fencepost-cluster", "fencepost-nemesis"]),
];

/// What a client program, which is no part of the workspace, may import: the kit.
const OF_CLIENTS: &[&str] = &["fencepost-client"];

pub fn problems() -> Vec<String> {
    let mut problems = Vec::new();
    let mut checked = 0;
    for file in files(&["toml"]).into_iter().filter(|file| file.ends_with("Cargo.toml")) {
        let manifest: toml::Table = text(&file).parse().expect("a manifest in TOML");
        let Some(name) = manifest.get("package").and_then(|package| package["name"].as_str()) else {
            continue;
        };
        let ours: BTreeSet<&str> = manifest
            .get("dependencies")
            .and_then(|dependencies| dependencies.as_table())
            .into_iter()
            .flat_map(|dependencies| dependencies.keys())
            .map(String::as_str)
            .filter(|dependency| dependency.starts_with("fencepost"))
            .collect();
        if name.contains("fuzz") {
            continue;
        }
        checked += 1;
        let may = match file.starts_with("kits") || file.starts_with("adapters") {
            true => OF_CLIENTS,
            false => MAY_IMPORT.iter().find(|(importer, _)| *importer == name).map_or_else(
                || panic!("{name} is not in the table of tests/tidy/imports.rs"),
                |(_, may)| *may,
            ),
        };
        for imported in ours.into_iter().filter(|imported| !may.contains(imported)) {
            problems.push(format!("{name} must not import {imported}: {}", file.display()));
        }
    }
    assert!(checked > 5, "only {checked} manifests were found");
    problems
}

/// Crates that users take with them, and which a workspace around them would not let them build: it excludes
/// no folder below a member that it names, and names itself by `.`.
pub fn swallowed_by_the_workspace() -> Vec<String> {
    let manifests = files(&["toml"]).into_iter().filter(|file| {
        let is_apart = ["kits", "adapters", "fuzz"].iter().any(|folder| file.starts_with(folder));
        is_apart && file.ends_with("Cargo.toml")
    });
    let swallowed = manifests.filter_map(|manifest| {
        let asked = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
            .arg(root().join(&manifest))
            .output()
            .expect("cargo runs");
        let why = String::from_utf8_lossy(&asked.stderr).into_owned();
        // One that depends on what lies beside it in a node cannot be read here, for that reason alone.
        why.contains("believes it's in a workspace").then(|| format!("{}: {why}", manifest.display()))
    });
    swallowed.collect()
}
