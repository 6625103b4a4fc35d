//! Whether a program can be started: the system's error is the same for its missing interpreter.

use crate::ClusterError;
use crate::program;
use nix::unistd::{AccessFlags, access};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Refuses a command whose program is missing or cannot be executed, with one sentence.
pub(super) fn check(argv: &[String]) -> Result<(), ClusterError> {
    let Some(name) = argv.first() else {
        return Err(ClusterError::new("an empty command was asked for; name a program"));
    };
    if name == program::NAME {
        return Ok(());
    }
    let here = std::env::current_dir().unwrap_or_default();
    let path =
        if name.contains('/') { Some(here.join(name)).filter(|path| path.exists()) } else { in_path(name) };
    let Some(path) = path else {
        let place =
            if name.contains('/') { here.display().to_string() } else { "the node's PATH".to_owned() };
        return Err(format!("cannot start {name}: there is no such program in {place}").into());
    };
    if path.is_dir() {
        return Err(format!("cannot start {name}: it is a folder").into());
    }
    if access(&path, AccessFlags::X_OK).is_err() {
        return Err(format!("cannot start {name}: it is not executable (chmod +x makes it so)").into());
    }
    match interpreter(&path) {
        Some(interpreter) if !Path::new(&interpreter).exists() => Err(ClusterError::new(format!(
            "cannot start {name}: its first line names {interpreter}, which is not there in its node"
        ))),
        _ => Ok(()),
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// What a script's first line names: `#!/bin/sh`.
fn interpreter(path: &Path) -> Option<String> {
    let mut start = Vec::new();
    std::fs::File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line).ok()?.split_whitespace().next().map(str::to_owned)
}
