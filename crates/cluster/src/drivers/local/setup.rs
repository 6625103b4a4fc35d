//! `fencepost setup`: runs one command that makes an environment ready, and ends with everything that it
//! started. The command's parent is process 1 of a PID namespace. It exits when the command does, and when
//! its standard input closes; then the kernel ends everything else in the namespace.

use super::devices;
use super::namespaces::{die_with_parent, enter_namespaces};
use super::root::{Data, Root, RootLock};
use crate::environment::{CommandRoot, PLACE, SetupPlan, USUAL_PATH, variables_in_an_image};
use nix::sched::CloneFlags;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::ForkResult;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where something of Fencepost itself failed; the reason is on standard error.
const FAILED: i32 = 253;

/// Runs what a line on standard input says, and gives the exit code of the command.
pub(crate) fn run_setup() -> i32 {
    let plan = match read_plan() {
        Ok(plan) => plan,
        Err(error) => return failed("cannot read what is to be done", &error),
    };
    match enter_namespaces(CloneFlags::CLONE_NEWIPC) {
        Ok(ForkResult::Parent { child }) => match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, code)) => code,
            _ => FAILED,
        },
        Ok(ForkResult::Child) => match die_with_parent() {
            Ok(()) => carry_out(&plan, true),
            Err(error) => failed("cannot end with the controller", &error),
        },
        // What needs no root of its own can be done where namespaces cannot be had.
        Err(_) if plan.place.is_none() => carry_out(&plan, false),
        Err(error) => failed("cannot make namespaces", &error),
    }
}

/// One byte at a time: what comes after the line is the life line.
fn read_plan() -> io::Result<SetupPlan> {
    let input = io::stdin();
    let mut input = std::fs::File::from(input.as_fd().try_clone_to_owned()?);
    let (mut line, mut byte) = (Vec::new(), [0]);
    while input.read(&mut byte)? == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    Ok(serde_json::from_slice(&line)?)
}

fn carry_out(plan: &SetupPlan, own_processes: bool) -> i32 {
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(FAILED)
    });
    let mut command = Command::new("sh");
    command.args(["-c", &plan.command]).stdin(Stdio::null());
    match enter(plan, own_processes) {
        Ok(folder) => command.current_dir(folder),
        Err(error) => return failed("cannot make the root file system", &error),
    };
    if plan.place.as_ref().is_some_and(|place| place.root != Path::new("/")) {
        command.env_clear().envs(variables_in_an_image()).env("PATH", USUAL_PATH);
    } else if plan.place.is_some() {
        // They can name a folder that is not there.
        for name in ["TMPDIR", "TEMP", "TMP"] {
            command.env_remove(name);
        }
        if std::env::var_os("HOME").is_none_or(|home| !Path::new(&home).is_dir()) {
            command.env("HOME", "/tmp");
        }
    }
    match command.status() {
        Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        Err(error) => failed("cannot start a shell", &error),
    }
}

/// Makes the root in which the command runs, and gives the folder where it runs.
fn enter(plan: &SetupPlan, own_processes: bool) -> io::Result<&Path> {
    match &plan.place {
        None => {
            if own_processes {
                devices::mount_proc(Path::new("/proc"))?;
            }
            Ok(&plan.folder)
        }
        Some(CommandRoot { root, mount_place, tmp }) => {
            let lock = RootLock { folder: &plan.folder, writable: true };
            Root {
                place: mount_place,
                source: root,
                data: Data::None,
                program: None,
                lock: Some(lock),
                may_mount: false,
                making: Some(tmp),
            }
            .enter()?;
            Ok(Path::new(PLACE))
        }
    }
}

fn failed(what: &str, error: &io::Error) -> i32 {
    eprintln!("fencepost: {what}: {error}");
    FAILED
}
