//! Runs that are refused, or that cannot begin, and engines that do not answer as they should.

use crate::common::fencepost;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

fn refused(args: &[&str]) -> String {
    let output = fencepost(args).output().expect("the program starts");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(254), "{args:?}: {stderr}");
    stderr
}

#[test]
fn what_is_no_run_with_a_violation_is_refused_in_a_sentence() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples");
    assert!(refused(&["replay", example]).contains("is not the folder of a run"));
    assert!(refused(&["shrink", "nowhere"]).contains("cannot open the run nowhere"));
    assert!(refused(&["replay", "nowhere", "--times", "0"]).contains("--times must be from 1 to"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |version: &str| {
        let text = format!(
            "fencepost = \"{version}\"\ncommand = \"\"\nstarted = 0\ndriver = \"local\"\n[spec]\nlock = \"redis-single\"\n\
             workload = \"increment\"\ndriver = \"local\"\nguard = \"none\"\nseed = 1\nttl = \"2s\"\n"
        );
        put(folder.path(), "run.toml", &text);
    };
    put(folder.path(), "history.jsonl", "");
    put(folder.path(), "plan.toml", "");
    let path = folder.path().to_str().expect("UTF-8");
    run("0.0.1");
    assert!(refused(&["replay", path]).contains("was made by Fencepost 0.0.1"));
    run(env!("CARGO_PKG_VERSION"));
    assert!(refused(&["shrink", path]).contains("shows no violation, so there is nothing to shrink"));
}

fn put(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("a file");
}

#[test]
fn an_engine_that_is_down_is_said_to_be() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let output =
        fencepost(&["test", "--driver", "docker", "--results", results.path().to_str().expect("UTF-8")])
            .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
            .output()
            .expect("the program starts");
    assert_eq!(output.status.code(), Some(255));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.to_lowercase().contains("docker"), "{stderr}");
    assert_eq!(stderr.trim().lines().count(), 1, "one sentence: {stderr}");
}

#[test]
fn a_results_folder_that_cannot_be_written_is_named() {
    let output = fencepost(&["test", "--driver", "local", "--results", "/proc/nowhere"])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(255));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("/proc/nowhere"), "{stderr}");
    assert_eq!(stderr.trim().lines().count(), 1, "one sentence: {stderr}");
}

/// What cannot be removed makes `clean` end as failed, with a sentence: here an engine that answers, and
/// lists nothing.
#[test]
fn a_search_that_fails_is_no_success() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("docker.sock");
    let engine = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        engine.incoming().flatten().for_each(|stream| answer_as_a_broken_engine(&stream))
    });
    let cleaned = fencepost(&["clean"])
        .env("DOCKER_HOST", format!("unix://{}", socket.display()))
        .output()
        .expect("the program starts");
    assert_eq!(cleaned.status.code(), Some(255), "{}", String::from_utf8_lossy(&cleaned.stdout));
    let stderr = String::from_utf8_lossy(&cleaned.stderr);
    assert!(stderr.contains("cannot list containers: the Docker engine says: out of order"), "{stderr}");
}

/// Answers one request.
fn answer_as_a_broken_engine(mut stream: &std::os::unix::net::UnixStream) {
    let mut request = String::new();
    let _ = BufReader::new(stream).read_line(&mut request);
    let (status, body) = match request.split(' ').nth(1).unwrap_or_default() {
        path if path.ends_with("/_ping") => ("200 OK", "OK"),
        path if path.ends_with("/version") => ("200 OK", r#"{"ApiVersion":"1.41"}"#),
        _ => ("500 Internal Server Error", r#"{"message":"out of order"}"#),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = stream.write_all(answer.as_bytes());
}
