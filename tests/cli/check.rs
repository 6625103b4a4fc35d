//! `fencepost check` from the command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TURNS: &str = r#"{"index":0,"time":10000000,"process":3,"type":"invoke","f":"acquire","value":{"ttl_ms":2000}}
{"index":1,"time":20000000,"process":3,"type":"ok","f":"acquire","value":{"token":1}}
{"index":2,"time":30000000,"process":3,"type":"invoke","f":"release","value":null}
{"index":3,"time":40000000,"process":3,"type":"ok","f":"release","value":{"believed":true}}
{"index":4,"time":50000000,"process":7,"type":"invoke","f":"acquire","value":{"ttl_ms":2000}}
{"index":5,"time":60000000,"process":7,"type":"ok","f":"acquire","value":{"token":2}}
"#;

/// The release of process 3 comes too late.
fn two_holders() -> String {
    let late = |line: &str| line.replace("30000000", "70000000").replace("40000000", "80000000");
    let lines: Vec<&str> = TURNS.lines().collect();
    [lines[0], lines[1], lines[4], lines[5], &late(lines[2]), &late(lines[3])].join("\n")
}

fn check(arguments: &[&str]) -> Output {
    Command::new(crate::PROGRAM).arg("check").args(arguments).output().expect("it runs")
}

fn file(folder: &Path, name: &str, text: &[u8]) -> String {
    let path: PathBuf = folder.join(name);
    std::fs::write(&path, text).expect("it can be written");
    path.to_str().expect("UTF-8").to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn exit_codes_tell_verdicts_apart() {
    let folder = tempfile::tempdir().unwrap();
    let valid = file(folder.path(), "valid.jsonl", TURNS.as_bytes());
    let violation = file(folder.path(), "violation.jsonl", two_holders().as_bytes());
    let broken = file(folder.path(), "broken.jsonl", TURNS.replace("\"ok\"", "\"done\"").as_bytes());
    for model in ["mutex", "owner-mutex", "fenced-mutex", "lease-mutex"] {
        let output = check(&["--model", model, &valid]);
        assert_eq!(output.status.code(), Some(0), "{model}: {}", text(&output.stderr));
        assert!(
            text(&output.stdout).starts_with(&format!("{valid}  valid  3 operations  ")),
            "{}",
            text(&output.stdout)
        );
    }
    for algorithm in ["auto", "fast-path", "search"] {
        let output = check(&["--model", "owner-mutex", "--algorithm", algorithm, &valid, &violation]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stdout)
                .lines()
                .nth(1)
                .unwrap()
                .starts_with(&format!("{violation}  violation  3 operations  "))
        );
    }
    let output = check(&["--model", "mutex", &violation, &broken]);
    assert_eq!(output.status.code(), Some(254));
    assert!(text(&output.stderr).contains("broken.jsonl, line 2: "), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("broken"));
    for unknown in ["mutexx", "counter", "fetch-add", "set"] {
        let refused = check(&["--model", unknown, &valid]);
        assert_eq!(refused.status.code(), Some(254));
        let names = "mutex, owner-mutex, fenced-mutex, reentrant-mutex, shared-lock, lease-mutex, register, cas-register";
        assert!(
            text(&refused.stderr).contains(&format!("expected one of {names}")),
            "{}",
            text(&refused.stderr)
        );
    }
    assert_eq!(check(&["--model", "mutex", "/nowhere.jsonl"]).status.code(), Some(254));
    assert_eq!(check(&["--model", "mutex"]).status.code(), Some(254));
    assert_eq!(check(&["--model", "register", &valid]).status.code(), Some(254));
}

/// Many threads are wanted here, as on a large machine, and the system gives few or none.
#[test]
fn a_judgement_works_with_the_threads_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let violation = file(folder.path(), "violation.jsonl", two_holders().as_bytes());
    let program = crate::PROGRAM;
    for limit_kib in [300_000, 1_000_000] {
        let limited =
            format!("ulimit -v {limit_kib}; exec {program} check --model owner-mutex --explain {violation}");
        let output = Command::new("sh").args(["-c", &limited]).env("RAYON_NUM_THREADS", "500").output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{limit_kib}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{limit_kib}");
    }
}

