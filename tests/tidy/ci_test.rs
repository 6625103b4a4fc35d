//! `.ci/test`: which failures of tests it lets pass, tried with a cargo that only prints.

use crate::sources::root;
use std::fs::{create_dir_all, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Plays a transcript on the first call. On a later one, for a single test, a file of its name says that it
/// passes.
const CARGO: &str = r#"#!/bin/sh
here=$(dirname "$0")
case "$*" in
*--exact*)
  for name; do :; done
  echo "$name" >> "$here/alone"
  if [ -e "$here/passes-$name" ]; then echo "test result: ok. 1 passed; 0 failed;"; else echo "test result: FAILED. 0 passed; 1 failed;"; exit 101; fi ;;
*) cat "$here/transcript"; exit "$(cat "$here/code")" ;;
esac
"#;

/// What `.ci/test` made of it: whether it passes, what it printed, and which tests it ran alone.
struct Judged {
    passes: bool,
    printed: String,
    alone: Vec<String>,
}

/// `transcript` is what cargo prints; tests of `passing` pass alone; `flaky` lists those seen before.
fn judge(transcript: &str, code: u8, passing: &[&str], flaky: &str) -> Judged {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let [programs, ci] = ["bin", ".ci"].map(|name| place.join(name));
    create_dir_all(&programs).and_then(|()| create_dir_all(&ci)).expect("a folder");
    let file = |path: &Path, text: &str| write(path, text).expect("a writable folder");
    file(&programs.join("cargo"), CARGO);
    set_permissions(programs.join("cargo"), PermissionsExt::from_mode(0o755)).expect("ours");
    file(&programs.join("transcript"), transcript);
    file(&programs.join("code"), &code.to_string());
    passing.iter().for_each(|name| file(&programs.join(format!("passes-{name}")), ""));
    file(&ci.join("flaky.toml"), flaky);
    std::fs::copy(root().join(".ci/test"), ci.join("test")).expect("the script");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash").arg(ci.join("test")).env("PATH", path).output().expect("bash");
    let alone = std::fs::read_to_string(programs.join("alone")).unwrap_or_default();
    Judged {
        passes: output.status.success(),
        printed: String::from_utf8_lossy(&output.stdout).into_owned(),
        alone: alone.lines().map(str::to_owned).collect(),
    }
}

/// What cargo prints of one test program.
fn program(name: &str, passed: usize, failed: &[&str]) -> String {
    let mut text = format!("     Running {name}/main.rs (target/debug/deps/{name}-0123456789abcdef)\n\n");
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    if !failed.is_empty() {
        text += "failures:\n\n";
        failed.iter().for_each(|test| text += &format!("---- {test} stdout ----\nit was late: {test}\n\n"));
        text += "\nfailures:\n";
        failed.iter().for_each(|test| text += &format!("    {test}\n"));
        text += "\n";
    }
    text += &format!("test result: {result}. {passed} passed; {} failed; 0 ignored\n\n", failed.len());
    if !failed.is_empty() {
        text += &format!("error: test failed, to rerun pass `-p fencepost-tests --test {name}`\n");
    }
    text
}

#[test]
fn tests_that_all_pass_are_counted() {
    let judged = judge(&(program("fencepost", 5, &[]) + &program("all", 3, &[])), 0, &[], "");
    assert!(judged.passes && judged.printed.ends_with("tests: 8 passed, 0 failed\n"), "{}", judged.printed);
    assert!(judged.alone.is_empty());
}

#[test]
fn up_to_two_tests_on_servers_may_pass_alone() {
    let transcript = program("all", 3, &["local::a", "b"]) + &program("faults", 1, &[]);
    let judged = judge(&transcript, 101, &["local::a", "b"], "");
    assert!(judged.passes && judged.printed.ends_with("tests: 6 passed, 0 failed\n"), "{}", judged.printed);
    assert!(judged.printed.contains("passed alone: all local::a"), "{}", judged.printed);
    assert_eq!(judged.alone, ["local::a", "b"]);

    let transcript = program("all", 3, &["a", "b"]) + &program("cluster", 1, &["c"]);
    let judged = judge(&transcript, 101, &["a", "b", "c"], "");
    assert!(!judged.passes && judged.printed.contains("3 tests passed only alone"), "{}", judged.printed);
}

