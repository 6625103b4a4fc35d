//! Processes that the agent starts, and their ends. As process 1 the agent must reap every orphan of its
//! node. It asks /proc who has ended: `waitpid(-1)` would take the stops of traced processes, too.

use super::output::Out;
use crate::ClusterError;
use crate::protocol::{FromAgent, ServiceEnd};
use nix::errno::Errno;
use nix::sys::signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tokio::net::unix::pipe;
use tokio::signal::unix::SignalKind;
use tokio::sync::oneshot;

#[derive(Default)]
pub(super) struct Children {
    known: Mutex<HashMap<i32, ChildProcess>>,
}

struct ChildProcess {
    service: Option<String>,
    end: oneshot::Sender<ExitStatus>,
}

/// Commands that tools run; the tool that started one waits for it.
static OF_TOOLS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn of_tools() -> MutexGuard<'static, BTreeSet<i32>> {
    OF_TOOLS.lock()
}

/// Runs a tool's command to its end; gives its output. No other wait will do: the agent reaps all children.
pub fn output_of(command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, pid) = {
        // Under the lock, so that even a command that ends at once is known before it can be reaped.
        let mut of_tools = of_tools();
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        of_tools.insert(pid);
        (child, pid)
    };
    let output = child.wait_with_output();
    of_tools().remove(&pid);
    output
}

pub(super) struct Spawned {
    pub(super) pid: i32,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) stderr: Option<pipe::Receiver>,
    pub(super) end: oneshot::Receiver<ExitStatus>,
}

impl Children {
    pub(super) fn spawn(
        &self,
        command: &mut Command,
        service: Option<&str>,
    ) -> Result<Spawned, ClusterError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
        let pid = i32::try_from(child.id()).map_err(|error| error.to_string())?;
        let (end, ended) = oneshot::channel();
        self.known.lock().insert(pid, ChildProcess { service: service.map(str::to_owned), end });
        let cannot = |error: io::Error| ClusterError::new(format!("cannot read from {name}: {error}"));
        let receiver = |stream: OwnedFd| pipe::Receiver::from_owned_fd(stream).map_err(cannot);
        let stdout = child.stdout.take().map(|it| receiver(it.into())).transpose()?;
        let stderr = child.stderr.take().map(|it| receiver(it.into())).transpose()?;
        Ok(Spawned { pid, stdout, stderr, end: ended })
    }

    pub(super) fn runs(&self, pid: i32) -> bool {
        self.known.lock().contains_key(&pid)
    }

    /// Reaps children and orphans as they end, for ever, and reports the ends of services.
    pub(super) async fn reap(&self, out: &Out) {
        let mut signals = match tokio::signal::unix::signal(SignalKind::child()) {
            Ok(signals) => signals,
            Err(error) => {
                out.log("agent", format!("cannot listen for the ends of processes: {error}")).await;
                return;
            }
        };
        loop {
            for pid in ended_children() {
                self.reap_one(pid, out);
            }
            if signals.recv().await.is_none() {
                return;
            }
        }
    }

    fn reap_one(&self, pid: i32, out: &Out) {
        let of_tools = of_tools();
        if of_tools.contains(&pid) {
            return;
        }
        let status = match waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => ExitStatus::from_raw(code << 8),
            Ok(WaitStatus::Signaled(_, signal, _)) => ExitStatus::from_raw(signal as i32),
            // Its first thread has ended and others still run, or the agent was not the one to wait for it.
            _ => return,
        };
        drop(of_tools);
        let Some(known) = self.known.lock().remove(&pid) else { return };
        if let Some(service) = known.service {
            let end = ServiceEnd { status: in_words(status), signal: status.signal() };
            out.report(FromAgent::Exited { service, pid, end });
        }
        let _ = known.end.send(status);
    }
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "ended by itself, without error".to_owned(),
        (Some(code), _) => format!("ended by itself, with code {code}"),
        (None, Some(signal)) => match signal::Signal::try_from(signal) {
            Ok(signal) => format!("was ended by {}", signal.as_str()),
            Err(_) => format!("was ended by signal {signal}"),
        },
        (None, None) => "ended".to_owned(),
    }
}

/// The processes that can be seen from here.
pub(crate) fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn ended_children() -> Vec<i32> {
    processes().filter(|pid| stat(*pid) == Some((b'Z', std::process::id().cast_signed()))).collect()
}

/// State and parent, from /proc. The name before them is in brackets and may itself hold brackets and spaces.
fn stat(pid: i32) -> Option<(u8, i32)> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = &text[text.iter().rposition(|byte| *byte == b')')? + 1..];
    let text = std::str::from_utf8(after).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.next()?.parse().ok()?))
}

pub fn state(pid: i32) -> Option<char> {
    stat(pid).map(|(state, _)| char::from(state))
}

pub fn signal(pid: i32, signal: i32) -> Result<(), ClusterError> {
    if reaches(pid, signal)? { Ok(()) } else { Err(format!("there is no process {pid}").into()) }
}

