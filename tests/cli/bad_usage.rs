//! Mistakes on the command line: one clear sentence, exit code 254, and nothing started.

use crate::common::fencepost;

/// Runs with these arguments, expects 254, and gives what stood on standard error.
pub fn refused(args: &str) -> String {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut command = fencepost(&args.split_whitespace().collect::<Vec<_>>());
    let output = command.current_dir(results.path()).output().expect("the program starts");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(254), "{args}: {stderr}");
    assert_eq!(std::fs::read_dir(results.path()).expect("a folder").count(), 0, "{args} left something");
    stderr
}

#[test]
fn unknown_names_come_with_the_nearest_right_one() {
    assert!(refused("test --lock redlok").contains("did you mean \"redlock\"?"));
    assert!(refused("test --workload incremet").contains("did you mean \"increment\"?"));
    assert!(refused("test --nemesis clock-jmp").contains("did you mean \"clock-jump\"?"));
    assert!(refused("test --nemesis pause,clok-jump").contains("did you mean \"clock-jump\"?"));
    assert!(refused("test --guard tokn").contains("did you mean \"token\"?"));
    assert!(refused("test --driver dokcer").contains("did you mean \"docker\"?"));
    assert!(refused("list lock").contains("did you mean \"locks\"?"));
}

#[test]
fn words_from_elsewhere_are_answered_with_what_they_are_here() {
    for (args, answer) in [
        ("test --lock redis", "\"redis-cluster\" or \"redlock\"?"),
        ("test --lock postgres", "\"postgres-election\" or \"postgres-several\"?"),
        ("test --lock consul", "docs/your-own-servers.md"),
        ("hunt --lock curator", "--lock adapters/curator"),
        ("test --nemesis clock", "\"clock-jump\", \"clock-drift\", \"clock-strobe\" or \"clock-freeze\"?"),
        ("test --nemesis netsplit", "did you mean \"partition\"?"),
        ("test --driver podman", "did you mean \"docker\"?"),
        ("test --for 5s", "tip: --time-limit 20s"),
        ("test --nemesis pause, kill", "tip: names in a list are separated by commas"),
        ("compare --lock redlock", "use --locks to compare several"),
        ("init", "tip: `fencepost lock new FOLDER`"),
    ] {
        let said = refused(args);
        assert!(said.contains(answer), "{args}: {said}");
    }
    let listed = |words: &[&str]| fencepost(words).output().expect("the program starts").stdout;
    let both = String::from_utf8(listed(&["list", "workloads", "guards"])).expect("UTF-8");
    assert!(both.contains("workloads\n  increment") && both.contains("guards\n  none"), "{both}");
    assert_eq!(listed(&["list", "all"]), listed(&["list"]));
}

#[test]
fn names_cannot_steer_the_terminal() {
    for args in
        ["test --lock a\u{1b}[31mb", "analyze a\u{1b}[2Jb", "test --nemesis \u{9b}31m", "scenario a\u{7}"]
    {
        let stderr = refused(args);
        assert!(!stderr.contains(|c: char| c.is_control() && c != '\n'), "{stderr:?}");
    }
}

#[test]
fn locks_may_be_called_backends() {
    assert!(refused("test --backend redlok").contains("did you mean \"redlock\"?"));
    assert!(refused("compare --backends redlok").contains("did you mean \"redlock\"?"));
    let listed = |what| fencepost(&["list", what]).output().expect("the program starts").stdout;
    assert_eq!(listed("backends"), listed("locks"));
    assert!(!listed("locks").is_empty());
}

#[test]
fn impossible_combinations_are_refused() {
    assert!(refused("test --lock redlock --guard token").contains("needs a fencing token"));
    assert!(refused("test --lock redlock --guard epoch-quorum").contains("needs a fencing token"));
    assert!(refused("test --lock redlock --guard sequencer").contains("needs a sequencer"));
    assert!(refused("test --lock canary-nolock --guard unique").contains("needs a unique value"));
    assert!(refused("test --lock etcd --guard token --storage-write-delay 1s").contains("in two steps"));
    assert!(
        refused("test --lock etcd --lock-delay 3s").contains("--lock-delay is no option of the lock etcd")
    );
    assert!(refused("test --lock chubby --lock-delay 500ms").contains("whole seconds"));
    assert!(refused("test --lock etcd-lock-api --guard sequencer").contains("needs a sequencer"));
    assert!(refused("test --lock redlock --readers 2").contains("redlock is a mutex"));
    assert!(
        refused("test --lock redlock --permits 2")
            .contains("--permits is for semaphores, and redlock is a mutex")
    );
    assert!(refused("test --lock redis-semaphore --permits 0").contains("no process could ever acquire"));
    assert!(refused("test --nemesis none,pause").contains("--nemesis none excludes pause"));
    assert!(refused("test --nemesis pause,pause").contains("twice"));
    assert!(refused("test --clients 5 --concurrency 3").contains("without a process"));
    assert!(refused("test --lock etcd --workload lock --guard token").contains("does not use"));
}