#[test]
fn an_algorithm_that_does_not_apply_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    // Many open writes of few values: much to search.
    let mut history = String::new();
    for process in 0..40 {
        history += &format!(
            "{{\"process\":{process},\"type\":\"invoke\",\"f\":\"write\",\"value\":{}}}\n",
            process % 7
        );
    }
    for process in 0..40 {
        history += &format!("{{\"process\":{},\"type\":\"invoke\",\"f\":\"read\"}}\n", process + 100);
    }
    for process in 0..40 {
        let value = (process * 3) % 7;
        history +=
            &format!("{{\"process\":{},\"type\":\"ok\",\"f\":\"read\",\"value\":{value}}}\n", process + 100);
        history += &format!("{{\"process\":{process},\"type\":\"ok\",\"f\":\"write\"}}\n");
    }
    let hard = file(folder.path(), "hard.jsonl", history.as_bytes());
    let output = check(&["--model", "register", "--algorithm", "fast-path", &hard]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("a value is written more than once"), "{}", text(&output.stderr));
}

#[test]
fn a_search_that_used_up_its_time_or_memory_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    // Whether 42 swaps of seven values can follow each other: one value is taken away more often than it is
    // given, and to know that takes trying nearly all orders.
    let pairs = (0..7).flat_map(|from| (0..7).map(move |to| (from, to))).filter(|(from, to)| from != to);
    let swaps = (0..).zip(pairs).map(|(process, pair)| (process, if pair == (3, 4) { (5, 6) } else { pair }));
    let event = |kind: &str, (process, (from, to)): (u64, (u64, u64))| {
        format!("{{\"process\":{process},\"type\":\"{kind}\",\"f\":\"cas\",\"value\":[{from},{to}]}}\n")
    };
    let all = |kind: &str| swaps.clone().map(|swap| event(kind, swap)).collect::<String>();
    let history = all("invoke") + &all("ok");
    let hard = file(folder.path(), "hard.jsonl", history.as_bytes());
    for (limits, reason) in [
        (["--budget-s", "0.2", "--memory-mb", "4000"], "the time is over"),
        (["--budget-s", "600", "--memory-mb", "1"], "the memory is used up"),
    ] {
        let output = check(&[&["--model", "cas-register", "--initial", "0"], &limits[..], &[&hard]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
    }
}

#[test]
fn explains_in_words_as_json_and_as_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let violation = file(folder.path(), "violation.jsonl", two_holders().as_bytes());
    let svg = folder.path().join("core.svg");
    let output = check(&["--model", "owner-mutex", "--explain", "--svg", svg.to_str().unwrap(), &violation]);
    let printed = text(&output.stdout);
    assert!(
        printed.contains(
            "process 7 acquired at 0.060 s while process 3, which had acquired at 0.020 s, did not begin to release \
             before 0.070 s"
        ),
        "{printed}"
    );
    assert!(printed.contains("|! acquire-|"), "{printed}");
    assert!(std::fs::read_to_string(&svg).unwrap().contains("process 7"));
    let output = check(&["--model", "owner-mutex", "--json", &violation]);
    let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["outcome"], "violation");
    assert_eq!(verdict["keys"][0]["evidence"]["operations"].as_array().unwrap().len(), 3);
    let valid = file(folder.path(), "valid.jsonl", TURNS.as_bytes());
    let output = check(&["--model", "mutex", "--witness", &valid]);
    assert!(text(&output.stdout).contains("2  process 3: release"), "{}", text(&output.stdout));
}

#[test]
fn reads_compressed_edn_and_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut compressed = Vec::new();
    fencepost_history::compress(TURNS.as_bytes(), &mut compressed).unwrap();
    let compressed = file(folder.path(), "history.jsonl.gz", &compressed);
    assert_eq!(check(&["--model", "fenced-mutex", &compressed]).status.code(), Some(0));
    let edn = "[{:type :invoke, :f :write, :value [:x 1], :process 0}\n {:type :ok, :f :write, :value [:x 1], :process 0}
        {:type :invoke, :f :read, :value [:x nil], :process 0}\n {:type :ok, :f :read, :value [:x 2], :process 0}]";
    let edn = file(folder.path(), "history.edn", edn.as_bytes());
    assert_eq!(check(&["--model", "cas-register", "--independent", &edn]).status.code(), Some(1));
    let mut child = Command::new(crate::PROGRAM)
        .args(["check", "--model", "mutex", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(TURNS.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stdout).starts_with("-  valid  3 operations  ")),
        (Some(0), true)
    );
}

