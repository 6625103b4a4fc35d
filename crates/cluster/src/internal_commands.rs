//! Subcommands that Fencepost runs by itself, inside nodes and around them. Users never see them.

use crate::agent::{self, Tool};
use crate::confinement::Confinement;
use crate::network::door;
use crate::network::netlink::Netlink;
use crate::{drivers, probe};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Runs the internal subcommand of the command line, and gives its exit code; none: there is none.
///
/// A program that starts clusters calls this first in its `main`, before it starts any thread: namespaces can
/// only be made by a process with a single thread.
///
/// ```no_run
/// if let Some(code) = fencepost_cluster::run_internal_command(Vec::new) {
///     std::process::exit(code);
/// }
/// ```
pub fn run_internal_command(tools: fn() -> Vec<Box<dyn Tool>>) -> Option<i32> {
    let mut args = std::env::args_os().skip(1);
    let command = args.next()?;
    let args: Vec<OsString> = args.collect();
    match command.to_str()? {
        drivers::docker::CONFINED => Some(run_confined(&args)),
        "agent" => Some(run_agent(tools(), &args)),
        "sandbox" => Some(drivers::local::run_sandbox()),
        "setup" => Some(drivers::local::run_setup()),
        "door" => Some(door::run_door(&args)),
        "entrance" => Some(door::run_entrance(&args)),
        "probe" => Some(probe::run_probe()),
        _ => None,
    }
}

fn run_confined(args: &[OsString]) -> i32 {
    let Some((program, args)) = args.split_first() else {
        eprintln!("fencepost confined: the program is missing; this command is for Fencepost itself");
        return 254;
    };
    let failed = |error: &std::io::Error| {
        eprintln!("cannot start {}: {error}", program.display());
        127
    };
    match Confinement::Program.apply_here() {
        Ok(()) => failed(&Command::new(program).args(args).exec()),
        Err(error) => failed(&error),
    }
}

/// `agent DATA [FD] [GATEWAY]`: data folder; socket for attached programs (`-`: none); address to block.
fn run_agent(tools: Vec<Box<dyn Tool>>, args: &[OsString]) -> i32 {
    let Some(data) = args.first().and_then(|it| it.to_str()) else {
        eprintln!("fencepost agent: the data folder is missing; this command is for Fencepost itself");
        return 254;
    };
    let attach = args.get(1).and_then(|it| it.to_str()?.parse().ok());
    // SAFETY: the parent of this agent left the descriptor open for it, and nothing has been opened yet.
    let attach = attach.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    if let Some(socket) = &attach {
        // It must not live on in the agent's children.
        let _ = fcntl(socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
    // Only an engine gives its nodes a gateway.
    let gateway = args.get(2).and_then(|it| it.to_str()?.parse().ok());
    if let Some(gateway) = gateway
        && let Err(error) = Netlink::open().and_then(|netlink| netlink.close(gateway))
    {
        eprintln!("fencepost agent: cannot make this machine unreachable from the node: {error}");
        return 255;
    }
    let options = agent::AgentOptions { data: data.to_owned(), attach };
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(agent::run(tools, options)),
        Err(error) => {
            eprintln!("fencepost agent: cannot start: {error}");
            255
        }
    }
}
