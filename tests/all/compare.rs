//! Comparisons on real clusters: a small matrix, ended in the middle, and made whole by the same command.

use crate::common::{Running, fencepost, output};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Output;

/// Two short runs under the local driver: one that holds, and the canary, which never does.
fn small(results: &Path) -> Vec<String> {
    let results = results.to_str().expect("a path in UTF-8");
    let args = format!(
        "compare --locks redis-single,canary-nolock --nemeses none --runs 1 --driver local --ttl 500ms --hold 100ms --time-limit 2s \
         --results {results}"
    );
    args.split_whitespace().map(str::to_owned).collect()
}

fn compare(args: &[String]) -> Output {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = output(&words);
    eprintln!("--- {args:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn folders(results: &Path, beginning: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(results).expect("a folder").map(|entry| entry.expect("an entry").path());
    let named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning));
    entries.filter(named).collect()
}

/// Killed after its first run, it makes only the second one when the same command is given again.
#[test]
fn a_comparison_that_was_killed_goes_on_without_doing_runs_again() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let args = small(results.path());
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut running = Running::start(&words);
    let lines = BufReader::new(running.child().stdout.take().expect("piped")).lines();
    let first = lines.map_while(Result::ok).find(|line| line.contains("1/2"));
    // Stopped, so that its second run does not end meanwhile.
    let process = nix::unistd::Pid::from_raw(running.child().id().try_into().expect("a process"));
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGSTOP).expect("it runs");
    // It is refused before it starts anything, and waits for no turn.
    let busy = fencepost(&words).output().expect("the program starts");
    running.child().kill().expect("it runs");
    let (_, left) = running.finish_whatever_is_left();
    assert!(first.is_some(), "the first run never ended");
    assert_eq!(busy.status.code(), Some(254), "two at once over one folder");
    assert!(String::from_utf8_lossy(&busy.stderr).contains("another `fencepost compare`"));
    let done: Vec<PathBuf> = folders(results.path(), "redis-single-")
        .into_iter()
        .filter(|run| run.join("verdict.json").is_file())
        .collect();
    let [done] = &done[..] else { panic!("{done:?}: one run was judged") };
    let judged = std::fs::metadata(done.join("verdict.json")).and_then(|it| it.modified()).expect("a time");

    let results_folder = results.path().to_str().expect("UTF-8");
    let gc = fencepost(&["gc", "--results", results_folder, "--keep", "0"]).output().expect("it starts");
    assert!(gc.status.success() && done.is_dir(), "a run of an unfinished comparison stays");
    let again = compare(&args);
    left.assert_none();
    assert_eq!(again.status.code(), Some(0));
    let stdout = String::from_utf8_lossy(&again.stdout);
    assert!(stdout.contains("1 to do, 1 done before"), "{stdout}");
    let judged_now =
        std::fs::metadata(done.join("verdict.json")).and_then(|it| it.modified()).expect("a time");
    assert_eq!(judged, judged_now, "the finished run was left alone");
    let [folder] = &folders(results.path(), "compare-")[..] else { panic!("one comparison, not two") };
    let json = std::fs::read_to_string(folder.join("compare.json")).expect("it was written");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let runs = |row: usize| json["rows"][row]["cells"][0]["runs"].as_array().map(Vec::len);
    assert_eq!((runs(0), runs(1)), (Some(1), Some(1)));
    assert_eq!(json["rows"][0]["cells"][0]["outcomes"]["valid"], 1, "nothing goes wrong without faults");
    assert_eq!(json["rows"][1]["cells"][0]["outcomes"]["violation"], 1, "the canary is caught");
    let page = std::fs::read_to_string(folder.join("compare.html")).expect("a page");
    assert_eq!(page.matches("/report.html\"").count(), 2, "a link to each run");

    from_runs_that_exist(results.path(), &folder.join("compare.json"));
}

/// The reference is added, with the seeds of the lock, and what the lock does worse stands under the matrix.
/// How often a delay comes between is for `chance`.
#[test]
fn a_planted_lock_is_compared_with_its_reference() {
    let standing = standing_of_a_planted_lock(5);
    assert!(["worse", "uncertain"].iter().any(|known| standing == *known), "{standing}");
}

/// How the planted lock stands against the reference, in three plays of each.
pub fn standing_of_a_planted_lock(seed: u64) -> Value {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = results.path().to_str().expect("a path in UTF-8");
    let args = format!(
        "compare --locks {}/tests/planted/redis@blind-delete --against redis-single --nemeses delay --runs 3 --driver local \
         --ttl 500ms --time-limit 6s --seed {seed} --results {folder}",
        crate::common::root()
    );
    let output = compare(&args.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("Against redis-single"), "{stdout}");
    let [folder] = &folders(results.path(), "compare-")[..] else { panic!("one comparison") };
    let json = std::fs::read_to_string(folder.join("compare.json")).expect("it was written");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let cell = |row: usize| &json["rows"][row]["cells"][0];
    let seeds = |row: usize| {
        let runs = cell(row)["runs"].as_array().expect("runs").iter();
        runs.map(|run| run["seed"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((seeds(0).len(), seeds(0)), (3, seeds(1)));
    assert!(cell(1)["against"].is_null(), "the reference is not compared with itself");
    cell(0)["against"]["standing"].clone()
}

/// The same runs once more, in every form, and against what was.
fn from_runs_that_exist(results: &Path, baseline: &Path) {
    let file = |name: &str| results.join(name).to_str().expect("UTF-8").to_owned();
    let mut args: Vec<String> =
        ["compare", "--from", results.to_str().expect("UTF-8")].map(str::to_owned).to_vec();
    for (option, name) in
        [("--markdown", "c.md"), ("--csv", "c.csv"), ("--junit", "c.xml"), ("--json", "c.json")]
    {
        args.extend([option.to_owned(), file(name)]);
    }
    args.extend(["--baseline".to_owned(), baseline.to_str().expect("UTF-8").to_owned()]);
    let output = compare(&args);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing changed since the baseline"));
    let read = |name: &str| std::fs::read_to_string(file(name)).expect("it was written");
    assert_eq!(read("c.csv").lines().count(), 3, "a head and two runs");
    assert!(read("c.md").contains("| `redis-single` | ✓ holds (weak)<br>only one run"), "{}", read("c.md"));
    assert!(read("c.xml").contains("<testsuite name=\"redis-single\""));

    // A baseline in which everything held: the canary got worse.
    let rosy = read("c.json")
        .replace("\"violation\": 1", "\"violation\": 0")
        .replace("\"valid\": 0", "\"valid\": 1");
    assert_ne!(rosy, read("c.json"));
    std::fs::write(file("rosy.json"), rosy).expect("a writable folder");
    args.pop();
    args.push(file("rosy.json"));
    assert_eq!(compare(&args).status.code(), Some(1));
}