#[test]
fn failures_that_count_are_never_passed_over() {
    let fails_alone = judge(&program("all", 3, &["a"]), 101, &[], "");
    assert!(!fails_alone.passes && fails_alone.printed.ends_with("tests: 3 passed, 1 failed\n"));

    let needs_no_server = judge(&program("cli", 3, &["a"]), 101, &["a"], "");
    assert!(!needs_no_server.passes && needs_no_server.alone.is_empty(), "{}", needs_no_server.printed);

    let seen_before = judge(&program("all", 3, &["a"]), 101, &["a"], "[[seen]]\ntest = \"all a\"\n");
    assert!(!seen_before.passes && seen_before.alone.is_empty(), "{}", seen_before.printed);

    let does_not_compile = judge("error: could not compile `fencepost`\n", 101, &[], "");
    assert!(!does_not_compile.passes, "{}", does_not_compile.printed);

    let died = "     Running all/main.rs (target/debug/deps/all-0123456789abcdef)\n\
                error: test failed, to rerun pass `-p fencepost-tests --test all`\n";
    assert!(!judge(died, 101, &[], "").passes);
    let died_beside_another = program("all", 3, &["a"]) + &died.replace("all", "faults");
    assert!(!judge(&died_beside_another, 101, &["a"], "").passes);
}

/// `.ci/run` compiles with `tools/lint`: what is of the product is linted, and nothing else.
#[test]
fn the_product_is_linted_while_it_is_compiled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    for name in ["tools", "bin"] {
        create_dir_all(place.join(name)).expect("a folder");
    }
    // Each compiler prints its arguments.
    let links = [
        (root().join("tools/lint"), "tools/lint"),
        (root().join("tools/rustc"), "tools/rustc"),
        ("/bin/echo".into(), "bin/rustc"),
        ("/bin/echo".into(), "bin/clippy-driver"),
    ];
    for (program, name) in links {
        std::os::unix::fs::symlink(program, place.join(name)).expect("a link");
    }
    let path = format!("{}:{}", place.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let compiled = |crate_at: &str, args: &str| {
        let output = Command::new(place.join("tools/lint"))
            .arg(place.join("bin/rustc"))
            .args(args.split_whitespace())
            .envs([("PATH", path.as_str()), ("CARGO_MANIFEST_DIR", crate_at)])
            .output()
            .expect("the script starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let own = place.join("crates/wire").display().to_string();
    // As a wrapper, the driver of clippy is given the compiler first.
    assert_eq!(compiled(&own, "--crate-type lib lib.rs"), "rustc --crate-type lib lib.rs -D warnings\n");
    assert_eq!(compiled(&own, "--test lib.rs"), "--test lib.rs\n");
    assert_eq!(compiled("/elsewhere", "--crate-type lib lib.rs"), "--crate-type lib lib.rs\n");
}

/// Each test that was seen is listed once.
pub fn listed_twice() -> Vec<String> {
    let list: toml::Table =
        toml::from_str(&crate::sources::text(Path::new(".ci/flaky.toml"))).expect(".ci/flaky.toml is TOML");
    let seen = list.get("seen").and_then(|seen| seen.as_array()).cloned().unwrap_or_default();
    let mut names: Vec<&str> = seen.iter().filter_map(|entry| entry["test"].as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).filter(|pair| pair[0] == pair[1]);
    twice
        .map(|pair| format!(".ci/flaky.toml lists {} twice: mend it before anything else", pair[0]))
        .collect()
}
