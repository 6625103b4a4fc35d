//! The controller's side of a sandbox: starts it, and takes it down.

use super::sandbox::{Plan, SandboxReport};
use crate::ClusterError;
use crate::cluster_folder::ClusterFolder;
use crate::driver::StopCluster;
use crate::error::cannot;
use async_trait::async_trait;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use std::any::Any;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a sandbox may take to start every agent: on an emulated machine that is busy, longer than 20 s.
const START: Duration = Duration::from_secs(60);

/// How long the kernel may take to end all processes of a sandbox that ends by itself, before it is killed.
const END: Duration = Duration::from_secs(2);

/// Holds a running sandbox. Dropping it takes the sandbox down and removes the run's folder.
pub(super) struct Keeper {
    life_line: Option<ChildStdin>,
    pid: Pid,
    /// Never locked: the lock is there because a receiver cannot be shared.
    ended: Mutex<mpsc::Receiver<()>>,
    /// Removed after the processes that use it.
    folder: Option<ClusterFolder>,
    /// What its nodes run out of the cache: not removed before its processes are gone.
    _used: Box<dyn Any + Send + Sync>,
}

impl Keeper {
    pub(super) async fn start(
        executable: &Path,
        plan: &Plan,
        inherited: Vec<OwnedFd>,
        folder: ClusterFolder,
        used: Box<dyn Any + Send + Sync>,
    ) -> Result<Keeper, ClusterError> {
        let (started, spawned) = oneshot::channel();
        let (end, ended) = mpsc::channel();
        let mut command = command(executable, inherited.iter().map(AsRawFd::as_raw_fd).collect());
        // The kernel kills the sandbox when the *thread* that started it ends: so one of its own outlives it.
        std::thread::spawn(move || {
            let spawned = command.spawn();
            drop(inherited);
            let (id, mut parts) = match spawned {
                Ok(child) => (child.id(), child),
                Err(error) => return drop(started.send(Err(error))),
            };
            let streams = (parts.stdin.take(), parts.stdout.take());
            let _ = started.send(Ok((id, streams)));
            wait(parts);
            let _ = end.send(());
        });
        let cannot = cannot("start the sandbox", executable);
        let lost = || ClusterError::new("the thread that starts the sandbox ended too early");
        let (id, (stdin, stdout)) = spawned.await.map_err(|_| lost())?.map_err(&cannot)?;
        let pid = Pid::from_raw(i32::try_from(id).map_err(|error| error.to_string())?);
        let mut keeper =
            Keeper { life_line: stdin, pid, ended: Mutex::new(ended), folder: Some(folder), _used: used };
        let stdout = stdout.ok_or_else(lost)?;
        let mut line = serde_json::to_vec(plan).map_err(|error| error.to_string())?;
        line.push(b'\n');
        // A sandbox that has ended already says why on its standard output.
        let _ = keeper.life_line.as_mut().ok_or_else(lost)?.write_all(&line);
        let reported = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        });
        let reported = tokio::time::timeout(START, reported)
            .await
            .map_err(|_| format!("the nodes did not start within {} s", START.as_secs()))?;
        let reported = reported.map_err(|error| error.to_string())?.map_err(cannot)?;
        match serde_json::from_str::<SandboxReport>(&reported) {
            Ok(Ok(())) => Ok(keeper),
            Ok(Err(reason)) => Err(ClusterError::new(format!(
                "cannot start nodes on this machine: {reason} (`fencepost doctor` tells what the local driver needs)"
            ))),
            Err(_) => Err(ClusterError::new("the sandbox of the nodes ended before they were started")),
        }
    }

    fn take_down(&mut self) {
        drop(self.life_line.take());
        let ended = self.ended.get_mut();
        if ended.recv_timeout(END).is_err() {
            let _ = kill(self.pid, Signal::SIGKILL);
            let _ = ended.recv_timeout(END);
        }
        drop(self.folder.take());
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.folder.is_some() {
            self.take_down();
        }
    }
}

#[async_trait]
impl StopCluster for Keeper {
    async fn stop(mut self: Box<Self>) -> Result<(), ClusterError> {
        let stopped = tokio::task::spawn_blocking(move || self.take_down()).await;
        stopped.map_err(|error| ClusterError::new(format!("cannot take the nodes down: {error}")))
    }
}

fn command(executable: &Path, inherited: Vec<RawFd>) -> Command {
    let mut command = Command::new(executable);
    command.arg("sandbox").stdin(Stdio::piped()).stdout(Stdio::piped());
    let keep_open = move || {
        for fd in &inherited {
            // SAFETY: one system call on a descriptor that is open; allowed between fork and exec.
            if unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(keep_open) };
    // Ctrl-C in a terminal goes to the whole process group, and it is the controller's to end the sandbox.
    command.process_group(0);
    command
}

fn wait(mut sandbox: Child) {
    if let Err(error) = sandbox.wait() {
        log::warn!("cannot wait for the sandbox: {error}");
    }
}
