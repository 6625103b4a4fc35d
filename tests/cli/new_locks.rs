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
fn a_new_lock_of_a_kind_has_its_kind_and_its_functions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for language in languages() {
        for (kind, function, other) in [
            ("read-write", "shared", "permit"),
            ("semaphore", "permit", "shared"),
            ("reentrant", "reenter", "permit"),
            ("several", "keys", "shared"),
            ("mutex", "", "%"),
        ] {
            for servers in ["redis", "etcd"] {
                let name = format!("{language}-{kind}-on-{servers}");
                let args = format!("{name} --language {language} --servers {servers} --kind {kind}");
                let made = new(folder.path(), &args);
                assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
                let (lock_file, client) =
                    (read(folder.path(), &name, "lock.toml"), client_of(folder.path(), &name));
                let kind_line = format!("kind = \"{kind}\"");
                assert_eq!(lock_file.contains(&kind_line), kind != "mutex", "{lock_file}");
                assert!(client.contains(function) && !client.contains("\n%"), "{name}: {client}");
                // The client that works has the functions of all kinds.
                assert!(servers == "redis" || !client.contains(other), "{name}: {client}");
            }
        }
    }
}

fn read(folder: &Path, name: &str, file: &str) -> String {
    std::fs::read_to_string(folder.join(name).join(file)).expect("the file")
}

/// The client, as the README of the folder names it, in lower case.
fn client_of(folder: &Path, name: &str) -> String {
    let readme = read(folder, name, "README.md");
    let client = readme.split("- `").nth(1).and_then(|rest| rest.split('`').next()).expect("the client");
    read(folder, name, client).to_lowercase()
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
        (&["lock", "new", "x", "--kind", "spin"], 254, "possible values: mutex, read-write, semaphore"),
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
