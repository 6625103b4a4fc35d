//! From a violation to a finding: a run is replayed, made smaller, kept as a scenario, and that scenario is
//! played.

use crate::common::{output, under};
use std::process::Output;

under! {
    local: [a_violation_is_replayed_shrunk_and_kept_as_a_scenario_that_shows_it],
    docker: [],
    docker_by_night: [a_violation_is_replayed_shrunk_and_kept_as_a_scenario_that_shows_it],
}

fn played(args: &str, expected: i32) -> String {
    let Output { status, stdout, stderr } = output(&args.split_whitespace().collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&stdout).into_owned();
    eprintln!("--- {args}\n{text}{}", String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(expected), "{args}");
    text
}

/// The canary locks nothing, so the pauses around it are what shrinking has to leave out.
fn a_violation_is_replayed_shrunk_and_kept_as_a_scenario_that_shows_it(driver: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = folder.path().join("results");
    let (results, findings) = (results.display(), folder.path().join("findings"));
    let options =
        "--lock canary-nolock --nemesis pause --nemesis-interval 300ms --ttl 500ms --time-limit 4s --seed 5";
    played(&format!("test {options} --driver {driver} --results {results}"), 1);
    let text = played(&format!("replay {results}/latest --times 2 --results {results}"), 1);
    assert!(text.contains("2 of 2 plays show a violation (95 % interval of the rate: 22 % to 100 %)"));

    let text = played(&format!("shrink {results}/latest --for 60s --findings {}", findings.display()), 1);
    assert!(text.contains("no fault at all: kept, the violation still comes"), "a step tells what it did");
    let finding = findings.join("granted-twice-in-peace");
    for file in ["scenario.toml", "finding.json", "run/report.html", "run/verdict.json", "run/plots"] {
        assert!(finding.join(file).exists(), "{file} is missing");
    }
    let entries = std::fs::read_dir(&findings).expect("the folder of findings").count();
    assert_eq!(entries, 1, "runs on the way are removed");

    // How often a finding comes again is for `chance`.
    let scenario = finding.join("scenario.toml").display().to_string();
    let play = ["scenario", &scenario, "--driver", driver, "--results", &results.to_string()];
    assert!(matches!(output(&play).status.code(), Some(0 | 1)), "{scenario} cannot be played");
}
