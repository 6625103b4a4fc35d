//! Files that cannot be written about an outcome that is known: it is printed, and keeps its exit code. No
//! cluster is started.

use crate::other_commands::{analyzed_after, ran, violation};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// What the program printed, where it ended with this code and named so many files that are not written.
fn printed(folder: &Path, args: &str, code: i32, unwritten: usize) -> String {
    let output = ran(folder, args);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args}: {complaints}");
    assert_eq!(
        complaints.matches("above stands, but one of its files could not be written").count(),
        unwritten,
        "{args}: {complaints}"
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_verdict_stands_though_a_file_for_a_pipeline_cannot_be_written() {
    let results = tempfile::tempdir().expect("a temporary folder");
    violation(results.path());
    for (expected, code) in [("", 1), (" --expect valid", 1), (" --expect violation", 255)] {
        for file in ["--junit /dev/full", "--sarif nowhere/run.sarif"] {
            let printed = printed(results.path(), &format!("analyze run {file}{expected}"), code, 1);
            assert!(printed.contains("The lock did not hold"), "{printed}");
        }
    }
}

/// Writes the folder of the only part of a campaign.
pub fn part(results: &Path, kind: &str, campaign: &Value) {
    fs::create_dir(results.join("part")).expect("a folder");
    let file = json!({
        "fencepost": env!("CARGO_PKG_VERSION"), "kind": kind, "command": "fencepost", "seed": 7, "of": 1, "deal": "",
        "campaign": campaign, "parts": { "1": { "finished": true, "dealt": [0], "runs-in": ["."] } },
    });
    fs::write(results.join("part/part.json"), file.to_string()).expect("a file");
    // In the place of a folder a file: not even root can make anything in it.
    fs::write(results.join("blocked"), "").expect("a file");
}

#[test]
fn a_merged_play_of_scenarios_is_printed_though_no_file_of_it_can_be_written() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let at = results.path();
    let facts = json!({ "name": "redis-no-ttl", "source": "a", "about": "b", "expected": "c" });
    part(at, "scenario", &json!({ "scenarios": [facts], "times": 1, "lock": null, "driver": "local" }));
    let play = |ending: &str| {
        let mut report = facts.clone();
        let observed = json!({ "ending": ending, "runs": [], "driver": "local", "seed": 7, "seconds": 1.0 });
        report.as_object_mut().expect("an object").extend(observed.as_object().expect("an object").clone());
        let record = json!({ "run": 0, "done": true, "value": report });
        fs::write(at.join("part/records.jsonl"), format!("{record}\n")).expect("a file");
    };
    play("disagrees");
    let said = printed(at, "merge part --out blocked/out --junit nowhere/junit.xml --json /dev/full", 1, 5);
    assert!(said.contains("does not agree") && !said.contains("written"), "{said}");
    let said = printed(at, "merge part --out out --markdown nowhere/page.md", 1, 1);
    assert!(said.contains("scenarios.json") && at.join("out/scenarios.json").is_file(), "{said}");
    play("agrees");
    assert!(printed(at, "merge part --out blocked/out", 255, 3).contains("agrees"));
}

#[test]
fn a_merged_hunt_is_printed_though_no_file_of_it_can_be_written() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let at = results.path();
    part(at, "hunt", &Value::Null);
    let finding = json!({
        "name": "granted-twice-in-peace", "signature": { "checker": "exclusion", "class": "granted-twice", "causes": [] },
        "sentence": "It was held twice.", "found_ms": 1, "schedule": 1, "times": 1, "state": "found", "faults": 0, "clients": 0,
    });
    let hunt = json!({
        "fencepost": env!("CARGO_PKG_VERSION"), "command": "fencepost hunt", "started": 0, "seed": 7, "lock": "redlock",
        "driver": "local", "options": "", "nemeses": ["pause"], "jobs": 1, "spent_ms": 1, "schedules": 1, "failed": 0,
        "situations": {}, "curve": [], "findings": [finding],
    });
    fs::write(at.join("part/hunt.json"), hunt.to_string()).expect("a file");
    let said = printed(at, "merge part --out blocked/out --html nowhere/hunt.html", 1, 6);
    assert!(said.contains("It was held twice.") && !said.contains("written"), "{said}");
    let said = printed(at, "merge part --out out --markdown /dev/full", 1, 1);
    assert!(said.contains("written") && at.join("out/hunt.html").is_file(), "{said}");
}

/// The files of a run have the rights that the user's mask leaves, and no more.
#[test]
fn results_have_the_rights_that_the_mask_of_the_user_leaves() {
    use std::os::unix::fs::PermissionsExt;
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = violation(results.path());
    let output = analyzed_after("umask 077", &folder);
    assert_eq!(output.status.code(), Some(1));
    for name in ["verdict.json", "report.html"] {
        let mode = fs::metadata(folder.join(name)).expect("it was written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
