//! What the tests need of the machine: this list, and nothing else. Servers, languages and libraries come
//! from Debian's packages in root file systems, on every machine alike; a test that needs more says so in its
//! own failure (Chromium, which is installed by apt where it is missing).

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Commands that the tests run on the machine itself, and the Debian package that has each.
const COMMANDS: [(&str, &str); 6] = [
    ("cc", "gcc"),
    ("docker", "docker-cli"),
    ("git", "git"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("nsenter", "util-linux"),
];

/// A sentence for each thing that is missing.
fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !nix::unistd::geteuid().is_root() {
        missing.push("root: nodes of the tests are looked into from outside; run them by sudo".to_owned());
    }
    for (command, package) in COMMANDS {
        if !runs(command, &["--version"]) && !runs(command, &["-V"]) {
            missing.push(format!("the command {command}: install it (Debian's package {package})"));
        }
    }
    if !runs("docker", &["version"]) {
        missing.push("a Docker engine that answers: start it, or set DOCKER_HOST".to_owned());
    }
    if !Path::new("/dev/fuse").exists() {
        missing.push("/dev/fuse: load the kernel module fuse".to_owned());
    }
    missing
}

fn runs(command: &str, args: &[&str]) -> bool {
    let run = Command::new(command)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

/// Fails with everything that is missing, before anything is tried: looked at once.
pub fn check() {
    static MISSING: LazyLock<Vec<String>> = LazyLock::new(missing);
    assert!(MISSING.is_empty(), "the tests need of this machine:\n  - {}", MISSING.join("\n  - "));
}
