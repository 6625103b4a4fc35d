//! A register of runs that no other run on this machine sees: a mount namespace in which another folder lies
//! at its place, and a host name of its own, by which an engine's containers and networks are known.

use crate::common::fencepost;
use crate::common::leftovers::controller;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Puts a folder at the place of the register, for this command alone.
const BIND: &str = "mkdir -p /run/fencepost && mount --bind \"$0\" /run/fencepost && hostname \"$1\" && shift && exec \"$@\"";

pub struct OwnRegister(tempfile::TempDir);

impl OwnRegister {
    pub fn make() -> OwnRegister {
        // The program uses no register that other users may enter.
        let closed = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("register-").permissions(closed).tempdir();
        OwnRegister(folder.expect("a temporary folder"))
    }

    /// A command of the program, as [`fencepost`]. It keeps its process number.
    pub fn command(&self, args: &[&str]) -> Command {
        let program = fencepost(args);
        let name = self.0.path().file_name().expect("a name").to_string_lossy().into_owned();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--uts", "sh", "-c", BIND]).arg(self.0.path()).arg(name.replace('.', ""));
        command.arg(program.get_program()).args(program.get_args());
        command.current_dir(program.get_current_dir().unwrap_or(Path::new("/"))).stdin(Stdio::null());
        for (variable, value) in program.get_envs() {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        command
    }

    /// The controllers of the runs that it has.
    pub fn processes(&self) -> Vec<u32> {
        let entries = std::fs::read_dir(self.0.path()).expect("the register").flatten();
        let runs = entries.filter(|entry| entry.path().is_dir());
        runs.filter_map(|entry| controller(&entry.file_name().to_string_lossy())).collect()
    }
}
