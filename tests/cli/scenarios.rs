//! Scenarios, as far as they can be listed or refused.

use crate::common::fencepost;

#[test]
fn the_list_names_every_line_of_the_debate() {
    let output = fencepost(&["scenario", "list"]).output().expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("output in UTF-8");
    let listed: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let names: Vec<&str> =
        fencepost_engine::scenario::registry().iter().map(|scenario| scenario.name.as_str()).collect();
    assert_eq!(listed, names);
}

#[test]
fn mistakes_are_named() {
    let refused = |words: &[&str]| {
        let output = fencepost(words).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(254));
        String::from_utf8(output.stderr).expect("output in UTF-8")
    };
    assert!(refused(&["scenario", "redis-clock-jmp"]).contains("did you mean \"redis-clock-jump\"?"));
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    let path = file.path().to_str().expect("a path in UTF-8");
    std::fs::write(path, "about = \"mine\"\nlokc = \"etcd\"\nexpect.holds = \"all\"\n")
        .expect("a file that can be written");
    let refusal = refused(&["scenario", path]);
    assert!(refusal.contains("line 2: unknown key \"lokc\": did you mean \"lock\"?"), "{refusal}");
    assert!(refused(&["scenario", "redlock-clock-jump", "--lock", "etcd"]).contains("no node n4"));
    assert!(refused(&["scenario"]).contains("name a scenario to play, or use --all"));
    assert!(refused(&["scenario", "redis-no-ttl", "--jobs", "0"]).contains("--jobs must be from 1 to"));
}

/// That no engine answers is no outcome of a scenario.
#[test]
fn without_an_engine_nothing_was_played() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let results = results.path().to_str().expect("a path in UTF-8");
    let one = ["scenario", "redis-expiry-pause", "--driver", "docker", "--results", results];
    let two = [&one[..], &["redis-no-ttl"]].concat();
    for words in [&one[..], &two[..]] {
        let output =
            fencepost(words).env("DOCKER_HOST", "unix:///nowhere").output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(255), "{said}");
        assert!(said.contains("no Docker engine answers"), "{said}");
    }
}
