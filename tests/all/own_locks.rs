//! Locks of one's own: `fencepost lock new` and `fencepost lock check`.

use crate::common::{fencepost, output, planned, root};
use serde_json::Value;
use std::collections::BTreeSet;

/// The result of `lock check … --json`: the exit code, and what it printed.
struct Checked {
    code: Option<i32>,
    summary: Value,
}

/// Checks a lock of this repository on the local driver.
fn check(lock: &str) -> Checked {
    let path = format!("{}/{lock}", root());
    check_at(&path)
}

fn check_at(path: &str) -> Checked {
    check_with(path, &[])
}

/// With a TTL that gives a busy machine its time: points wait for parts of it.
fn check_with(path: &str, more: &[&str]) -> Checked {
    let args = ["lock", "check", path, "--driver", "local", "--ttl", "6s", "--json"];
    let checked = output(&[&args[..], more].concat());
    let stderr = String::from_utf8_lossy(&checked.stderr);
    let summary = serde_json::from_slice(&checked.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    eprintln!("{path}: {:?}\n{summary:#}\n{stderr}", checked.status);
    Checked { code: checked.status.code(), summary }
}

impl Checked {
    /// The point of this name.
    fn point(&self, name: &str) -> &Value {
        let points = self.summary["points"].as_array().expect("a list of points");
        points.iter().find(|point| point["point"] == name).unwrap_or_else(|| panic!("no point {name}"))
    }

    fn keeps_the_protocol(&self) {
        assert_eq!(self.code, Some(0));
        assert_eq!(self.summary["keeps-the-protocol"], true);
    }

    /// The point is broken, and says what to change; with these words.
    fn breaks(&self, name: &str, words: &str) {
        assert_eq!(self.code, Some(1));
        assert_eq!(self.point(name)["outcome"], "broken");
        self.says(name, words);
    }

    fn says(&self, name: &str, words: &str) {
        let point = self.point(name);
        let text = format!("{} {}", point["seen"], point["change"]);
        assert!(text.contains(words), "{words}: {text}");
        assert!(!point["lines"].as_array().expect("lines of the conversation").is_empty());
    }
}

/// The example of each kit keeps the protocol: a test for each, so that they go side by side.
macro_rules! examples {
    ($($language:ident),*) => {
        mod example_keeps_the_protocol {
            $(#[test] fn $language() { super::check(concat!("kits/", stringify!($language), "/example")).keeps_the_protocol(); })*
        }

        mod other_kinds_keep_the_protocol_by_night {
            $(#[test] #[ignore = "runs every night, by .ci/nightly"] fn $language() {
                for variant in ["", "@semaphore", "@reentrant", "@several"] {
                    let lock = format!("kits/{}/kinds{variant}", stringify!($language));
                    let checked = super::check(&lock);
                    checked.keeps_the_protocol();
                    assert_eq!(checked.point("together")["outcome"], "kept", "{lock}");
                }
            })*
        }

        #[test]
        fn every_kit_has_its_example_checked() {
            let kits = std::fs::read_dir(format!("{}/kits", root())).expect("the folder of the kits").flatten();
            let with_example = kits.filter(|kit| kit.path().join("example").is_dir());
            let languages: BTreeSet<_> =
                with_example.map(|kit| kit.file_name().into_string().expect("UTF-8")).collect();
            assert_eq!(languages, BTreeSet::from([$(stringify!($language).to_owned()),*]));
        }
    };
}

examples!(python, go, javascript, rust, java, php);

/// The same where the server speaks TLS and asks for a password.
macro_rules! examples_with_access {
    ([$($language:ident),*], by_night: [$($night:ident),*]) => {
        mod example_keeps_the_protocol_with_tls_and_a_password {
            $(#[test] fn $language() { super::check_with_access(concat!("kits/", stringify!($language), "/example")); })*
        }
        mod example_keeps_the_protocol_with_tls_and_a_password_by_night {
            $(#[test] #[ignore = "runs every night, by .ci/nightly"] fn $night() {
                super::check_with_access(concat!("kits/", stringify!($night), "/example"));
            })*
        }
    };
}

examples_with_access!([python], by_night: [go, javascript, rust, java, php]);

fn check_with_access(lock: &str) {
    check_with(&format!("{}/{lock}", root()), &["--tls", "--auth"]).keeps_the_protocol();
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn adapters_reach_servers_with_tls_and_a_password_by_night() {
    for adapter in ["redis-py", "kazoo", "pals"] {
        check_with_access(&format!("adapters/{adapter}"));
    }
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn adapters_of_every_kind_keep_the_protocol_by_night() {
    for adapter in [
        "kazoo@read-write",
        "kazoo@semaphore",
        "kazoo@election",
        "curator@read-write",
        "curator@semaphore",
        "curator@latch",
        "curator@selector",
        "etcd-concurrency@election",
        "dramatiq@semaphore",
        "portalocker@read-write",
        "tooz-zookeeper@leader",
    ] {
        check(&format!("adapters/{adapter}")).keeps_the_protocol();
    }
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn built_in_clients_keep_the_protocol_by_night() {
    for lock in ["redlock", "etcd"] {
        check_at(lock).keeps_the_protocol();
    }
}

/// Both kinds of one client, and a lock of a kind whose client takes all of it.
#[test]
fn clients_of_read_write_locks_and_semaphores_are_checked() {
    for variant in ["", "@semaphore"] {
        let checked = check(&format!("kits/python/kinds{variant}"));
        checked.keeps_the_protocol();
        assert_eq!(checked.point("together")["outcome"], "kept");
    }
}

#[test]
fn a_client_that_never_asks_the_server_is_found() {
    let checked = check("tests/locks/never-asks");
    checked.breaks("unanswered", "No server can have granted it. Look at the client's acquire");
    checked.says("time-out", "look at the client's acquire: it must ask the server");
}

#[test]
fn a_client_that_releases_blindly_is_shown() {
    let checked = check("tests/locks/releases-blindly");
    assert_eq!(checked.point("late-release")["outcome"], "note");
    checked
        .says("late-release", "look at the client's release: it must remove only what its own acquire got");
}

#[test]
fn a_client_that_answers_before_the_grant_is_found() {
    let checked = check("tests/locks/answers-early");
    checked.breaks("unanswered", "answer `ok` only after the server did");
}

#[test]
fn a_client_that_prints_is_found() {
    let checked = check("tests/locks/prints");
    checked.breaks("grant", "acquired check-");
    checked.says("grant", "own output belongs on standard error");
    assert_eq!(checked.point("peace")["outcome"], "not-tried");
}

#[test]
fn a_client_that_takes_too_much_is_ended_and_named() {
    let path = |habit| format!("{}/tests/locks/misbehaves@{habit}", root());
    let memory = check_with(&path("uses-memory"), &["--client-memory", "200"]);
    let disk = check_at(&path("fills-its-disk"));
    let used = "used more than 200 MiB of memory, the limit of --client-memory, and was ended";
    let filled = "No space left on device";
    for (checked, words) in [(memory, used), (disk, filled)] {
        assert_eq!(checked.code, Some(1));
        let points = checked.summary["points"].as_array().expect("a list of points");
        let seen = points.iter().filter_map(|point| point["seen"].as_str());
        assert!(seen.clone().any(|seen| seen.contains(words)), "{words}");
    }
}

#[test]
fn a_client_whose_processes_wait_for_each_other_is_found() {
    let checked = check("tests/locks/blocks");
    checked.breaks("processes", "share no mutex or connection that an acquire keeps while it waits");
}

/// Three times a holder that has read is stopped until its lease is over and another client has the lock. Its
/// section is over by then, so it writes and releases at once, while the other has a second to go.
fn stopped_holders() -> String {
    let stopped = |client: &str, when: &str| {
        format!(
            "[[fault]]\nwhen = '{when}'\nfor = '120s'\nuntil = 'any acquire'\nfault = 'pause'\non = ['{client}']\n"
        )
    };
    [("c1", "c1 read"), ("c2", "c2 read 3 times"), ("c3", "c3 read 5 times")]
        .map(|(client, when)| stopped(client, when))
        .concat()
}

/// Plays a planted lock and `redis-single` under this fault. Gives what stood on the terminal, and
/// `against.json`.
fn against_redis_single(variant: &str) -> (String, Value) {
    let lock = format!("{}/tests/planted/redis@{variant}", root());
    let ran = planned(
        &stopped_holders(),
        &format!(
            "--lock {lock} --against redis-single --against-runs 2 --ttl 3s --hold 1s --acquire-timeout 500ms \
             --clients 3 --concurrency 6 --brief --time-limit 300s --driver local"
        ),
    );
    let own = ran.results.path().join("latest");
    let json = std::fs::read_to_string(own.join("against.json")).expect("it lies beside the lock's own run");
    let settings = std::fs::read_to_string(own.join("run.toml")).expect("settings");
    assert!(settings.contains(variant), "latest is the run of the lock, not of the reference: {settings}");
    let runs = std::fs::read_dir(ran.results.path()).expect("a folder").flatten();
    let of_reference = runs.filter(|run| run.file_name().to_string_lossy().starts_with("redis-single-"));
    assert_eq!(of_reference.filter(|run| run.path().join("report.html").is_file()).count(), 2);
    (ran.stdout, serde_json::from_str(&json).expect("JSON"))
}

#[test]
fn what_a_lock_does_worse_than_its_reference_is_shown() {
    let (stdout, against) = against_redis_single("blind-delete");
    assert!(stdout.contains("worse     ownership: removed by another (the library)"), "{stdout}");
    assert!(stdout.contains("against   redis-single, under the same faults: 2 runs"), "{stdout}");
    let differences = against["differences"].as_array().expect("a list");
    let is_removal = |each: &&Value| each["class"] == "removed-by-another";
    let removal = differences.iter().find(is_removal).expect("it removes the locks of others");
    assert_eq!((&removal["standing"], &removal["reference"]["violations"]), (&"worse".into(), &0.into()));
}

#[test]
fn a_repaired_lock_does_nothing_worse_than_its_reference() {
    let (stdout, against) = against_redis_single("repaired");
    let differences = against["differences"].as_array().expect("a list");
    let is_worse = |each: &&Value| each["standing"] == "worse" && each["whose"][0] != "no-fence";
    assert_eq!(differences.iter().filter(is_worse).count(), 0, "{stdout}");
}

#[test]
fn a_new_lock_runs_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut new = fencepost(&["lock", "new", "my-lock"]);
    let made = new.current_dir(folder.path()).output().expect("the program starts");
    let printed = String::from_utf8_lossy(&made.stdout);
    assert!(printed.contains("fencepost lock check ./my-lock"), "{printed}");
    let path = folder.path().join("my-lock");
    check_at(path.to_str().expect("UTF-8")).keeps_the_protocol();
}
