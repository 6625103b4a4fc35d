//! The user's command that injects faults into servers which exist already.

use crate::existing_options::{PASSWORD, Place};
use fencepost_cluster::ClusterError;
use fencepost_history::printable;
use fencepost_nemesis::HookAction;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, Command};
use tokio::time::timeout;

/// How long one call may take: the tools of a platform take seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of what a hook printed last is kept, in bytes.
const SAID_MAX: usize = 4096;

/// How much a pipe can hold, as Linux makes them.
const PIPE_MAX: usize = 64 << 10;

/// How much of a line is repeated, in characters.
const LINE_MAX: usize = 500;

/// The words of the command, with `{action}`, `{server}` and `{host}` in them.
pub(super) struct Hook {
    pub(super) words: Vec<String>,
}

impl Hook {
    /// Calls the command, and waits for its end. Errors: it does not start, fails, or hangs; it is then
    /// ended, with everything that it started.
    pub(super) async fn call(&self, place: &Place, action: HookAction) -> Result<(), ClusterError> {
        let fill = |word: &String| {
            let word = word.replace("{action}", action.name()).replace("{server}", &place.to_string());
            word.replace("{host}", &place.host)
        };
        let words: Vec<String> = self.words.iter().map(fill).collect();
        let failed = |what: &str| ClusterError::new(format!("the server hook `{}` {what}", words.join(" ")));
        let (program, arguments) = words.split_first().ok_or_else(|| failed("is empty"))?;
        let mut command = Command::new(program);
        command.args(arguments).env_remove(PASSWORD);
        // In a group of its own: Ctrl-C is for the run, which still needs the hook to undo what it did.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(&format!("cannot be started: {error}")))?;
        let group = child.id();
        let mut said = Said { pipe: child.stderr.take(), end: Vec::new() };
        let ended = timeout(PATIENCE, async {
            tokio::select! {
                biased;
                status = child.wait() => status,
                () = said.listen() => child.wait().await,
            }
        });
        match ended.await {
            Ok(Ok(status)) => {
                let last = said.last();
                match status.success() {
                    true => Ok(()),
                    false => Err(failed(&format!("failed ({status}): {last}"))),
                }
            }
            Ok(Err(error)) => Err(failed(&format!("cannot be waited for: {error}"))),
            Err(_) => {
                if let Some(group) = group {
                    let _ = killpg(Pid::from_raw(group.cast_signed()), Signal::SIGKILL);
                }
                Err(failed(&format!("did not end within {} s", PATIENCE.as_secs())))
            }
        }
    }
}

/// The end of what a hook prints on standard error. What it leaves running may hold the pipe open.
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

    /// The last line of a hook that ended: with what is in the pipe, and no more. Something that the hook
    /// started may go on to write there, and is not to end because of that.
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
    use crate::existing_options::ExistingOptions;

    async fn call(command: &str) -> Result<(), String> {
        let options = ExistingOptions {
            servers: vec!["db.example:7000".to_owned()],
            server_hook: Some(command.to_owned()),
            ..ExistingOptions::default()
        };
        let words = options.hook_words().unwrap().unwrap();
        let place = options.places(1).unwrap().remove(0);
        Hook { words }.call(&place, HookAction::Kill).await.map_err(|error| error.0)
    }

    #[tokio::test]
    async fn the_command_gets_the_action_and_the_server() {
        assert_eq!(call("sh -c 'test {action}={server} = kill=db.example:7000'").await, Ok(()));
        assert_eq!(
            call("sh -c 'echo no {server} >&2; exit 3 # {action}'").await.unwrap_err(),
            "the server hook `sh -c echo no db.example:7000 >&2; exit 3 # kill` failed (exit status: 3): no db.example:7000"
        );
        assert!(call("./no-such-hook {action} {server}").await.unwrap_err().contains("cannot be started"));
    }
    #[tokio::test]
    async fn what_a_hook_prints_is_kept_to_its_end_alone() {
        let mut said = Said { pipe: None, end: Vec::new() };
        for number in 0..10_000 {
            said.keep(format!("line {number}\n").as_bytes());
        }
        assert!(said.end.len() <= SAID_MAX, "{}", said.end.len());
        assert_eq!(said.last(), "line 9999");
        let long = "sh -c 'head -c 100000000 /dev/zero | tr \"\\0\" x >&2; exit 1 # {action} {server}'";
        let refused = call(long).await.unwrap_err();
        assert!(refused.ends_with(&"x".repeat(LINE_MAX)) && refused.len() < 1000, "{} bytes", refused.len());
    }

    /// The child outlives any patience; the hook is over with its own end, and the child goes on.
    #[tokio::test]
    async fn a_hook_is_over_when_it_ended_itself() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let leave = format!("sleep 1000 & echo $! > {}; echo left >&2", pid.display());
        assert_eq!(call(&format!("sh -c '{leave} # {{action}} {{server}}'")).await, Ok(()));
        let child = |signal| {
            let pid = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
            nix::sys::signal::kill(Pid::from_raw(pid), signal)
        };
        assert_eq!(child(None), Ok(()), "it was ended");
        child(Some(Signal::SIGKILL)).unwrap();
        let refused = call(&format!("sh -c '{leave}; exit 3 # {{action}} {{server}}'")).await.unwrap_err();
        child(Some(Signal::SIGKILL)).unwrap();
        assert!(refused.ends_with("(exit status: 3): left"), "{refused}");
    }
}
