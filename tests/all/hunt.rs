//! Hunts on real servers.

use crate::common::{fencepost, output, planned};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn hunts(results: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(results).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("hunt-")))
        .collect()
}

fn state(hunt: &Path) -> Value {
    let text = std::fs::read_to_string(hunt.join("hunt.json")).expect("hunt.json");
    serde_json::from_str(&text).expect("JSON")
}

/// The exit code of a hunt that ends so. How many schedules there is time for depends on the machine, and of
/// fewer than ten without a finding a hunt says that they are too few.
fn code_of(state: &Value) -> Option<i32> {
    let has_found = state["findings"] != serde_json::json!([]);
    let schedules = state["schedules"].as_u64().expect("a count");
    Some(if has_found {
        1
    } else if schedules < 10 {
        2
    } else {
        0
    })
}

/// A lease on one Redis, a stopped holder, a clock that jumps: in which results it hunts, for how long and
/// with which seed. Whether a violation of mutual exclusion was found within that time is for `chance`.
pub fn hunt_on_one_redis(results: &Path, length: &str, seed: u64) -> bool {
    let folder = results.to_str().expect("a path in UTF-8");
    let args = format!(
        "hunt --lock redis-single --nemeses clock-jump,pause --driver local --for {length} --jobs 2 --seed {seed} --results {folder}"
    );
    let hunted = output(&args.split_whitespace().collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&hunted.stdout).into_owned();
    let [hunt] = &hunts(results)[..] else { panic!("one hunt: {text}") };
    let state = state(hunt);
    assert_eq!(hunted.status.code(), code_of(&state), "{text}\n{}", String::from_utf8_lossy(&hunted.stderr));
    let findings = state["findings"].as_array().expect("findings");
    findings.iter().any(|finding| finding["signature"]["checker"] == "exclusion")
}

/// Other commands pass over its folder, and it goes on where it was.
#[test]
fn a_hunt_goes_on_where_it_was() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = results.path().to_str().expect("a path in UTF-8");
    hunt_on_one_redis(results.path(), "15s", 3);
    let [hunt] = &hunts(results.path())[..] else { panic!("one hunt") };
    let before = state(hunt);
    assert!(hunt.join("hunt.html").is_file() && hunt.join("hunt.md").is_file());
    assert!(!hunt.join("runs").exists(), "schedules that taught nothing leave nothing");

    let listed = fencepost(&["gc", "--results", folder, "--keep", "0"]).output().expect("the program starts");
    assert_eq!(listed.status.code(), Some(0));
    assert!(hunt.join("hunt.json").is_file(), "a hunt is no run that may go");

    let path = hunt.to_str().expect("UTF-8");
    let refused = fencepost(&["hunt", "--resume", path, "--jobs", "0"]).output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(254));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the number of jobs"));
    // On a busy machine the first hunt ended long after its time.
    let longer = format!("{}ms", before["spent_ms"].as_u64().expect("a time") + 15_000);
    let more = output(&["hunt", "--resume", path, "--for", &longer]);
    let after = state(hunt);
    assert_eq!(more.status.code(), code_of(&after), "{}", String::from_utf8_lossy(&more.stderr));
    assert!(after["schedules"].as_u64() > before["schedules"].as_u64());
    assert_eq!(after["started"], before["started"]);
}

/// The canary locks nothing. A folder that is no hunt cannot be gone on with.
#[test]
fn lock_that_is_broken_without_faults_is_said_at_once() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = results.path().to_str().expect("a path in UTF-8");
    let args = ["hunt", "--lock", "canary-nolock", "--driver", "local", "--for", "5m", "--results", folder];
    let hunted = output(&args);
    let text = String::from_utf8_lossy(&hunted.stdout).into_owned();
    assert_eq!(hunted.status.code(), Some(1), "{text}\n{}", String::from_utf8_lossy(&hunted.stderr));
    assert!(text.contains("broken without any fault"), "{text}");

    let refused = fencepost(&["hunt", "--resume", folder]).output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(254));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not the folder of a hunt"));
}

/// A schedule does not go on for long after what it is for; any other run lasts as long as it was given.
#[test]
fn a_brief_run_ends_soon_after_its_last_fault() {
    let plan = "[[fault]]\nat_ms = 500\nfor_ms = 1000\nfault = \"pause\"\non = [\"c1\"]\n";
    let ended_after = |more: &str| {
        let args = format!("--lock redis-single --ttl 500ms --driver local --seed 7 {more}");
        let ran = planned(plan, &args);
        let events = ran.history();
        let phase = |name: &str| {
            let event = events.iter().find(|event| event.f == "phase" && event.value.as_str() == Some(name));
            Duration::from_nanos(event.expect("a phase").time)
        };
        phase("heal").saturating_sub(phase("main"))
    };
    // The fault is over after 1.5 s, and what follows from it has its time; the limit is for what hangs.
    let brief = ended_after("--brief --time-limit 300s");
    assert!((Duration::from_millis(2200)..Duration::from_secs(300)).contains(&brief), "{brief:?}");
    assert!(ended_after("--time-limit 6s") >= Duration::from_secs(6));
}
