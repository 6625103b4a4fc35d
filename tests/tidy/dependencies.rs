//! Licences and sources of dependencies, by the lists in `deny.toml`. By night and on pull requests `cargo
//! deny` looks at the same lists with all features, at advisories, and at what is banned; here is what can be
//! seen without another program or a network: each dependency of what this build makes. What only tests
//! use is in no program.

use crate::sources::{root, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// A sentence for each dependency with another licence or from another place.
pub fn problems() -> Vec<String> {
    let allowed = allowed_licences();
    let packages = packages();
    assert!(packages.len() > 100, "cargo names {} packages", packages.len());
    packages.iter().flat_map(|package| package_problems(package, &allowed)).collect()
}

fn package_problems(package: &Value, allowed: &[String]) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some(source) = package["source"].as_str() else { return Vec::new() };
    let licence = package["license"].as_str().unwrap_or_default();
    let mut problems = Vec::new();
    if !source.starts_with("registry+") {
        problems.push(format!("{name} comes from {source}, not from the registry"));
    }
    if !is_allowed(licence, allowed) {
        problems.push(format!("{name} has the licence {licence:?}, which deny.toml does not allow"));
    }
    problems
}

/// All packages of what this build makes, as cargo resolved them. Dependencies of other systems are not there
/// to be looked at.
fn packages() -> Vec<Value> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &triple])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let used = used(&metadata);
    let packages = metadata["packages"].as_array().expect("a list of packages");
    packages.iter().filter(|package| used.contains(id(&package["id"]))).cloned().collect()
}

fn id(value: &Value) -> &str {
    value.as_str().expect("packages have names")
}

/// The workspace's packages, and what they need other than for their tests.
fn used(metadata: &Value) -> BTreeSet<&str> {
    let nodes = metadata["resolve"]["nodes"].as_array().expect("a graph");
    let needs: BTreeMap<&str, &Value> = nodes.iter().map(|node| (id(&node["id"]), &node["deps"])).collect();
    let members = metadata["workspace_members"].as_array().expect("a list of members");
    let mut open: Vec<&str> = members.iter().map(id).collect();
    let mut used = BTreeSet::new();
    while let Some(package) = open.pop() {
        if used.insert(package) {
            let needed = needs[package].as_array().expect("a list").iter().filter(|need| !is_for_tests(need));
            open.extend(needed.map(|need| id(&need["pkg"])));
        }
    }
    used
}

fn is_for_tests(need: &Value) -> bool {
    let kinds = need["dep_kinds"].as_array().expect("a list");
    kinds.iter().all(|kind| kind["kind"] == "dev")
}

fn allowed_licences() -> Vec<String> {
    let file: toml::Table = toml::from_str(&text(Path::new("deny.toml"))).expect("deny.toml is TOML");
    let allowed = file["licenses"]["allow"].as_array().expect("a list of licences");
    allowed.iter().map(|licence| licence.as_str().expect("a name").to_owned()).collect()
}

/// Whether an SPDX expression can be met with these licences: all parts of an AND, one part of an OR. Old
/// crates write `MIT/Apache-2.0`. AND binds more closely than OR; parentheses group.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    if let Some(parts) = split(&expression, " OR ") {
        return parts.iter().any(|part| is_allowed(part, allowed));
    }
    if let Some(parts) = split(&expression, " AND ") {
        return parts.iter().all(|part| is_allowed(part, allowed));
    }
    let single = expression.trim();
    match single.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => is_allowed(inner, allowed),
        None => allowed.iter().any(|licence| licence == single),
    }
}

/// The parts between this word outside of parentheses; None if it does not occur there.
fn split<'a>(expression: &'a str, word: &str) -> Option<Vec<&'a str>> {
    let mut parts = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(word) => {
                parts.push(&expression[begin..at]);
                begin = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[begin..]);
    (parts.len() > 1).then_some(parts)
}

#[test]
fn licence_expressions_are_read() {
    let allowed = ["MIT".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned(), "Zlib".to_owned()];
    let rows = [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND Zlib", true),
        ("(GPL-3.0 OR BSD-3-Clause) AND Zlib", false),
        ("GPL-3.0 AND Zlib OR MIT", true),
        ("Apache-2.0 WITH LLVM-exception AND (MIT)", true),
    ];
    for (expression, expected) in rows {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn a_dependency_from_elsewhere_is_a_problem() {
    let package =
        serde_json::json!({"name": "x", "source": "git+https://example.com/x", "license": "GPL-3.0"});
    assert_eq!(package_problems(&package, &["MIT".to_owned()]).len(), 2);
    let ours = serde_json::json!({"name": "fencepost", "source": null, "license": "anything"});
    assert_eq!(package_problems(&ours, &["MIT".to_owned()]), Vec::<String>::new());
}
