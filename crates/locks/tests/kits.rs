//! The client kits of `kits/`: each plays the conversation that all of them share (`kits/tests/conversation.py`), and runs the
//! tests that are its language's own.

use std::process::Command;

/// Runs a Python program of the folder `kits`, which prints what went wrong.
fn passes(program: &str, arguments: &[&str]) {
    runs("python3", &[&[program], arguments].concat());
}

/// Runs a program in the folder `kits`.
fn runs(program: &str, arguments: &[&str]) {
    let kits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kits");
    let done = Command::new(program).args(arguments).current_dir(kits).output();
    let done = done.unwrap_or_else(|_| panic!("this test needs {program}: install it"));
    assert!(done.status.success(), "{program} {arguments:?}\n{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn python_kit_keeps_the_rules_of_kits() {
    passes("tests/conversation.py", &["python3", "python/tests/fake_lock.py"]);
    passes("python/tests/test_python.py", &[]);
}

/// A crate of its own, which the build of Fencepost does not compile. Its tests play the conversation, too.
#[test]
fn rust_kit_keeps_the_rules_of_kits() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kits/rust/fencepost-client/Cargo.toml");
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/rust-kit");
    let mut cargo = Command::new(env!("CARGO"));
    let done = cargo.args(["test", "--manifest-path", manifest, "--target-dir", target]).output();
    let done = done.expect("cargo runs this test, too");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn javascript_kit_keeps_the_rules_of_kits() {
    passes("tests/conversation.py", &["node", "javascript/test/fake_lock.js"]);
}

#[test]
fn java_kit_keeps_the_rules_of_kits() {
    let classes = concat!(env!("CARGO_TARGET_TMPDIR"), "/java-kit");
    runs("javac", &["-d", classes, "java/Fencepost.java", "java/test/FakeLock.java"]);
    let java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "FakeLock"];
    passes("tests/conversation.py", &java);
}

/// A machine without PHP gets Debian's for this test alone.
#[test]
fn php_kit_keeps_the_rules_of_kits() {
    let unpacked = concat!(env!("CARGO_TARGET_TMPDIR"), "/php/usr/bin/php8.2");
    let installed = Command::new("php8.2").arg("--version").output().is_ok();
    if !installed && !std::path::Path::new(unpacked).exists() {
        let unpack = concat!(
            "mkdir -p $0 && cd $0 && apt-get -q -o APT::Sandbox::User=root download php8.2-cli && ",
            "dpkg-deb -x php8.2-cli_*.deb ."
        );
        runs("sh", &["-c", unpack, concat!(env!("CARGO_TARGET_TMPDIR"), "/php")]);
    }
    passes("tests/conversation.py", &[if installed { "php8.2" } else { unpacked }, "php/test/fake_lock.php"]);
}