#[test]
fn a_reference_that_cannot_be_one_is_refused() {
    let others = "--against etcd: it runs on etcd, and redlock on redis-independent; use redlock";
    for command in ["test --lock redlock", "compare --locks redlock", "hunt --lock redlock"] {
        assert!(refused(&format!("{command} --against etcd")).contains(others), "{command}");
        assert!(refused(&format!("{command} --against redlok")).contains("did you mean \"redlock\"?"));
    }
    let shared = refused("test --lock chubby --readers 2 --against etcd");
    assert!(shared.contains("--against etcd: it cannot play this run: --readers"), "{shared}");
    assert!(refused("test --against redlock --against-runs 0").contains("from 1 to 10000, not 0"));
    assert!(refused("compare --from . --against redlock").contains("cannot be used with"));
}

#[test]
fn options_that_contradict_each_other_are_refused_in_one_sentence() {
    let cases = [
        "--lock redis-single --watchdog --acquire no-ttl",
        "--lock redis-single --nodes 3",
        "--lock redis-single --wait 1",
        "--lock redis-single --token incr-one",
        "--lock redis-sentinel --wait 0",
        "--lock redis-sentinel --wait 3",
        "--lock redis-sentinel --nodes 5",
        "--lock redlock --release get-del",
        "--lock redlock --nodes 2",
        "--lock redlock --token incr-each --guard token --workload lock",
        "--lock etcd --watchdog",
    ];
    let refusals: Vec<String> = cases
        .iter()
        .map(|case| format!("{case}\n  {}", refused(&format!("test {case}")).trim_end()))
        .collect();
    insta::assert_snapshot!(refusals.join("\n"));
    assert!(
        refused("test --pause-at before-lunch=1s").contains("unknown point of a recipe \"before-lunch\"")
    );
}

#[test]
fn impossible_numbers_are_refused() {
    assert!(refused("test --ttl 0").contains("--ttl must be from 1ms to 3600s, not 0s"));
    assert!(refused("test --ttl soon").contains("expected a number with a unit"));
    assert!(refused("test --ttl=-2s").contains("expected a number with a unit"));
    assert!(refused("test --time-limit 0s").contains("--time-limit"));
    assert!(refused("test --clients 0").contains("from 1 to 50, not 0"));
    assert!(refused("test --keys 0").contains("from 1 to 10000, not 0"));
    assert!(refused("test --nodes 0").contains("--nodes"));
    assert!(refused("test --rate=-1").contains("--rate"));
    assert!(refused("test --rate 1e-20").contains("is not from 0.001 to 1000000"));
    assert!(refused("test --concurrency 18446744073709551615").contains("from 1 to 10000"));
    assert!(refused("test --keys 1000000000000").contains("from 1 to 10000"));
    assert!(refused("test --ttl 18446744073709551615s").contains("--ttl must be from 1ms to 3600s"));
    assert!(refused("test --nemesis-interval 18446744073709551615s").contains("--nemesis-interval must be"));
    assert!(refused("test --time-limit 3650days --nemesis swarm").contains("--time-limit must be"));
    let many = refused("test --time-limit 7days --nemesis-interval 1ms --nemesis pause");
    assert!(many.contains("604800000 faults of each nemesis"), "{many}");
    assert!(refused("images build x").contains("there is no image x"));
    assert!(
        refused("test --client-memory 5").contains("--client-memory must be from 32 to 1048576 MiB, not 5")
    );
    assert!(refused("test --seed abc").contains("abc"));
    assert!(refused("test --nemesis partition --partition c1|n9").contains("n9"));
    assert!(refused("test --torn-writes half").contains("prefix, sectors"));
    assert!(refused("tset").contains("test"));
}

