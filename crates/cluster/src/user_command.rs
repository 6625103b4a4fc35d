//! A command of the user on this machine, which does something to what is tested.

use crate::ClusterError;
use fencepost_history::printable;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, Command};
use tokio::time::timeout;

/// How long one call may take: the tools of a platform take seconds.
pub const COMMAND_TIME: Duration = Duration::from_secs(30);

/// The variable with the password of servers that exist already: no command gets it.
pub const SERVERS_PASSWORD: &str = "FENCEPOST_SERVERS_PASSWORD";

/// How much of what a command printed last is kept, in bytes.
const SAID_MAX: usize = 4096;

/// How much a pipe can hold, as Linux makes them.
const PIPE_MAX: usize = 64 << 10;

/// How much of a line is repeated, in characters.
const LINE_MAX: usize = 500;

pub struct UserCommand<'a> {
    /// As messages call it: `the server hook`.
    pub called: &'a str,
    pub words: Vec<String>,
}

impl UserCommand<'_> {
    fn failed(&self, what: &str) -> ClusterError {
        ClusterError::new(format!("{} `{}` {what}", self.called, self.words.join(" ")))
    }

    /// Calls the command, and waits for its end. Errors: it does not start, fails, or hangs and is ended.
    pub async fn call(&self) -> Result<(), ClusterError> {
        match self.run().await? {
            (status, _) if status.success() => Ok(()),
            (status, last) => Err(self.failed(&format!("failed ({status}): {last}"))),
        }
    }

    /// The same; gives how it ended, and the last line of its standard error.
    pub async fn run(&self) -> Result<(ExitStatus, String), ClusterError> {
        let (program, arguments) = self.words.split_first().ok_or_else(|| self.failed("is empty"))?;
        let mut command = Command::new(program);
        command.args(arguments).env_remove(SERVERS_PASSWORD);
        // In a group of its own: Ctrl-C is for the run, which still needs it to undo what it did.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| self.failed(&format!("cannot be started: {error}")))?;
        let group = child.id();
        let mut said = Said { pipe: child.stderr.take(), end: Vec::new() };
        let ended = timeout(COMMAND_TIME, async {
            tokio::select! {
                biased;
                status = child.wait() => status,
                () = said.listen() => child.wait().await,
            }
        });
        match ended.await {
            Ok(Ok(status)) => Ok((status, said.last())),
            Ok(Err(error)) => Err(self.failed(&format!("cannot be waited for: {error}"))),
            Err(_) => {
                if let Some(group) = group {
                    let _ = killpg(Pid::from_raw(group.cast_signed()), Signal::SIGKILL);
                }
                Err(self.failed(&format!("did not end within {} s", COMMAND_TIME.as_secs())))
            }
        }
    }
}

/// The end of what a command prints on standard error. What it leaves running may hold the pipe open.
struct Said {
    pipe: Option<ChildStderr>,
    end: Vec<u8>,
}

impl Said {
    fn keep(&mut self, bytes: &[u8]) {
        self.end.extend_from_slice(bytes);
        self.end.drain(..self.end.len().saturating_sub(SAID_MAX));
    }

    async fn listen(&mut self) {
        let mut bytes = [0; SAID_MAX];
        while let Some(pipe) = &mut self.pipe
            && let Ok(length @ 1..) = pipe.read(&mut bytes).await
        {
            self.keep(&bytes[..length]);
        }
    }

    /// The last line of a command that ended, from what is in the pipe: its children may write on.
    fn last(mut self) -> String {
        if let Some(mut pipe) = self.pipe.take() {
            // The pipe does not wait: what is there now is read, as much as a pipe can hold.
            let now = pipe.as_fd().try_clone_to_owned().map(File::from);
            let (mut bytes, mut room) = ([0; SAID_MAX], PIPE_MAX);
            while let Ok(mut now) = now.as_ref()
                && room > 0
                && let Ok(length @ 1..) = now.read(&mut bytes)
            {
                self.keep(&bytes[..length]);
                room = room.saturating_sub(length);
            }
            tokio::spawn(async move { tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await });
        }
        let said = String::from_utf8_lossy(&self.end);
        let last = said.trim().lines().last().unwrap_or("it printed no error");
        let last: String = last.chars().take(LINE_MAX).collect();
        printable(&last).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_command_prints_is_kept_to_its_end_alone() {
        let mut said = Said { pipe: None, end: Vec::new() };
        for number in 0..10_000 {
            said.keep(format!("line {number}\n").as_bytes());
        }
        assert!(said.end.len() <= SAID_MAX, "{}", said.end.len());
        assert_eq!(said.last(), "line 9999");
        let long = ["sh", "-c", "head -c 100000000 /dev/zero | tr '\\0' x >&2; exit 1"];
        let words = long.map(str::to_owned).to_vec();
        let refused = UserCommand { called: "the hook", words }.call().await.unwrap_err().0;
        assert!(refused.ends_with(&"x".repeat(LINE_MAX)) && refused.len() < 1000, "{} bytes", refused.len());
    }
}