#[test]
fn a_file_without_operations_is_vacuous() {
    let folder = tempfile::tempdir().unwrap();
    let nemesis = r#"{"index":0,"time":1,"process":"nemesis","type":"info","f":"phase","value":"main"}"#;
    for (name, content) in [("empty.jsonl", ""), ("blank.jsonl", "\n\n"), ("nemesis.jsonl", nemesis)] {
        let path = file(folder.path(), name, content.as_bytes());
        let output = check(&["--model", "mutex", &path]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stdout).starts_with(&format!("{path}  vacuous  0 operations  ")));
    }
}

#[test]
fn names_of_a_history_cannot_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = two_holders().replace("\"f\":", "\"key\":\"a\\u001b[2J\\u009b31m\\n::error::b\",\"f\":");
    let violation = file(folder.path(), "violation.jsonl", hostile.as_bytes());
    let shown = |output: Output| {
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
        assert!(!said.lines().any(|line| line.trim_start().starts_with("::")), "{said}");
        said
    };
    let explained = shown(check(&["--model", "owner-mutex", "--explain", &violation]));
    assert!(explained.contains("key a\u{fffd}[2J\u{fffd}31m ::error::b: "), "{explained}");
    let elsewhere = hostile.replacen("\"type\":\"ok\",\"key\":\"a", "\"type\":\"ok\",\"key\":\"z", 1);
    let malformed = file(folder.path(), "malformed.jsonl", elsewhere.as_bytes());
    let refused = shown(check(&["--model", "owner-mutex", &malformed]));
    assert!(refused.contains("line 2: process 3 invoked it on another key (a"), "{refused}");
    assert_eq!(refused.lines().count(), 1, "{refused}");
    let valid = file(
        folder.path(),
        "valid.jsonl",
        TURNS.replace("\"f\":", "\"key\":\"\\n\\u0007\",\"f\":").as_bytes(),
    );
    let order = shown(check(&["--model", "mutex", "--witness", &valid]));
    assert!(order.contains("key  \u{fffd}: 2  process 3: release"), "{order}");
}

#[test]
fn a_closed_pipe_changes_no_exit_code_and_a_full_disk_does() {
    let folder = tempfile::tempdir().unwrap();
    let violation = file(folder.path(), "violation.jsonl", two_holders().as_bytes());
    let ends = |shell: &str| {
        let program = crate::PROGRAM;
        let script = format!("set -o pipefail; {}", shell.replace("fencepost", program));
        let output = Command::new("bash").args(["-c", &script]).output().expect("it runs");
        (output.status.code(), text(&output.stderr))
    };
    let (code, stderr) = ends(&format!("fencepost check --model mutex {violation} | true"));
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
    let (code, stderr) = ends("fencepost list > /dev/full");
    assert_eq!(code, Some(255));
    assert!(stderr.contains("cannot write to standard output: No space left on device"), "{stderr}");
    for command in ["man", "completions bash", "export docs/examples/redlock-clock-jump --format edn"] {
        let (code, stderr) = ends(&format!("fencepost {command} > /dev/full"));
        assert_eq!(code, Some(255), "{command}");
        assert!(stderr.contains("cannot write to standard output: No space left on device"), "{stderr}");
        assert_eq!(ends(&format!("fencepost {command} | true")), (Some(0), String::new()));
    }
}

#[test]
fn a_picture_that_cannot_be_written_hides_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let valid = file(folder.path(), "valid.jsonl", TURNS.as_bytes());
    let violation = file(folder.path(), "violation.jsonl", two_holders().as_bytes());
    let output = check(&["--model", "mutex", "--svg", "/nowhere/picture.svg", &violation, &valid]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains(&format!("{violation}  violation")), "{printed}");
    assert!(text(&output.stderr).contains("cannot write /nowhere/picture.svg"), "{}", text(&output.stderr));
}