#[test]
fn numbers_with_which_no_command_would_end_are_refused() {
    const HUGE: &str = "18446744073709551615";
    for (command, option, most) in [
        ("compare", "--runs", "10000"),
        ("compare", "--jobs", "1000"),
        ("scenario redis-no-ttl", "--times", "10000"),
        ("scenario redis-no-ttl", "--jobs", "1000"),
        ("replay nowhere", "--times", "10000"),
        ("replay nowhere", "--jobs", "1000"),
        ("hunt", "--jobs", "1000"),
        ("shrink nowhere", "--jobs", "1000"),
    ] {
        for number in [HUGE, "0"] {
            let sentence = refused(&format!("{command} {option} {number}"));
            let expected = format!("{option} must be from 1 to {most}, not {number}");
            assert!(sentence.contains(&expected), "{command}: {sentence}");
        }
    }
    for (command, option, most) in [
        ("hunt", "--for", "31536000s"),
        ("shrink nowhere", "--for", "31536000s"),
        ("test --lock redlock", "--retry-delay", "3600s"),
        ("test --lock chubby", "--lock-delay", "3600s"),
        ("lock check redlock", "--ttl", "3600s"),
    ] {
        let sentence = refused(&format!("{command} {option} {HUGE}s"));
        let expected = format!("to {most}, not {HUGE}s");
        assert!(sentence.contains(option) && sentence.contains(&expected), "{command}: {sentence}");
    }
    const CHECK: &str = "check --model mutex nowhere.jsonl";
    for (command, option, number, range) in [
        (CHECK, "--budget-s", "0", "0.001 to 31536000"),
        (CHECK, "--budget-s", "1e300", "0.001 to 31536000"),
        (CHECK, "--budget-s", "NaN", "0.001 to 31536000"),
        (CHECK, "--memory-mb", "0", "1 to 1048576"),
        (CHECK, "--memory-mb", HUGE, "1 to 1048576"),
        ("gc --results .", "--keep", HUGE, "0 to 1000000"),
        ("test --nemesis clock-drift", "--clock-drift-ppm", "0", "millionths from 1 to 99000000"),
        ("test --nemesis clock-drift", "--clock-drift-ppm", HUGE, "millionths from 1 to 99000000"),
        ("test --lock redis-sentinel", "--wait", "3", "use --wait 1 or --wait 2"),
        ("test --lock chubby", "--readers", "10", "leaves none of 10 processes"),
    ] {
        let sentence = refused(&format!("{command} {option} {number}"));
        assert!(sentence.contains(option) && sentence.contains(range), "{command}: {sentence}");
    }
    let plan = "[[fault]]\nfault = \"pause\"\non = [\"n1\"]\nfor_ms = 9223372036854775807\n";
    let sentence = refused_beside("plan.toml", plan, "test --nemesis-file plan.toml");
    assert!(sentence.contains("line 4, fault 1 (pause): `for_ms` is at most"), "{sentence}");
}

#[test]
fn a_scenario_waits_no_longer_than_it_may() {
    let text = "about = \"x\"\nprogress-within = \"18446744073709551615s\"\n[expect]\nholds = \"all\"\n";
    let sentence = refused_beside("s.toml", text, "scenario s.toml");
    assert!(
        sentence.contains("line 2: `progress-within` must be from 1ms to 3600s, not 18446744073709551615s"),
        "{sentence}"
    );
}

#[test]
fn comparisons_that_make_no_sense_are_refused() {
    assert!(refused("compare --locks redlok").contains("did you mean \"redlock\"?"));
    assert!(refused("compare --nemeses none,clock-jmp").contains("did you mean \"clock-jump\"?"));
    assert!(refused("compare --nemeses pause+clok-jump").contains("did you mean \"clock-jump\"?"));
    assert!(refused("compare --guards tokn").contains("did you mean \"token\"?"));
    assert!(refused("compare --nemeses pause,pause").contains("twice"));
    assert!(refused("compare --runs 0").contains("--runs must be from 1 to"));
    assert!(refused("compare --ttl 0").contains("--ttl must be from 1ms to 3600s"));
    assert!(refused("compare --locks redlock --guards token").contains("needs a fencing token"));
    assert!(refused("compare --baseline /nowhere.json").contains("cannot read the baseline"));
    assert!(refused("compare --from /nowhere").contains("cannot open /nowhere"));
    assert!(refused("compare --from .").contains("no judged run to compare"));
}

#[test]
fn a_folder_that_is_no_run_is_said_to_be_none() {
    let stderr = refused("analyze /nowhere/at/all");
    assert!(stderr.contains("cannot open the run /nowhere/at/all"), "{stderr}");
    assert_eq!(stderr.trim().lines().count(), 1, "{stderr}");
    assert!(refused("analyze /tmp").contains("/tmp is not the folder of a run: it has no history.jsonl"));
}

