//! The user's command that injects faults into servers which exist already.

use crate::settings::existing_options::Place;
use fencepost_cluster::{ClusterError, UserCommand};
use fencepost_nemesis::HookAction;

/// Calls the command of these words for a server, and waits for its end. Errors: as [`UserCommand::call`].
pub(super) async fn call(words: &[String], place: &Place, action: HookAction) -> Result<(), ClusterError> {
    let fill = |word: &String| {
        let word = word.replace("{action}", action.name()).replace("{server}", &place.to_string());
        word.replace("{host}", &place.host)
    };
    let words = words.iter().map(fill).collect();
    UserCommand { called: "the server hook", words }.call().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::existing_options::ExistingOptions;
    use nix::sys::signal::Signal;
    use nix::unistd::Pid;

    async fn call_with(command: &str) -> Result<(), String> {
        let options = ExistingOptions {
            servers: vec!["db.example:7000".to_owned()],
            server_hook: Some(command.to_owned()),
            ..ExistingOptions::default()
        };
        let words = options.hook_words().unwrap().unwrap();
        let place = options.places(1).unwrap().remove(0);
        call(&words, &place, HookAction::Kill).await.map_err(|error| error.0)
    }

    #[tokio::test]
    async fn the_command_gets_the_action_and_the_server() {
        assert_eq!(call_with("sh -c 'test {action}={server} = kill=db.example:7000'").await, Ok(()));
        assert_eq!(
            call_with("sh -c 'echo no {server} >&2; exit 3 # {action}'").await.unwrap_err(),
            "the server hook `sh -c echo no db.example:7000 >&2; exit 3 # kill` failed (exit status: 3): no db.example:7000"
        );
        assert!(
            call_with("./no-such-hook {action} {server}").await.unwrap_err().contains("cannot be started")
        );
    }

    /// The child outlives any patience; the hook is over with its own end, and the child goes on.
    #[tokio::test]
    async fn a_hook_is_over_when_it_ended_itself() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let leave = format!("sleep 1000 & echo $! > {}; echo left >&2", pid.display());
        assert_eq!(call_with(&format!("sh -c '{leave} # {{action}} {{server}}'")).await, Ok(()));
        let child = |signal| {
            let pid = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
            nix::sys::signal::kill(Pid::from_raw(pid), signal)
        };
        assert_eq!(child(None), Ok(()), "it was ended");
        child(Some(Signal::SIGKILL)).unwrap();
        let refused =
            call_with(&format!("sh -c '{leave}; exit 3 # {{action}} {{server}}'")).await.unwrap_err();
        child(Some(Signal::SIGKILL)).unwrap();
        assert!(refused.ends_with("(exit status: 3): left"), "{refused}");
    }
}