#[test]
fn times_at_the_end_of_their_range_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let end = u64::MAX.to_string();
    let late = two_holders().replace("80000000", &end);
    let violation = file(folder.path(), "violation.jsonl", late.as_bytes());
    let output = check(&["--model", "mutex", "--svg", "/dev/null", &violation]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn devices_are_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let folder = tempfile::tempdir().unwrap();
    let violation = file(folder.path(), "violation.jsonl", two_holders().as_bytes());
    let output = check(&["--model", "mutex", "--svg", "/dev/null", &violation]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let output = check(&["--model", "mutex", "--svg", "/dev/stdout", &violation]);
    assert!(text(&output.stdout).contains("<svg "), "{}", text(&output.stdout));
}

/// Histories as other tools write them: what each says, or how it is to be read.
#[test]
fn histories_of_other_tools_get_no_wrong_green() {
    let folder = tempfile::tempdir().unwrap();
    let verdict = |name: &str, content: &str, arguments: &[&str]| {
        let path = file(folder.path(), name, content.as_bytes());
        let output = check(&[arguments, &[&path]].concat());
        let said = text(&output.stdout);
        let word =
            said.strip_prefix(&path).and_then(|rest| rest.split_whitespace().next().map(str::to_owned));
        (word.unwrap_or_else(|| text(&output.stderr)), output.status.code().unwrap())
    };
    let is = |word: &str, code: i32| (word.to_owned(), code);
    // Overlapping holds, in whose releases no process says what it believed.
    let event = |process: u32, kind: &str, f: &str, more: &str| {
        format!("{{:process {process} :type :{kind} :f :{f}{more}}}\n")
    };
    let overlapping = |end: &str| {
        [
            event(0, "invoke", "acquire", ""),
            event(0, "ok", "acquire", ""),
            event(1, "invoke", "acquire", ""),
            event(1, "ok", "acquire", ""),
            event(0, "invoke", "release", ""),
            event(0, end, "release", ""),
        ]
        .concat()
    };
    assert_eq!(verdict("lease.edn", &overlapping("ok"), &["--model", "lease-mutex"]), is("violation", 1));
    let path = file(folder.path(), "failed.edn", overlapping("fail").as_bytes());
    let explained = text(&check(&["--model", "owner-mutex", "--explain", &path]).stdout);
    assert!(explained.contains("never released"), "{explained}");
    // A register that does not begin as null.
    let zero = event(0, "invoke", "read", "") + &event(0, "ok", "read", " :value 0");
    assert_eq!(verdict("zero.edn", &zero, &["--model", "register"]), is("violation", 1));
    assert_eq!(verdict("zero.edn", &zero, &["--model", "register", "--initial", "0"]), is("valid", 0));
    let refused = verdict("zero.edn", &zero, &["--model", "mutex", "--initial", "0"]);
    assert!(
        refused.0.contains("--initial is for register and cas-register") && refused.1 == 254,
        "{refused:?}"
    );
    // Nothing succeeded.
    for end in ["info", "fail"] {
        let nothing = event(0, "invoke", "write", " :value 1") + &event(0, end, "write", " :value 1");
        assert_eq!(verdict("nothing.edn", &nothing, &["--model", "register"]), is("vacuous", 2), "{end}");
    }
    // One array, on several lines or one; other names; a compare-and-set of independent keys.
    let array = r#"[{"type":"invoke","f":"acquire","process":1},
        {"type":"ok","f":"acquire","process":1}]"#;
    assert_eq!(verdict("a.json", array, &["--model", "mutex"]), is("valid", 0));
    assert_eq!(verdict("b.json", &array.replace('\n', ""), &["--model", "mutex"]), is("valid", 0));
    let named = array
        .replace("acquire", "lock")
        .replace(r#""ok","f":"lock""#, r#""ok","f":"lock","value":{"fence":4}"#);
    let names = ["--model", "fenced-mutex", "--rename", "lock=acquire", "--field", "token=fence"];
    assert_eq!(verdict("c.json", &named, &names), is("valid", 0));
    let unnamed = verdict("c.json", &named, &names[..2]);
    assert!(unnamed.0.contains("--rename lock=NAME") && unnamed.1 == 254, "{unnamed:?}");
    let triple = |from: &str| {
        event(0, "invoke", "cas", &format!(" :value [\"k\" {from} 1]"))
            + &event(0, "ok", "cas", &format!(" :value [\"k\" {from} 1]"))
    };
    assert_eq!(
        verdict("d.edn", &triple("nil"), &["--model", "cas-register", "--independent"]),
        is("valid", 0)
    );
    assert_eq!(
        verdict("d.edn", &triple("7"), &["--model", "cas-register", "--independent"]),
        is("violation", 1)
    );
}

/// Two holders in shared mode, of a lock that allows that.
const SHARED: &str = r#"{"process":0,"type":"invoke","f":"acquire","value":{"mode":"shared"}}
{"process":0,"type":"ok","f":"acquire"}
{"process":1,"type":"invoke","f":"acquire","value":{"mode":"shared"}}
{"process":1,"type":"ok","f":"acquire"}
{"process":0,"type":"invoke","f":"release"}
{"process":0,"type":"ok","f":"release"}
{"process":1,"type":"invoke","f":"release"}
{"process":1,"type":"ok","f":"release"}
"#;

#[test]
fn shared_holders_are_no_violation_of_a_model_that_knows_no_mode() {
    let folder = tempfile::tempdir().unwrap();
    let shared = file(folder.path(), "shared.jsonl", SHARED.as_bytes());
    for model in ["mutex", "owner-mutex"] {
        let output = check(&["--model", model, &shared]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(254), String::new()), "{model}");
        assert_eq!(
            text(&output.stderr),
            format!(
                "fencepost: {shared}, line 1: the model knows no mode, and \"acquire\" asks for {{\"mode\":\"shared\"}}: use --model \
                 shared-lock, which knows both modes\n"
            )
        );
    }
    for model in ["lease-mutex", "shared-lock"] {
        assert_eq!(check(&["--model", model, &shared]).status.code(), Some(0));
    }
    let exclusive = file(folder.path(), "exclusive.jsonl", SHARED.replace("shared", "exclusive").as_bytes());
    assert_eq!(check(&["--model", "owner-mutex", &exclusive]).status.code(), Some(1));
}