#[test]
fn a_run_with_a_malformed_history_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = include_str!("../../crates/report/src/fixtures/run.toml");
    std::fs::write(folder.path().join("run.toml"), settings).expect("it can be written");
    std::fs::write(folder.path().join("history.jsonl"), "{\"index\":0}\n").expect("it can be written");
    let stderr = refused(&format!("analyze {}", folder.path().display()));
    assert!(stderr.contains("history.jsonl, line 1: "), "{stderr}");
}

#[test]
fn an_option_of_a_nemesis_that_the_run_does_not_have_is_refused() {
    let restart = refused("test --restart-after 1s");
    assert!(
        restart.contains("the nemeses kill, terminate, power-loss, failover and leader-kill"),
        "{restart}"
    );
    assert!(
        refused("test --nemesis pause --partition c1|n1")
            .contains("the nemesis partition, which this run does not have")
    );
    assert!(
        refused("test --nemesis kill --torn-writes prefix")
            .contains("--torn-writes shapes the faults of the nemesis power-loss")
    );
    assert!(refused("test --nemesis pause --clock monotonic").contains("--clock shapes the faults of"));
    assert!(refused("test --clock-mechanism vdso").contains("--clock-mechanism shapes the faults of"));
    assert!(
        refused("test --nemesis clock-freeze --clock-amplitude 1s").contains("clock-jump and clock-strobe")
    );
    assert!(refused("test --nemesis clock-jump --clock-drift-ppm 5").contains("the nemesis clock-drift"));
    assert!(refused("compare --nemeses none,pause --restart-after 1s").contains("--restart-after shapes"));
    assert!(refused("hunt --nemeses pause --clock-amplitude 3s").contains("--clock-amplitude shapes"));
}

/// As [`refused`], in a folder with this file.
fn refused_beside(name: &str, content: &str, args: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join(name), content).expect("a file");
    let mut command = fencepost(&args.split_whitespace().collect::<Vec<_>>());
    let output = command.current_dir(folder.path()).output().expect("the program starts");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(254), "{args}: {stderr}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "{args} left something");
    stderr
}

#[test]
fn known_findings_are_looked_for_before_anything_is_made() {
    assert!(refused("hunt --lock etcd --known nowhere --for 1s").contains("nowhere"));
    let sentence = refused_beside("notes.txt", "", "hunt --lock etcd --known . --for 1s");
    assert!(sentence.contains("has no known finding"), "{sentence}");
}

#[test]
fn a_baseline_without_end_is_refused() {
    let sentence = refused("compare --locks etcd --baseline /dev/zero");
    assert!(sentence.contains("/dev/zero"), "{sentence}");
}

#[test]
fn an_option_in_a_file_is_for_the_runs_that_use_it() {
    let file = "[test]\nrestart-after = \"1s\"\nclock-amplitude = \"3s\"\n";
    // What is refused here comes later: the file's restart-after alone would not do it.
    let args = "test --lock etcd --nemesis clock-jump --clock-mechanism faketime";
    let stderr = refused_beside("fencepost.toml", file, args);
    assert!(stderr.contains("use vdso") && !stderr.contains("restart-after"), "{stderr}");
    let given = refused_beside("fencepost.toml", file, "test --nemesis clock-jump --restart-after 2s");
    assert!(given.contains("--restart-after shapes"), "{given}");
}

#[test]
fn faults_that_cannot_come_are_refused_with_file_and_line() {
    let refused = |fault: &str, on: &str, more: &str| {
        let plan = format!("[[fault]]\nfault = \"{fault}\"\non = [\"{on}\"]\nfor_ms = 100\n{more}\n");
        refused_beside("plan.toml", &plan, "test --driver local --nemesis-file plan.toml")
    };
    let event = refused("kill", "n1", "when = { f = \"nope\" }");
    let place = "the plan plan.toml is invalid: line 5, fault 1 (kill): `when`: unknown event \"nope\"";
    assert!(event.contains(place), "{event}");
    assert!(refused("kill", "n1", "then = { f = \"aquire\" }").contains("did you mean \"acquire\"?"));
    let server = refused("kill", "n1", "when = { f = \"acquire\", granted-by = \"zz\" }");
    assert!(server.contains("there is no server zz in this run (there are: n1, n2, n3, n4, n5)"), "{server}");
    for name in ["kill", "leader-kill", "failover"] {
        let key = refused(name, "n1", "hard = true");
        assert!(key.contains(&format!("line 5, fault 1 ({name}): unknown key \"hard\"")), "{key}");
    }
    assert!(refused("leader-pause", "n1", "stop = 5").contains("did you mean \"stop_ms\"?"));
    assert!(
        refused("power-loss", "c1", "")
            .contains("line 3, fault 1 (power-loss): power-loss is a fault of servers, and c1")
    );
    assert!(
        refused("disk-full", "storage", "").contains("disk-full is a fault of servers, and storage is none")
    );
    let given = "[[fault]]\nfault = \"kill\"\non = [\"n1\"]\nfor_ms = 100\n";
    let shaped = refused_beside("plan.toml", given, "test --nemesis-file plan.toml --restart-after 1s");
    assert!(shaped.contains("--restart-after shapes faults that are drawn"), "{shaped}");
}

