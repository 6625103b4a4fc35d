//! Files that are longer than any that is read, most of them a hole: refused in one sentence. No cluster is
//! started.

use crate::other_commands::{ran, violation};
use std::fs;
use std::path::Path;

/// Makes a file as long as no memory is, of which nothing lies on the disk.
fn lengthen(file: &Path) {
    let opened = fs::File::options().create(true).write(true).truncate(false).open(file);
    opened.and_then(|file| file.set_len(1 << 40)).expect("a file with a hole");
}

/// Expects this exit code, and one sentence about a file that is too long.
fn refused(folder: &Path, args: &str, code: i32) {
    let output = ran(folder, args);
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{args}: {:?}: {said}", output.status);
    assert_eq!(said.trim().lines().count(), 1, "{args}: {said}");
    assert!(
        said.contains("MiB, which is the limit: the file is damaged, or not the one that was meant"),
        "{args}: {said}"
    );
}

#[test]
fn a_run_with_a_file_that_is_too_long_is_refused() {
    let export = "export run --format csv --out out.csv";
    for (file, commands) in [
        ("history.jsonl", &[("analyze run", 254), (export, 254), ("shrink run", 254)][..]),
        ("run.toml", &[("analyze run", 255), ("shrink run", 254)]),
        ("plan.toml", &[("shrink run", 254)]),
    ] {
        let results = tempfile::tempdir().expect("a temporary folder");
        let folder = violation(results.path());
        let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/redlock-clock-jump/plan.toml");
        fs::copy(plan, folder.join("plan.toml")).expect("the example has a plan");
        lengthen(&folder.join(file));
        for (command, code) in commands {
            refused(results.path(), command, *code);
        }
    }
}

#[test]
fn a_small_file_that_is_too_long_when_it_is_unpacked_is_refused() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = violation(results.path());
    fs::remove_file(folder.join("history.jsonl")).expect("it was there");
    let zeros = std::io::Read::take(std::io::repeat(0), 100 << 20);
    let packed = fs::File::create(folder.join("history.jsonl.gz")).expect("a file");
    fencepost_history::compress(zeros, packed).expect("compressed");
    refused(results.path(), "analyze run", 254);
    refused(results.path(), "check --model mutex run/history.jsonl.gz", 254);
}

#[test]
fn a_verdict_stands_though_the_clocks_cannot_be_read() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = violation(results.path());
    lengthen(&folder.join("clocks.jsonl"));
    let output = ran(results.path(), "analyze run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("clocks.jsonl: line 1: the line is longer than 64 MiB"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("The lock did not hold"));
    let verdict = fs::read_to_string(folder.join("verdict.json")).expect("the verdict is kept");
    assert!(verdict.contains("\"violation\"") && folder.join("report.html").is_file());
}

#[test]
fn a_run_whose_verdict_is_too_long_is_not_removed() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = violation(results.path());
    lengthen(&folder.join("verdict.json"));
    assert_eq!(ran(results.path(), "gc --results . --keep 0").status.code(), Some(0));
    assert!(folder.join("history.jsonl").is_file(), "what cannot be read may be a violation");
    let compared = ran(results.path(), "compare --from . --json c.json");
    let said = String::from_utf8_lossy(&compared.stderr) + String::from_utf8_lossy(&compared.stdout);
    assert!(said.contains("verdict.json cannot be read: it is longer than 64 MiB"), "{said}");
}

#[test]
fn parts_with_files_that_are_too_long_are_refused() {
    for file in ["part.json", "records.jsonl"] {
        let results = tempfile::tempdir().expect("a temporary folder");
        let part = results.path().join("part");
        fs::create_dir(&part).expect("a folder");
        let empty = serde_json::json!({
            "fencepost": env!("CARGO_PKG_VERSION"), "kind": "compare", "command": "fencepost", "seed": 7, "of": 1, "deal": "",
            "campaign": null, "parts": { "1": { "finished": true, "dealt": [0], "runs-in": ["."] } },
        });
        fs::write(part.join("part.json"), empty.to_string()).expect("a file");
        lengthen(&part.join(file));
        refused(results.path(), "merge part --out out", if file == "part.json" { 255 } else { 254 });
    }
}

#[test]
fn files_of_a_user_that_are_too_long_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    fs::create_dir(at.join("lock")).expect("a folder");
    for file in ["long.toml", "long.json", "long.jsonl", "long.edn", "lock/lock.toml"] {
        lengthen(&at.join(file));
    }
    for command in [
        "test --config long.toml",
        "test --nemesis-file long.toml",
        "test --lock lock",
        "scenario long.toml",
        "compare --from . --baseline long.json",
        "check --model mutex long.jsonl",
        "check --model mutex long.edn",
        "compare --seed 1 --shard 1/2 --durations long.json",
    ] {
        refused(at, command, 254);
    }
}
