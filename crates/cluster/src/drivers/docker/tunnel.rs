//! A way to an engine over SSH: one connection leads a socket of this machine to the engine's. All users of
//! the engine in this process share it; it ends with the last of them, and with this process.

use crate::ClusterError;
use crate::cluster_folder::PrivateFolder;
use crate::own_task::aside;
use parking_lot::Mutex;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Where the engine listens on its machine, unless the address says otherwise.
const USUAL_SOCKET: &str = "/var/run/docker.sock";

/// What the other side prints once the socket is led there.
const READY: &str = "fencepost: connected";

pub(super) struct Tunnel {
    /// Its standard input is the life line: `cat` on the other side ends when it closes, and `ssh` with that.
    ssh: Child,
    folder: PrivateFolder,
}

static OPEN: Mutex<Weak<Tunnel>> = Mutex::new(Weak::new());

impl Tunnel {
    /// The connection to `ssh://[USER@]HOST[:PORT][/SOCKET]`; made if there is none. The error is a clause.
    pub(super) async fn to(address: &str) -> Result<Arc<Tunnel>, ClusterError> {
        let address = address.to_owned();
        aside(move || {
            // Held while one is made: what asks for it meanwhile gets the same.
            let mut open = OPEN.lock();
            if let Some(tunnel) = open.upgrade().filter(|tunnel| tunnel.stands()) {
                return Ok(tunnel);
            }
            let tunnel = Arc::new(Tunnel::open(|socket| ssh(&address, socket))?);
            *open = Arc::downgrade(&tunnel);
            Ok(tunnel)
        })
        .await
    }

    pub(super) fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    /// Whether the other side can still be reached: `ssh` answers for that, it asks every few seconds.
    fn stands(&self) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", self.ssh.id()))
            .is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// Runs the command that leads this socket to the engine's, and waits until the other side is there.
    fn open(ssh: impl FnOnce(&Path) -> Command) -> Result<Tunnel, ClusterError> {
        let folder = PrivateFolder::create("ssh")?;
        let errors = folder.path().join("errors");
        let file = std::fs::File::create(&errors).map_err(|error| error.to_string())?;
        let mut command = ssh(&socket_in(&folder));
        // In a group of its own: Ctrl-C must not end it before the containers are removed.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).process_group(0);
        let ssh = command.spawn().map_err(|error| format!("cannot run ssh: {error}"))?;
        let mut tunnel = Tunnel { ssh, folder };
        let stdout = tunnel.ssh.stdout.take();
        match stdout.is_some_and(is_ready) {
            true => Ok(tunnel),
            false => Err(ClusterError(reason(&errors))),
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

fn socket_in(folder: &PrivateFolder) -> PathBuf {
    folder.path().join("engine.sock")
}

fn ssh(address: &str, socket: &Path) -> Command {
    let (host, engine) = parts(address);
    let mut command = Command::new("ssh");
    // A connection that other programs share would outlive this one. No question can be answered here.
    for option in [
        "BatchMode=yes",
        "ControlMaster=no",
        "ControlPath=none",
        "ConnectTimeout=10",
        "ServerAliveInterval=5",
        "ExitOnForwardFailure=yes",
    ] {
        command.args(["-o", option]);
    }
    command.arg("-T").arg("-L").arg(format!("{}:{engine}", socket.display())).arg(host);
    command.arg(format!("echo {READY}; exec cat"));
    command
}

/// The address without the socket, which `ssh` takes as it is, and the socket.
fn parts(address: &str) -> (&str, &str) {
    let host = address.strip_prefix("ssh://").unwrap_or(address);
    match host.find('/').map(|slash| address.split_at(address.len() - host.len() + slash)) {
        Some((host, socket)) if socket.len() > 1 => (host, socket),
        Some((host, _)) => (host, USUAL_SOCKET),
        None => (address, USUAL_SOCKET),
    }
}

/// Waits for the other side's word. Whatever its shell prints before that does not matter.
fn is_ready(stdout: ChildStdout) -> bool {
    let (report, word) = channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let _ = report.send(lines.any(|line| line == READY));
    });
    word.recv_timeout(PATIENCE).unwrap_or(false)
}

fn reason(errors: &Path) -> String {
    let text = std::fs::read_to_string(errors).unwrap_or_default();
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => format!("ssh says: {}", line.trim()),
        None => format!("ssh did not connect within {} s", PATIENCE.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_host_and_perhaps_the_socket() {
        for (address, host, socket) in [
            ("ssh://builder", "ssh://builder", USUAL_SOCKET),
            ("ssh://builder/", "ssh://builder", USUAL_SOCKET),
            ("ssh://me@10.0.0.7:2222", "ssh://me@10.0.0.7:2222", USUAL_SOCKET),
            ("ssh://me@builder/run/user/7/docker.sock", "ssh://me@builder", "/run/user/7/docker.sock"),
        ] {
            assert_eq!(parts(address), (host, socket), "{address}");
        }
    }

    /// A shell that does this in the place of `ssh`, which not every machine has.
    fn opened(script: &str) -> Result<Tunnel, ClusterError> {
        Tunnel::open(|_| {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(script);
            shell
        })
    }

    #[test]
    fn a_host_that_does_not_answer_is_named_with_the_reason() {
        let refused = "ssh: connect to host 127.0.0.1 port 1: Connection refused";
        let error = opened(&format!("echo Hello.; echo '{refused}' >&2; exit 255")).err().unwrap().0;
        assert_eq!(error, format!("ssh says: {refused}"));
    }

    #[test]
    fn a_connection_stands_from_the_word_of_the_other_side_until_ssh_ends() {
        let mut tunnel = opened(&format!("echo Hello.; echo '{READY}'; exec cat")).unwrap();
        assert!(tunnel.stands());
        drop(tunnel.ssh.stdin.take());
        tunnel.ssh.wait().unwrap();
        assert!(!tunnel.stands());
    }

    #[test]
    fn without_ssh_the_error_names_it() {
        let error = Tunnel::open(|_| Command::new("/no/such/ssh")).err().unwrap().0;
        assert!(error.starts_with("cannot run ssh: "), "{error}");
    }
}