#[test]
fn durations_that_are_none_are_named_with_their_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("bad.json"), "{\n\"a\": 1,\n\"b\": \"long\"\n}").expect("a file");
    std::os::unix::fs::symlink(at("bad.json"), at("link")).expect("a link");
    let compare = "compare --driver local --locks canary-nolock --nemeses none --seed 1 --shard 1/2";
    let scenario = "scenario redis-no-ttl --driver local --seed 1 --shard 1/2";
    for command in [compare, scenario] {
        for name in ["bad.json", "link"] {
            let stderr = refused(&format!("{command} --durations {}", at(name)));
            let sentence = format!("{}, line 3: these are no durations (invalid type", at(name));
            assert!(stderr.contains(&sentence) && stderr.lines().count() == 1, "{stderr}");
        }
        let stderr = refused(&format!("{command} --durations {}", at("nowhere")));
        assert!(stderr.contains(&format!("cannot read the durations {}: ", at("nowhere"))), "{stderr}");
    }
}

#[test]
fn a_list_names_each_thing_once() {
    let twice = |args: &str, sentence: &str| {
        let stderr = refused(args);
        assert!(stderr.contains(sentence) && stderr.lines().count() == 1, "{stderr}");
    };
    twice("compare --locks canary-nolock --nemeses pause,pause", "--nemeses names pause twice; name it once");
    twice("compare --locks canary-nolock --guards none,none", "--guards names none twice; name it once");
    twice(
        "hunt --lock canary-nolock --nemeses pause,kill,pause",
        "--nemeses names pause twice; name it once",
    );
    twice(&format!("test --nemesis {}", vec!["pause"; 10_000].join(",")), "the nemesis pause is named twice");
    twice(
        "scenario redis-no-ttl redis-no-ttl",
        "redis-no-ttl is named twice; --times plays a scenario several times",
    );
    twice("test --client cat --client-packages cat,cat", "--client-packages names cat twice; name it once");
}

#[test]
fn files_of_a_lock_that_are_missing_are_named_with_their_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = "about = 'x'\nservice = 'redis'\nclient = 'cat'\nfiles = ['../nowhere.py']\n";
    std::fs::write(folder.path().join("lock.toml"), text).expect("a file");
    let lock = folder.path().display();
    let stderr = refused(&format!("test --driver local --lock {lock}"));
    let sentence = format!("{lock}/lock.toml, line 4: `files` names ../nowhere.py: ");
    assert!(stderr.contains(&sentence) && stderr.contains("/../nowhere.py is not there"), "{stderr}");
    let stderr = refused(&format!("test --driver local --client cat --client-files {lock}/lock.toml"));
    assert!(stderr.contains("--client-files") && stderr.contains("it is no folder"), "{stderr}");
}

#[test]
fn a_server_that_cannot_be_had_is_refused_with_those_that_can() {
    let adapters = concat!(env!("CARGO_MANIFEST_DIR"), "/adapters");
    for (arguments, expected) in [
        ("--lock redlock@redis-6.2", "it runs on redis-7.0, redis-8.0, valkey-8.0"),
        ("--lock redlock --server redis-6.2", "of redis there are redis-7.0, redis-8.0"),
        ("--lock etcd --server valkey-9.1", "etcd does not run on valkey-9.1; it runs on etcd-3.4, etcd-3.5"),
        ("--lock redlock@redis-7.0 --server redis-8.0", "says another server"),
        ("--lock ADAPTERS/redis-py@redis-7.0 --server redis-8.0", "says another server"),
        ("--lock canary-nolock --server redis-8.0", "--server is no option of the lock canary-nolock"),
        ("--lock ADAPTERS/mariadb --server redis-8.0", "have no redis-server"),
    ] {
        let said = refused(&format!("test {}", arguments.replace("ADAPTERS", adapters)));
        assert!(said.contains(expected), "{arguments}: {said}");
    }
}
