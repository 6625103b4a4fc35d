//! `fencepost lock new`, and what `fencepost lock check` refuses.

use crate::common::fencepost;
use std::path::Path;

/// The languages that have a kit with an example.
fn languages() -> Vec<String> {
    let kits =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/kits")).expect("the folder of the kits");
    let kits =
        kits.map(|entry| entry.expect("an entry")).filter(|entry| entry.path().join("example").is_dir());
    let languages: Vec<String> = kits.map(|kit| kit.file_name().into_string().expect("UTF-8")).collect();
    assert!(languages.len() > 5, "{languages:?}");
    languages
}

/// Runs `fencepost lock new` in this folder.
fn new(at: &Path, args: &str) -> std::process::Output {
    let mut command =
        fencepost(&[&["lock", "new"], &args.split_whitespace().collect::<Vec<_>>()[..]].concat());
    command.current_dir(at).output().expect("the program starts")
}

#[test]
fn a_new_lock_is_a_lock_in_every_language_on_all_servers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for language in languages() {
        for servers in
            ["redis", "redis-independent", "redis-sentinel", "etcd", "zookeeper", "postgres", "mariadb"]
        {
            let name = format!("{language}-on-{servers}");
            let made = new(folder.path(), &format!("{name} --language {language} --servers {servers}"));
            assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
            let listed = fencepost(&["list", "locks", &format!("./{name}")])
                .current_dir(folder.path())
                .output()
                .expect("the program starts");
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            assert!(listed.contains(&format!("{name}, a lock of my own in")), "{listed}");
        }
    }
}

#[test]
fn a_new_lock_writes_over_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("taken")).expect("a folder");
    std::fs::write(folder.path().join("a-file"), "mine").expect("a file");
    for name in ["taken", "a-file", "9lives", "a.b", "", "no/where"] {
        let refused = new(folder.path(), name);
        let stderr = String::from_utf8_lossy(&refused.stderr);
        let code = if name == "no/where" { 255 } else { 254 };
        assert_eq!(refused.status.code(), Some(code), "{name}: {stderr}");
    }
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    left.sort_by_key(|entry| entry.file_name());
    let names: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["a-file", "taken"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("a-file")).expect("it is there"), "mine");
}

#[test]
fn mistakes_and_failures_have_their_own_exit_codes() {
    for (args, code, words) in [
        (&["lock", "check", "./nowhere"][..], 254, "cannot open the lock ./nowhere"),
        (&["lock", "check", "redlok"], 254, "did you mean \"redlock\"?"),
        (&["lock", "check", "redlock", "--ttl", "0"], 254, "--ttl must be from 1ms to 3600s"),
        (&["lock", "new", "x", "--language", "cobol"], 254, "cobol"),
        (&["lock", "check", "redlock", "--driver", "docker"], 255, "docker"),
    ] {
        let checked = fencepost(args)
            .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
            .output()
            .expect("the program starts");
        let stderr = String::from_utf8_lossy(&checked.stderr).to_lowercase();
        assert_eq!(checked.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(&words.to_lowercase()), "{args:?}: {stderr}");
    }
}
