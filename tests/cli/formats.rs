//! Files that earlier versions wrote, one folder of `tests/formats` for each version: they are read as they
//! were then.

use crate::common::fencepost;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The folders below this one.
fn folders(at: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(at).unwrap_or_else(|error| panic!("{}: {error}", at.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let folders: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    assert!(!folders.is_empty(), "{} has no folder", at.display());
    folders
}

/// The versions, each with a copy of its files that commands may write beside.
fn versions() -> Vec<tempfile::TempDir> {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let copied = |folder: PathBuf| {
        let place = tempfile::tempdir().expect("a temporary folder");
        let copy =
            std::process::Command::new("cp").arg("-r").arg(folder.join(".")).arg(place.path()).status();
        assert!(copy.expect("cp").success());
        place
    };
    folders(&formats).into_iter().map(copied).collect()
}

/// Runs a command where no engine answers, so that it ends before a run begins.
fn ran(at: &Path, args: &str) -> Output {
    let mut command = fencepost(&args.split_whitespace().collect::<Vec<_>>());
    command.current_dir(at).env("DOCKER_HOST", "unix:///nowhere/docker.sock").output().expect("it starts")
}

fn json_in(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a verdict decides: its outcome, and of each checker the outcome and the classes of the findings.
///
/// `linearizable` is left out. It judged the lock, too, which repeated what `exclusion` says (`repeats` in
/// its findings); now it judges the storage.
fn decided(verdict: &Value) -> Value {
    let of_checker = |verdict: &Value| {
        let findings = verdict["findings"].as_array().expect("findings");
        let classes: Vec<&Value> = findings.iter().map(|finding| &finding["class"]).collect();
        json!([verdict["checker"], verdict["outcome"], classes])
    };
    let checkers = verdict["verdicts"].as_array().expect("verdicts");
    let compared = checkers.iter().filter(|verdict| verdict["checker"] != "linearizable");
    json!([verdict["outcome"], compared.map(of_checker).collect::<Vec<_>>()])
}

#[test]
fn runs_are_judged_as_they_were() {
    for version in versions() {
        for run in folders(&version.path().join("runs")) {
            let name = run.display();
            let before = decided(&json_in(&run.join("verdict.json")));
            fs::remove_file(run.join("verdict.json")).expect("it was there");
            let analyzed = ran(version.path(), &format!("analyze {name}"));
            let stderr = String::from_utf8_lossy(&analyzed.stderr);
            assert!(matches!(analyzed.status.code(), Some(0..=2)), "{name}: {stderr}");
            assert_eq!(decided(&json_in(&run.join("verdict.json"))), before, "{name}");
        }
    }
}

/// The first format had no field for the signal.
#[test]
fn a_server_that_somebody_killed_is_no_crash() {
    for version in versions() {
        let analyzed = ran(version.path(), "analyze runs/server-killed");
        let printed = String::from_utf8_lossy(&analyzed.stdout).replace('\n', " ");
        let words = "and by no fault of this run, the server n1 was ended by SIGKILL";
        assert!(analyzed.status.code() == Some(2) && printed.contains(words), "{printed}");
    }
}

#[test]
fn the_ledger_of_a_kept_run_is_printed_and_nothing_is_written() {
    for version in versions() {
        let run = "findings/granted-twice-in-peace/run";
        let files = || fs::read_dir(version.path().join(run)).expect("a run").count();
        let before = files();
        let printed = ran(version.path(), &format!("analyze {run} --ledger"));
        let text = String::from_utf8_lossy(&printed.stdout);
        assert_eq!(printed.status.code(), Some(0), "{}", String::from_utf8_lossy(&printed.stderr));
        for line in [
            "lock k0",
            "  process 0, event 8; lease: none",
            "    granted   0.000 s (the acquire was invoked) to 0.000 s (its answer came)",
            "    ended     by nothing that is known, before the next grant",
        ] {
            assert!(text.lines().any(|each| each == line), "{line}\n{text}");
        }
        assert_eq!(files(), before);
    }
}

#[test]
fn the_proof_of_a_kept_violation_is_walked_through() {
    for version in versions() {
        let run = "findings/granted-twice-in-peace/run";
        let printed = ran(version.path(), &format!("explain {run} --finding 1"));
        let text = String::from_utf8_lossy(&printed.stdout);
        assert_eq!(printed.status.code(), Some(0), "{}", String::from_utf8_lossy(&printed.stderr));
        for part in [
            "finding 1 of ",
            "granted twice (exclusion): ",
            "  1. event 8, 0.000 s: process 0: acquire k0 ok",
            ": process 0 holds k0 from here on.",
            "both processes held it.",
            "    ended     by nothing that is known, before the next grant",
            "whose  the library: ",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let refused = ran(version.path(), &format!("explain {run} --finding 99"));
        assert_eq!(refused.status.code(), Some(254));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("there is no finding 99 in findings/"));
    }
}

#[test]
fn verdicts_and_comparisons_are_compared() {
    for version in versions() {
        let args = "compare --from runs --baseline compare.json --json out.json";
        let compared = ran(version.path(), args);
        assert_eq!(compared.status.code(), Some(0), "{}", String::from_utf8_lossy(&compared.stderr));
        let rows = json_in(&version.path().join("out.json"))["rows"].as_array().map_or(0, Vec::len);
        assert_eq!(rows, folders(&version.path().join("runs")).len(), "a row for each lock");
    }
}

#[test]
fn parts_are_merged() {
    for version in versions() {
        let merged = ran(version.path(), "merge part --out out");
        let stderr = String::from_utf8_lossy(&merged.stderr);
        assert_eq!(merged.status.code(), Some(2), "the second part is missing: {stderr}");
        let merged = json_in(&version.path().join("out/compare.json"));
        let cells = [0, 1].map(|row| merged["rows"][row]["cells"][0]["runs"].as_array().map(Vec::len));
        assert_eq!(cells, [Some(1), Some(1)], "{merged}");
    }
}

/// Their mistakes would be refused as bad usage (254) before the engine is looked for.
#[test]
fn plans_scenarios_and_findings_are_read() {
    for version in versions() {
        for args in [
            "test --driver docker --lock redlock --nemesis-file runs/clocks-jumped/plan.toml",
            "scenario --driver docker findings/granted-twice-in-peace/scenario.toml",
            "hunt --driver docker --lock canary-nolock --known findings --for 1s",
        ] {
            let output = ran(version.path(), args);
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ");
            assert_ne!(output.status.code(), Some(254), "{args}: {said}");
            assert!(said.contains("no Docker engine answers"), "{args}: {said}");
        }
    }
}