#[test]
fn logs_of_the_first_versions_of_jepsen_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let of_2014 = "INFO  jepsen.core - Worker 0 starting\nINFO  jepsen.util - 0\t:invoke\t:write\t4\n\
                   INFO  jepsen.util - 0\t:ok\t:write\t4\nINFO  jepsen.util - 1\t:invoke\t:read\tnil\n\
                   INFO  jepsen.util - 1\t:ok\t:read\t3\n";
    let of_0_1 = of_2014
        .replace("INFO  jepsen.util - ", "INFO [2020-06-02 15:33:51,841] jepsen worker 0 - jepsen.util ");
    for (name, log) in [("2014.log", of_2014.to_owned()), ("0.1.log", of_0_1)] {
        let wrong = file(folder.path(), name, log.as_bytes());
        assert_eq!(check(&["--model", "register", &wrong]).status.code(), Some(1), "{name}");
        let right = file(folder.path(), name, log.replace(":read\t3", ":read\t4").as_bytes());
        assert_eq!(check(&["--model", "register", &right]).status.code(), Some(0), "{name}");
    }
}

#[test]
fn operations_of_etcds_robustness_tests_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let operation = r#"{"ClientId":1,"Input":{"Type":"range"},"Call":5,"Output":{"Revision":3},"Return":9}"#;
    for (name, text_of) in
        [("operations.json", operation.to_owned()), ("array.json", format!("[{operation}]"))]
    {
        let output = check(&["--model", "register", &file(folder.path(), name, text_of.as_bytes())]);
        assert_eq!(output.status.code(), Some(254), "{name}");
        let said = text(&output.stderr);
        assert!(said.contains("line 1: this is an operation of Porcupine"), "{said}");
    }
}
