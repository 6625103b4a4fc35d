//! The user's command that injects faults into servers which exist already.

use crate::existing_options::{PASSWORD, Place};
use fencepost_cluster::ClusterError;
use fencepost_history::printable;
use fencepost_nemesis::HookAction;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How long one call may take: the tools of a platform take seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The words of the command, with `{action}`, `{server}` and `{host}` in them.
pub(super) struct Hook {
    pub(super) words: Vec<String>,
}

impl Hook {
    /// Calls the command, and waits for its end.
    ///
    /// # Errors
    /// One sentence: it does not start, fails, or hangs. It is ended then, with everything that it started.
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
        let child = command.spawn().map_err(|error| failed(&format!("cannot be started: {error}")))?;
        let group = child.id();
        match timeout(PATIENCE, child.wait_with_output()).await {
            Ok(Ok(Output { status, .. })) if status.success() => Ok(()),
            Ok(Ok(Output { status, stderr, .. })) => {
                let said = String::from_utf8_lossy(&stderr);
                let last = said.trim().lines().last().unwrap_or("it printed no error");
                Err(failed(&format!("failed ({status}): {}", printable(last))))
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
}
