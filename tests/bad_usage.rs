//! Mistakes on the command line: one clear sentence, exit code 254, and nothing started.

mod common;

use common::fencepost;

/// Runs with these arguments, expects 254, and gives what stood on standard error.
fn refused(args: &str) -> String {
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
    assert!(refused("test --backend redlok").contains("did you mean redlock?"));
    assert!(refused("test --workload incremet").contains("did you mean increment?"));
    assert!(refused("test --nemesis clock-jmp").contains("did you mean clock-jump?"));
    assert!(refused("test --nemesis pause,clok-jump").contains("did you mean clock-jump?"));
    assert!(refused("test --guard tokn").contains("did you mean token?"));
    assert!(refused("test --driver dokcer").contains("did you mean docker?"));
    assert!(refused("list backend").contains("did you mean backends?"));
}

#[test]
fn impossible_combinations_are_refused() {
    assert!(refused("test --backend redlock --guard token").contains("needs a fencing token"));
    assert!(refused("test --nemesis none,pause").contains("goes with no other"));
    assert!(refused("test --nemesis pause,pause").contains("twice"));
    assert!(refused("test --clients 5 --concurrency 3").contains("without a process"));
    assert!(refused("test --backend etcd --workload lock --guard token").contains("does not use"));
}

#[test]
fn impossible_numbers_are_refused() {
    assert!(refused("test --ttl 0").contains("--ttl must be longer than 0"));
    assert!(refused("test --ttl soon").contains("no length of time"));
    assert!(refused("test --ttl=-2s").contains("no length of time"));
    assert!(refused("test --time-limit 0s").contains("--time-limit"));
    assert!(refused("test --clients 0").contains("at least 1"));
    assert!(refused("test --keys 0").contains("at least 1"));
    assert!(refused("test --nodes 0").contains("--nodes"));
    assert!(refused("test --rate=-1").contains("--rate"));
    assert!(refused("test --seed abc").contains("abc"));
    assert!(refused("test --partition c1|n9").contains("n9"));
    assert!(refused("test --torn-writes half").contains("prefix or sectors"));
    assert!(refused("tset").contains("test"));
}

#[test]
fn a_folder_that_is_no_run_is_said_to_be_none() {
    let stderr = refused("analyze /nowhere/at/all");
    assert!(stderr.contains("cannot open the run /nowhere/at/all"), "{stderr}");
    assert_eq!(stderr.trim().lines().count(), 1, "{stderr}");
    assert!(refused("analyze /tmp").contains("holds no history.jsonl"));
}
