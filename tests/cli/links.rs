//! Links in folders of results: nothing is written through them. No cluster is started.

use crate::other_commands::ran;
use crate::unwritten_files::part;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Merges the part into a folder in which links take the places of the files, and gives the exit code and the
/// complaints. The folder itself is a link, which the user names.
fn merged_over_links(at: &Path, names: &[&str]) -> (Option<i32>, String) {
    let victim = at.join("victim");
    fs::write(&victim, "kept").expect("a file");
    fs::create_dir_all(at.join("real")).expect("a folder");
    symlink("real", at.join("out")).expect("a link");
    for name in names {
        symlink(&victim, at.join("real").join(name)).expect("a link");
    }
    let output = ran(at, "merge part --out out");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "kept", "{complaints}");
    for name in names {
        let found = fs::symlink_metadata(at.join("real").join(name)).expect("it is there");
        assert!(found.is_file(), "{name} is written in the place of the link: {complaints}");
    }
    (output.status.code(), complaints)
}

#[test]
fn a_merge_of_scenarios_replaces_links() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let at = results.path();
    let facts = json!({ "name": "redis-no-ttl", "source": "a", "about": "b", "expected": "c" });
    part(at, "scenario", &json!({ "scenarios": [facts], "times": 1, "lock": null, "driver": "local" }));
    let names = ["records.jsonl", "durations.json", "merge.json", "scenarios.md", "scenarios.json"];
    assert_eq!(merged_over_links(at, &names), (Some(2), String::new()), "the play is missing");
}

#[test]
fn a_merge_of_a_comparison_replaces_links() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let at = results.path();
    let layout = json!({
        "fencepost": env!("CARGO_PKG_VERSION"), "command": "fencepost compare", "nemeses": [], "rows": [],
    });
    part(at, "compare", &json!({ "layout": layout, "runs": 1, "matrix": null }));
    let names = ["records.jsonl", "durations.json", "merge.json", "compare.html", "compare.json"];
    assert_eq!(merged_over_links(at, &names), (Some(2), String::new()), "the run is missing");
}

#[test]
fn a_merge_of_a_hunt_replaces_links_and_refuses_a_folder_that_is_one() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let at = results.path();
    part(at, "hunt", &Value::Null);
    let hunt = json!({
        "fencepost": env!("CARGO_PKG_VERSION"), "command": "fencepost hunt", "started": 0, "seed": 7, "lock": "redlock",
        "driver": "local", "options": "", "nemeses": ["pause"], "jobs": 1, "spent_ms": 1, "schedules": 1, "failed": 0,
        "situations": {}, "curve": [], "findings": [],
    });
    fs::write(at.join("part/hunt.json"), hunt.to_string()).expect("a file");
    // What lies elsewhere in a folder of the part's name would be removed, and written anew.
    fs::create_dir_all(at.join("elsewhere/1")).expect("a folder");
    fs::write(at.join("elsewhere/1/precious"), "kept").expect("a file");
    fs::create_dir(at.join("real")).expect("a folder");
    symlink(at.join("elsewhere"), at.join("real/parts")).expect("a link");
    let names = ["records.jsonl", "durations.json", "merge.json", "hunt.html", "hunt.md", "hunt.json"];
    let (code, complaints) = merged_over_links(at, &names);
    assert_eq!(code, Some(255), "{complaints}");
    assert!(complaints.contains("parts is a link") && complaints.lines().count() == 1, "{complaints}");
    let left: Vec<_> = fs::read_dir(at.join("elsewhere/1")).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
