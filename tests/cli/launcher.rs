//! The launcher, with an engine that only says what it was asked for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

const ENGINE: &str =
    "#!/bin/sh\n[ \"$1\" = run ] && printf '%s\\n' \"$@\"\n[ \"$1\" = version ] && echo 1\nexit 0\n";

fn launched(argument: &str) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = folder.path().join("docker");
    fs::write(&engine, ENGINE).expect("a file that can be written");
    fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).expect("a file of one's own");
    let here = folder.path().join("here");
    fs::create_dir(&here).expect("a folder that can be made");
    let mut command = Command::new("sh");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/launcher/fencepost")).args(["analyze", argument]);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    command.current_dir(here).env("PATH", path).env("FENCEPOST_ENGINE", "docker");
    command.output().expect("a shell")
}

/// The paths of this machine that would be inside.
fn mounted(argument: &str) -> Vec<String> {
    let output = launched(argument);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let volumes = lines.windows(2).filter(|two| two[0] == "--volume").map(|two| two[1].to_owned());
    // After the cache and the current folder.
    volumes.skip(2).collect()
}

#[test]
fn what_the_launcher_refuses_is_not_run() {
    for argument in ["/etc/no-such-file", "--out=//etc/no-such-file", "x,/usr/no-such-file"] {
        let output = launched(argument);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("has a folder") && output.stdout.is_empty(), "{output:?}");
        assert_eq!(output.status.code(), Some(254), "{said}");
    }
}

#[test]
fn more_slashes_are_no_other_folder() {
    assert_eq!(mounted("//etc"), Vec::<String>::new());
    assert_eq!(mounted("///usr//"), Vec::<String>::new());
    let other = tempfile::tempdir().expect("a temporary folder");
    let path = other.path().canonicalize().expect("a folder");
    let path = path.to_str().expect("a path in UTF-8");
    assert_eq!(mounted(&format!("/{path}")), [format!("{path}:{path}")]);
    assert_eq!(mounted(path), [format!("{path}:{path}")]);
}
