//! Root file systems in the cache, while runs use them.

use crate::common::turn::{Turn, Weight};
use crate::common::{await_history, fencepost};
use std::path::Path;
use std::process::{Command, Stdio};

/// What a local run uses stays where it is until the run has ended.
#[test]
fn images_are_not_removed_below_a_run() {
    let turn = Turn::take(Weight::of(&["test", "--driver", "local", "--lock", "redis-single"]));
    // A cache of its own with copies of the root file systems that the run needs: other tests need theirs.
    // Copies, since a link to a file changes its inode, and what is just being imported into an engine must
    // not change.
    let known = fencepost_cluster::cache_folder().expect("a cache");
    let own = tempfile::tempdir_in(&known).expect("a folder in the cache");
    std::fs::create_dir(own.path().join("rootfs")).expect("a folder");
    for whole in std::fs::read_dir(known.join("rootfs")).into_iter().flatten().flatten() {
        // One that is being made just now gets its name when it is whole.
        let name = whole.file_name().into_string().unwrap_or_default();
        let needed = ["redis-", "client-"].iter().any(|image| name.starts_with(image));
        if needed && whole.path().extension().is_none_or(|extension| extension != "unfinished") {
            let copy = Command::new("cp").arg("-a").arg(whole.path()).arg(own.path().join("rootfs")).status();
            assert!(copy.expect("cp").success());
        }
    }
    let with_own = |args: &[&str]| {
        let mut command = fencepost(args);
        command.env("FENCEPOST_CACHE", own.path()).env("DOCKER_HOST", "unix:///nowhere/docker.sock");
        command
    };
    let results = own.path().join("results");
    let place = results.to_str().expect("UTF-8");
    let run = with_own(&[
        "test",
        "--driver",
        "local",
        "--lock",
        "redis-single",
        "--time-limit",
        "8s",
        "--results",
        place,
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("the program starts");
    await_history(&results, "something is acquired", |history| history.contains("\"acquire\""));
    let used_before = redis_roots(own.path());
    let removed = with_own(&["images", "remove"]).output().expect("the program starts");
    let complaint = String::from_utf8_lossy(&removed.stderr).into_owned();
    assert!(used_before > 0, "a run uses the root file system of its servers, whatever the machine has");
    assert_eq!(removed.status.code(), Some(255), "{complaint}");
    assert!(complaint.contains("nothing was removed; wait for the end"), "{complaint}");
    assert_eq!(redis_roots(own.path()), used_before);
    let ended = run.wait_with_output().expect("it ends");
    drop(turn);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let removed = with_own(&["images", "remove"]).output().expect("the program starts");
    assert_eq!(removed.status.code(), Some(0), "{}", String::from_utf8_lossy(&removed.stderr));
    assert_eq!(redis_roots(own.path()), 0);
}

/// Root file systems of Redis in a cache.
fn redis_roots(cache: &Path) -> usize {
    let entries = std::fs::read_dir(cache.join("rootfs")).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().is_dir() && entry.file_name().as_encoded_bytes().starts_with(b"redis-"))
        .count()
}
