//! Parts of a campaign on real clusters, and what a merge makes of them.

use crate::common::{Running, fencepost, output};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Output;

/// Two locks under two nemeses, once each.
const COMPARISON: &str = "compare --locks redis-single,canary-nolock --nemeses none,pause --runs 1 --driver local --ttl 500ms \
     --hold 100ms --time-limit 2s --seed 17";

fn play(words: &str, results: &Path) -> Output {
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.extend(["--results", results.to_str().expect("a path in UTF-8")]);
    shown(&words, output(&words))
}

fn merge(parts: &[&Path], out: &Path) -> Output {
    let mut words = vec!["merge"];
    words.extend(parts.iter().map(|part| part.to_str().expect("UTF-8")));
    words.extend(["--out", out.to_str().expect("UTF-8")]);
    let output = fencepost(&words).output().expect("it starts");
    shown(&words, output)
}

fn shown(words: &[&str], output: Output) -> Output {
    eprintln!("--- {words:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("it was written")).expect("JSON")
}

fn folders(results: &Path, is: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(results).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.is_dir() && !path.is_symlink() && is(path)).collect()
}

/// The plan of each run of a comparison, by lock, nemesis and seed.
fn plans(results: &[&Path]) -> BTreeMap<String, String> {
    let runs = results.iter().flat_map(|results| folders(results, |path| path.join("run.toml").is_file()));
    let plan = |run: PathBuf| {
        let read = |name: &str| std::fs::read_to_string(run.join(name));
        let settings: toml::Table = read("run.toml").expect("settings").parse().expect("TOML");
        let spec = &settings["spec"];
        let key = format!("{} {:?} {}", spec["lock"], spec.get("nemesis"), spec["seed"]);
        (key, read("plan.toml").unwrap_or_default())
    };
    runs.map(plan).collect()
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn parts_of_a_comparison_make_the_plans_of_the_whole_and_a_missing_one_is_said_by_night() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let [alone, one, two] = ["alone", "one", "two"].map(at);
    assert_eq!(play(COMPARISON, &alone).status.code(), Some(0));
    assert_eq!(play(&format!("{COMPARISON} --shard 1/2"), &one).status.code(), Some(0));

    let half = merge(&[&one], &at("half"));
    assert_eq!(half.status.code(), Some(2), "a part is missing");
    let said = String::from_utf8_lossy(&half.stdout);
    assert!(said.contains("part 2 of 2 is missing: nothing of it was merged"), "{said}");
    let page = std::fs::read_to_string(at("half/compare.html")).expect("a page");
    assert!(page.contains(">missing<"), "missing cells are drawn");
    assert_eq!(json(&at("half/compare.json"))["missing"].as_array().map(Vec::len), Some(1));

    assert_eq!(play(&format!("{COMPARISON} --shard 2/2"), &two).status.code(), Some(0));
    let whole = merge(&[&at("half"), &two, &one], &at("whole"));
    assert_eq!(whole.status.code(), Some(0), "a merge of a merge, with a part twice");
    let merged = json(&at("whole/compare.json"));
    let undivided =
        json(&folders(&alone, |path| path.join("compare.json").is_file())[0].join("compare.json"));
    assert!(merged["missing"].is_null());
    for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let runs = |of: &Value| {
            let runs = of["rows"][row]["cells"][column]["runs"].as_array().expect("runs").clone();
            runs.iter().map(|run| run["seed"].clone()).collect::<Vec<_>>()
        };
        assert_eq!((runs(&merged).len(), runs(&merged)), (1, runs(&undivided)));
    }
    assert_eq!(merged["command"], undivided["command"]);
    let planned = plans(&[&alone]);
    assert_eq!(planned.len(), 4);
    assert!(planned.values().any(|plan| plan.contains("pause")), "{planned:?}");
    assert_eq!(plans(&[&one, &two]), planned, "the plans of parts are those of the whole");
    assert!(one.read_dir().is_ok() && plans(&[&one]).len() == 2, "parts are of one size");
    let link = std::fs::read_to_string(at("whole/compare.html")).expect("a page");
    assert_eq!(link.matches("/report.html\"").count(), 4, "a link to each run");
}