/// Sends a signal, and gives whether there was such a process.
fn reaches(pid: i32, signal: i32) -> Result<bool, ClusterError> {
    if pid <= 1 {
        return Err(ClusterError::new(format!(
            "process {pid} is not one that can be signalled: 1 is the agent, below are groups"
        )));
    }
    let number = signal;
    let signal = signal::Signal::try_from(number).map_err(|_| format!("there is no signal {number}"))?;
    match signal::kill(Pid::from_raw(pid), signal) {
        Ok(()) => Ok(true),
        Err(Errno::ESRCH) => Ok(false),
        Err(error) => Err(format!("cannot send {signal} to process {pid}: {}", error.desc()).into()),
    }
}

/// Signals a process and all its descendants, and gives whether the process was still there; if not, its end
/// has been reported. Those that are to end are stopped first, so that none starts another.
pub fn signal_tree(pid: i32, number: i32) -> Result<bool, ClusterError> {
    let kills = number == nix::libc::SIGKILL;
    let first = if kills { nix::libc::SIGSTOP } else { number };
    if !reaches(pid, first)? {
        return Ok(false);
    }
    let mut reached = BTreeSet::from([pid]);
    // Until a look finds no descendant that is new.
    loop {
        let new: Vec<i32> = descendants(pid).difference(&reached).copied().collect();
        if new.is_empty() {
            break;
        }
        for descendant in new {
            let _ = signal(descendant, first);
            reached.insert(descendant);
        }
    }
    if !kills {
        return Ok(true);
    }
    for descendant in reached.iter().filter(|reached| **reached != pid) {
        let _ = signal(*descendant, number);
    }
    reaches(pid, number)?;
    Ok(true)
}

/// The processes that this one started, and those that they started.
pub fn descendants(pid: i32) -> BTreeSet<i32> {
    let mut children_of: HashMap<i32, Vec<i32>> = HashMap::new();
    for child in processes() {
        if let Some((_, parent)) = stat(child) {
            children_of.entry(parent).or_default().push(child);
        }
    }
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for child in children_of.get(&parent).into_iter().flatten() {
            if found.insert(*child) {
                open.push(*child);
            }
        }
    }
    found
}

/// Returns when there is no such process. A zombie that someone outside is about to reap counts as gone.
pub async fn await_exit(pid: i32, timeout: Duration) -> Result<(), ClusterError> {
    let begun = Instant::now();
    let me = std::process::id().cast_signed();
    loop {
        match stat(pid) {
            None => return Ok(()),
            Some((b'Z', parent)) if parent != me => return Ok(()),
            Some((state, _)) if begun.elapsed() >= timeout => {
                let state = char::from(state);
                return Err(ClusterError::new(format!(
                    "process {pid} is still there after {} ms, in state {state}",
                    timeout.as_millis()
                )));
            }
            Some(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually::eventually;

    #[test]
    fn a_process_that_ended_before_its_signal_is_no_error() {
        let mut ended = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(ended.id()).unwrap();
        ended.wait().unwrap();
        for number in [nix::libc::SIGKILL, nix::libc::SIGSTOP] {
            assert!(!signal_tree(pid, number).unwrap());
        }
        assert_eq!(signal(pid, nix::libc::SIGKILL).unwrap_err().0, format!("there is no process {pid}"));
    }

    #[test]
    fn killing_a_tree_ends_its_descendants() {
        let mut shell = Command::new("sh").args(["-c", "sleep 60 & sleep 60"]).spawn().unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        eventually("the shell has both sleepers", || descendants(pid).len() == 2);
        let sleepers = descendants(pid);
        assert!(signal_tree(pid, nix::libc::SIGKILL).unwrap());
        shell.wait().unwrap();
        let gone = |pid: &i32| stat(*pid).is_none_or(|(state, _)| state == b'Z');
        eventually("no descendant outlives its parent", || sleepers.iter().all(gone));
    }

    #[test]
    fn stopping_a_tree_stops_its_descendants() {
        let mut shell = Command::new("sh").args(["-c", "sleep 60 & sleep 60"]).spawn().unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        // A shell waits in the kernel, where nothing stops it, until its child has become the sleeper.
        let sleeps =
            |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default() == "sleep\n";
        let sleepers = || descendants(pid).into_iter().filter(sleeps).count();
        eventually("the shell has both sleepers", || sleepers() == 2);
        let tree: Vec<i32> = descendants(pid).into_iter().chain([pid]).collect();
        assert!(signal_tree(pid, nix::libc::SIGSTOP).unwrap());
        eventually("all are stopped", || tree.iter().all(|pid| state(*pid) == Some('T')));
        assert!(signal_tree(pid, nix::libc::SIGCONT).unwrap());
        eventually("all go on", || tree.iter().all(|pid| state(*pid) == Some('S')));
        assert!(signal_tree(pid, nix::libc::SIGKILL).unwrap());
        shell.wait().unwrap();
    }
}