/// A part is killed, and started again by its engine; merges see how far it is.
#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_part_that_was_killed_is_named_and_goes_on_where_it_was_by_night() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let command = "compare --locks redis-single --nemeses none --runs 6 --jobs 1 --driver local --ttl 500ms --hold 100ms \
                   --time-limit 2s --seed 17 --shard";
    let one = at("one");
    let words = format!("{command} 1/2 --results {}", one.display());
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut running = Running::start(&words);
    let stdout = BufReader::new(running.child().stdout.take().expect("a pipe"));
    let ended = |line: &String| line.trim_start().starts_with("1/3");
    assert!(stdout.lines().map_while(Result::ok).any(|line| ended(&line)), "a run ends");
    let early = merge(&[&one], &at("early"));
    running.child().kill().expect("it runs");
    let (_, left) = running.finish_whatever_is_left();
    let (code, said) = (early.status.code(), String::from_utf8_lossy(&early.stdout).into_owned());
    assert!(code == Some(2) && said.contains("part 1 of 2 is still at work in"), "{said}");

    assert_eq!(play(&format!("{command} 2/2"), &at("two")).status.code(), Some(0));
    let half = merge(&[&one, &at("two")], &at("half"));
    let said = String::from_utf8_lossy(&half.stdout);
    assert_eq!(half.status.code(), Some(2), "a part is unfinished");
    assert!(said.contains("part 1 of 2 is unfinished: ") && !said.contains("at work"), "{said}");

    let again = play(&format!("{command} 1/2"), &one);
    let said = String::from_utf8_lossy(&again.stdout);
    assert_eq!(again.status.code(), Some(0));
    assert!(said.contains("done before") && !said.contains(" 0 done before"), "{said}");
    left.assert_none();
    assert_eq!(
        merge(&[&at("half"), &one], &at("whole")).status.code(),
        Some(0),
        "it takes the place of its half"
    );
    assert_eq!(runs_of(&json(&at("whole/compare.json"))), 6);
}

fn runs_of(comparison: &Value) -> usize {
    comparison["rows"][0]["cells"][0]["runs"].as_array().map_or(0, Vec::len)
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn parts_of_scenarios_make_one_table_by_night() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let names = ["redis-fixed-value", "redis-get-del"];
    let command = format!("scenario {} --driver local --seed 5 --shard", names.join(" "));
    // On a busy machine a scenario can miss its moment; here it counts that each was played.
    let endings = |out: &str| -> Vec<Value> {
        let reports = json(&at(out).join("scenarios.json"));
        let reports = reports.as_array().expect("a list");
        assert_eq!(reports.iter().map(|report| report["name"].clone()).collect::<Vec<_>>(), names);
        reports.iter().map(|report| report["ending"].clone()).collect()
    };
    play(&format!("{command} 1/2"), &at("one"));
    let half = merge(&[&at("one")], &at("half"));
    let said = String::from_utf8_lossy(&half.stdout);
    assert_eq!(half.status.code(), Some(2), "a part is missing");
    assert!(said.contains("part 2 of 2 is missing: nothing of it was merged"), "{said}");
    let first = endings("half");
    assert_eq!(first.iter().filter(|ending| *ending == "missing").count(), 1, "{first:?}");

    play(&format!("{command} 2/2"), &at("two"));
    let whole = merge(&[&at("two"), &at("half")], &at("whole"));
    let all = endings("whole");
    assert!(!all.contains(&Value::from("missing")), "{all:?}");
    let agree = all.iter().all(|ending| ending == "agrees");
    assert_eq!(whole.status.code(), Some(i32::from(!agree)), "{all:?}");
    let page = std::fs::read_to_string(at("whole/scenarios.md")).expect("a page");
    assert!(names.iter().all(|name| page.contains(name)), "{page}");
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn parts_of_a_hunt_add_up_by_night() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let command = "hunt --lock redis-single --nemeses duplicate --driver local --ttl 500ms --for 12s --jobs 2 --seed 3 --shard";
    // How many schedules there is time for depends on the machine; of too few a hunt says nothing.
    let code = |schedules: u64| Some(if schedules < 10 { 2 } else { 0 });
    let hunted = |name: &str, shard: &str| -> u64 {
        let ended = play(&format!("{command} {shard}"), &at(name)).status.code();
        let part = folders(&at(name), |path| path.join("part.json").is_file()).remove(0);
        let schedules = json(&part.join("hunt.json"))["schedules"].as_u64().expect("a count");
        assert_eq!(ended, code(schedules), "{schedules} schedules");
        schedules
    };
    let one = hunted("one", "1/2");
    let half = merge(&[&at("one")], &at("half"));
    let said = String::from_utf8_lossy(&half.stdout);
    assert_eq!(half.status.code(), Some(2), "a part is missing");
    assert!(said.contains("part 2 of 2 is missing: nothing of it was merged"), "{said}");

    let two = hunted("two", "2/2");
    assert!(one > 0 && two > 0, "schedules were played: {one}, {two}");
    assert_eq!(merge(&[&at("half"), &at("two")], &at("whole")).status.code(), code(one + two));
    let whole = json(&at("whole/hunt.json"));
    assert_eq!(whole["schedules"].as_u64(), Some(one + two));
    assert!(at("whole/hunt.html").is_file());

    let earlier = at("whole");
    let again = command.replace("--shard", &format!("--corpus {}", earlier.display()));
    let began = shown(&["hunt"], play(&again, &at("again")));
    let said = String::from_utf8_lossy(&began.stdout);
    assert!(
        said.contains("corpus ") && said.contains(" begins with ") && !said.contains("begins with 0 of"),
        "{said}"
    );
}
